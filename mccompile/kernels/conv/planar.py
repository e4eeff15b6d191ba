"""The family of `conv`: vectors over pixels, tiles of output channels, weights packed by tiles."""

from __future__ import annotations

import math
from collections.abc import Container, Hashable
from dataclasses import replace

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.dims import bound, span, varies
from mccompile.ir.errors import InternalError
from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Call
from mccompile.ir.scalar import Array
from mccompile.ir.types import F32
from mccompile.ir.views import View
from mccompile.kernels.model.parts import Turns, axes, by_weights
from mccompile.kernels.model.tiles import (
    MAX_ROWS,
    MAX_VECTORS,
    Segment,
    Tile,
    best_tile,
    columns,
    fits,
    merge,
    segments,
    tile_cycles,
)
from mccompile.kernels.variant import (
    Builder,
    Demand,
    Offer,
    Staged,
    Variant,
    computed,
    laid_out,
    lines_broken,
    not_plain_f32,
    operand_pair,
    scalar_estimate,
    sums_backwards,
)
from mccompile.kernels.views.planes import pair, plane
from mccompile.kernels.views.windows import Order, covered, distance
from mccompile.ops.conv import Conv
from mccompile.targets.target import Target

LOADS = {1: 1.5, 2: 4.0}
"""Loads that a vector of pixels costs, by stride: half of them cross a cache line, and stride 2 makes one of two.
Any other stride takes one for each lane."""


PROLOGUE = 8.0
"""Cycles that a product takes longer where its operands have prologues (bytes less their zero point, Cortex-M4)."""

SMALL = 1 << 16
"""Elements of results for which a plane may count."""


class ConvGeneric(Variant):
    ops = ("conv",)
    kernel = "conv.generic"
    params = Order
    rereads = (0,)

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        widened = PROLOGUE if node.pre else 0.0
        macs = node.op.macs(node.operand_types(), [r.type for r in node.results])
        return Offer(self.label, scalar_estimate(node) + widened * macs)

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        x, w = operand_pair(node)
        b.call(self.kernel, [b.read(x), b.read(w)], [b.result(0)], params=Order(by_extents=b.target.compact))

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        names, params = ["n", "m", *(f"o{a}" for a in range(call.results[0].rank - 2))], call.params
        assert isinstance(params, Order)
        return [t for t in axes(call.results[0], names) if t.name != "m" or not params.pixel_buffer]

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        op, (x, w) = after.op, after.reads[:2]
        assert isinstance(op, Conv)
        assert x is not None
        assert w is not None
        taps = [i for i, k in enumerate(w.shape[2:]) if k > 1]
        axes = [1, *(2 + i for i in taps)]
        backwards = sums_backwards(x, axes, [1, *(op.dilations[i] for i in taps)]) or sums_backwards(w, axes)
        return backwards or super().refuses(before, after, target)

    def shared(self, call: Call) -> Hashable:
        """Where each result channel is a group, convolutions differ in nothing but how many there are."""
        op, w = call.op, call.reads[1]
        assert isinstance(op, Conv)
        assert w is not None
        return replace(op, groups=0) if op.groups == w.shape[0] > 1 else op

    def staged(self, call: Call) -> Staged | None:
        """Pixel by pixel, of 1x1 convolutions."""
        op, params, (x, w), y = call.op, call.params, call.reads[:2], call.results[0]
        assert isinstance(op, Conv)
        assert isinstance(params, Order)
        if x is None or w is None or x.dtype != y.dtype or call.pre:
            return None
        pointwise = set(w.shape[2:]) <= {1} and set(op.strides) <= {1} and not any(op.pads) and op.groups == 1
        return Staged(replace(params, pixel_buffer=True), y.shape[1]) if pointwise and x.same_elements(y) else None

    def near(self, call: Call) -> int | None:
        op, w = call.op, call.reads[1]
        assert isinstance(op, Conv)
        assert isinstance(call.params, Order)
        assert w is not None
        own = w.shape[0] // op.groups
        whole = own == w.shape[0] and not call.params.channels_last
        if call.params.pixel_buffer or (whole and call.results[0].count > SMALL):
            return None  # the last channel still takes all of the operand: hardly more than its own plane is saved
        channels = np.arange(w.shape[0]) // own * w.shape[1]
        return distance(call, op.window(w.shape[2:]), channels, call.params.channels_last)


@dataclass(frozen=True)
class PackedChannels:
    """Weights [M, C, kernel...] as [groups][M / groups / rows][C][kernel...][rows], zeros behind the last channel."""

    rows: int
    groups: int = 1

    def pack(self, array: Array) -> Array:
        own = array.shape[0] // self.groups
        blocks = -(-own // self.rows)
        padded = np.zeros((self.groups, blocks * self.rows, *array.shape[1:]), dtype=array.dtype)
        padded[:, :own] = array.reshape(self.groups, own, *array.shape[1:])
        split = padded.reshape(self.groups, blocks, self.rows, *array.shape[1:])
        return np.moveaxis(split, 2, -1)


def _vectorizable(node: Node, target: Target) -> str:
    """Why a convolution has no vector form at all; empty if it may have one."""
    if reason := not_plain_f32(node, target, weights=1):
        return reason
    if laid_out(node):
        return "a layout is not row-major"
    return ""


@dataclass(frozen=True)
class PixelRun:
    """A tile that was chosen for ``pixels`` in a row."""

    tile: Tile
    pixels: int


@dataclass(frozen=True)
class PointTile(Tile):
    """``staged``: the pixels of a tile are copied before they are read, so that results may take their place, or
    where tiles have vectors, so that the first cache holds them for all channels."""

    staged: bool = False


class ConvPointwise(Variant):
    """1x1 at stride 1: a matrix product whose columns are the pixels; the spatial axes merge where they can."""

    ops = ("conv",)
    kernel = "conv.pointwise"
    params = PointTile
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
        if any(op.pads) or any(s != 1 for s in op.strides):
            return "it has padding or strides"
        if reason := _vectorizable(node, target):
            return reason
        n, channels, *spatial = map(bound, node.results[0].shape)
        pixels = math.prod(spatial)
        cycles, tile = best_tile(channels, pixels, operand_pair(node)[1].shape[1], target)
        return Offer(self.label, n * cycles, PixelRun(tile, pixels))

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        x, w = operand_pair(node)
        chosen = offer.params
        assert isinstance(chosen, PixelRun)
        result = b.result(0)
        extras = [b.read(v).broadcast(result.shape) for v in node.extras]
        views = merge([b.read(x), result, *extras], range(2, result.rank))
        if isinstance(views, str):
            raise InternalError(views)
        source, result, *extras = views
        tile = chosen.tile
        pixels = bound(result.shape[-1])
        if pixels != chosen.pixels:  # the axes of the views merge less than thought
            tile = best_tile(result.shape[1], pixels, w.shape[1], b.target)[1]
        packed = b.packed(w, PackedChannels(tile.rows))
        staged = _is_staged(tile, source, result, b.target)
        params = PointTile(tile.rows, tile.vectors, tile.lanes, staged)
        scratch = b.scratch(min(tile.width, pixels) * w.shape[1], F32) if staged else None
        b.call(self.kernel, [source, packed], [result], params=params, extras=extras, scratch=scratch)

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        p, y = call.params, call.results[0]
        assert isinstance(p, PointTile)
        if p.staged and p.lanes == 1:
            return []
        channels, pixels = Turns.tiles("m", p.tiles_m(y.shape[1])), Turns.tiles("n", p.tiles_n(y.shape[-1]))
        lines = axes(y.along((0, *range(2, y.rank - 1))), ["b", *(f"h{a}" for a in range(y.rank - 3))])
        return [channels, *lines, pixels] if by_weights(call, target) else [*lines, pixels, channels]

    def staged(self, call: Call) -> Staged | None:
        """A tile of pixels at a time, where vectors are single floats."""
        p, x, y = call.params, call.reads[0], call.results[0]
        assert isinstance(p, PointTile)
        assert x is not None
        if p.lanes > 1 or not x.same_elements(y):
            return None
        return Staged(replace(p, staged=True), min(p.width, x.shape[-1]) * x.shape[1])

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        return lines_broken(before, after)


def _is_staged(tile: Tile, source: View, result: View, target: Target) -> bool:
    """Whether a tile of pixels is copied as it is read by several tiles of channels, and lost to the first cache."""
    if tile.lanes == 1 or not (target.cached and target.spare_memory) or result.shape[1] <= tile.rows:
        return False
    pitch = abs(source.axis_strides()[1]) * source.dtype.nbytes
    return not target.machine.keeps(bound(source.shape[1]), bound(pitch))


@dataclass(frozen=True)
class WindowTile(Tile):
    """A tile of ``rows`` output channels by ``lines`` lines of ``vectors`` pixels; ``pads`` is what comes before.

    ``served``, if not empty: for each column of the window the channels that have weights there, of ``rows`` in all.
    """

    lines: int
    pads: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    kernel: tuple[int, int]
    served: tuple[tuple[int, ...], ...] = ()

    def tiles_h(self, extent: int) -> tuple[Segment, ...]:
        return segments(extent, self.lines)


class ConvDirect(Variant):
    """Any window over one or two axes: the operand's buffer has a halo, so that no bounds are checked."""

    ops = ("conv",)
    kernel = "conv.direct"
    params = WindowTile
    may_share = False

    def takes(self, node: Node) -> bool:
        # Memory is planned for the halo at the bound: 40 elements with a stride of 2 may need less of one than 39.
        return not node.varies or self._demand(node) == self._demand(node.at_bounds())

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        if reason := computed(node, constants, 1):
            return reason
        if not target.spare_memory:
            return "a halo takes memory"
        if len(node.results[0].shape) not in (3, 4):
            return "it has more than two spatial axes"
        if reason := _vectorizable(node, target):
            return reason
        demand = self._demand(node)
        copied = sum(operand_pair(node)[0].type.count for lo, hi in demand.halo if lo or hi)
        cycles, tile = self._tile(node, target)
        return Offer(self.label, cycles + 0.25 * copied, tile, demands=(demand,))

    @staticmethod
    def _demand(node: Node) -> Demand:
        op = node.op
        assert isinstance(op, Conv)
        x, w = operand_pair(node)
        halo = [(0, 0), (0, 0)]
        for i, out in enumerate(node.results[0].shape[2:]):
            behind = covered(out, w.shape[2 + i], op.strides[i], op.dilations[i]) - op.pads[i] - x.shape[2 + i]
            halo.append((op.pads[i], max(span(behind)[1], 0)))
        return Demand(0, tuple(halo))

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        _, w = operand_pair(node)
        source = b.read_halo(offer.demands[0])  # first: a copy frees the operand before the result is begun
        result = b.result(0)
        extras = [b.read(v).broadcast(result.shape) for v in node.extras]
        op, tile = node.op, offer.params
        assert isinstance(op, Conv)
        assert isinstance(tile, WindowTile)
        packed = b.packed(w, PackedChannels(tile.rows, op.groups))
        b.call(self.kernel, [plane(source), packed], [plane(result)], params=tile, extras=list(map(plane, extras)))

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        p, op, y = call.params, call.op, call.results[0]
        assert isinstance(p, WindowTile)
        assert isinstance(op, Conv)
        lines, pixels = Turns.tiles("oh", p.tiles_h(y.shape[2])), Turns.tiles("ow", p.tiles_n(y.shape[3]))
        channels = Turns.tiles("m", p.tiles_m(y.shape[1] // op.groups))
        return [*axes(y, ["b"]), Turns.each("g", op.groups), lines, channels, pixels]

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        if any(v is not None and v.buffer.halo for v in before.reads if v not in after.reads):
            return "conv.direct reads the halo of its operand"
        return lines_broken(before, after)

    @staticmethod
    def _tile(node: Node, target: Target) -> tuple[float, WindowTile]:
        op = node.op
        assert isinstance(op, Conv)
        w = operand_pair(node)[1]
        n, channels, *spatial = map(bound, node.results[0].shape)
        height, width = (1, *spatial)[-2:]
        cycles, rows, vectors, lines = best_window(
            channels // op.groups, height, width, math.prod(w.shape[1:]), op.strides[-1], target
        )
        return n * op.groups * cycles, WindowTile(
            rows, vectors, target.lanes, lines, pair(op.pads[: len(spatial)], 0),
            pair(op.strides), pair(op.dilations), pair(w.shape[2:]),
        )  # fmt: skip


def best_window(
    channels: int, height: int, width: int, steps: int, stride: int, target: Target
) -> tuple[float, int, int, int]:
    """(cycles, rows, vectors, lines) of the cheapest tile of a window over ``steps`` products per result."""
    lanes = target.lanes
    load = LOADS.get(stride, float(lanes))
    spare = 2 * (stride != 1) + 2 * (target.machine.registers <= 16 and width % lanes != 0)  # shuffles, masks
    found = []
    for rows in range(1, min(channels, MAX_ROWS) + 1):
        down = segments(channels, rows)
        for vectors in range(1, min(-(-width // lanes), MAX_VECTORS) + 1):
            for lines in range(1, min(height, MAX_VECTORS) + 1):
                if fits(rows, vectors * lines, target, spare):
                    parts = _areas(segments(height, lines), columns(width, vectors * lanes, lanes))
                    cycles = tile_cycles(down, parts, steps, target.machine, load)
                    found.append((cycles, -rows * vectors * lines, rows, vectors, lines))
    cycles, _, rows, vectors, lines = min(found)
    return cycles, rows, vectors, lines


def _areas(lines: tuple[Segment, ...], along: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """(tiles, vectors per tile) of tiles of several lines."""
    return [((s.stop - s.start) // s.size * count, s.size * n) for s in lines for count, n in along]


VARIANTS = (ConvGeneric(), ConvPointwise(), ConvDirect())
