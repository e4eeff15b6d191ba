"""`iota`: numbers in equal steps. What Range gives where its length is known at run time only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.op import Op
from mccompile.ir.ranges import Range, anything
from mccompile.ir.scalar import Array
from mccompile.ir.types import DTYPES, I32, TensorType
from mccompile.ops.extents import holds


@dataclass(frozen=True)
class Iota(Op):
    """The tensor [start, start + by, ...] of ``count`` elements of type ``to``."""

    name = "iota"

    start: int
    by: int
    count: int
    to: str = "i64"

    @property
    def numbers(self) -> tuple[int, ...]:
        return (self.start, self.by)

    @property
    def wide(self) -> bool:
        """Whether numbers, or what they are sums of, may be none of 32 bits."""
        return not holds(I32, self.start, self.by, self.by * self.count, self.start + self.by * self.count)

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        return (TensorType(DTYPES[self.to], (self.count,)),)

    def value_range(self, types: Sequence[TensorType | None], ranges: Sequence[Range | None]) -> tuple[Range, ...]:
        return (anything(DTYPES[self.to], 1),)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        return ((self.start + self.by * np.arange(self.count)).astype(DTYPES[self.to].numpy),)
