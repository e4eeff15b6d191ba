"""Few rows by weights of bytes, or two to a byte, in words of 32 bits: each is read once, and fills a vector's lane.

Worked example: one column of four weights of 8 bits, less the least of them, -2, is one word. The kernel takes its
fields where they lie, 0x04, 0x0200, 0x010000, and at last what is above bit 24. The floats that they are multiplied
with, 1, 2, 4 and 8, were made smaller by as much.

>>> w = np.array([[2], [0], [-1], [-2]], np.int8)
>>> hex(Words(lanes=1, width=1, bits=8, least=-2, block=4).pack(w)[0])
'0x10204'
>>> x = np.array([1, 2, 4, 8]) * WordTile(1, 1, 1, chunk=1, block=4, least=-2).factors(8, 1)
>>> float(sum(x * [0x04, 0x0200, 0x010000, 0x00])) - 2 * (1 + 2 + 4 + 8)
-18.0
"""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import replace

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.dims import bound
from mccompile.ir.errors import InternalError
from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Call
from mccompile.ir.scalar import Array
from mccompile.ir.types import F32, I32, DType
from mccompile.ir.views import View
from mccompile.kernels.matmul.packed import batched, pack_columns
from mccompile.kernels.matmul.quantised import QuantisedTile
from mccompile.kernels.model.digits import BYTES, DIGITS, LARGEST, digit_product
from mccompile.kernels.model.parts import Turns, batches
from mccompile.kernels.model.prefetch import STREAM_AHEAD
from mccompile.kernels.model.tiles import LONG, RUN, InChunks, Prefetching, columns, merge
from mccompile.kernels.variant import Builder, Offer, Variant, computed, lines_broken, not_plain_f32
from mccompile.ops.matmul_quantised import MatMulQuantised
from mccompile.targets.target import Target

MOST_ROWS = 4
"""Rows of a tile."""
CHUNK = 16
"""Rows that are put aside at once: so often weights are read from far away."""
CONVERTED = 0.5
"""Cycles to make floats of a vector of fields (Zen 3)."""
ASIDE = 8
"""Cycles to put a vector of floats aside as digits (Zen 4)."""
SHORTEST = 16
"""Steps of a block that fill words."""
SIGNED = ("signs", "sdot")
"""Products whose weights have signs."""
HELD = 4
"""Words of which 16 bits hold the sums of products: 8 pairs of 2 * 15 * 128 at most."""
OUTLYING = 4
"""Outliers of a block are those whose square root is above so many times the mean, of what is not zero there."""
PLACES = 2**24
"""Up to here floats hold all whole numbers."""


@dataclass(frozen=True)
class WordTile(QuantisedTile, InChunks, Prefetching):
    """A tile of weights in words, less ``least``; rows are put aside in chunks.

    Scales are those of ``block`` steps: of those of the operator, or of parts of them where these are long. Rows
    are put aside as bytes where there is a product of four by four, ``dot``: those that are rounded as one byte,
    others as three ``digits``. A sum of products takes 16 bits of 32 for so many words as it is ``held``.

    Where zero points are taken off sums, or rows are digits, a sum is as near as the largest of its block allows,
    even if that is multiplied by zero. So ``outliers``, of which a row has no more, are put aside as zeros and
    listed, and multiplied with weights less their zero points.
    """

    chunk: int
    block: int
    least: int
    dot: str = ""
    digits: int = 1
    held: int = 0
    outliers: int = 0

    @property
    def largest(self) -> int:
        """What the largest of a block of rows becomes."""
        return 127 if self.digits == 1 else LARGEST

    def blocks(self, steps: int) -> int:
        return -(-steps // self.block)

    def words(self, steps: int, bits: int) -> int:
        """Words of a column."""
        return sum(-(-p.size * bits // 32) * ((p.stop - p.start) // p.size) for p in self.parts(steps, self.block))

    def signed(self, bits: int) -> bool:
        """Whether fields of words are numbers with a sign."""
        return bits == 8 and self.dot in SIGNED

    @property
    def summed(self) -> DType:
        """What products are added up in."""
        return I32 if self.dot else F32

    def plane(self, steps: int, bits: int) -> int:
        """Bytes of a digit of each step of a row, which are stored as whole vectors."""
        return self.words(steps, bits) * 32 // bits + (self.lanes if self.digits > 1 else 0)

    def scales_ahead(self, bits: int) -> int:
        """How early scales are asked for where words are ``ahead``, so that both are as many steps early."""
        return max(self.ahead * 32 // (bits * self.block) // 64, 1) * 64

    @property
    def outlying(self) -> int:
        return OUTLYING

    @property
    def listed(self) -> int:
        """Floats that the outliers of a row take: their number, then the place and the value of each."""
        return 1 + 2 * self.outliers if self.outliers else 0

    def begin(self, steps: int) -> int:
        """Floats of a row in front of its steps: the sums of blocks, with bytes their scales, and outliers."""
        return (2 if self.dot else 1) * self.blocks(steps) + self.listed

    def room(self, steps: int, bits: int) -> int:
        """Floats that a row takes aside."""
        row = self.digits * self.plane(steps, bits) // 4 if self.dot else self.words(steps, bits) * 32 // bits
        return self.begin(steps) + row

    def factors(self, bits: int, lanes: int) -> Array:
        """What the steps of a word, or of a vector of ``lanes`` where it is longer, are multiplied with."""
        fields = 32 // bits
        word = [*(2.0 ** -(bits * f) for f in range(fields - 1)), 1.0]
        return np.array(word * max(lanes // fields, 1), np.float32)


def most_outliers(count: int) -> int:
    """How many of a block of ``count`` can be outliers: the square root of each is above the sum of all roots divided
    by an ``OUTLYING``-th of their number, or by 2 where that is less.

    >>> [most_outliers(n) for n in (1, 15, 16, 32, 256)]
    [2, 3, 4, 8, 64]
    """
    return max(count // OUTLYING, 2)


@dataclass(frozen=True)
class Words:
    """Weights [K, N], less ``least``, as words [N / width][words][width] of fields of ``bits``, the first lowest.

    Those of ``block`` rows fill whole words, with zeros behind them. As ``halves`` the first four of eight are the
    lower halves of the bytes of a word.
    """

    width: int
    lanes: int
    bits: int
    least: int
    block: int
    halves: bool = False

    def pack(self, array: Array) -> Array:
        fields = 32 // self.bits
        shifts = np.arange(0, 32, self.bits, dtype=np.uint32)
        if self.halves:
            shifts = np.concatenate([shifts[0::2], shifts[1::2]])
        rows = []
        for first in range(0, len(array), self.block):
            part = (array[first : first + self.block].astype(np.int16) - self.least).astype(np.uint32)
            part &= 2**self.bits - 1
            part = np.pad(part, ((0, -len(part) % fields), (0, 0)))
            rows.append(np.bitwise_or.reduce(part.reshape(-1, fields, part.shape[1]) << shifts[:, None], axis=1))
        return pack_columns(np.concatenate(rows).view(np.int32), self.width, self.lanes)


@dataclass(frozen=True)
class Repeated:
    """Scales or zero points [B, N] of blocks of rows as those of ``parts`` of each, ``count`` in all, by blocks of
    columns."""

    width: int
    lanes: int
    parts: int
    count: int

    def pack(self, array: Array) -> Array:
        return pack_columns(np.repeat(array, self.parts, axis=0)[: self.count], self.width, self.lanes)


@dataclass(frozen=True)
class Scales:
    """Scales like `Repeated` ones, but 0 where weights say nothing: of the columns of parts that are ``silent``, of
    which there are bits [count, N]."""

    like: Repeated
    silent: bytes

    def pack(self, array: Array) -> Array:
        rows = np.repeat(array, self.like.parts, axis=0)[: self.like.count]
        silent = np.unpackbits(np.frombuffer(self.silent, np.uint8), count=rows.size).reshape(rows.shape) != 0
        left = np.where(silent & np.isfinite(rows), np.float32(0), rows)
        return pack_columns(left, self.like.width, self.like.lanes)


@dataclass(frozen=True)
class AsTheyAre:
    """Weights or zero points that are looked at."""

    def pack(self, array: Array) -> Array:
        return array


def silent_parts(w: Array, zero: Array, block: int, part: int) -> Array:
    """Bools [parts, N]: whether all weights of a column of a part are its zero point; ``zero`` is for each block.

    >>> w, zero = np.array([[5, 5], [5, 4], [7, 7], [7, 8]]), np.array([[5, 5], [7, 8]])
    >>> silent_parts(w, zero, block=2, part=2).tolist()
    [[True, False], [True, False]]
    """
    found = np.empty((-(-len(w) // part), w.shape[1]), bool)
    for i, start in enumerate(range(0, len(w), part)):
        found[i] = (w[start : start + part] == zero[start // block]).all(0)
    return found


def part_of(block: int, steps: int) -> int:
    """Steps whose products are added up before they are scaled: those of a block, or a part of it where it is long.

    >>> part_of(32, 4096), part_of(4096, 4096), part_of(1500, 3000), part_of(1009, 2018)
    (32, 256, 750, 1)
    """
    if block >= steps:
        return steps if steps <= LONG else RUN
    return next(d for d in range(min(block, LONG), 0, -1) if block % d == 0)


class MatMulQuantisedWords(Variant):
    """Tiles of few rows by vectors of columns, whose weights are fields of words."""

    ops = ("matmul_quantised",)
    kernel = "matmul_quantised.words"
    params = WordTile
    may_share = False

    def takes(self, node: Node) -> bool:
        return True

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        op, a = node.op, node.operands[0]
        assert isinstance(op, MatMulQuantised)
        assert a is not None
        given = [i for i, v in enumerate(node.operands) if i and v is not None]
        if reason := computed(node, constants, *given) or not_plain_f32(node, target, operands=1):
            return reason
        if target.lanes < 2:
            return "there are no vectors"
        steps, block = a.shape[-1], part_of(op.block, a.shape[-1])
        if block < SHORTEST:
            return f"blocks of {block} rows do not fill words"
        if op.rounds and block < min(op.block, steps):
            return "blocks that are rounded are long"
        *leading, count = node.result.shape
        rows = bound(math.prod(leading))
        tile = _tile(node, rows, block, target)
        if tile.outliers and tile.words(steps, op.bits) * 32 > PLACES:
            return f"floats do not hold the places of {steps} rows"
        vectors = steps * sum(n * each for n, each in columns(count, tile.width, tile.lanes))
        product = max(target.lanes / target.machine.multiply_adds, 0.5)
        if tile.digits > 1:
            aside = ASIDE * steps / target.lanes
            return Offer(self.label, rows * (vectors * product * DIGITS / BYTES + aside), tile)
        return Offer(self.label, vectors * (CONVERTED * -(-rows // tile.rows) + product * rows), tile)

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        op, tile = node.op, offer.params
        assert isinstance(op, MatMulQuantised)
        assert isinstance(tile, WordTile)
        a, w, *parameters = node.operands
        assert a is not None
        assert w is not None
        result = b.result(0)
        extras = [b.read(v).broadcast(result.shape) for v in node.extras]
        views = merge([batched(b.read(a), result), result, *extras], range(result.rank - 1))
        if isinstance(views, str):
            raise InternalError(views)
        left, result, *extras = views
        if op.bits == 8 and not tile.dot and _shifts(node, tile.least):
            least = _least(w, b)
            tile = replace(tile, least=least, outliers=tile.outliers if _shifts(node, least) else 0)
        words = Words(tile.width, tile.lanes, op.bits, tile.least, tile.block, bool(tile.dot) and op.bits == 4)
        parts = Repeated(tile.width, tile.lanes, -(-min(op.block, w.shape[0]) // tile.block), tile.blocks(w.shape[0]))
        scale, zero = parameters
        assert scale is not None
        reads: list[View | None] = [left, b.packed(w, words), b.packed(scale, _scales(node, tile, parts, b))]
        reads += [] if zero is None else [b.packed(zero, parts)]
        room = min(tile.chunk, bound(left.shape[-2])) * tile.room(w.shape[0], op.bits) + tile.lanes
        b.call(self.kernel, reads, [result], params=tile, extras=extras, scratch=b.scratch(room, F32))

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        p, y = call.params, call.results[0]
        assert isinstance(p, WordTile)
        columns, chunks = Turns.tiles("n", p.tiles_n(y.shape[-1])), Turns.tiles("first", p.chunks_m(y.shape[-2]))
        return [*batches(y), chunks, columns]

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        return lines_broken(before, after, reads=False)


def _least(w: Value, b: Builder) -> int:
    """The least of all weights: those of 4 bits that are stored as bytes would, less -128, be far from their zero
    point, and so would sums be from what is left of them. It is asked for where zero points are taken off anyway."""
    weights = b.seen(w, AsTheyAre()).buffer.data
    assert weights is not None
    return int(weights.min())


def _scales(node: Node, tile: WordTile, parts: Repeated, b: Builder) -> Repeated | Scales:
    """How scales are packed. The kernel takes zero points off sums of products. What rounding leaves of a sum where
    all weights are the zero point is not 0, and their scale may be any number: that of other parts may be far below.
    """
    op = node.op
    assert isinstance(op, MatMulQuantised)
    w, scale, zero = (None if v is None else b.seen(v, AsTheyAre()).buffer.data for v in node.operands[1:])
    assert w is not None
    assert scale is not None
    silent = silent_parts(w, np.full(scale.shape, op.zero, w.dtype) if zero is None else zero, op.block, tile.block)
    return Scales(parts, np.packbits(silent).tobytes()) if silent.any() else parts


def _tile(node: Node, rows: int, block: int, target: Target) -> WordTile:
    """The tile for so many rows. Sums of one row, and of four where there are many registers, are four vectors; those
    of three digits two, and no more than fill three of four registers."""
    op, w = node.op, node.operands[1]
    assert isinstance(op, MatMulQuantised)
    assert w is not None
    many = target.machine.registers > 16
    by_bytes = op.rounds or digit_product(target) or (rows == 1 and op.bits == 4)
    dot = _dot(op.bits, target) if by_bytes else ""
    digits = DIGITS if dot and not op.rounds else 1
    vectors = min(4 if many or (rows == 1 and digits == 1) else 2, -(-w.shape[1] // target.lanes))
    height = min(rows, MOST_ROWS)
    vectors = min(vectors, max(target.machine.registers * 3 // 4 // (digits * height), 1))
    least = op.least if op.bits == 4 else int(np.iinfo(w.dtype.numpy.name).min)
    if op.bits == 8 and dot in SIGNED:
        least += 128
    ahead = STREAM_AHEAD[op.bits] if target.machine.l2 else 0
    held = HELD if dot == "maddubs" else 0
    chunk = min(rows, CHUNK)
    tile = WordTile(height, vectors, target.lanes, chunk, block, least, dot, digits, held, ahead=ahead)
    if op.rounds or not (dot or _shifts(node, least)):
        return tile
    parts = tile.parts(w.shape[0], block)
    outliers = sum(most_outliers(p.size) * ((p.stop - p.start) // p.size) for p in parts)
    return replace(tile, outliers=outliers)


def _shifts(node: Node, least: int) -> bool:
    """Whether zero points are taken off sums of weights less ``least``."""
    op = node.op
    assert isinstance(op, MatMulQuantised)
    return node.operands[3] is not None or op.zero != least


def _dot(bits: int, target: Target) -> str:
    """The product of four bytes by four: of weights without sign and below 16, or 256, or of those with a sign."""
    pairs = "maddubs" if bits == 4 else "signs"  # of two bytes 16 bits hold 2 * 15 * 128, or 2 * 128 * 127
    return digit_product(target) or (pairs if target.can("PAIRS") else "")


VARIANTS = (MatMulQuantisedWords(),)
