"""Floats of 4 to 8 bits, and bfloat16: which bits hold the value nearest to a float of 32 bits, ties to even.

    1.3 as f8e5m2    1.01001100..b * 2^0    two bits of mantissa stay: 1.01b = 1.25, exponent 0 + 15    0x3d
    1e9 as f8e4m3fn  more than its largest, 448                         0x7e if it saturates, else NaN: 0x7f

>>> [hex(b) for b in SMALL_FLOATS["f8e5m2"].bits(np.float32([1.3, -1e-5, 1e9]), True)]
['0x3d', '0x81', '0x7b']
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mccompile._dataclass import dataclass

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class SmallFloat:
    """A sign, ``exponent`` bits with ``bias``, ``mantissa`` bits.

    Attributes:
        most: the bits of the largest finite value.
        beyond: the bits of what is larger, where it does not saturate: infinity, else NaN, else ``most``.
        nan: the bits of NaN; 0 where there is none.
    """

    exponent: int
    mantissa: int
    bias: int
    most: int
    beyond: int
    nan: int

    @property
    def has_minus_zero(self) -> bool:
        """Types that end in uz have NaN in its place."""
        return self.nan != 1 << self.exponent + self.mantissa

    def bits(self, x: Array, saturate: bool) -> Array:
        """The bits of each element, u8: `mcc_small_float` of the generated C in numpy."""
        with np.errstate(over="ignore"):
            word = np.asarray(x).astype(np.float32).view(np.uint32).astype(np.int64)
        size = word & 0x7FFFFFFF
        above = (size >> 23) - 127 - (1 - self.bias)  # exponents above that of the smallest normal value
        dropped = np.minimum(23 - self.mantissa + np.maximum(-above, 0), 25)
        mantissa = size & 0x7FFFFF | 0x800000
        rounded = mantissa + (1 << dropped - 1) - 1 + (mantissa >> dropped & 1) >> dropped
        code = rounded + (np.maximum(above, 0) << self.mantissa)
        code = np.where(code > self.most, self.most if saturate else self.beyond, code)
        sign = word >> 31 << self.exponent + self.mantissa
        code = np.where((code == 0) & (not self.has_minus_zero), 0, code | sign)
        return np.where(size > 0x7F800000, self.nan, code).astype(np.uint8)

    def c(self, saturate: bool) -> str:
        """The C of `bits`, ``{0}`` standing for the float."""
        beyond = self.most if saturate else self.beyond
        shape = f"{self.exponent}, {self.mantissa}, {self.bias}"
        return f"mcc_small_float({{0}}, {shape}, {self.most}, {beyond}, {self.nan})"


SMALL_FLOATS = {
    "f8e4m3fn": SmallFloat(4, 3, 7, 0x7E, 0x7F, 0x7F),
    "f8e4m3fnuz": SmallFloat(4, 3, 8, 0x7F, 0x80, 0x80),
    "f8e5m2": SmallFloat(5, 2, 15, 0x7B, 0x7C, 0x7E),
    "f8e5m2fnuz": SmallFloat(5, 2, 16, 0x7F, 0x80, 0x80),
    "f6e2m3": SmallFloat(2, 3, 1, 0x1F, 0x1F, 0),
    "f6e3m2": SmallFloat(3, 2, 3, 0x1F, 0x1F, 0),
    "f4e2m1": SmallFloat(2, 1, 1, 0x7, 0x7, 0),
}
"""By ONNX's names: those that end in fn have no infinity, uz no -0."""

ROUNDINGS = {"down": 0, "nearest": 1, "up": 2}
"""How a power of two is found for f8e8m0 (ONNX's ``round_mode``)."""


def power_bits(x: Array, rounding: str, saturate: bool) -> Array:
    """The exponent of the power of two at or beside each element's size, f8e8m0; 255 for what is not finite.

    A tie goes up. Zero and what is smaller than 2^-126 have exponent 0, which means 2^-127.

    >>> power_bits(np.float32([1, 1.25, 1.5, -8]), "nearest", True).tolist()
    [127, 127, 128, 130]
    """
    word = np.asarray(x).astype(np.float32).view(np.uint32)
    exponent, rest = (word >> 23 & 0xFF).astype(np.int64), word & 0x7FFFFF
    # Between 0 and 2^-126 the tie itself goes down, as in ONNX's reference.
    nearest = (rest > 0x400000) | (rest == 0x400000) & (exponent > 0)
    up = {"down": np.zeros(rest.shape, bool), "nearest": nearest, "up": rest > 0}[rounding]
    up = up & (exponent < (254 if saturate else 255))
    found: Array = exponent + up
    return found.astype(np.uint8)


def bf16_bits(x: Array) -> Array:
    """The upper halves of floats, u16, rounded; NaN stays one.

    >>> [hex(b) for b in bf16_bits(np.float32([1.0, 1.00390625, 1.01171875]))]
    ['0x3f80', '0x3f80', '0x3f82']
    """
    with np.errstate(over="ignore"):
        word = np.asarray(x).astype(np.float32).view(np.uint32).astype(np.uint64)
    rounded = word + 0x7FFF + (word >> 16 & 1) >> 16
    return np.where(word & 0x7FFFFFFF > 0x7F800000, word >> 16 | 0x40, rounded).astype(np.uint16)


def bf16_values(bits: Array) -> Array:
    """The floats that upper halves stand for."""
    return (np.asarray(bits).astype(np.uint32) << 16).view(np.float32)
