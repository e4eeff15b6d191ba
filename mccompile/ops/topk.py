"""TopK: the k best elements along an axis, and where they were."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.dims import UndecidedError, bound, minimum, ranges, span
from mccompile.ir.op import Op, TypeRuleError
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Structure, over_axes
from mccompile.ir.types import BOOL, I64, TensorType
from mccompile.ops.elements import Elements
from mccompile.ops.frontend import Import
from mccompile.ops.picked import take
from mccompile.ops.registry import onnx_op
from mccompile.ops.run_time import RunTime
from mccompile.ops.sampling import Case, Draw


@dataclass(frozen=True)
class TopK(Op):
    """Results: the ``k`` largest (or smallest) elements along ``axis``, best first, and their i64 indices.

    Of equal elements the one of the lower index comes first (ONNX operator TopK); NaN comes after every number.
    """

    name = "topk"

    k: int
    axis: int
    largest: bool = True

    @property
    def decides(self) -> bool:
        return True

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        (x,) = types
        assert x is not None
        return over_axes(x, (self.axis,), self.infer(x))

    @property
    def selects(self) -> bool:
        return True

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = types
        assert x is not None
        inside = 0 <= self.axis < x.rank and span(self.k)[0] >= 0 and span(self.k - x.shape[self.axis])[1] <= 0
        if not inside or x.dtype == BOOL:
            raise TypeRuleError(f"{self.k} elements cannot be taken along axis {self.axis} of {x}")
        shape = (*x.shape[: self.axis], self.k, *x.shape[self.axis + 1 :])
        return (TensorType(x.dtype, shape), TensorType(I64, shape))

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        x = np.asarray(arrays[0])
        # Falling order without a negation, which would wrap for the least integer: sort the reversed axis, reverse.
        key = np.flip(x, self.axis) if self.largest else x
        order = np.argsort(key, axis=self.axis, kind="stable")
        if self.largest:
            order = x.shape[self.axis] - 1 - np.flip(order, self.axis)
            nans = np.take_along_axis(x != x, order, self.axis)
            order = np.take_along_axis(order, np.argsort(nans, axis=self.axis, kind="stable"), self.axis)
        order = np.take(order, np.arange(self.k), axis=self.axis)
        return np.take_along_axis(x, order, self.axis), order.astype(np.int64)


def _sample(d: Draw) -> Case:
    if d.int(0, 3) == 0:  # few of a long row, the best of which are 0
        row, largest = d.array((d.int(1, 2), d.int(64, 300)), "f32"), d.int(0, 1)
        cut = np.minimum(row, 0) if largest else np.maximum(row, 0)
        k = np.array([d.int(1, 12)], dtype=np.int64)
        return Case([cut, k], {"axis": -1, "largest": largest}, frozenset({1}), 2)
    shape = d.shape(d.int(1, 3), 1, 9)
    axis = d.int(-len(shape), len(shape) - 1)
    k = np.array([d.int(1, shape[axis])], dtype=np.int64)
    dtype = d.choice(["f32", "f32", "i32", "i64"])  # whole numbers tie often
    attrs = {"axis": axis, "largest": d.int(0, 1)}
    return Case([d.array(shape, dtype), k], attrs, frozenset({1}), 2)


@onnx_op("TopK", sample=_sample, tolerance={}, without_effect=("sorted",))
def import_topk(n: Import) -> None:
    """Unsorted results may come in any order: they are sorted too."""
    (k, *others), x = n.ints(1, "k"), n.input(0)
    if others or not x.shape:
        raise n.error(f"k = {[k, *others]} elements cannot be taken of {x.type}")
    axis = n.axis(n.attr("axis", -1), len(x.shape))
    _require_some(n, k, axis)
    extent = x.shape[axis]
    if span(k)[0] < 0 or span(k - extent)[1] > 0:
        raise UndecidedError(f"whether there are {k} of {extent} elements depends on {ranges(k, extent)}")
    _emit(n, axis, k, k)


def _import_counted(n: Import) -> None:
    """k elements, as many as the axis has at most: the program ends where it has fewer."""
    x, e = n.input(0), Elements(n)
    axis = n.axis(n.attr("axis", -1), len(x.shape))
    extent = x.shape[axis]
    given = e.of(1, "k")
    if len(given) != 1:
        raise n.error(f"k has {len(given)} elements, not one")
    k = e.told(given[0])
    if k is not None and span(k)[0] >= 0:
        _require_some(n, k, axis)
        _emit(n, axis, minimum(k, extent), k)
        return
    e.require(e.extent(extent).below(given[0]).negated())
    stated = n.declared_extent(axis)
    k = e.number("k", given[0], *((0, bound(extent)) if stated is None else (stated, stated)))
    count = minimum(k, extent)
    _emit(n, axis, count, count if stated is None else k)


RUN_TIME = {"TopK": RunTime(_import_counted, undecided=True)}


def _require_some(n: Import, k: int, axis: int) -> None:
    """CompileError where there are not so many elements in any run."""
    x = n.input(0)
    if span(k)[1] < 0 or span(k - x.shape[axis])[0] > 0:
        raise n.error(f"k = {k} elements cannot be taken along axis {axis} of {x.type}")


def _emit(n: Import, axis: int, count: int, k: int) -> None:
    """The ``count`` best elements, as many as there are, of which ``k`` are read: the kernel that reads them ends the
    program where these are more."""
    x, op = n.input(0), TopK(count, axis, n.flag("largest", True))
    wanted = [name for name in n.node.outputs if name]
    if count == k and len(wanted) == len(n.node.outputs) == 2:
        n.emit(op, [x])
        return
    results = n.inners(op, [x], ["values", "indices"])
    at = None if count == k else n.steps(k, I64, "ranks")
    for i, name in enumerate(n.node.outputs):
        if name:
            n.bind(i, results[i] if at is None else take(n, results[i], axis, at, f"result{i}"))
