"""The family of `conv` on channels-last results: vectors over output channels, tiles of pixels.

Worked example: a line of 10 results of a window of 3, pad 1, in tiles of 4 pixels. Tap 0 of the first pixel and tap
2 of the last lie in the padding: the tiles at both ends leave them out, and the one between them has nothing to
ask.

>>> tile = PixelTile(4, 2, 8, chunk=1, kernel=(1, 3), strides=(1, 1), dilations=(1, 1), pads=(0, 1))
>>> [(s.start, s.stop, s.size, s.inside) for s in tile.strips(10, 10)]
[(0, 4, 4, False), (4, 8, 4, True), (8, 10, 2, False)]
>>> tile.strips(10, 10)[0].runs
[TapRun(taps=range(0, 1), pixels=(1, 2, 3)), TapRun(taps=range(1, 3), pixels=(0, 1, 2, 3))]
>>> weights = np.arange(12, dtype=np.float32).reshape(4, 1, 3)  # [M, C, kernel]: 0 1 2 are the taps of result 0
>>> PackedTaps(width=2, lanes=2).pack(weights).astype(int).tolist()
[0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11]
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.dims import bound, maximum, minimum, varies
from mccompile.ir.errors import InternalError
from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Call
from mccompile.ir.scalar import Array
from mccompile.ir.types import F32, Shape, row_major
from mccompile.ir.views import View
from mccompile.kernels.conv.far_channels import far_reads, read_far
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
    MAX_ROWS,
    MAX_VECTORS,
    PackedTile,
    Prefetching,
    Segment,
    Tile,
    chunks,
    fits,
    merge,
    narrow,
    packed_columns,
    pitch,
    segments,
    step_cycles,
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
from mccompile.kernels.views.windows import tiles_distance, tiles_inside
from mccompile.ops.conv import Conv
from mccompile.ops.conv_transpose import ConvTranspose
from mccompile.targets.machine import Machine
from mccompile.targets.target import Target

WIDE = 8
MOST_RUNS = 4
MOST_ENDS = 2
"""Tiles of pixels at the ends of a line have code of their own, but for windows of more than WIDE columns if there
are more than MOST_ENDS such tiles, or one has more than MOST_RUNS runs of taps that serve other pixels: those of 63
pixels of windows of 64 were 400 KB of C."""
RAGGED = (4, 5, 6)
"""How many pixels a tile has then: of each but the first and the last, taps at one end serve it alone, so that one of
16 had 31 loops. Of these sizes the one with the fewest kinds of tiles is taken."""
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


@dataclass(frozen=True)
class TapRun:
    """Neighbours among the columns of a window that serve the same pixels of a tile, which are neighbours as well."""

    taps: range
    pixels: tuple[int, ...]


@dataclass(frozen=True)
class PixelStrip:
    """Tiles of ``size`` pixels along a line; ``taps`` holds for each column of the window the pixels that it serves,
    those for which it does not lie in the padding. ``ragged``: which taps serve which of its pixels is found when it
    runs: first those that serve some, one pixel after the other, then those that serve all, then others again."""

    start: int
    stop: int
    size: int
    taps: tuple[tuple[int, ...], ...]
    ragged: bool = False
    alike: int | None = None
    """Where the strip begins whose code it shares."""

    @property
    def named(self) -> str:
        """What the function for such a tile is called by."""
        if self.alike is not None:
            return str(self.alike)
        if self.ragged:
            return f"any{self.size}"
        return f"inside{self.size}" if varies([self.start, self.stop]) else str(self.start)

    @property
    def inside(self) -> bool:
        """Whether every tap serves every pixel."""
        return not self.ragged and all(len(pixels) == self.size for pixels in self.taps)

    @property
    def runs(self) -> list[TapRun]:
        """The taps that serve any pixel, in order."""
        runs: list[TapRun] = []
        for tap, pixels in enumerate(self.taps):
            if runs and runs[-1].pixels == pixels and runs[-1].taps.stop == tap:
                runs[-1] = TapRun(range(runs[-1].taps.start, tap + 1), pixels)
            elif pixels:
                runs.append(TapRun(range(tap, tap + 1), pixels))
        return runs


@dataclass(frozen=True)
class Depth:
    """A window along the first of three spatial axes; ``pad`` is what comes before the first plane."""

    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    pad: int = 0

    def planes(self, out: int, extent: int) -> int:
        """Planes of the operand that ``out`` planes of results read, each as often as it is read."""
        return _inside(out, extent, self.kernel, self.stride, self.dilation, self.pad)


def _inside(out: int, extent: int, kernel: int, stride: int, dilation: int, pad: int) -> int:
    """How many taps of ``out`` results along an axis do not lie in the padding.

    >>> _inside(out=10, extent=10, kernel=3, stride=1, dilation=1, pad=1)  # all but one at either end
    28
    """
    total = 0
    for tap in range(kernel):
        before = pad - tap * dilation
        first = max(-(-before // stride), 0)
        last = min((int(extent) - 1 + before) // stride, int(out) - 1)
        total += max(last - first + 1, 0)
    return total


@dataclass(frozen=True)
class Served:
    """``tiles`` of ``size`` pixels in which ``taps`` are (pixels, taps that serve so many)."""

    tiles: int
    size: int
    taps: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class PixelTile(Tile, Prefetching):
    """A tile of ``rows`` pixels of a line by vectors of channels; ``chunk`` lines are done for all channels in turn.

    ``pads`` is what comes before the first pixel. Where there are three spatial axes, ``depth`` is the first. With
    ``by_pixels`` all channels of a tile of pixels come before the next pixels, so that results may lie over what has
    been read; chunks mean nothing. With ``covers`` a last tile inside of a line that would have fewer pixels computes
    some again instead, and has no code of its own.
    """

    chunk: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int]
    depth: Depth = Depth()
    by_pixels: bool = False
    covers: bool = False

    def chunks_m(self, extent: int) -> tuple[Segment, ...]:
        return chunks(extent, self.chunk)

    def pitch(self, size: int) -> int:
        """Floats of a packed row of ``size`` channels."""
        return pitch(size, self.lanes)

    def packed(self, channels: int) -> int:
        """Floats of packed rows of all blocks of ``channels``."""
        return sum((s.stop - s.start) // s.size * self.pitch(s.size) for s in self.tiles_n(channels))

    def strips(self, out: int, extent: int) -> list[PixelStrip]:
        """A line of ``out`` results over ``extent`` pixels as runs of equal tiles; the ends of a line have tiles of
        their own, but with wide windows, where these would be too much code: ragged ones."""
        if varies([out, extent, self.pads[1]]):
            return list(self._varying(out, extent))
        strips = self._fixed(out, extent)
        ends = [s for s in strips if not s.inside]
        uneven = len(ends) > MOST_ENDS or any(len(s.runs) > MOST_RUNS for s in ends)
        if self.kernel[1] > WIDE and uneven:
            found = [self._fixed(out, extent, size) for size in RAGGED]
            strips = min(found, key=lambda strips: len({s.named for s in strips}))
        return self._covered(strips) if self.covers else strips

    def _fixed(self, out: int, extent: int, ragged: int = 0) -> list[PixelStrip]:
        """The strips of a line whose ends have tiles of their own, or ragged ones of so many pixels at most."""
        strips: list[PixelStrip] = []
        every = (tuple(range(self.rows)),) * self.kernel[1]
        reach = (self.kernel[1] - 1) * self.dilations[1]
        start = 0
        while start < out:
            tiles = tiles_inside(start, self.rows, out, extent, (self.strides[1], reach, self.pads[1]))
            if tiles:
                strips.append(PixelStrip(start, start + tiles * self.rows, self.rows, every))
                start = strips[-1].stop
                continue
            stop = min(start + min(ragged or self.rows, self.rows), out)
            taps = ((tuple(range(stop - start)),) * self.kernel[1]) if ragged else self._taps(start, stop, extent)
            strip = PixelStrip(start, stop, stop - start, taps, ragged > 0)
            if strips and replace(strip, start=strips[-1].start, stop=strips[-1].stop) == strips[-1]:
                strips[-1] = replace(strips[-1], stop=stop)
            else:
                strips.append(strip)
            start = stop
        return strips

    def _covered(self, strips: list[PixelStrip]) -> list[PixelStrip]:
        """The strips, the last moved back to where it is a whole tile of the strip before it, if it lies inside."""
        before, rest = (strips[0], *strips)[-2:]
        if not before.inside or not rest.inside or before.size != self.rows or rest.size == self.rows:
            return strips
        start = rest.stop - self.rows
        return [*strips[:-1], replace(before, start=start, stop=rest.stop, alike=before.start)]

    def _varying(self, out: int, extent: int) -> Iterator[PixelStrip]:
        """Of a line whose end is known at run time only: tiles of results all of whose taps lie inside, ever smaller
        ones, and at both ends the results of which some lie in the padding."""
        stride, pad, columns = self.strides[1], self.pads[1], self.kernel[1]
        ragged = ((0,),) * columns
        first = -(-pad // stride)
        if first:
            yield PixelStrip(0, minimum(first, out), 1, ragged, ragged=True)
        reach = (columns - 1) * self.dilations[1]
        behind = maximum(extent + pad - reach - 1 + stride, 0) // stride
        inside = maximum(minimum(behind, out) - first, 0)
        for s in segments(inside, self.rows):
            yield PixelStrip(first + s.start, first + s.stop, s.size, (tuple(range(s.size)),) * columns)
        if first + inside != out:
            yield PixelStrip(first + inside, out, 1, ragged, ragged=True)

    def _taps(self, start: int, stop: int, extent: int) -> tuple[tuple[int, ...], ...]:
        """Which pixels of a tile each column of the window serves."""
        return tuple(self._served(range(start, stop), tap, extent) for tap in range(self.kernel[1]))

    def _served(self, pixels: range, tap: int, extent: int) -> tuple[int, ...]:
        shift = tap * self.dilations[1] - self.pads[1]
        return tuple(i for i, p in enumerate(pixels) if 0 <= p * self.strides[1] + shift < extent)

    def lines(self, out: int, extent: int) -> int:
        """Lines of the operand that ``out`` lines of results read, each as often as it is read."""
        return _inside(out, extent, self.kernel[0], self.strides[0], self.dilations[0], self.pads[0])

    def served(self, out: int, extent: int) -> list[Served]:
        """The strips of a line as what they cost depends on them, which the vectors of a tile do not change."""
        return [
            Served((s.stop - s.start) // s.size, s.size, tuple(Counter(len(p) for p in s.taps if p).items()))
            for s in self.strips(out, extent)
        ]

    def cycles(
        self,
        out: tuple[int, int],
        extents: tuple[int, int],
        channels: tuple[int, int],
        planes: tuple[int, int],
        machine: Machine,
        strips: Sequence[Served],
    ) -> float:
        """Cycles of one group: ``channels`` are those of results and of the operand, ``planes`` the pairs of planes
        that meet, and those of results, ``strips`` what is `served` of a line."""
        own, read = channels
        lines = planes[0] * self.lines(out[0], extents[0])
        total = 0.0
        for count, n in packed_columns(own, self.width, self.lanes):
            for strip in strips:
                steps = sum(taps * step_cycles(size, n, machine) for size, taps in strip.taps)
                stores = planes[1] * out[0] * (2 * strip.size * n + machine.call)
                total += count * strip.tiles * (lines * (steps * read + self.kernel[1]) + stores)
        return total


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


@functools.lru_cache(maxsize=512)
def best_pixel_tile(op: Conv, x: Shape, w: Shape, y: Shape, target: Target) -> tuple[float, PixelTile]:
    """The cheapest tile of a convolution of shapes ``x`` by ``w`` to ``y``, and its cycles; of equals the largest."""
    n, channels, *spatial = y
    out, extents = pair(spatial), pair(x[2:])
    own = channels // op.groups
    window = (pair(w[2:]), pair(op.strides), pair(op.dilations), pair(op.pads[: len(spatial)], 0))
    depth = Depth(w[2], op.strides[0], op.dilations[0], op.pads[0]) if len(spatial) == 3 else Depth()
    planes = (depth.planes(spatial[0], x[2]), spatial[0]) if len(spatial) == 3 else (1, 1)
    chunk = _chunk(x[1] * extents[1] * F32.nbytes * window[1][0], out[0], target)
    found = []
    for rows in range(1, min(out[1], MAX_ROWS) + 1):
        strips = None
        for vectors in range(1, min(-(-own // target.lanes), MAX_VECTORS) + 1):
            if fits(rows, vectors, target):
                by_pixels = not target.spare_memory
                tile = PixelTile(rows, vectors, target.lanes, chunk, *window, depth, by_pixels)
                strips = tile.served(out[1], extents[1]) if strips is None else strips
                cycles = tile.cycles(out, extents, (own, w[1]), planes, target.machine, strips)
                found.append((cycles, -rows * vectors, vectors, tile))
    cycles, _, _, best = min(found, key=lambda f: f[:3])
    return n * op.groups * cycles, best


def _chunk(line_bytes: int, lines: int, target: Target) -> int:
    """Lines whose operand stays in the second cache; all of them, which reads weights once, where they take half."""
    l2 = target.machine.l2
    room = l2 // 2 if lines * line_bytes <= l2 // 2 else l2 // 4
    return min(max(room // line_bytes, 1), lines)


VARIANTS = (ConvRows(), ConvChannels())
