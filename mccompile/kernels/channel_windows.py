"""Windows over channels-last tensors: tiles of pixels along a line, each tap known to lie inside or left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mccompile.ir.kernel import View
from mccompile.ir.types import row_major
from mccompile.kernels.channels import last
from mccompile.kernels.tiles import FMA_LANES, TILE_CYCLES
from mccompile.targets.target import Target

Column = tuple[int, tuple[tuple[int, int], ...]]
"""A pixel of the operand, counted from where a tile's first tap would lie, and the (pixel of the tile, tap) it serves."""


@dataclass(frozen=True)
class Strip:
    """A run of tiles along a line whose taps inside of the operand are the same: ``size`` pixels each."""

    start: int
    stop: int
    size: int
    columns: tuple[Column, ...]

    @property
    def first(self) -> int:
        """The leftmost column that is read."""
        return self.columns[0][0] if self.columns else 0

    def used(self, taps: range) -> list[int]:
        """Those of some taps that any column serves."""
        return sorted({tap for _, uses in self.columns for _, tap in uses if tap in taps})

    def within(self, taps: range) -> list[Column]:
        """The columns that some taps read."""
        parts = [(column, tuple(u for u in uses if u[1] in taps)) for column, uses in self.columns]
        return [(column, uses) for column, uses in parts if uses]


@dataclass(frozen=True)
class ChannelWindow:
    """A window over two spatial axes (the first of extent 1 where there is one), ``pixels`` results at a time.

    ``taps`` of a line of the window are worked off at once, their weights in registers; ``pads`` is what comes before.
    """

    pixels: int
    taps: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int]

    def strips(self, out: int, extent: int) -> list[Strip]:
        """A line of ``out`` results over ``extent`` pixels as runs of equal tiles."""
        strips: list[Strip] = []
        for start in range(0, out, self.pixels):
            size = min(self.pixels, out - start)
            columns = self._columns(start, size, extent)
            if strips and (strips[-1].size, strips[-1].columns) == (size, columns):
                strips[-1] = Strip(strips[-1].start, start + size, size, columns)
            else:
                strips.append(Strip(start, start + size, size, columns))
        return strips

    def _columns(self, start: int, size: int, extent: int) -> tuple[Column, ...]:
        left = start * self.strides[1] - self.pads[1]
        found: dict[int, list[tuple[int, int]]] = {}
        for pixel in range(size):
            for tap in range(self.kernel[1]):
                column = pixel * self.strides[1] + tap * self.dilations[1]
                if 0 <= left + column < extent:
                    found.setdefault(column, []).append((pixel, tap))
        return tuple((column, tuple(uses)) for column, uses in sorted(found.items()))

    def chunks(self) -> list[range]:
        """The taps of a line, those together that are worked off at once."""
        taps = self.kernel[1]
        return [range(t, min(t + self.taps, taps)) for t in range(0, taps, self.taps)]

    def cycles(self, out: tuple[int, int], extent: int, lanes: int, weights: bool, step: float = 1.0) -> float:
        """Cycles of a vector of channels: products (or combinations of ``step`` cycles), loads, stores."""
        total = 0.0
        for strip in self.strips(out[1], extent):
            products = sum(len(uses) for _, uses in strip.columns) * step
            loads = sum(len(strip.within(chunk)) for chunk in self.chunks()) + weights * self.kernel[1]
            line = max(products, loads) * lanes / FMA_LANES + loads / 4
            tile = self.kernel[0] * (line + 2) + 2 * strip.size + TILE_CYCLES / 2
            total += (strip.stop - strip.start) // strip.size * tile
        return out[0] * total


def plane_last(view: View) -> View:
    """The view [N, C, spatial...] as [N, H, W, C]; a missing H of extent 1 comes before W."""
    moved = last(view)
    if moved.rank == 4:
        return moved
    strides = moved.axis_strides()
    shape = (moved.shape[0], 1, *moved.shape[1:])
    return View(moved.buffer, shape, row_major(4), (strides[0], 0, *strides[1:]), moved.offset)


def pair(values: Sequence[int], missing: int = 1) -> tuple[int, int]:
    """Numbers of two spatial axes; of one axis, ``missing`` stands for the axis before it."""
    return (missing, *values)[-2], values[-1]


def best_channel_window(
    window: ChannelWindow, out: tuple[int, int], extent: int, target: Target, weights: bool, step: float = 1.0
) -> tuple[float, ChannelWindow]:
    """The cheapest way to cut lines of results into tiles, and its cycles for a vector of channels."""
    found = []
    taps = window.kernel[1]
    for pixels in range(1, min(out[1], target.registers - 3) + 1):
        held = min(taps, target.registers - 2 - pixels) if weights else taps
        tile = ChannelWindow(pixels, held, window.kernel, window.strides, window.dilations, window.pads)
        found.append((tile.cycles(out, extent, target.lanes, weights, step), -pixels, tile))
    cycles, _, best = min(found, key=lambda f: f[:2])
    return cycles, best
