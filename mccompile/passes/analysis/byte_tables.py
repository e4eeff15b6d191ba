"""Functions of one byte: all 256 of its numbers, and what they become."""

from __future__ import annotations

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.scalar import Array
from mccompile.ir.types import dtype_of


def every(byte: ex.Expr) -> Array:
    """All numbers that a byte may be, in the order of its bits."""
    return np.arange(256, dtype=np.uint8).view(byte.dtype.numpy)


def simplest(byte: ex.Expr, elements: Array) -> ex.Expr:
    """A function of a byte: the byte itself, the byte cut off, or a table of what it becomes."""
    dtype = dtype_of(elements)
    numbers = every(byte)
    if byte.dtype == dtype:
        if np.array_equal(elements, numbers):
            return byte
        low, high = elements.min(), elements.max()
        if np.array_equal(elements, np.clip(numbers, low, high)):
            info = np.iinfo(elements.dtype)
            cut = byte
            if low > info.min:
                cut = ex.apply("max", cut, ex.num(low, dtype))
            return ex.apply("min", cut, ex.num(high, dtype)) if high < info.max else cut
    return ex.lookup(byte, elements)
