"""The family of `attention`: scores of a few queries at a time, never all of them."""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import replace

from mccompile._dataclass import dataclass
from mccompile.ir.dims import bound, varies
from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Call
from mccompile.ir.types import BOOL, F32
from mccompile.ir.views import View
from mccompile.kernels.matmul.packed import batched, swapped
from mccompile.kernels.matmul.variable import VariableTile, packing_cycles, panel_floats, read_in_place
from mccompile.kernels.model.lanes import no_vectors
from mccompile.kernels.model.parts import Turns, batches
from mccompile.kernels.model.tiles import (
    LONG,
    MAX_ROWS,
    MAX_VECTORS,
    Segment,
    Tile,
    fits,
    packed_columns,
    segments,
    tile_cycles,
)
from mccompile.kernels.variant import (
    Builder,
    Offer,
    Variant,
    lines_broken,
    not_plain_f32,
    scalar_estimate,
    scattered,
    sums_backwards,
    vectors_apart,
)
from mccompile.ops.attention import FIRST_MASK, Attention
from mccompile.targets.target import Target

EXP_CYCLES = 25
"""An exponential of libm, and what goes with it for a score."""
VECTOR_CYCLES = 24
"""The same for a vector of scores."""
NEAR_QUERIES = 4
"""Queries for which keys are read where they lie: packing them takes longer than so many sums along vectors."""


@dataclass(frozen=True)
class AttentionTile(Tile):
    """Tiles of queries by vectors of a value's length; their scores are tiles of as many queries by
    ``score_vectors`` vectors of keys, which are packed. ``direct``: the values are read where they lie; ``near``: so
    are the keys, by sums along vectors; ``early``: values are asked for while keys are read.
    """

    score_vectors: int
    direct: bool
    near: bool = False
    early: bool = False

    @property
    def scores(self) -> VariableTile:
        return VariableTile(self.rows, self.score_vectors, self.lanes, False)

    @property
    def values(self) -> VariableTile:
        return VariableTile(self.rows, self.vectors, self.lanes, self.direct)

    def sharing(self, queries: int, pairs: bool) -> list[range]:
        """The queries of a tile that share a turn: with ``pairs`` of five, range(0, 4, 2) and range(4, 5)."""
        even = queries // 2 * 2 if pairs else 0
        return [r for r in (range(0, even, 2), range(even, queries)) if r]

    def together(self, queries: int, pairs: bool) -> list[int]:
        """How many queries share a turn in some tile, the most first."""
        steps = {turns.step for d in self.tiles_m(queries) for turns in self.sharing(d.size, pairs)}
        return sorted(steps, reverse=True)

    def row(self, keys: int) -> int:
        """Floats of a row of scores: an odd number of vectors, so that rows do not meet in one set of a cache."""
        return (-(-bound(keys) // self.lanes) | 1) * self.lanes

    def panels(self, keys: int, length: int, width: int) -> tuple[int, int]:
        """Floats of the packed keys, and of the packed values."""
        values = 0 if self.direct else panel_floats(keys, width, self.lanes)
        return 0 if self.near else panel_floats(length, keys, self.lanes), values

    def scratch(self, keys: int, length: int, width: int) -> int:
        """Floats of scratch memory: panels, scores, and a sum for each query of a tile."""
        return sum(self.panels(keys, length, width)) + self.rows * (self.row(keys) + 1)


def extents(node: Node) -> tuple[int, int, int, int]:
    """Batches, keys, the length of a key and that of a value."""
    op = node.op
    assert isinstance(op, Attention)
    _, k, _ = node.operands[:FIRST_MASK]
    assert k is not None
    length, keys = k.shape[-2:][:: -1 if op.trans_k else 1]
    shape = node.result.shape
    return math.prod(shape[:-2]), keys, length, shape[-1]


def operand_views(node: Node, b: Builder) -> list[View]:
    """Queries, keys, values and masks with their leading axes broadcast to those of the result."""
    result = b.result(0)
    _, keys, _, _ = extents(node)
    operands = [b.read(v) for v in node.operands if v is not None]
    masks = [m.broadcast((*result.shape[:-1], keys)) for m in operands[FIRST_MASK:]]
    return [*(batched(v, result) for v in operands[:FIRST_MASK]), *masks]


class AttentionGeneric(Variant):
    ops = ("attention",)
    kernel = "attention.generic"
    rereads = (1, 2)
    may_share = False

    def takes(self, node: Node) -> bool:
        return True

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        batches, keys, _, _ = extents(node)
        exponentials = float(batches * node.result.shape[-2] * keys * EXP_CYCLES)
        return Offer(self.label, scalar_estimate(node) + exponentials)

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        _, keys, _, _ = extents(node)
        (q, *_) = node.operand_types()
        assert q is not None
        scratch = b.scratch(bound(keys), q.dtype.compute)  # the epilogue may make bools of what is summed
        b.call(self.kernel, list(operand_views(node, b)), [b.result(0)], scratch=scratch)

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        op = after.op
        assert isinstance(op, Attention)
        summed = (-2 if op.trans_q else -1, -1 if op.trans_k else -2, -1 if op.trans_v else -2)
        for x, axis in zip(after.reads[:FIRST_MASK], summed, strict=True):
            if x is not None and (reason := sums_backwards(x, [axis])):
                return reason
        return super().refuses(before, after, target)


class AttentionVector(Variant):
    """A few queries at a time: their scores by a register tile, exponentials in vectors, values by another tile."""

    ops = ("attention",)
    kernel = "attention.vector"
    params = AttentionTile
    may_share = False

    def takes(self, node: Node) -> bool:
        _, _, length, width = extents(node)
        return not varies([length, width])

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        if reason := not_plain_f32(node, target, operands=FIRST_MASK):
            return reason
        assert isinstance(node.op, Attention)
        if any(v is not None and v.dtype not in (F32, BOOL) for v in node.operands):
            return "a mask is neither f32 nor bool"
        if reason := next(filter(None, map(no_vectors, node.op.bodies)), ""):
            return reason
        return Offer(self.label, *self._best(node, target))

    @staticmethod
    def _best(node: Node, target: Target) -> tuple[float, AttentionTile]:
        """Cycles and the tile where they are least, as if the values had to be packed."""
        op, lanes = node.op, target.lanes
        assert isinstance(op, Attention)
        batches, keys, length, width = extents(node)
        queries = node.result.shape[-2]
        found = []
        least = bound(queries) if not op.band and _few(queries, length, target) else 1  # each key is read once
        for rows in (r for r in range(least, min(queries, MAX_ROWS) + 1) if fits(r, 1, target)):
            down = segments(queries, rows)
            parts = [_along(rows, down, keys, length, target), _along(rows, down, width, keys, target)]
            found.append((parts[0][0] + parts[1][0], -rows, parts[0][1], parts[1][1]))
        cycles, rows, *vectors = min(found)
        if op.band or not (op.trans_k and _few(queries, length, target)):
            cycles += packing_cycles(length * keys, not op.trans_k)
        cycles += packing_cycles(keys * width, not op.trans_v)
        cycles += queries * -(-keys // lanes) * VECTOR_CYCLES
        return batches * cycles, AttentionTile(-rows, vectors[1], lanes, vectors[0], direct=False)

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        op, tile = node.op, offer.params
        assert isinstance(op, Attention)
        assert isinstance(tile, AttentionTile)
        _, keys, length, width = extents(node)
        result = b.result(0)
        q, k, v, *masks = operand_views(node, b)
        flags = (op.trans_q, op.trans_k, op.trans_v)
        q, k, v = (swapped(x) if flag else x for x, flag in zip((q, k, v), flags, strict=True))
        extras = [b.read(e).broadcast(result.shape) for e in node.extras]
        direct = read_in_place(v, -(-bound(q.shape[-2]) // tile.rows), b.target)
        near = not op.band and _few(q.shape[-2], length, b.target) and _side_by_side(q, k)
        early = near and direct and bound(keys) * width * F32.nbytes <= b.target.machine.l2 // 2
        tile = replace(tile, direct=direct, near=near, early=early)
        scratch = b.scratch(tile.scratch(keys, length, width), F32)
        b.call(self.kernel, [q, k, v, *masks], [result], params=tile, extras=extras, scratch=scratch)

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        p, y = call.params, call.results[0]
        assert isinstance(p, AttentionTile)
        return [*batches(y), Turns.tiles("m", p.tiles_m(y.shape[-2]))]

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        tile = after.params
        assert isinstance(tile, AttentionTile)
        if tile.direct and (reason := vectors_apart(after, FIRST_MASK - 1)):
            return reason
        q, k = after.reads[:2]
        assert q is not None
        assert k is not None
        if tile.near and not _side_by_side(q, k):
            return f"{self.kernel} reads the elements of a query and of a key as they lie"
        pairs = zip(before.reads[FIRST_MASK:], after.reads[FIRST_MASK:], strict=True)
        if any(a is not None and b is not None and scattered(a, b) for a, b in pairs):
            return f"{self.kernel} wants neighbours in a row of a mask to be neighbours in memory"
        return lines_broken(before, after, reads=False)


def _few(queries: int, length: int, target: Target) -> bool:
    """Whether there are so few queries that keys are read where they lie, if their elements are neighbours."""
    return bound(queries) <= NEAR_QUERIES and length <= LONG and target.lanes > 1


def _side_by_side(q: View, k: View) -> bool:
    """Whether the elements of each row of ``q`` are neighbours, and those of each column of ``k``."""
    return q.linear and k.linear and q.axis_strides()[-1] == k.axis_strides()[-2] == 1


def _along(rows: int, down: tuple[Segment, ...], width: int, steps: int, target: Target) -> tuple[float, int]:
    """Cycles of the tiles of ``width`` columns that are cheapest, and their vectors."""
    lanes = target.lanes
    found = []
    for vectors in range(1, min(-(-width // lanes), MAX_VECTORS) + 1):
        if fits(rows, vectors, target):
            columns = packed_columns(width, vectors * lanes, lanes)
            found.append((tile_cycles(down, columns, steps, target.machine), vectors))
    return min(found)


VARIANTS = (AttentionGeneric(), AttentionVector())
