"""`extent_of`: a number that is computed becomes an extent, for Reshape, Slice, Range and their like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mccompile.ir.op import Op, TypeRuleError
from mccompile.ir.ranges import Range, constant
from mccompile.ir.scalar import Array
from mccompile.ir.types import I32, TensorType


@dataclass(frozen=True)
class ExtentOf(Op):
    """Element ``index`` of an integer tensor, i32[]; where it is not ``low`` to ``high``, the program ends."""

    name = "extent_of"

    index: int
    low: int
    high: int

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = types
        assert x is not None
        if x.dtype.kind not in "iu" or not 0 <= self.index < x.count:
            raise TypeRuleError(f"element {self.index} of {x} is no extent")
        return (TensorType(I32, ()),)

    def value_range(self, types: Sequence[TensorType | None], ranges: Sequence[Range | None]) -> tuple[Range, ...]:
        return (constant(self.low, self.high, 1),)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        return (np.asarray(arrays[0]).reshape(-1)[self.index].astype(np.int32),)
