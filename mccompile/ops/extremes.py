"""The least and the largest elements over any set of axes, found in one pass; made of two reductions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.op import Layouts, Op
from mccompile.ir.ranges import Range
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Structure, over_axes
from mccompile.ir.types import TensorType
from mccompile.ops.reduce import Reduce


@dataclass(frozen=True)
class Extremes(Op):
    """Results: what `Reduce` of modes min and max gives over ``axes``, which stay with extent 1."""

    name = "extremes"
    layouts = Layouts.ALIKE

    axes: tuple[int, ...]

    @property
    def selects(self) -> bool:
        return True

    @property
    def _both(self) -> tuple[Reduce, Reduce]:
        return Reduce("min", self.axes), Reduce("max", self.axes)

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        (x,) = types
        assert x is not None
        return over_axes(x, self.axes, self.infer(x))

    def value_range(self, types: Sequence[TensorType | None], ranges: Sequence[Range | None]) -> tuple[Range, ...]:
        return tuple(found for op in self._both for found in op.value_range(types, ranges))

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        return tuple(found for op in self._both for found in op.infer(*types))

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        return tuple(np.asarray(found) for op in self._both for found in op.evaluate(*arrays))
