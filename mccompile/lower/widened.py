"""Weights that are whole numbers, kept as bytes in the blob and widened to floats in the arena before they are read.

Worked example: packed weights from -3 to 200 are bytes that are 3 more; weights from -8 to 7 have room for two in a
byte, those of the first half in the lower bits.

>>> stored(np.array([-3, 0, 200, 5], np.float32))
Narrow(bytes=array([  0,   3, 203,   8], dtype=uint8), least=-3, bits=8)
>>> stored(np.array([-8, 7, 1, 0], np.float32))
Narrow(bytes=array([144, 143], dtype=uint8), least=-8, bits=4)
>>> stored(np.array([0.5, 1, 2, 3], np.float32)) is None
True
"""

from __future__ import annotations

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.scalar import Array
from mccompile.ir.types import F32, I32, U8, U16
from mccompile.kernels.model.widening import LEAST
from mccompile.ops.map import Map


@dataclass(frozen=True)
class Narrow:
    """Whole numbers, each ``least`` more than what is stored; with 4 bits, byte i has numbers i and i + count / 2.

    They have 16 bits where zero points that differ take them out of the range of a byte.
    """

    bytes: Array
    least: int
    bits: int

    @property
    def parts(self) -> int:
        """How many numbers a byte has."""
        return 2 if self.bits == 4 else 1

    def widened(self, part: int) -> Map:
        """The floats of all bytes, or, of two numbers in each, of the lower bits (part 0) or the upper ones."""
        number = ex.convert(ex.var(0, U16 if self.bits == 16 else U8), I32)
        if self.bits == 4:
            fifteen = ex.num(15, I32)
            number = ex.apply("and", number, fifteen) if part == 0 else ex.apply("asr", number, ex.num(4, I32))
        return Map(ex.convert(ex.apply("add", number, ex.num(self.least, I32)) if self.least else number, F32))


def stored(packed: Array) -> Narrow | None:
    """Floats as integers, if they are whole numbers as bytes less their zero points are."""
    if packed.dtype != np.float32 or not packed.size or not np.array_equal(packed, np.rint(packed)):
        return None
    least, most = float(packed.min()), float(packed.max())
    if max(-least, most) > 511:
        return None
    numbers = (packed.reshape(-1) - least).astype(np.uint8 if most - least < 256 else np.uint16)
    if numbers.dtype == np.uint16:
        return Narrow(numbers, int(least), 16)
    if most - least < 16 and numbers.size % 2 == 0:
        low, high = np.split(numbers, 2)
        return Narrow(low | (high << 4), int(least), 4)
    return Narrow(numbers, int(least), 8)


def whole_weights(node: Node, graph: Graph) -> Value | None:
    """The constant weights of a convolution of floats that are whole numbers, if these are worth a step."""
    if len(node.op.multilinear) != 2 or len(node.operands) != 2 or node.op.weight_axes is not None or 1 in node.pre:
        return None
    value = node.operands[1]
    array = None if value is None or value.dtype != F32 else graph.constants.get(value)
    if not isinstance(array, np.ndarray) or array.size < LEAST:
        return None
    some = array.reshape(-1)[:64]
    return value if np.array_equal(some, np.rint(some)) and stored(array) is not None else None
