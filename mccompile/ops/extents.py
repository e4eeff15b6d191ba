"""`extents`: numbers of which some are known at run time only, as a tensor: what Shape gives, or is made of that."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.op import Op
from mccompile.ir.ranges import Range, anything
from mccompile.ir.scalar import Array
from mccompile.ir.types import DTYPES, TensorType


@dataclass(frozen=True)
class Extents(Op):
    """The tensor of ``shape`` with the elements ``values``, in row-major order, of element type ``to``."""

    name = "extents"

    values: tuple[int, ...]
    shape: tuple[int, ...]
    to: str = "i64"

    @property
    def numbers(self) -> tuple[int, ...]:
        return self.values

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        return (TensorType(DTYPES[self.to], self.shape),)

    def value_range(self, types: Sequence[TensorType | None], ranges: Sequence[Range | None]) -> tuple[Range, ...]:
        return (anything(DTYPES[self.to], 1),)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        dtype = DTYPES[self.to]
        numbers = np.array(self.values, np.float64 if dtype.is_float else np.int64)  # whole ones wrap, as in C
        return (numbers.astype(dtype.numpy).reshape(self.shape),)
