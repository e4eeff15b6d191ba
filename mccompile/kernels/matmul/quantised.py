"""The family of `matmul_quantised`: weights of bytes, or two to a byte, that become floats as they are read.

Worked example: three columns of four rows of 4 bits, as columns of `generic` and as one block of four columns.

>>> w = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12]], np.uint8)
>>> [[hex(b) for b in column] for column in Columns(4, 0).pack(w)]
[['0x41', '0xa7'], ['0x52', '0xb8'], ['0x63', '0xc9']]
>>> [hex(b) for b in Blocks(4, 4, 4, 0).pack(w)]
['0x41', '0x52', '0x63', '0x0', '0xa7', '0xb8', '0xc9', '0x0']
"""

from __future__ import annotations

import math
from collections.abc import Container

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.dims import bound
from mccompile.ir.errors import InternalError
from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Call
from mccompile.ir.scalar import Array
from mccompile.ir.types import F32
from mccompile.ir.views import View
from mccompile.kernels.matmul.packed import batched, pack_columns
from mccompile.kernels.model.parts import Turns, batches
from mccompile.kernels.model.tiled import Rows, Tiled
from mccompile.kernels.model.tiles import LONG, RUN, Segment, Tile, merge, segments
from mccompile.kernels.variant import Builder, Offer, Variant, computed, lines_broken, not_plain_f32
from mccompile.ops.matmul_quantised import MatMulQuantised
from mccompile.targets.target import Target

CONVERTED = 1.5
"""How much longer a product takes whose weights are converted, where memory is no limit (Zen 4, six rows)."""


def halved(matrix: Array, least: int) -> Array:
    """Rows of 4 bits two by two in one of bytes, the first in the lower halves; ``least`` is 0 there."""
    low = (matrix.astype(np.int16) - least).astype(np.uint8)
    if low.shape[0] % 2:
        low = np.concatenate([low, np.zeros_like(low[:1])])
    return low[0::2] | (low[1::2] << 4)


@dataclass(frozen=True)
class Columns:
    """Weights [K, N] as [N, K], or [N, K / 2] of ``bits`` 4."""

    bits: int
    least: int

    def pack(self, array: Array) -> Array:
        return np.ascontiguousarray((halved(array, self.least) if self.bits == 4 else array).T)


@dataclass(frozen=True)
class Blocks:
    """Weights, scales or zero points [rows, N] as `pack_columns` has them; two rows to one of ``bits`` 4."""

    width: int
    lanes: int
    bits: int = 8
    least: int = 0

    def pack(self, array: Array) -> Array:
        return pack_columns(halved(array, self.least) if self.bits == 4 else array, self.width, self.lanes)


@dataclass(frozen=True)
class QuantisedTile(Tile):
    """A tile of `matmul_quantised.packed`."""

    def pitch(self, size: int) -> int:
        """Columns of a packed row of ``size`` columns: whole vectors."""
        return -(-size // self.lanes) * self.lanes

    def parts(self, steps: int, block: int) -> tuple[Segment, ...]:
        """The blocks of a sum of ``steps``."""
        return segments(steps, min(block, steps))

    def cut(self, count: int, together: int) -> tuple[Segment, ...]:
        """The runs of a block of ``count`` steps; those with others behind them are so many times ``together``.

        >>> QuantisedTile(1, 2, 8).cut(2049, 2)
        (Segment(start=0, stop=2048, size=256), Segment(start=2048, stop=2049, size=1))
        """
        return segments(count, count if count <= LONG else RUN // together * together)


class MatMulQuantisedGeneric(Variant):
    """One result at a time."""

    ops = ("matmul_quantised",)
    kernel = "matmul_quantised.generic"
    may_share = False

    def takes(self, node: Node) -> bool:
        return True

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        return computed(node, constants, 1) or super().offer(node, target, constants)

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        a, *others, result = _operands(node, b)
        op = node.op
        assert isinstance(op, MatMulQuantised)
        w = node.operands[1]
        assert w is not None
        row = b.scratch(a.shape[-1], F32) if op.rounds else None
        b.call(self.kernel, [a, b.packed(w, Columns(op.bits, op.least)), *others], [result], scratch=row)


class MatMulQuantisedPacked(Tiled):
    """Tiles of rows by vectors of columns; a vector of weights is converted once for all rows."""

    ops = ("matmul_quantised",)
    kernel = "matmul_quantised.packed"
    params = QuantisedTile
    may_share = False

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        given = [i for i, v in enumerate(node.operands) if i and v is not None]
        if reason := computed(node, constants, *given) or not_plain_f32(node, target, operands=1):
            return reason
        assert isinstance(node.op, MatMulQuantised)
        if node.op.rounds:
            return "the operand is to be rounded"
        return self.offer_of(node, target)

    def cycles(self, node: Node, tiles: float, target: Target) -> float:
        return CONVERTED * tiles

    def extents(self, node: Node) -> tuple[int, int, int]:
        *rows, columns = node.results[0].shape
        a = node.operands[0]
        assert a is not None
        return bound(math.prod(rows)), columns, a.shape[-1]

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        op, chosen = node.op, offer.params
        assert isinstance(op, MatMulQuantised)
        assert isinstance(chosen, Rows)
        a, result = node.operands[0], b.result(0)
        assert a is not None
        left = batched(b.read(a), result)
        extras = [b.read(v).broadcast(result.shape) for v in node.extras]
        views = merge([left, result, *extras], range(result.rank - 1))
        if isinstance(views, str):
            raise InternalError(views)
        left, result, *extras = views
        tile = chosen.tile
        tile = QuantisedTile(tile.rows, tile.vectors, tile.lanes)
        whole, parts = Blocks(tile.width, tile.lanes, op.bits, op.least), Blocks(tile.width, tile.lanes)
        packed = [
            b.packed(v, whole if i == 0 else parts) for i, v in enumerate(node.operands[1:]) if v is not None
        ]
        reads: list[View | None] = [left, *packed]
        b.call(self.kernel, reads, [result], params=tile, extras=extras)

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        p, y = call.params, call.results[0]
        assert isinstance(p, QuantisedTile)
        columns, rows = Turns.tiles("n", p.tiles_n(y.shape[-1])), Turns.tiles("m", p.tiles_m(y.shape[-2]))
        return [*batches(y), columns, rows]

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        return lines_broken(before, after, reads=False)


def _operands(node: Node, b: Builder) -> list[View]:
    """a, batched, then scale and zero as they are, then the result."""
    a, _, *parameters = node.operands
    assert a is not None
    result = b.result(0)
    return [batched(b.read(a), result), *(b.read(v) for v in parameters if v is not None), result]


VARIANTS = (MatMulQuantisedGeneric(), MatMulQuantisedPacked())
