"""Tensors of no elements. What reads one is computed at import, so that only outputs of the network are such."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.op import Kind, Op, TypeRuleError
from mccompile.ir.ranges import Range, anything
from mccompile.ir.scalar import Array
from mccompile.ir.types import DTYPES, TensorType


@dataclass(frozen=True)
class Empty(Op):
    """The tensor of a ``shape`` whose product is 0; ``dtype`` is the name of its element type."""

    name = "empty"
    kind = Kind.OPAQUE

    dtype: str
    shape: tuple[int, ...]

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        if math.prod(self.shape) != 0 or self.dtype not in DTYPES:
            raise TypeRuleError(f"{self.dtype}{list(self.shape)} has elements, or none that are known")
        return (TensorType(DTYPES[self.dtype], self.shape),)

    def value_range(self, types: Sequence[TensorType | None], ranges: Sequence[Range | None]) -> tuple[Range, ...]:
        return (anything(DTYPES[self.dtype], 1),)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        return (np.zeros(self.shape, DTYPES[self.dtype].numpy),)
