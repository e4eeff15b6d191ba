"""The family of `conv` on channels-last results: vectors over output channels, tiles of pixels (`pixel_tiles`).

Worked example: of 4 filters of 3 taps by vectors of 2 lanes, the weights of a tap for two filters lie side by side.

>>> weights = np.arange(12, dtype=np.float32).reshape(4, 1, 3)  # [M, C, kernel]: 0 1 2 are the taps of result 0
>>> PackedTaps(width=2, lanes=2).pack(weights).astype(int).tolist()
[0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11]
"""

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
from mccompile.ir.types import row_major
from mccompile.ir.views import View
from mccompile.kernels.conv.far_channels import far_reads, read_far
from mccompile.kernels.conv.pixel_tiles import PixelTile, best_pixel_tile
from mccompile.kernels.matmul.packed import (
    BYTES_OF_SUM,
    in_chunks,
    pack_columns,
    rows_and_columns,
    rows_covered,
    rows_distance,
    rows_narrowed,
    rows_staged,
)
from mccompile.kernels.model.parts import Turns, axes, by_weights
from mccompile.kernels.model.prefetch import prefetching
from mccompile.kernels.model.tiled import Rows, Tiled
from mccompile.kernels.model.tiles import (
    PackedTile,
    merge,
    narrow,
)
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
)
from mccompile.kernels.views.channels import is_channels_last, last
from mccompile.kernels.views.planes import pair, plane_last
from mccompile.kernels.views.windows import tiles_distance
from mccompile.ops.conv import Conv
from mccompile.ops.conv_transpose import ConvTranspose
from mccompile.targets.target import Target

TURN = 0.95
"""What part of the cycles it may take where pixels run along the first axis, before they do."""


@dataclass(frozen=True)
class PackedTaps:
    """Weights [M, C, kernel...] as the columns of a matrix for each group, one row for each tap and channel.

    [groups][M / groups / width][kernel...][C][width]; the last block is as wide as the rest needs. ``turned``
    exchanges the two spatial axes.
    """

    width: int
    lanes: int
    groups: int = 1
    turned: bool = False

    def pack(self, array: Array) -> Array:
        if self.turned:
            array = array.swapaxes(2, 3)
        own = array.shape[0] // self.groups
        taps = np.moveaxis(array.reshape(self.groups, own, *array.shape[1:]), (1, 2), (-1, -2))
        parts = [pack_columns(part.reshape(-1, own), self.width, narrow(self.lanes)) for part in taps]
        return np.concatenate(parts)


def _vectorizable(node: Node, target: Target) -> str:
    """Why a convolution has no vectors over channels at all; empty if it may have them."""
    x, _ = operand_pair(node)
    if reason := not_plain_f32(node, target, weights=1):
        return reason
    if not is_channels_last(node.results[0]):
        return "the result is not channels-last"
    if not x.type.linear:
        return "the operand's layout is blocked"
    return ""


class ConvRows(Tiled):
    """1x1 at any stride: rows of channels, one for each pixel, times a matrix; only elements of the operand are
    broadcast, so it may lie in any order."""

    ops = ("conv",)
    kernel = "matmul.packed"
    params = PackedTile
    may_share = False

    def takes(self, node: Node) -> bool:
        return not varies([operand_pair(node)[0].shape[1]])

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        op = node.op
        assert isinstance(op, Conv)
        if reason := computed(node, constants, 1):
            return reason
        if op.groups != 1 or any(k != 1 for k in operand_pair(node)[1].shape[2:]):
            return "it is not 1x1 in one group"
        if reason := "it has padding" if any(op.pads) else _vectorizable(node, target):
            return reason
        return self.offer_of(node, target)

    def cycles(self, node: Node, tiles: float, target: Target) -> float:
        op = node.op
        assert isinstance(op, Conv)
        n, _, *spatial = node.results[0].shape
        merged = all(s == 1 for s in op.strides)
        return (tiles if merged else tiles * n * math.prod(spatial[:-1])) + far_reads(node, target)

    def extents(self, node: Node) -> tuple[int, int, int]:
        op = node.op
        assert isinstance(op, Conv)
        n, channels, *spatial = node.results[0].shape
        rows = n * math.prod(spatial) if all(s == 1 for s in op.strides) else spatial[-1]
        return rows, channels, operand_pair(node)[1].shape[1]

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        op, chosen = node.op, offer.params
        assert isinstance(op, Conv)
        assert isinstance(chosen, Rows)
        x, w = operand_pair(node)
        result = b.result(0)
        extras = [last(b.read(v).broadcast(result.shape)) for v in node.extras]
        source = last(_strided(b.read(x), op.strides, result.shape[2:]))
        views = merge([source, last(result), *extras], range(result.rank - 1))
        if isinstance(views, str):
            raise InternalError(views)
        source, result, *extras = views
        tile = chosen.tile_for(result.shape[-2], result.shape[-1], w.shape[1], b.target)
        packed = b.packed(w, PackedTaps(tile.width, tile.lanes))
        chunks = in_chunks(tile, source, b.target)
        views = [source, packed, result, *extras]
        params = prefetching(chunks, w.type.count, w.shape[1], views, b.target.machine)
        b.call(self.kernel, [source, packed], [result], params=params, extras=extras)

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
        return read_far(before, after, target) or lines_broken(before, after, reads=False)


def _strided(view: View, strides: tuple[int, ...], extents: tuple[int, ...]) -> View:
    """Every ``strides``-th pixel of a view, ``extents`` of them."""
    steps = (1, 1, *strides)
    moved = tuple(s * t for s, t in zip(view.axis_strides(), steps, strict=True))
    return View(view.buffer, (*view.shape[:2], *extents), row_major(view.rank), moved, view.offset)


class ConvChannels(Variant):
    """Any window over up to three axes. Taps in the padding are left out, so that no halo is needed; only elements of
    the operand are broadcast, so it may lie in any order."""

    ops = ("conv",)
    kernel = "conv.channels"
    params = PixelTile
    may_share = False
    pads_of_run = True

    def takes(self, node: Node) -> bool:
        op, x, result = node.op, operand_pair(node)[0], node.results[0]
        assert isinstance(op, Conv)
        fixed = (1, 2) if len(x.shape) == 5 else (1,)  # channels, and planes
        of_planes = op.pads[:1] if len(x.shape) == 5 else ()
        return not varies([*of_planes, *(v.shape[a] for v in (x, result) for a in fixed)])

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        if reason := computed(node, constants, 1):
            return reason
        if len(node.results[0].shape) not in (3, 4, 5):
            return "it has more than three spatial axes"
        if reason := _vectorizable(node, target):
            return reason
        cycles, chosen = _choose(node, target)
        return Offer(self.label, cycles + far_reads(node, target), chosen)

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        op, chosen = node.op, offer.params
        assert isinstance(op, Conv)
        assert isinstance(chosen, _Chosen)
        turned = chosen.turned
        pads = pair(op.pads[: len(op.strides)], 0)
        tile = replace(chosen.tile, pads=pads[::-1] if turned else pads)  # it was planned for the largest
        x, w = operand_pair(node)
        result = b.result(0)
        extras = [plane_last(b.read(v).broadcast(result.shape)) for v in node.extras]
        packed = b.packed(w, PackedTaps(tile.width, tile.lanes, op.groups, turned))
        views = [plane_last(b.read(x)), plane_last(result), *extras]
        source, result, *extras = (v.along((0, 2, 1, 3)) for v in views) if turned else views
        views = [source, packed, result, *extras]
        params = prefetching(tile, w.type.count, math.prod(w.shape[1:]), views, b.target.machine)
        b.call(self.kernel, [source, packed], [result], params=params, extras=extras)

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        return lines_and_channels(call, target)

    def narrowed(self, call: Call, pixels: int) -> Call | None:
        p = call.params
        assert isinstance(p, PixelTile)
        return replace(call, params=replace(p, rows=pixels)) if p.by_pixels and p.rows > pixels else None

    def near(self, call: Call) -> int | None:
        p, x, y = call.params, call.reads[0], call.results[0]
        assert isinstance(p, PixelTile)
        assert x is not None
        if not p.by_pixels or y.rank != 4:
            return None
        n, height, width, channels = y.shape
        op = call.op
        assert isinstance(op, Conv)
        pixels = [(o, o + s.size - 1) for s in p.strips(width, x.shape[2]) for o in range(s.start, s.stop, s.size)]
        own = channels // op.groups
        blocks = [o + s.size - 1 for s in p.tiles_n(own) for o in range(s.start, s.stop, s.size)]
        ends = np.add.outer(np.arange(0, channels, own), np.array(blocks)).reshape(-1)
        lowest = np.repeat(np.arange(op.groups) * (x.shape[3] // op.groups), len(blocks))
        batch, line = np.arange(n)[:, None, None, None], np.arange(height)[:, None, None]
        along = np.array(pixels)[:, :, None]
        top = np.clip(line * p.strides[0] - p.pads[0], 0, x.shape[1] - 1)
        left = np.clip(along[:, 0] * p.strides[1] - p.pads[1], 0, x.shape[2] - 1)
        return tiles_distance(call, [batch, top, left, lowest], [batch, line, along[:, 1], ends])

    def compact(self, call: Call, alone: bool, target: Target) -> Compact | None:
        """Without tiles of fewer pixels inside of lines, where whole ones can compute some pixels again."""
        p, op, (x, w), y = call.params, call.op, call.reads, call.results[0]
        assert isinstance(p, PixelTile)
        assert isinstance(op, Conv | ConvTranspose)
        assert x is not None
        assert w is not None
        if not alone or p.by_pixels or varies([*x.shape, *y.shape, *p.pads]):
            return None
        covering, line = replace(p, covers=True), (y.shape[-2], x.shape[-2])
        (*_, rest), (*_, last_one) = p.strips(*line), covering.strips(*line)
        if rest == last_one:
            return None
        vectors = sum(-(-s.size // p.lanes) for s in p.tiles_n(y.shape[-1] // op.groups))
        more = (last_one.size - rest.size) * math.prod(y.shape[:-2])
        macs = more * bound(w.buffer.type.count)
        return Compact(replace(call, params=covering), rest.size * vectors * BYTES_OF_SUM, macs)

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        return read_far(before, after, target) or lines_broken(before, after, reads=False)


def lines_and_channels(call: Call, target: Target) -> list[Turns]:
    """The loops over lines of results and over their pixels, and those over groups and channels; these first where
    weights are more than what they are applied to."""
    p, op, y = call.params, call.op, call.results[0]
    x = call.reads[0]
    assert isinstance(p, PixelTile)
    assert isinstance(op, Conv)
    assert x is not None
    names = ["b", "od", "oh"] if y.rank == 5 else ["b", "oh"]
    rows = [*axes(y, names), Turns.tiles("ow", p.strips(y.shape[-2], x.shape[-2]))]
    columns = [Turns.each("g", op.groups), Turns.tiles("n", p.tiles_n(y.shape[-1] // op.groups))]
    return [*columns, *rows] if by_weights(call, target) else [*rows, *columns]


@dataclass(frozen=True)
class _Chosen:
    """``turned``: the pixels of the tile run along the first of two spatial axes."""

    tile: PixelTile
    turned: bool


def _choose(node: Node, target: Target) -> tuple[float, _Chosen]:
    """The cheapest tile of a node, and its cycles."""
    op = node.op
    assert isinstance(op, Conv)
    shapes = [v.shape for v in (*operand_pair(node), node.results[0])]
    cycles, tile = best_pixel_tile(op, shapes[0], shapes[1], shapes[2], target)
    if len(shapes[0]) == 4:
        x, w, y = ((*s[:2], *s[:1:-1]) for s in shapes)
        other = Conv(op.strides[::-1], (*op.pads[1::-1], *op.pads[:1:-1]), op.dilations[::-1], op.groups)
        down, tall = best_pixel_tile(other, x, w, y, target)
        if down < TURN * cycles:
            return down, _Chosen(tall, turned=True)
    return cycles, _Chosen(tile, turned=False)


VARIANTS = (ConvRows(), ConvChannels())
