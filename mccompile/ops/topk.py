"""TopK: the k best elements along an axis, and where they were."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.dims import bound, minimum
from mccompile.ir.op import Op, TypeRuleError
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Structure, over_axes
from mccompile.ir.types import BOOL, I64, TensorType
from mccompile.ops.elements import Elements
from mccompile.ops.frontend import Import
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
        if not 0 <= self.axis < x.rank or not 0 <= self.k <= x.shape[self.axis] or x.dtype == BOOL:
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
    shape = d.shape(d.int(1, 3), 1, 9)
    axis = d.int(-len(shape), len(shape) - 1)
    k = np.array([d.int(1, shape[axis])], dtype=np.int64)
    dtype = d.choice(["f32", "f32", "i32", "i64"])  # whole numbers tie often
    attrs = {"axis": axis, "largest": d.int(0, 1)}
    return Case([d.array(shape, dtype), k], attrs, frozenset({1}), 2)


@onnx_op("TopK", sample=_sample, tolerance={}, without_effect=("sorted",))
def import_topk(n: Import) -> None:
    """Unsorted results may come in any order: they are sorted too."""
    _emit(n, n.ints(1, "k"))


def _import_counted(n: Import) -> None:
    """k elements, as many as the axis has at most."""
    x, e = n.input(0), Elements(n)
    axis = n.axis(n.attr("axis", -1), len(x.shape))
    k = e.of(1, "k")
    if len(k) != 1:
        raise n.error(f"k has {len(k)} elements, not one")
    e.require(e.extent(x.shape[axis]).below(k[0]).negated())
    count = e.number("k", k[0], 0, bound(x.shape[axis]))
    _emit(n, (minimum(count, x.shape[axis]),))


RUN_TIME = {"TopK": RunTime(_import_counted)}


def _emit(n: Import, k: tuple[int, ...]) -> None:
    x = n.input(0)
    axis = n.axis(n.attr("axis", -1), len(x.shape))
    if len(k) != 1 or not x.shape or not 0 <= k[0] <= x.shape[axis]:
        raise n.error(f"k = {list(k)} elements cannot be taken along axis {axis} of {x.type}")
    op = TopK(k[0], axis, n.flag("largest", True))
    wanted = [name for name in n.node.outputs if name]
    if len(wanted) == len(n.node.outputs) == 2:
        n.emit(op, [x])
        return
    results = n.inners(op, [x], ["values", "indices"])
    for i, name in enumerate(n.node.outputs):
        if name:
            n.bind(i, results[i])
