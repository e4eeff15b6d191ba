"""Windows over channels-last tensors: tiles of pixels, where each tap is known to lie inside or is left out.

Worked example: a window of 3 over lines of 8 pixels with a pad of 1, in tiles of 4 results. The first tile would
read the column before the line: it leaves out tap 0 of its pixel 0 (columns count from where that would lie). The
second leaves out what lies behind the line. Without pads the 6 results are a whole tile and one of two pixels.

>>> window = ChannelWindow(4, 1, 3, kernel=(1, 3), strides=(1, 1), dilations=(1, 1), pads=(0, 1))
>>> [(s.start, s.stop, s.size, s.first, s.end, s.products) for s in window.strips(8, 8)]
[(0, 4, 4, 1, 6, 11), (4, 8, 4, 0, 5, 11)]
>>> window.strips(8, 8)[0].columns[0]
(1, ((0, 1), (1, 0)))
>>> [(s.start, s.stop, s.size) for s in replace(window, pads=(0, 0)).strips(6, 8)]
[(0, 4, 4), (4, 6, 2)]
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import field, replace
from typing import Self, TypeVar

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.dims import may_reach, span, varies
from mccompile.ir.graph import Node
from mccompile.ir.kernel import Call
from mccompile.ir.types import F32, Shape
from mccompile.kernels.conv.line_ends import LineEnds, line_ends
from mccompile.kernels.conv.strips import Column, Strip
from mccompile.kernels.model.parts import Turns, axes
from mccompile.kernels.model.tiles import LONG, Segment, narrow, segments, turns
from mccompile.kernels.views.planes import pair
from mccompile.kernels.views.windows import tiles_distance, tiles_inside
from mccompile.targets.machine import Machine
from mccompile.targets.target import Target

Line = tuple[int, tuple[tuple[int, int], ...]]
"""A line of the operand, from where a tile's first tap would lie, and the (line of the tile, tap) it serves."""

MAX_LINES = 2
MAX_RESULTS = 14
"""Results of a tile: more of them gain little, and read from more lines of a cache that may map to one set."""
MAX_PLAIN = 4
"""Pixels of a tile without weights: these are soon bound by memory, which likes to be read in one run."""
MOST_PRODUCTS = 1 << 13
"""Products of a vector of channels in the code of all tiles at the ends of a line: with more of them tiles have fewer
pixels."""
MOST_UNROLLED = 1024
"""Products of a tile whose lines are written out one by one; with one line there is a loop."""
RUN_CYCLES = 4
"""What a tile takes beside its steps: it is no call, its loops are written out."""
LOAD_CYCLES = 0.6
"""What a load costs beside its place in the pipeline: it may come from the second cache."""
BYTES_PER_CYCLE = 16
"""What streams through a kernel that touches each element once (Zen 4, between L2 and L3)."""


@dataclass(frozen=True)
class Phase:
    """Lines ``kh`` of a window, each of which meets line ``line`` of a tile in the same line of the operand as line
    ``kh - step`` does line ``line + 1``, and so on for ``lines`` lines of the tile."""

    kh: range
    line: int
    lines: int


@dataclass(frozen=True)
class ChannelWindow:
    """A window over two spatial axes (the first of extent 1 where there is but one).

    A tile has ``lines`` x ``pixels`` results of a vector of channels; ``taps`` of a line of the window are worked
    off at once, their weights in registers. ``pads`` is what comes before the operand. With ``overlaps``, results may
    lie over what has been read; with ``staged``, a channel's plane is copied first, and they may take its place. With
    ``joined`` tiles of one size are one function, which is told from where to where there are columns.
    """

    pixels: int
    lines: int
    taps: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int]
    overlaps: bool = field(default=False, kw_only=True)
    staged: bool = field(default=False, kw_only=True)
    joined: bool = field(default=False, kw_only=True)

    @property
    def reach(self) -> tuple[int, int]:
        """Lines and columns that a window sees beside its first."""
        return (self.kernel[0] - 1) * self.dilations[0], (self.kernel[1] - 1) * self.dilations[1]

    @property
    def long(self) -> bool:
        """Whether a sum over the window goes in runs."""
        return math.prod(self.kernel) > LONG

    def turns(self, steps: int) -> int:
        """Turns of a loop, each of ``steps`` taps, that a run has; 0 where a turn is longer than a run."""
        return turns(steps)

    def tiles_h(self, extent: int) -> tuple[Segment, ...]:
        return segments(extent, self.lines)

    def leaves(self, lines_tile: Segment, extent: int) -> bool:
        """Whether a tile of some lines may read outside of the operand's."""
        first, last = (place * self.strides[0] - self.pads[0] for place in (lines_tile.start, lines_tile.stop - 1))
        return span(first)[0] < 0 or may_reach(last + self.reach[0], extent)

    @property
    def span(self) -> int:
        """Columns that a whole tile extends over."""
        return (self.pixels - 1) * self.strides[1] + self.reach[1] + 1

    def place(self, size: int, start: int, extent: int) -> tuple[int, ...]:
        """What tells the code for a tile of ``size`` pixels from ``start`` on in a line of ``extent``: its size, and
        from which to before which of its columns there are pixels."""
        left = start * self.strides[1] - self.pads[1]
        return size, self._within(-left), self._within(extent - left)

    @property
    def place_inside(self) -> tuple[int, ...]:
        """The place of a whole tile with pixels at all of its columns."""
        return self.pixels, 0, self.span

    def _within(self, column: int) -> int:
        return min(max(column, 0), self.span)

    @property
    def whole(self) -> Strip:
        """A whole tile with pixels at all of its columns."""
        return Strip(0, self.pixels, self.pixels, self.with_pad(0)._columns(0, self.pixels, self.span))

    def code_of(self, strip: Strip, extent: int) -> tuple[object, ...]:
        """What strips of one tile have in common that are the same code, in lines of their extents."""
        return strip.size, strip.columns

    def rows(self, lines: int) -> list[Line]:
        """The lines of the operand that a tile of some lines reads."""
        found: dict[int, list[tuple[int, int]]] = {}
        for line in range(lines):
            for tap in range(self.kernel[0]):
                found.setdefault(line * self.strides[0] + tap * self.dilations[0], []).append((line, tap))
        return [(row, tuple(uses)) for row, uses in sorted(found.items())]

    def phases(self, lines: int) -> list[Phase]:
        """The lines that a tile of some lines reads, in runs of those that serve the same lines of the tile."""
        found: dict[tuple[int, ...], list[int]] = {}
        for _, uses in self.rows(lines):
            found.setdefault(tuple(line for line, _ in uses), []).append(uses[0][1])
        return [Phase(range(kh[0], kh[-1] + 1), served[0], len(served)) for served, kh in found.items()]

    def strips(self, out: int, extent: int) -> list[Strip]:
        """A line of ``out`` results over ``extent`` pixels as runs of equal tiles."""
        strips: list[Strip] = []
        start = 0
        while start < out:
            size = min(self.pixels, out - start)
            count = max(self._inside(start, out, extent), 1)
            columns = self._columns(start, size, extent)
            if strips and (strips[-1].size, strips[-1].columns) == (size, columns):
                strips[-1] = replace(strips[-1], stop=start + count * size)
            else:
                strips.append(Strip(start, start + count * size, size, columns))
            start += count * size
        return strips

    def _inside(self, start: int, out: int, extent: int) -> int:
        """How many whole tiles from ``start`` on read nothing outside of a line."""
        reach = (self.kernel[1] - 1) * self.dilations[1]
        return tiles_inside(start, self.pixels, out, extent, (self.strides[1], reach, self.pads[1]))

    def _columns(self, start: int, size: int, extent: int) -> tuple[Column, ...]:
        left = start * self.strides[1] - self.pads[1]
        found: dict[int, list[tuple[int, int]]] = {}
        for pixel in range(size):
            for tap in range(self.kernel[1]):
                column = pixel * self.strides[1] + tap * self.dilations[1]
                if 0 <= left + column < extent:
                    found.setdefault(column, []).append((pixel, tap))
        return tuple((column, tuple(uses)) for column, uses in sorted(found.items()))

    def line_ends(self, out: int, extent: int) -> LineEnds | None:
        """How a line is cut, if its extent or its pad is known at run time only; None if neither is."""
        return line_ends(self, out, extent) if varies([out, extent, self.pads[1]]) else None

    def of_run(self, pads: Sequence[int]) -> Self:
        """The window that was planned for the largest pads, with those that an operator has."""
        return replace(self, pads=pair(pads[: len(pads) // 2], 0))

    def with_pad(self, pad: int) -> Self:
        """The window where that is what comes before a line."""
        return replace(self, pads=(self.pads[0], pad))

    def chunks(self) -> list[range]:
        """The taps of a line of the window, those together that are worked off at once."""
        taps = self.kernel[1]
        return [range(t, min(t + self.taps, taps)) for t in range(0, taps, self.taps)]

    def cycles(self, out: tuple[int, int], extent: int, machine: Machine, weights: bool, step: float) -> float:
        """Cycles of a vector of channels."""
        total, unit = 0.0, machine.lanes() / machine.multiply_adds
        for lines_tile in self.tiles_h(out[0]):
            rows = self.rows(lines_tile.size)
            for strip in self.strips(out[1], extent):
                products = strip.products * self.kernel[0] * lines_tile.size * step
                pixels = sum(len(strip.within(chunk)) for chunk in self.chunks()) * len(rows)
                loads = pixels + weights * self.kernel[1] * self.kernel[0] * lines_tile.size
                tile = max(products, loads) * unit + LOAD_CYCLES * pixels
                tile += lines_tile.size * strip.size / 2 + RUN_CYCLES
                tiles = (lines_tile.stop - lines_tile.start) // lines_tile.size
                total += tiles * ((strip.stop - strip.start) // strip.size) * tile
        return total


def window_distance(call: Call) -> int | None:
    """How far behind result 0 operand 0 may begin, both [N, H, W, C], where tiles go one channel after the other."""
    p, x, y = call.params, call.reads[0], call.results[0]
    assert isinstance(p, ChannelWindow)
    assert x is not None
    if not p.overlaps or p.staged:
        return None
    n, height, width, channels = y.shape
    lines = [(o, o + s.size - 1) for s in p.tiles_h(height) for o in range(s.start, s.stop, s.size)]
    pixels = [(o, o + s.size - 1) for s in p.strips(width, x.shape[2]) for o in range(s.start, s.stop, s.size)]
    down, along = np.array(lines)[:, :, None, None], np.array(pixels)[:, :, None]
    batch, c = np.arange(n)[:, None, None, None], np.arange(channels)
    top = np.clip(down[:, 0] * p.strides[0] - p.pads[0], 0, x.shape[1] - 1)
    left = np.clip(along[:, 0] * p.strides[1] - p.pads[1], 0, x.shape[2] - 1)
    return tiles_distance(call, [batch, top, left, c], [batch, down[:, 1], along[:, 1], c])


def window_turns(call: Call) -> list[Turns]:
    """The loops over lines, and over the pixels of these, of kernels that work on [N, H, W, C] by tiles."""
    p, x, y = call.params, call.reads[0], call.results[0]
    assert isinstance(p, ChannelWindow)
    assert x is not None
    if p.staged:
        return []
    lines, pixels = p.tiles_h(y.shape[1]), p.strips(y.shape[2], x.shape[2])
    return [*axes(y, ["b"]), Turns.tiles("oh", lines), Turns.tiles("ow", pixels)]


def narrow_window(call: Call, pixels: int) -> Call | None:
    """The call with tiles of at most so many pixels; see `Variant.narrowed`."""
    p = call.params
    assert isinstance(p, ChannelWindow)
    if not p.overlaps or p.staged or p.pixels * p.lines <= pixels:
        return None
    return replace(call, params=replace(p, pixels=pixels, lines=1))


Kind = TypeVar("Kind", bound=ChannelWindow)


def window_of(
    kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], pads: Sequence[int]
) -> ChannelWindow:
    """A window over one or two spatial axes, its tiles of one pixel yet; ``pads`` as operators have them."""
    begins = pads[: len(kernel)]
    return ChannelWindow(1, 1, 1, pair(kernel), pair(strides), pair(dilations), pair(begins, 0))


def fit_window(
    window: Kind, node: Node, target: Target, weights: bool = True, step: float = 1.0
) -> tuple[float, Kind]:
    """The cheapest tiles for a node from [N, C, spatial...] to [N, C, spatial...], and the cycles that it takes.

    With ``weights`` each tap has a vector of them. A product, or what stands for it, takes ``step`` times its cycles.
    """
    return fit_extents(window, node.inputs[0].shape, node.results[0].shape, target, weights, step)


def fit_extents(
    window: Kind, x: Shape, y: Shape, target: Target, weights: bool = True, step: float = 1.0
) -> tuple[float, Kind]:
    """`fit_window`, for tensors of shapes ``x`` and ``y``."""
    window = replace(window, overlaps=not target.spare_memory)
    cycles, best = _best(window, pair(y[2:]), x[-1], target.machine, weights, step)
    least = narrow(target.lanes)
    vectors = -(-y[1] // least) * least / target.lanes
    nbytes = F32.nbytes * (math.prod(x) + math.prod(y))
    return max(y[0] * vectors * cycles, nbytes / BYTES_PER_CYCLE), best


def fit_line_ends(window: Kind, out: int, extent: int) -> Kind:
    """The window with tiles of so few pixels that the code of a line's tiles stays small, if its extent or its pad
    varies."""
    if not varies([out, extent, window.pads[1]]):
        return window
    fewest, most = 1, window.pixels
    while fewest < most:  # tiles of more pixels never have less code
        pixels = most if most == window.pixels else (fewest + most + 1) // 2
        if _is_small(replace(window, pixels=pixels), out, extent):
            fewest = pixels
        else:
            most = pixels - 1
    return replace(window, pixels=fewest)


def _is_small(window: ChannelWindow, out: int, extent: int) -> bool:
    """Whether the code of all tiles of a line is."""
    products = sum(tile.strip.products for tile in line_ends(window, out, extent).tiles)
    return products * window.kernel[0] * window.lines <= MOST_PRODUCTS


def has_short_ends(kernel: Sequence[int], extents: Sequence[int]) -> bool:
    """Whether the ends of lines can be written out: of the run, each pixel there has taps of its own."""
    return not varies(extents) or math.prod(kernel) * kernel[-1] <= MOST_PRODUCTS


@functools.lru_cache(maxsize=1024)
def _best(
    window: Kind, out: tuple[int, int], extent: int, machine: Machine, weights: bool, step: float
) -> tuple[float, Kind]:
    """The cheapest tiles, of equals the largest, and the cycles of a vector of channels."""
    most_lines, most = (MAX_LINES, MAX_RESULTS) if weights else (1, MAX_PLAIN)
    found = []
    for lines in range(1, min(out[0], most_lines) + 1):
        held = max(len(uses) for _, uses in window.rows(lines))
        for pixels in range(1, min(out[1], most // lines) + 1):
            free = machine.registers - 2 - lines * pixels
            taps = min(window.kernel[1], free // held) if weights else window.kernel[1]
            products = lines * pixels * math.prod(window.kernel)
            if taps < 1 or free < 1 or (lines > 1 and products > MOST_UNROLLED):
                break
            tile = replace(window, pixels=pixels, lines=lines, taps=taps)
            cycles = tile.cycles(out, extent, machine, weights, step)
            found.append((cycles, -lines * pixels, tile))
    cycles, _, best = min(found, key=lambda f: f[:2])
    return cycles, best
