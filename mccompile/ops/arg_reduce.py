"""ArgMax and ArgMin: where along an axis the largest or smallest element lies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.dims import bound
from mccompile.ir.op import Kind, Op, TypeRuleError
from mccompile.ir.ranges import Range, constant
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Structure, over_axes
from mccompile.ir.types import BOOL, I64, TensorType
from mccompile.ops.frontend import Import
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw


@dataclass(frozen=True)
class ArgReduce(Op):
    """``mode`` is max or min; the i64 result keeps ``axis`` with extent 1. Of equal elements the first counts, or
    with ``last`` the last. Comparisons with NaN are false: it is found only where the axis begins with it.
    (onnxruntime's answer for NaN depends on the width of its vectors.)
    """

    name = "arg_reduce"
    kind = Kind.REDUCTION
    words = (("mode", ("max", "min")),)

    mode: str
    axis: int
    last: bool = False

    @property
    def decides(self) -> bool:
        return True

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        (x,) = types
        assert x is not None
        return over_axes(x, (self.axis,), self.infer(x))

    def value_range(self, types: Sequence[TensorType | None], ranges: Sequence[Range | None]) -> tuple[Range, ...]:
        (x,) = types
        assert x is not None
        return (constant(0, bound(x.shape[self.axis]) - 1, 1 if ranges[0] is None else ranges[0].low.size),)

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = types
        assert x is not None
        if not 0 <= self.axis < x.rank or x.shape[self.axis] == 0 or x.dtype == BOOL:
            raise TypeRuleError(f"{x} has no elements to compare along axis {self.axis}")
        return (TensorType(I64, (*x.shape[: self.axis], 1, *x.shape[self.axis + 1 :])),)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        x = np.moveaxis(np.asarray(arrays[0]), self.axis, 0)
        best, at = x[:1].sum(0, dtype=x.dtype), np.zeros(x.shape[1:], dtype=np.int64)  # of no row, too
        strict, loose = (np.greater, np.greater_equal) if self.mode == "max" else (np.less, np.less_equal)
        for i, row in enumerate(x):
            better = (loose if self.last else strict)(row, best)
            best = np.where(better, row, best)
            at = np.where(better, i, at)
        return (np.expand_dims(at, self.axis),)


def _sample(d: Draw) -> Case:
    shape = d.shape(d.int(1, 4), 1, 7)
    attrs = {"axis": d.int(-len(shape), len(shape) - 1), "keepdims": d.int(0, 1), "select_last_index": d.int(0, 1)}
    if d.int(0, 3) == 0:
        x = d.special(shape)
        return Case([np.where(np.isnan(x), x.dtype.type(1), x)], attrs)
    return Case([d.array(shape, d.choice(["f32", "f32", "i32", "u8"]))], attrs)


def _convert(n: Import, mode: str) -> None:
    x = n.input(0)
    axis = n.axis(n.attr("axis", 0), len(x.shape))
    last, keep = n.flag("select_last_index"), n.flag("keepdims", True)
    if not x.shape:
        n.fold(np.zeros((), dtype=np.int64))
        return
    op = ArgReduce(mode, axis, last)
    if keep:
        n.emit(op, [x])
    else:
        n.bind(0, n.reshape(n.inner(op, [x], "kept"), (*x.shape[:axis], *x.shape[axis + 1 :]), "dropped"))


@onnx_op("ArgMax", sample=_sample, tolerance={})
def import_arg_max(n: Import) -> None:
    _convert(n, "max")


@onnx_op("ArgMin", sample=_sample, tolerance={})
def import_arg_min(n: Import) -> None:
    _convert(n, "min")
