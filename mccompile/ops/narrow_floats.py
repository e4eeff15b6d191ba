"""Floats of 4 to 8 bits and bfloat16 in expressions: their bits, the floats these stand for, and rounding to them.

    rounded(1.3, f8e5m2)      is      the table of 256 floats at f8e5m2_bits(1.3) = 0x3d: 1.25

In the graph such values are floats of 32 bits (`importer.narrow`), which hold them exactly.
"""

from __future__ import annotations

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.scalar import Array
from mccompile.ir.small_floats import ROUNDINGS, SMALL_FLOATS
from mccompile.ir.types import F32
from mccompile.onnxio import numpy_dtype

NARROW_FLOATS = ("bf16", *SMALL_FLOATS, "f8e8m0")
ROUND_MODES = tuple(ROUNDINGS)


def bits(x: ex.Expr, dtype: str, saturate: bool = True, round_mode: str = "up") -> ex.Expr:
    """The bits of a number as ``dtype``: u16 for bf16, else u8. ``round_mode`` is one of f8e8m0."""
    x = ex.convert(x, F32)
    if dtype == "bf16":
        return ex.apply("bf16_bits", x)
    suffix = "bits" if saturate else "bits_beyond"
    return ex.apply(f"{dtype}_{suffix}_{round_mode}" if dtype == "f8e8m0" else f"{dtype}_{suffix}", x)


def value(stored: ex.Expr, dtype: str) -> ex.Expr:
    """The float that bits of ``dtype`` stand for."""
    if dtype == "bf16":
        return ex.apply("bf16", stored)
    return ex.lookup(stored, values(np.arange(256, dtype=np.uint8), dtype))


def values(stored: Array, dtype: str) -> Array:
    """The floats that bits, one element in each byte, stand for; f32."""
    return stored.view(numpy_dtype(dtype)).astype(np.float32)


def rounded(x: ex.Expr, dtype: str, saturate: bool = True, round_mode: str = "up") -> ex.Expr:
    """The float nearest to a number that is one of ``dtype``."""
    if dtype == "bf16":
        return ex.apply("round_bf16", ex.convert(x, F32))
    return value(bits(x, dtype, saturate, round_mode), dtype)
