"""Columns in the order in which vectors of sums become bytes in the fewest instructions.

AVX2 packs two vectors half by half: of a and b it makes a0-a3 b0-b3 | a4-a7 b4-b7, and what lies in the wrong half
has to change places. Columns that are woven lie in vectors such that nothing has to: weights and what an epilogue
reads are stored in that order when the network is compiled.

Worked example: a is columns 0-3 and 8-11, b 4-7 and 12-15. Packed, a and b are 0-7 | 8-15, all in order. Of four
vectors, which are packed twice, a is columns 0-3 and 16-19.

>>> order(16, 8)
[0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15]
>>> order(32, 8)[:16]
[0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23]
>>> WovenRow(16, 8).pack(np.arange(20))
array([ 0,  1,  2,  3,  8,  9, 10, 11,  4,  5,  6,  7, 12, 13, 14, 15, 16,
       17, 18, 19])
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.graph import Node, Value
from mccompile.ir.scalar import Array
from mccompile.ir.types import I8, U8
from mccompile.ir.vector import is_lane
from mccompile.kernels.model.lanes import no_vectors
from mccompile.targets.target import Target

VECTORS = (2, 4)
"""How many vectors may be woven."""


def is_woven(count: int, lanes: int) -> bool:
    """Whether so many columns of a block are: whole vectors, as many as instructions pack."""
    return count in [n * lanes for n in VECTORS]


def order(count: int, lanes: int) -> list[int]:
    """The columns of vectors, one vector behind the other: the first half of each has those of the first half."""
    half = lanes // 2
    parts = np.arange(count).reshape(2, -1, half)
    return [int(c) for c in parts.swapaxes(0, 1).reshape(-1)]


def woven(columns: Array, lanes: int) -> Array:
    """The columns [count, ...] of a block in the order in which it has them."""
    return columns[order(len(columns), lanes)] if is_woven(len(columns), lanes) else columns


@dataclass(frozen=True)
class WovenRow:
    """An element for each column, which lie in blocks of ``width``, along the only axis of several elements."""

    width: int
    lanes: int

    def pack(self, array: Array) -> Array:
        flat = array.reshape(-1)
        blocks = [woven(flat[i : i + self.width], self.lanes) for i in range(0, len(flat), self.width)]
        return np.concatenate(blocks).reshape(array.shape)


def weaves(node: Node, axis: int, target: Target, is_constant: Callable[[Value], bool]) -> bool:
    """Whether the columns of result 0, which lie along ``axis``, may be woven: the target packs by halves, bytes are
    stored, and what the epilogue reads is known, one element for each column or for all of them."""
    result, body = node.results[0], node.post.get(0)
    if target.isa != "avx2" or result.dtype not in (I8, U8) or body is None or no_vectors(body):
        return False
    return all(
        is_lane(v.dtype.compute) and (v.type.count == 1 or (is_constant(v) and _along(v, axis, result)))
        for v in node.extras
    )


def _along(value: Value, axis: int, result: Value) -> bool:
    """Whether a value has one element for each place on an axis of a result that it is broadcast to."""
    own = axis % len(result.shape) - len(result.shape) + len(value.shape)
    return own >= 0 and value.shape[own] == value.type.count == result.shape[axis]
