"""Running sums and products along an axis (ONNX operators CumSum, CumProd)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.op import Op, TypeRuleError, has_axes
from mccompile.ir.ranges import Range, anything, hull, summed
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Structure, over_axes
from mccompile.ir.types import TensorType
from mccompile.ops.frontend import Import
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw


@dataclass(frozen=True)
class CumSum(Op):
    """Sums up to each element along ``axis``, without it if ``exclusive``, from the end if ``reverse``.

    With ``product``, products.
    """

    name = "cum_sum"

    axis: int
    exclusive: bool = False
    reverse: bool = False
    product: bool = False

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        (x,) = types
        assert x is not None
        return over_axes(x, (self.axis,), self.infer(x))

    @property
    def multilinear(self) -> tuple[int, ...]:
        return () if self.product else (0,)

    def value_range(self, types: Sequence[TensorType | None], ranges: Sequence[Range | None]) -> tuple[Range, ...]:
        (x,), (found,) = types, ranges
        assert x is not None
        assert found is not None
        if self.product:
            return (anything(x.dtype),)
        some = found.with_zero()  # sums of fewer elements
        return (hull([some, summed(some, x.shape[self.axis], x.dtype)]),)

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = types
        assert x is not None
        if not has_axes(x, (self.axis,)):
            raise TypeRuleError(f"{x} has no axis {self.axis}")
        return (TensorType(x.dtype, x.shape),)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        given = np.asarray(arrays[0])
        x = np.flip(given, self.axis) if self.reverse else given
        wide = x.astype(np.float32) if x.dtype == np.float16 else x
        total = (np.cumprod if self.product else np.cumsum)(wide, axis=self.axis, dtype=wide.dtype)
        total = total if self.product else total + wide.dtype.type(0)  # sums begin with 0: none is -0
        if self.exclusive and x.shape[self.axis]:  # of nothing there are no sums
            first = np.full_like(total.take([0], self.axis), int(self.product))
            total = np.concatenate([first, total.take(range(total.shape[self.axis] - 1), self.axis)], self.axis)
        return ((np.flip(total, self.axis) if self.reverse else total).astype(given.dtype),)


def _sample(d: Draw) -> Case:
    shape = (*d.shape(d.int(0, 3), 1, 7), d.choice([1, 3, 7, 70]))
    axis = np.array(d.int(-len(shape), len(shape) - 1), dtype=d.choice([np.int32, np.int64]))
    x = d.array(shape, d.choice(["f32", "i32", "i64"]))
    return Case([x, axis], {"exclusive": d.int(0, 1), "reverse": d.int(0, 1)}, frozenset({1}))


def _emit(n: Import, product: bool) -> None:
    x = n.input(0)
    axis = n.axis(int(n.one(1, "axis")), len(x.shape))
    n.emit(CumSum(axis, n.flag("exclusive"), n.flag("reverse"), product), [x])


@onnx_op("CumSum", sample=_sample, tolerance={"f32": 2e-6})
def import_cum_sum(n: Import) -> None:
    _emit(n, False)


@onnx_op("CumProd", sample=lambda d: replace(_sample(d), opset=26), tolerance={"f32": 2e-6})
def import_cum_prod(n: Import) -> None:
    _emit(n, True)
