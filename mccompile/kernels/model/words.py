"""Epilogues over four sums of 32 bits at once: words, as cores with MVE compute them beside vectors of bytes.

Sixteen channels are four words vectors: of channels 0, 4, 8, 12, of 1, 5, 9, 13 and so on, as sums of products of
bytes leave them. What an epilogue reads for each channel is packed in that order.

>>> InSixteens().pack(np.arange(18)).tolist()[:8]
[0, 4, 8, 12, 1, 5, 9, 13]
>>> InSixteens().pack(np.arange(18)).tolist()[16:24]
[16, 0, 0, 0, 17, 0, 0, 0]
"""

from __future__ import annotations

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.scalar import Array
from mccompile.ir.types import I32, Factor
from mccompile.ir.views import View
from mccompile.kernels.variant import Packing

SIXTEEN = 16
"""Channels of a vector of bytes."""
WORDS = frozenset({"add", "sub", "min", "max", "mulhi", "asr"})
"""Functions that there are of words, those that saturate apart."""
SATURATED = {"sat_i8": "i8", "sat_u8": "u8"}


def no_words(body: ex.Expr | None) -> str:
    """Why an epilogue that ends with bytes has no form over words; empty if it has one."""
    if body is None or body.dtype.name not in SATURATED.values():
        return "its results are no bytes"
    if not isinstance(body, ex.Apply) or body.fn not in SATURATED:
        return "its results do not saturate"
    for e in ex.distinct(body.operands[0]):
        if e.dtype != I32:
            return f"its epilogue computes {e.dtype}"
        if isinstance(e, ex.Apply) and e.fn not in WORDS:
            return f"there is no {e.fn} of words"
        if isinstance(e, ex.Apply) and e.fn == "asr" and not isinstance(e.operands[1], ex.Num):
            return "words are shifted by other numbers than a constant"
        if not isinstance(e, ex.Apply | ex.Var | ex.Num):
            return "its epilogue converts"
    return ""


@dataclass(frozen=True)
class InSixteens:
    """Numbers, one for each channel, in the order of the words of sixteen channels, zeros behind the last.

    ``pixels`` repeats them, where several pixels are sixteen channels; ``inner`` makes them of what is stored.
    """

    pixels: int = 1
    inner: Packing | None = None

    def pack(self, array: Array) -> Array:
        stored = np.asarray(array if self.inner is None else self.inner.pack(array)).reshape(-1)
        numbers = np.tile(stored, self.pixels)
        padded = np.zeros(-(-numbers.size // SIXTEEN) * SIXTEEN, numbers.dtype)
        padded[: numbers.size] = numbers
        return padded.reshape(-1, 4, 4).swapaxes(1, 2).reshape(-1)


def by_channel(packed: View, shape: tuple[int, ...]) -> View:
    """Numbers packed by `InSixteens` as a view of ``shape`` [N, C, H, W]."""
    factors = (Factor(0), Factor(1, SIXTEEN), Factor(1, 1, 4), Factor(1, 4, 4), Factor(2), Factor(3))
    return View(packed.buffer, shape, factors, (0, SIXTEEN, 4, 1, 0, 0))
