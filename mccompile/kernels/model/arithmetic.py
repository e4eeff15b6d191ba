"""How vectors multiply and add bytes: what a word of 32 bits holds of an operand, and what is packed beside it.

Each step of a sum takes one word of each row of the operand, in all lanes, times a vector of words of packed weights,
one for each column; the products of a word are added up in the lane::

    vnni     u8 u8 u8 u8    times    i8 i8 i8 i8      4 products, bytes as they lie in memory
    madd     i16 i16        times    i16 i16          2 products, operands widened beforehand
    mlal     i16 i16        times    i16 i16          the same; of a vector, the first factors of all lanes come first

Operands of i8 are u8 with the top bit flipped: that adds 128 to each, which the sums begin without.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mccompile.ir.scalar import Array
from mccompile.ir.types import I8, I16, U8, DType
from mccompile.targets.machine import Capability
from mccompile.targets.target import Target


@dataclass(frozen=True)
class Arithmetic:
    """``staged`` is what an operand must lie in memory as, ``weight`` what is packed; both fill words of 32 bits.

    Attributes:
        weight_range: the least and the largest number that weights may be.
        apart: the words of a vector are packed as [steps][lanes], not as [lanes][steps].
    """

    name: str
    staged: DType
    weight: DType
    weight_range: tuple[int, int]
    apart: bool = False

    @property
    def steps(self) -> int:
        """Products of a word."""
        return 4 // self.staged.nbytes

    def flips(self, operand: DType) -> bool:
        """Whether the top bit of an operand is flipped."""
        return operand == I8 and self.staged == U8

    def reads(self, operand: DType) -> bool:
        """Whether the operand can be read as it lies in memory."""
        return operand.nbytes == self.staged.nbytes

    def words(self, count: int) -> int:
        """Words that so many neighbours of an operand take."""
        return -(-count // self.steps)


VNNI = Arithmetic("vnni", U8, I8, (-128, 127))
MADD = Arithmetic("madd", I16, I16, (-255, 255))
MLAL = Arithmetic("mlal", I16, I16, (-255, 255), apart=True)


def arithmetic_of(target: Target) -> Arithmetic | None:
    """The best arithmetic of a target; None if it has none."""
    if Capability.VNNI in target.capabilities:
        return VNNI
    if Capability.PAIRS in target.capabilities:
        return MADD
    return MLAL if target.isa == "neon" else None


def by_name(name: str) -> Arithmetic:
    """The arithmetic of a name. KeyError if there is none."""
    return {a.name: a for a in (VNNI, MADD, MLAL)}[name]


@dataclass(frozen=True)
class PackedWords:
    """Weights [M, C, KH, KW] as [M / width] blocks: what sums begin with, i32[width], then words of
    [KH][runs][words][width][steps], all as bytes.

    A block's last vector of ``lanes`` may have columns of zeros. Sums begin with ``-offset`` times the sum of a
    column's weights, from which ``zero`` was taken. With ``one_run`` the taps of a line of the window lie one behind
    the other in the operand, as one run of KW * C; the last word of a run is filled up with zeros. Where
    ``transposed`` is not None the weights are a matrix [K, N], or [N, K].
    """

    arithmetic: str
    width: int
    lanes: int
    offset: int
    zero: int = 0
    one_run: bool = True
    transposed: bool | None = None

    def pack(self, array: Array) -> Array:
        own = by_name(self.arithmetic)
        weights = array.astype(np.int64) - self.zero
        if self.transposed is not None:
            matrix = weights.reshape(weights.shape[-2:])
            weights = (matrix if self.transposed else matrix.T)[:, :, None]
        if weights.ndim == 3:
            weights = weights[:, :, None]
        m, c, kh, kw = weights.shape
        start = -self.offset * weights.sum((1, 2, 3))
        runs = weights.transpose(0, 2, 3, 1).reshape(m, kh, *((1, kw * c) if self.one_run else (kw, c)))
        words = own.words(runs.shape[-1])
        padded = np.zeros((m, *runs.shape[1:3], words * own.steps), np.int64)
        padded[..., : runs.shape[-1]] = runs
        columns = padded.reshape(m, -1, own.steps)
        parts = []
        for first in range(0, m, self.width):
            count = min(self.width, m - first)
            whole = -(-count // self.lanes) * self.lanes
            begin = np.zeros(whole, np.int64)
            begin[:count] = start[first : first + count]
            block = np.zeros((columns.shape[1], whole, own.steps), np.int64)
            block[:, :count] = columns[first : first + count].transpose(1, 0, 2)
            if own.apart:
                block = block.reshape(len(block), -1, self.lanes, own.steps).swapaxes(2, 3)
            parts += [_bytes(begin, np.dtype("<i4")), _bytes(block, own.weight.numpy.newbyteorder("<"))]
        return np.concatenate(parts)


@dataclass(frozen=True)
class PackedColumns:
    """Weights [C, 1, KH, KW] of one filter for each channel as blocks of ``lanes`` channels: what sums begin with,
    then for each of ``lines`` lines of the result the words [groups][KW][lanes][steps], as bytes.

    A word holds rows of the operand, in groups of as many as a word has: line l of the result meets row
    l * ``stride`` + kh with its weight kh.
    """

    arithmetic: str
    lanes: int
    lines: int
    stride: int
    offset: int
    zero: int = 0

    def pack(self, array: Array) -> Array:
        own = by_name(self.arithmetic)
        weights = array.astype(np.int64).reshape(array.shape[0], -1, array.shape[-1]) - self.zero
        c, kh, kw = weights.shape
        whole, groups = -(-c // self.lanes) * self.lanes, own.words((self.lines - 1) * self.stride + kh)
        rows = np.zeros((whole, self.lines, groups * own.steps, kw), np.int64)
        for line in range(self.lines):
            rows[:c, line, line * self.stride : line * self.stride + kh] = weights
        start = np.zeros(whole, np.int64)
        start[:c] = -self.offset * weights.sum((1, 2))
        words = rows.reshape(-1, self.lanes, self.lines, groups, own.steps, kw).transpose(0, 2, 3, 5, 1, 4)
        if own.apart:
            words = words.swapaxes(-1, -2)
        parts = []
        for block, begin in zip(words, start.reshape(-1, self.lanes), strict=True):
            parts += [_bytes(begin, np.dtype("<i4")), _bytes(block, own.weight.numpy.newbyteorder("<"))]
        return np.concatenate(parts)


def _bytes(array: Array, dtype: np.dtype[np.generic]) -> Array:
    return np.frombuffer(array.astype(dtype).tobytes(), np.int8)
