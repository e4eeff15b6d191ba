"""`extents`: numbers of which some are known at run time only, as a tensor: what Shape gives, or is made of that."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.dims import span
from mccompile.ir.op import Op, TypeRuleError
from mccompile.ir.ranges import Range, anything
from mccompile.ir.scalar import Array
from mccompile.ir.types import DTYPES, I64, DType, TensorType


def holds(dtype: DType, *numbers: int) -> bool:
    """Whether an element type has each of the numbers, whatever varies in them. What it does not have, the program
    computes, as ONNX rounds it or takes it modulo the type.

    >>> from mccompile.ir.dims import symbol
    >>> from mccompile.ir.types import F32, U8
    >>> n = symbol("n", 1, 300)
    >>> holds(U8, n), holds(F32, n), holds(F32, n * 65536)
    (False, True, False)
    """
    low, high = _exact(dtype) if dtype.is_float else dtype.ends
    return all(low <= least and most <= high for least, most in map(span, numbers))


def _exact(dtype: DType) -> tuple[int, int]:
    """From where to where a float is each whole number."""
    most = 2 ** (np.finfo(dtype.numpy.name).nmant + 1)
    return -most, most


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
        dtype = DTYPES[self.to]
        room = I64 if dtype.is_float else dtype
        wrong = next((n for n in self.values if not holds(room, n)), None)
        if wrong is not None:
            raise TypeRuleError(f"{wrong} may be no {room}")
        return (TensorType(DTYPES[self.to], self.shape),)

    def value_range(self, types: Sequence[TensorType | None], ranges: Sequence[Range | None]) -> tuple[Range, ...]:
        return (anything(DTYPES[self.to], 1),)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        dtype = DTYPES[self.to]
        numbers = np.array(self.values, np.float64 if dtype.is_float else np.int64)  # whole ones wrap, as in C
        return (numbers.astype(dtype.numpy).reshape(self.shape),)
