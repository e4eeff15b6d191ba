"""The family of `matmul`: operands with their leading axes broadcast to those of the result."""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import replace

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.dims import bound, varies
from mccompile.ir.errors import InternalError
from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Call
from mccompile.ir.scalar import Array
from mccompile.ir.types import F32
from mccompile.ir.views import View
from mccompile.kernels.model.parts import Turns, axes, batches, by_weights
from mccompile.kernels.model.prefetch import prefetching
from mccompile.kernels.model.tiled import Rows, Tiled
from mccompile.kernels.model.tiles import PackedTile, Segment, Tile, merge, narrow
from mccompile.kernels.variant import (
    Builder,
    Compact,
    Offer,
    Staged,
    Variant,
    computed,
    lines_broken,
    not_plain_f32,
    operand_pair,
    sums_backwards,
)
from mccompile.kernels.views.windows import tiles_distance
from mccompile.ops.matmul import MatMul
from mccompile.targets.target import Target

BEHIND = 2
"""Times the second cache that a chunk of rows may take which come from behind it (Zen 3: 196 rows of 768 by 3072
columns took 0.87 of the time with 2 or 8, others 0.94 to 1.03 with 2, 0.96 to 1.04 with 8)."""


class MatMulGeneric(Variant):
    ops = ("matmul",)
    kernel = "matmul.generic"
    rereads = (0, 1)

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        a, w = operand_pair(node)
        result = b.result(0)
        b.call(self.kernel, [batched(b.read(a), result), batched(b.read(w), result)], [result])

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        y = call.results[0]
        return axes(y, [*(f"b{a}" for a in range(y.rank - 2)), "m", "n"])

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        op = after.op
        assert isinstance(op, MatMul)
        for x, axis in zip(after.reads, (-2 if op.trans_a else -1, -1 if op.trans_b else -2), strict=True):
            if x is not None and (reason := sums_backwards(x, [axis])):
                return reason
        return super().refuses(before, after, target)


def batched(view: View, result: View) -> View:
    """A matrix operand with its leading axes broadcast to those of the result."""
    return view.broadcast((*result.shape[:-2], *view.shape[-2:]))


@dataclass(frozen=True)
class PackedColumns:
    """A matrix [K, N] (``transposed``: [N, K]) as blocks of columns, [N/width][K][width], one after the other.

    The last block is as wide as the rest of the columns needs, in vectors of ``lanes``, with zeros behind column N.
    """

    width: int
    transposed: bool
    lanes: int

    def pack(self, array: Array) -> Array:
        matrix = array.reshape(array.shape[-2:])
        return pack_columns(matrix.T if self.transposed else matrix, self.width, narrow(self.lanes))


def pack_columns(matrix: Array, width: int, step: int) -> Array:
    """The flat blocks of columns of a matrix [K, N]; the last is filled up to a multiple of ``step``.

    >>> [pack_columns(np.ones((1, 20)), 32, step).size for step in (narrow(16), 16)]
    [24, 32]
    """
    k, n = matrix.shape
    columns = [(start, min(width, n - start)) for start in range(0, n, width)]
    out = np.zeros(k * sum(-(-count // step) * step for _, count in columns), dtype=matrix.dtype)
    at = 0
    for start, count in columns:
        block = out[at : at + k * (-(-count // step) * step)].reshape(k, -1)
        block[:, :count] = matrix[:, start : start + count]
        at += block.size
    return out


BYTES_OF_SUM = 45
"""Of machine code, for each vector of sums of a tile: counted on MobileNetV1 (aarch64)."""


class MatMulPacked(Tiled):
    """Tiles of rows by vectors of columns; the constant second operand is packed by blocks of columns."""

    ops = ("matmul",)
    kernel = "matmul.packed"
    params = PackedTile
    may_share = False

    def takes(self, node: Node) -> bool:
        return True

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        _, w = operand_pair(node)
        if reason := computed(node, constants, 1) or not_plain_f32(node, target, weights=1):
            return reason
        if math.prod(w.shape[:-2]) != 1:
            return "there are several second operands"
        return self.offer_of(node, target)

    def extents(self, node: Node) -> tuple[int, int, int]:
        op, (a, _) = node.op, operand_pair(node)
        assert isinstance(op, MatMul)
        shape = node.results[0].shape
        return math.prod(shape[:-1]), shape[-1], a.shape[-2 if op.trans_a else -1]

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        op, chosen = node.op, offer.params
        a, w = operand_pair(node)
        assert isinstance(op, MatMul)
        assert isinstance(chosen, Rows)
        tile, result = chosen.tile, b.result(0)
        left = batched(b.read(a), result)
        if op.trans_a:
            left = swapped(left)
        extras = [b.read(v).broadcast(result.shape) for v in node.extras]
        views = merge([left, result, *extras], range(result.rank - 1))
        if isinstance(views, str):
            raise InternalError(views)
        left, result, *extras = views
        packed = b.packed(w, PackedColumns(tile.width, op.trans_b, tile.lanes))
        chunks = in_depth(in_chunks(tile, left, b.target), left, result.shape[-1], b.target)
        scratch = b.scratch(chunks.chunk * tile.width, F32) if chunks.depth else None
        steps, views = left.shape[-1], [left, packed, result, *extras]
        params = prefetching(chunks, steps * result.shape[-1], steps, views, b.target.machine)
        b.call(self.kernel, [left, packed], [result], params=params, extras=extras, scratch=scratch)

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        return rows_and_columns(call, target)

    def near(self, call: Call) -> int | None:
        return rows_distance(call)

    def staged(self, call: Call) -> Staged | None:
        return rows_staged(call)

    def narrowed(self, call: Call, pixels: int) -> Call | None:
        return rows_narrowed(call, pixels)

    def compact(self, call: Call, alone: bool, target: Target) -> Compact | None:
        return rows_covered(call) if alone else None

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        return lines_broken(before, after, reads=False)


def rows_and_columns(call: Call, target: Target) -> list[Turns]:
    """The loops over rows and over columns; see `by_weights`. Rows that are kept aside are read by all columns."""
    p, x, y = call.params, call.reads[0], call.results[0]
    assert isinstance(p, PackedTile)
    assert x is not None
    if p.staged:
        return []
    m, columns = y.rank - 2, Turns.tiles("n", p.tiles_n(y.shape[-1]))
    rows = Turns.tiles("m", p.tiles_m(y.shape[m]))
    if p.axis == m:
        rows = Turns("m", tuple(p.starts_m(y.shape[m])), y.shape[m])
    lead = [*batches(y), rows]
    return [columns, *lead] if by_weights(call, target) else [*lead, columns]


def rows_distance(call: Call) -> int | None:
    """How far behind result 0 [..., M, N] operand 0 may begin, where all columns of a tile of rows come before the
    next rows and vectors are of one lane: wide ones would lose by what compilers may not assume of it."""
    p, x, y = call.params, call.reads[0], call.results[0]
    assert isinstance(p, PackedTile)
    assert x is not None
    if p.lanes > 1 or p.depth or p.staged or p.axis != x.rank - 2 or p.chunk > p.rows:
        return None
    lead = np.meshgrid(*map(np.arange, y.shape[:-2]), indexing="ij", sparse=True)
    outer = [a[..., None, None] for a in lead]
    rows = [(o, o + s.size - 1) for s in p.chunks_m(y.shape[-2]) for o in range(s.start, s.stop, s.size)]
    columns = [o + s.size - 1 for s in p.tiles_n(y.shape[-1]) for o in range(s.start, s.stop, s.size)]
    ends = np.array(rows)[:, :, None]
    return tiles_distance(call, [*outer, ends[:, 0], np.array(0)], [*outer, ends[:, 1], np.array(columns)])


def rows_staged(call: Call) -> Staged | None:
    """Tiles of rows kept aside, of a product whose results lie as its operand does; see `rows_distance`."""
    p, x, y = call.params, call.reads[0], call.results[0]
    assert isinstance(p, PackedTile)
    assert x is not None
    if p.lanes > 1 or p.depth or p.axis != x.rank - 2 or p.chunk > p.rows or not x.same_elements(y):
        return None
    return Staged(replace(p, staged=True), p.rows * x.shape[-1])


def rows_narrowed(call: Call, rows: int) -> Call | None:
    """With tiles of fewer rows; see `rows_distance` and `rows_staged`."""
    p = call.params
    assert isinstance(p, PackedTile)
    if p.rows <= rows or (not p.staged and rows_distance(call) is None):
        return None
    return replace(call, params=replace(p, rows=rows, chunk=rows))


def rows_covered(call: Call) -> Compact | None:
    """The call without tiles of fewer rows, where a last whole one can compute some rows again: 14 rows by tiles of 5
    are 15."""
    p, x, y = call.params, call.reads[0], call.results[0]
    assert isinstance(p, PackedTile)
    assert x is not None
    if p.depth or p.staged or varies([*x.shape, *y.shape]):
        return None
    covering = replace(p, covers=True)
    before, after = _tiles_of_rows(p, y), _tiles_of_rows(covering, y)
    lost = {s.size for _, s in before} - {s.size for _, s in after}
    more = sum(n * (s.stop - s.start) for n, s in after) - math.prod(y.shape[:-1])
    vectors = sum(-(-s.size // p.lanes) for s in p.tiles_n(y.shape[-1]))
    macs = more * y.shape[-1] * x.shape[-1]
    return Compact(replace(call, params=covering), sum(lost) * vectors * BYTES_OF_SUM, macs) if lost else None


def _tiles_of_rows(p: PackedTile, y: View) -> list[tuple[int, Segment]]:
    """The tiles of rows of a result, and how often each stretch of them is walked."""
    lead, rows = math.prod(y.shape[:-2]), y.shape[-2]
    if p.axis < y.rank - 2:
        return [(lead, s) for s in p.tiles_m(rows)]
    return [(lead * ((c.stop - c.start) // c.size), s) for c in p.chunks_m(rows) for s in p.tiles_m(c.size)]


def in_chunks(tile: Tile, left: View, target: Target) -> PackedTile:
    """The tile with chunks of rows of the operand [..., M, K] that fit a quarter of the second cache.

    Where all rows fit half of it, weights are read once instead. Where tiles have few rows, their weights stay in it
    from tile to tile, and rows come from behind it, once for each tile of columns (`_holds_weights`).
    """
    *shape, steps = map(bound, left.shape)
    row_bytes = steps * left.dtype.nbytes
    axis, inner = 0, math.prod(shape[1:])
    l2 = target.machine.l2
    room = l2 // 2 if shape[0] * inner * row_bytes <= l2 // 2 else l2 // 4
    if _holds_weights(tile, steps, target):
        room = BEHIND * l2
    while axis < left.rank - 2 and inner * row_bytes > room:
        axis += 1
        inner //= shape[axis]
    chunk = max(room // (inner * row_bytes), 1)
    if axis == left.rank - 2:
        chunk = max(chunk // tile.rows, 1) * tile.rows
    return PackedTile(tile.rows, tile.vectors, tile.lanes, axis, min(chunk, shape[axis]))


def _holds_weights(tile: Tile, steps: int, target: Target) -> bool:
    """Whether half of the second cache holds the weights of a tile's columns, which its few rows use up faster than
    the third one gives them at ease: 4 rows of AVX2 take 16 bytes a cycle."""
    m = target.machine
    rate = F32.nbytes * m.multiply_adds / tile.rows
    return steps * tile.width * F32.nbytes <= m.l2 // 2 and rate > m.l3_rate / 2


def in_depth(tile: PackedTile, left: View, columns: int, target: Target) -> PackedTile:
    """The tile with its reduction in blocks, where that takes less from behind the second cache.

    In chunks of rows all weights are read for each chunk; in blocks of the reduction, of which the columns of a tile
    take an eighth of the second cache, all of the left operand is read for each tile of columns.
    """
    rows, steps = map(bound, left.shape[-2:])
    l2 = target.machine.l2
    if l2 == 0 or tile.axis != left.rank - 2 or math.prod(left.shape[:-2]) != 1:
        return tile
    blocks = -(-steps * tile.width * 4 // (l2 // 8))
    depth = -(-steps // blocks // 4) * 4
    taller = min(l2 // 2 // (4 * depth), l2 // 8 // (4 * tile.width), rows) // tile.rows * tile.rows
    chunk = rows if taller + tile.rows > rows else taller
    if blocks == 1 or chunk <= tile.chunk:
        return tile
    by_rows = -(-rows // tile.chunk) * columns
    by_depth = -(-rows // chunk) * columns + rows * -(-columns // tile.width)
    if 4 * by_depth > 3 * by_rows:
        return tile
    return replace(tile, chunk=chunk, depth=depth)


def swapped(view: View) -> View:
    """The view with its last two axes exchanged."""
    return view.along((*range(view.rank - 2), view.rank - 1, view.rank - 2))


VARIANTS = (MatMulGeneric(), MatMulPacked())
