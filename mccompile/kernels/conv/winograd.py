"""Winograd variants of `conv` on channels-last values: products of blocks of tiles between their transforms."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Container
from dataclasses import replace
from typing import TypeVar

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.dims import varies
from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Call, Logical
from mccompile.ir.scalar import Array
from mccompile.ir.types import F32, TensorType, row_major
from mccompile.ir.views import View
from mccompile.kernels.conv.winograd_matrices import (
    MAX_PRODUCTS,
    Sum,
    distinct_points,
    input_sums,
    output_sums,
    transformed,
)
from mccompile.kernels.model.parts import Turns
from mccompile.kernels.model.prefetch import weights_ahead
from mccompile.kernels.model.tiles import (
    MAX_ROWS,
    MAX_VECTORS,
    Segment,
    Tile,
    columns,
    divisors,
    fits,
    segments,
    tile_cycles,
)
from mccompile.kernels.variant import (
    Builder,
    Offer,
    Variant,
    computed,
    lines_broken,
    operand_pair,
    vectors_apart,
)
from mccompile.kernels.views.channels import is_channels_last
from mccompile.kernels.views.planes import pair, plane_last
from mccompile.ops.conv import Conv
from mccompile.targets.target import Target

L2_SHARE = 0.7
"""What the points and products of a block of tiles may take of the second-level cache."""
INEXACT = {4: 1.05, 5: 1.07, 6: 1.1}
"""What more digits and fewer weights are worth: tiles of so many outputs count for that much more than they take."""
INSTRUCTIONS = 2
"""Vector instructions per cycle of the transforms, where loads bring a vector per cycle: a second unit that adds is
no gain to them (Zen 4, Sapphire Rapids)."""
LEAST_CHANNELS = 8
"""Channels of a group that vectors are not wasted on."""
FULL_SET = 4
"""Points in one set of the first cache that have room there beside pixels and weights: half of eight ways."""
TILE_OVERHEAD = 40
"""Cycles to find the pixels of a tile, for its points and again for its results."""


FEW = 2
"""Blocks for each part, and register tiles of each of two, from which on it does not matter if one has more."""


@dataclass(frozen=True)
class WinogradTile(Tile):
    """Products in register tiles of ``rows`` tiles by ``vectors`` of output channels, ``block`` tiles at a time.

    ``outputs`` results along each of two spatial axes take ``taps``; ``pads`` is what comes before the image. Weights
    are asked for ``ahead`` bytes early; 0: they are near. There are ``gap`` floats between
    the points of all tiles of a block: see `with_gap`.
    """

    block: int
    outputs: tuple[int, int]
    taps: tuple[int, int]
    pads: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    ahead: int = 0
    gap: int = 0

    @property
    def kernel(self) -> tuple[int, int]:
        """The extents of the convolution's window."""
        return self.taps

    @functools.cached_property
    def points(self) -> tuple[int, int]:
        """Points of a tile along each axis: as many as it reads pixels."""
        first, second = (
            s * (m - 1) + r for m, r, s in zip(self.outputs, self.taps, self.strides, strict=True)
        )
        return first, second

    @functools.cached_property
    def distinct(self) -> tuple[int, int]:
        """Points along each axis that have weights of their own; those behind share the last one's."""
        first, second = map(distinct_points, self.outputs, self.taps, self.strides)
        return first, second

    def tiles(self, extents: tuple[int, int]) -> tuple[int, int]:
        """How many tiles cover results of some extents; each phase of a dilation has its own."""
        return _tiles(extents[0], self.outputs[0], self.dilations[0]), _tiles(
            extents[1], self.outputs[1], self.dilations[1]
        )

    def origin(self, tile: str, axis: int) -> str:
        """The first result of a tile, as C."""
        m, d = self.outputs[axis], self.dilations[axis]
        if d == 1:
            return f"{tile} * {m}" if m > 1 else tile
        return f"{tile} / {d} * {m * d} + {tile} % {d}"

    def zeros(self, channels: int) -> int:
        """Floats of a row of zeros that whole vectors may be read from."""
        return -(-channels // self.lanes) * self.lanes

    def point_row(self, channels: int) -> int:
        """Floats from a tile's point to the next tile's: a vector more, lest rows fall on the same cache lines."""
        return self.zeros(channels) + self.lanes

    def point_plane(self, channels: int) -> int:
        """Floats from a point of all tiles of a block to the next point of them."""
        return self.block * self.point_row(channels) + self.gap

    @property
    def product_row(self) -> int:
        """Floats from a tile's products to the next tile's."""
        return math.prod(self.points) * self.width + self.lanes

    def scratch(self, channels: int) -> int:
        points = math.prod(self.points) * self.point_plane(channels)
        return self.zeros(channels) + points + self.block * self.product_row

    def row_counts(self, tiles: int) -> list[int]:
        """Rows of the register tiles that blocks of ``tiles`` tiles need, the most first."""
        if varies([tiles]):
            return list(divisors(self.rows, 1))
        sizes = {s.size for s in segments(tiles, self.block)}
        return sorted({r.size for size in sizes for r in self.tiles_m(size)}, reverse=True)

    def product_runs(self, channels: int) -> tuple[Segment, ...]:
        """Runs of the sum over channels at a point: it is one of several that a long sum is made of."""
        parts = self.runs(channels, channels * math.prod(self.taps))
        return () if parts and parts[0].size == channels else parts

    def vectors_of(self, channels: int) -> int:
        return -(-channels // self.lanes)

    def segment_vectors(self, channels: int) -> list[int]:
        """Vectors of the segments that ``channels`` output channels are cut into."""
        return list(dict.fromkeys(self.vectors_of(a.size) for a in self.tiles_n(channels)))

    def input_sums(self, axis: int) -> tuple[Sum, ...]:
        """``r[0] ...``, the points, from ``d[0] ...``, pixels along an axis."""
        return input_sums(self.outputs[axis], self.taps[axis], self.strides[axis])

    def output_sums(self, axis: int) -> tuple[Sum, ...]:
        """``r[0] ...``, results along an axis, from ``d[0] ...``, products."""
        return output_sums(self.outputs[axis], self.taps[axis], self.strides[axis])


def _tiles(extent: int, outputs: int, dilation: int) -> int:
    return dilation * -(-extent // (outputs * dilation))


Blocked = TypeVar("Blocked", bound=WinogradTile)


@dataclass(frozen=True)
class PackedPoints:
    """Weights [M, C, kernel...] at the distinct points of F(outputs, kernel), as [M / width][points][C][width].

    ``channels`` are those of the group that is meant.
    """

    outputs: tuple[int, int]
    strides: tuple[int, int]
    width: int
    channels: range

    def pack(self, array: Array) -> Array:
        array = array[self.channels.start : self.channels.stop]
        m, c, *kernel = array.shape
        weights = array.reshape(m, c, *pair(kernel))
        points = math.prod(map(distinct_points, self.outputs, weights.shape[2:], self.strides))
        packed = np.zeros((-(-m // self.width), points, c, self.width), dtype=array.dtype)
        for block, start in zip(packed, range(0, m, self.width), strict=True):  # points take many times their weights
            part = transformed(weights[start : start + self.width], self.outputs, self.strides)
            block[:, :, : part.shape[1]] = part.swapaxes(1, 2)
        return packed


@dataclass(frozen=True)
class Shape:
    """What the cost depends on: the shapes of one of ``groups``."""

    groups: int
    batch: int
    inputs: int
    channels: int
    extents: tuple[int, int]
    taps: tuple[int, int]
    pads: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]


class ConvWinograd(Variant):
    """F(m, r) along each spatial axis with a filter of more taps than its stride, any padding, and any dilation at
    stride 1.

    Rounding errors measured over two axes of 3 taps: for m = 2, 4, 6 about 5e-7, 1e-5 and 2e-5 of the largest result,
    where the direct sum has 1e-6; along one axis 2e-6 at most. `winograd.amplification` bounds them. Each of two axes
    may have its own ``m``: 7 results are two tiles of 4 one way, which save more, and four of 2 the other, with fewer
    weights.
    """

    ops = ("conv",)
    kernel = "conv.winograd"
    params = WinogradTile
    may_share = False

    def takes(self, node: Node) -> bool:
        return not varies([operand_pair(node)[0].shape[1]])

    def __init__(self, down: int, across: int = 0) -> None:
        self.outputs = down, across or down

    @property
    def label(self) -> str:
        down, across = self.outputs
        return f"{self.kernel} m={down}" + (f"x{across}" if across != down else "")

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        if reason := computed(node, constants, 1) or self._refusal(node, target):
            return reason
        shape, w = shape_of(node), operand_pair(node)[1]
        cycles, tile = _best(shape, self.outputs, target)
        ahead = weights_ahead(math.prod(tile.distinct) * shape.inputs * shape.channels, target.machine)
        blocks = -(-shape.channels // tile.width)
        packed = 4 * math.prod(tile.distinct) * shape.inputs * blocks * tile.width
        return Offer(
            self.label,
            shape.groups * cycles * INEXACT.get(max(self.outputs), 1.0),
            replace(tile, ahead=ahead),
            growth_bytes=shape.groups * packed - w.type.nbytes,
            spends_arena=True,
        )

    def _refusal(self, node: Node, target: Target) -> str:
        op = node.op
        assert isinstance(op, Conv)
        x, w = operand_pair(node)
        if not target.lanes or not target.spare_memory:
            return "the target has no vectors, or no memory to spare"
        if node.pre or not x.dtype == w.dtype == F32:
            return "an operand has a prologue, or is not f32"
        if not is_channels_last(x) or not is_channels_last(node.results[0]):
            return "a layout is not channels-last"
        if len(w.shape) > 4:
            return "it has more than two spatial axes"
        if op.groups > 1 and min(w.shape[0] // op.groups, w.shape[1]) < LEAST_CHANNELS:
            return "its groups are small"
        if all(k == 1 for k in w.shape[2:]):
            return "it is 1x1"
        if any(1 < k <= s for k, s in zip(w.shape[2:], op.strides, strict=True)):
            return "no more taps than the stride fall on a result"
        if any(s > 1 and d > 1 for s, d in zip(op.strides, op.dilations, strict=True)):
            return "it has a dilation beside a stride"
        if len(set(self.outputs)) > 1 and any(k == 1 for k in pair(w.shape[2:])):
            return "it has taps along one axis only"
        reach = [-(-k // s) for k, s in zip(w.shape[2:], op.strides, strict=True)]
        if any(m + k - 1 > MAX_PRODUCTS for m, k in zip(self.outputs, pair(reach), strict=True) if k > 1):
            return f"{max(self.outputs)} results at a time of {max(w.shape[2:])} taps would be inexact"
        return ""

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        op, (x, w), tile = node.op, operand_pair(node), offer.params
        assert isinstance(op, Conv)
        assert isinstance(tile, WinogradTile)
        result = b.result(0)
        extras = [b.read(v).broadcast(result.shape) for v in node.extras]
        to_op = (b.read(x), result, *extras)
        source, result, *extras = map(plane_last, to_op)
        shape = shape_of(node)
        scratch = b.scratch(tile.scratch(shape.inputs), F32)
        for g in range(shape.groups):
            own = range(g * shape.channels, (g + 1) * shape.channels)
            part, *parts = (_channels(v, own) for v in (result, *extras))
            packed = b.packed(w, PackedPoints(tile.outputs, tile.strides, tile.width, own))
            taken = range(g * shape.inputs, (g + 1) * shape.inputs)
            read = _channels(source, taken)
            one = replace(op, groups=1)
            y, *others = (_channels(v, own, 1) for v in to_op[1:])
            logical = Logical((_channels(to_op[0], taken, 1), b.seen(w, Filters(own))), (y,), tuple(others))
            b.call(self.kernel, [read, packed], [part], op=one, params=tile, extras=parts, scratch=scratch,
                   logical=logical)  # fmt: skip

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        p, y = call.params, call.results[0]
        assert isinstance(p, WinogradTile)
        blocks = Turns.tiles("first", segments(_count(p, y), p.block))
        channels = Turns.tiles("n", p.tiles_n(y.shape[-1]))
        return [channels, blocks] if _few(p, y) else [blocks, channels]

    def apart(self, call: Call, parts: int, target: Target) -> Call:
        """Blocks of tiles for each part, unless there are few tiles: then each part transforms all of them, and
        multiplies them by the weights of its own channels, if there are as many blocks of these."""
        p, y = call.params, call.results[0]
        assert isinstance(p, WinogradTile)
        tiles = _count(p, y)
        blocks = -(-tiles // p.block)
        shared = _few(p, y) and len(Turns.tiles("n", p.tiles_n(y.shape[-1])).starts) >= parts
        if shared or blocks >= FEW * parts or blocks % parts == 0:
            return call
        finer = replace(p, block=-(-tiles // (-(-blocks // parts) * parts)))
        (x, *_), scratch = call.reads, call.scratch
        assert x is not None
        assert scratch is not None
        least = replace(scratch, type=TensorType(scratch.type.dtype, (finer.scratch(x.shape[-1]),)))
        return replace(call, params=finer, scratch=least)

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        return vectors_apart(after, 0) or lines_broken(before, after, reads=False)


def _count(tile: WinogradTile, result: View) -> int:
    """Tiles of a result [N, H, W, M]."""
    n, height, width, _ = result.shape
    return n * math.prod(tile.tiles((height, width)))


def _few(tile: WinogradTile, result: View) -> bool:
    """Whether tiles are so few that weights, of which each part would read all, are more than what is transformed."""
    return _count(tile, result) < 2 * FEW * tile.rows


@dataclass(frozen=True)
class Filters:
    """Some of the weights [M, C, kernel...]: those of the channels ``own`` of the result."""

    own: range

    def pack(self, array: Array) -> Array:
        return array[self.own.start : self.own.stop]


def _channels(view: View, channels: range, axis: int = -1) -> View:
    """Some of the channels of [N, H, W, C], or of [N, C, ...] with ``axis`` 1."""
    steps, shape = view.axis_strides(), list(view.shape)
    shape[axis] = len(channels)
    return View(view.buffer, tuple(shape), row_major(view.rank), steps, view.offset + channels.start * steps[axis])


def shape_of(node: Node) -> Shape:
    op, (_, w) = node.op, operand_pair(node)
    assert isinstance(op, Conv)
    n, m, *spatial = node.results[0].shape
    return Shape(
        op.groups, n, w.shape[1], m // op.groups, pair(spatial), pair(w.shape[2:]), pair(op.pads[: len(spatial)], 0),
        pair(op.strides), pair(op.dilations),
    )  # fmt: skip


@functools.lru_cache(maxsize=512)
def _best(shape: Shape, outputs: tuple[int, int], target: Target) -> tuple[float, WinogradTile]:
    """The cheapest blocking, and its cycles. Of those that wait for the same weights, the one with the least to do
    meanwhile: 512 channels of 7x7 by two vectors of 8 tiles took 0.87 of the time by one (Zen 5)."""
    each = outputs[0] if shape.taps[0] > 1 else 1, outputs[1] if shape.taps[1] > 1 else 1
    window = (each, shape.taps, shape.pads, shape.strides, shape.dilations)
    any_tile = WinogradTile(1, 1, target.lanes, 1, *window)
    tiles = shape.batch * math.prod(any_tile.tiles(shape.extents))
    found = []
    for rows in range(1, MAX_ROWS + 1):
        for vectors in range(1, min(-(-shape.channels // target.lanes), MAX_VECTORS) + 1):
            if fits(rows, vectors, target):
                block = _block(any_tile, rows, vectors * target.lanes, shape.inputs, tiles, target)
                tile = WinogradTile(rows, vectors, target.lanes, block, *window)
                tile = with_gap(tile, shape.inputs, target)
                work, waits = _cycles(tile, any_tile, shape, tiles, target)
                found.append((work + waits, work, tile))
    cycles, _, tile = min(found, key=lambda f: (round(f[0]), f[1]))
    return cycles, tile


def _block(any_tile: WinogradTile, rows: int, width: int, inputs: int, tiles: int, target: Target) -> int:
    """As many tiles as the cache holds, at least one register tile of ``rows`` by ``width`` of them, and all where it
    holds all: each block reads all weights. ``any_tile`` is one of the same points."""
    room = L2_SHARE * target.machine.l2 / 4 / math.prod(any_tile.points)
    fitting = int(room / (any_tile.point_row(inputs) + width))
    if tiles <= fitting:
        return tiles
    most = max(fitting // rows, 1) * rows
    blocks = -(-tiles // most)
    even = -(-tiles // blocks)
    return even if blocks == 1 else min(-(-even // rows) * rows, tiles)


def with_gap(tile: Blocked, channels: int, target: Target) -> Blocked:
    """The tile with a cache line between the points of a block, where those of a tile would else meet in so few sets
    of the first cache that they drive each other out before products read them.

    64 tiles of 32 floats are 8192 bytes, so that all 36 points of F(4, 3) fall on one set of a cache with ways of
    4096 bytes; with a line between them, they fall on 36.
    """
    way, line = target.machine.way, target.machine.line
    sets = way // math.gcd(way, 4 * tile.point_plane(channels))
    return replace(tile, gap=line // 4) if sets * FULL_SET < math.prod(tile.points) else tile


def _cycles(
    tile: WinogradTile, any_tile: WinogradTile, shape: Shape, tiles: int, target: Target
) -> tuple[float, float]:
    """Cycles of the products and the transforms, and those of what the products of a block's first rows do not hide
    of the way of its weights from memory; ``any_tile`` is one of the same points."""
    machine = target.machine
    points, distinct = math.prod(any_tile.points), math.prod(any_tile.distinct)
    along = columns(shape.channels, tile.width, tile.lanes)
    work, waits = 0.0, 0.0
    for s in segments(tiles, tile.block):
        one = tile_cycles(segments(s.size, tile.rows), along, shape.inputs, machine)
        work += (s.stop - s.start) // s.size * points * one
    weights = 4 * distinct * shape.inputs * sum(count * tile.width for count, _ in along)
    if weights > (1 - L2_SHARE) * machine.l2:
        rows = min(tile.rows, tiles)
        hidden = distinct * tile_cycles((Segment(0, rows, rows),), along, shape.inputs, machine)
        waits += max(weights / (machine.memory_rate if weights > machine.l2 else machine.l3_rate) - hidden, 0)
        waits += (-(-tiles // tile.block) - 1) * max(weights / machine.l3_rate - hidden, 0)
    into, back = _transforms(tile.outputs, tile.taps, tile.strides)
    moved = -(-shape.inputs // tile.lanes) * into + -(-shape.channels // tile.lanes) * back
    loading = machine.vector_bytes / (machine.loads * machine.load_bytes)
    return work + tiles * (moved * loading / INSTRUCTIONS + TILE_OVERHEAD), waits


@functools.lru_cache(maxsize=512)
def _transforms(outputs: tuple[int, int], taps: tuple[int, int], strides: tuple[int, int]) -> tuple[int, int]:
    """Vector instructions of the transforms of a tile's pixels to points, and of its products to results: sums,
    loads, stores, in two steps."""
    tile = WinogradTile(1, 1, 1, 1, outputs, taps, (0, 0), strides, (1, 1))

    def instructions(axis_sums: Callable[[int], tuple[Sum, ...]], made: tuple[int, int]) -> int:
        first, second = (sum(s.operations for s in axis_sums(axis)) for axis in (0, 1))
        moves = math.prod(tile.points) + 2 * made[0] * tile.points[1] + math.prod(made)
        return tile.points[1] * first + made[0] * second + moves

    return instructions(tile.input_sums, tile.points), instructions(tile.output_sums, outputs)


VARIANTS = (ConvWinograd(2), ConvWinograd(4, 2), ConvWinograd(4), ConvWinograd(5), ConvWinograd(6))
