"""Tiles of pixels of a line by vectors of channels: how convolutions cut their results into them, and what they take.

Worked example: a line of 10 results of a window of 3, pad 1, in tiles of 4 pixels. Tap 0 of the first pixel and tap
2 of the last lie in the padding: the tiles at both ends leave them out, and the one between them has nothing to
ask.

>>> tile = PixelTile(4, 2, 8, chunk=1, kernel=(1, 3), strides=(1, 1), dilations=(1, 1), pads=(0, 1))
>>> [(s.start, s.stop, s.size, s.inside) for s in tile.strips(10, 10)]
[(0, 4, 4, False), (4, 8, 4, True), (8, 10, 2, False)]
>>> tile.strips(10, 10)[0].runs
[TapRun(taps=range(0, 1), pixels=(1, 2, 3)), TapRun(taps=range(1, 3), pixels=(0, 1, 2, 3))]
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from mccompile._dataclass import dataclass
from mccompile.ir.dims import maximum, minimum, varies
from mccompile.ir.types import F32, Shape
from mccompile.kernels.model.tiles import (
    MAX_ROWS,
    MAX_VECTORS,
    Prefetching,
    Segment,
    Tile,
    chunks,
    fits,
    packed_columns,
    pitch,
    segments,
    step_cycles,
)
from mccompile.kernels.views.planes import pair
from mccompile.kernels.views.windows import tiles_inside
from mccompile.ops.conv import Conv
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

FEW_PARTS = 3
"""Parts of the columns that serve other pixels than their neighbours, of which each is written out where it is; the
products of more are functions, as wide windows over padding had 10 KB of C for a tile."""


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

    @property
    def parts(self) -> list[tuple[int, int]]:
        """The pixels (first, end) that neighbours among the columns serve, in the order of their code.

        >>> PixelStrip(0, 3, 3, ((0, 1, 2),) * 9, ragged=True).parts
        [(1, 2), (2, 3), (0, 3), (0, 1), (1, 2)]
        """
        if not self.ragged:
            return [(run.pixels[0], run.pixels[-1] + 1) for run in self.runs]
        alone = [(r, r + 1) for r in range(self.size)]
        return [*alone[1:], (0, self.size), *alone[:-1]]

    @property
    def functions(self) -> list[int]:
        """How many pixels the parts serve that are functions beside the tile; where there are few parts, none is."""
        heights = {end - first for first, end in self.parts}
        return sorted(heights) if len(self.parts) > FEW_PARTS else []


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
