"""Lines of pixels whose extent is known at run time only, in tiles of code that knows its columns all the same.

Worked example: lines of 3 to 9 pixels under a window of 3 with a pad of 1, in tiles of 4. A tile is told by its size
and by the columns from where its first tap lies that are inside of the line, from ``low`` to before ``high``: a whole
tile has 6. Whatever the extent, the first tile misses column 0. What comes last is found by trying all extents:

>>> from mccompile.ir.dims import symbol
>>> from mccompile.kernels.conv.channel_windows import ChannelWindow
>>> n = symbol("n", 3, 9)
>>> window = ChannelWindow(4, 1, 3, kernel=(1, 3), strides=(1, 1), dilations=(1, 1), pads=(0, 1))
>>> ends = line_ends(window, n, n)
>>> for tile in ends.tiles: print(tile.strip.size, tile.strip.first, tile.strip.end, tile.places)
3 1 4 ((3, 1, 4),)
4 1 5 ((4, 1, 5),)
4 1 6 ((4, 1, 6),)
1 0 2 ((1, 0, 2),)
2 0 3 ((2, 0, 3),)
3 0 4 ((3, 0, 4),)
4 0 5 ((4, 0, 5),)

A line of 9 is the third, then one all of whose columns lie inside, then the fourth: those before and behind the ones
inside are looked up by their place when the kernel runs.

>>> for part in ends.parts: print(part)
LinePart(at=Segment(start=0, stop=least(n;4), size=4), inside=False)
LinePart(at=Segment(start=4, stop=4*((most(n-5;0))//4)+4, size=4), inside=True)
LinePart(at=Segment(start=4*((most(n-5;0))//4)+4, stop=n, size=4), inside=False)

Where there are too many extents, those are tried in which something is new: longer lines have more tiles inside.

>>> n = symbol("n", 3, 99999)
>>> len(line_ends(window, n, n).tiles)
7
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Protocol

from mccompile._dataclass import dataclass
from mccompile.ir.dims import maximum, minimum, span, symbols, value
from mccompile.ir.errors import InternalError
from mccompile.ir.joint_values import joint_values, period
from mccompile.kernels.conv.strips import Strip
from mccompile.kernels.model.tiles import Segment

MOST_SHIFTS = 64
"""Ends of lines, as seen from their results, that are tried at most."""


class Window(Protocol):
    """What a window tells of the tiles of a line: see `ChannelWindow`."""

    @property
    def pixels(self) -> int: ...
    @property
    def strides(self) -> tuple[int, int]: ...
    @property
    def pads(self) -> tuple[int, int]: ...
    @property
    def reach(self) -> tuple[int, int]: ...
    @property
    def span(self) -> int: ...
    @property
    def whole(self) -> Strip: ...
    @property
    def place_inside(self) -> tuple[int, ...]: ...
    def strips(self, out: int, extent: int) -> Sequence[Strip]: ...
    def place(self, size: int, start: int, extent: int) -> tuple[int, ...]: ...
    def code_of(self, strip: Strip, extent: int) -> tuple[object, ...]: ...


@dataclass(frozen=True)
class EndTile:
    """A tile at an end of a line, as code: a strip of one tile, the extent of the line that it was found in, and the
    places that it is for."""

    strip: Strip
    extent: int
    places: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class LinePart:
    """Tiles of a line that all lie ``inside``, or are at an end of it."""

    at: Segment
    inside: bool


@dataclass(frozen=True)
class LineEnds:
    """How a line is cut: ``parts`` of it, the code of ``tiles`` at its ends, and the ``whole`` tile inside, or None
    where no line has one."""

    tiles: tuple[EndTile, ...]
    whole: Strip | None
    parts: tuple[LinePart, ...]
    span: int

    @property
    def key_type(self) -> str:
        """The C type of `key`."""
        fields = len(self.tiles[0].places[0]) if self.tiles else 0
        return "int32_t" if (self.span + 1) ** fields < 1 << 31 else "int64_t"

    def key(self, place: tuple[int, ...]) -> int:
        """A number for a place; the template computes it alike."""
        return functools.reduce(lambda key, part: key * (self.span + 1) + part, place)

    @property
    def looked_up(self) -> bool:
        """Whether a tile may lie at an end of the line."""
        return not all(part.inside for part in self.parts)

    def keys(self, tile: EndTile) -> list[int]:
        return [self.key(place) for place in tile.places]


def line_ends(window: Window, out: int, extent: int) -> LineEnds:
    """The tiles of lines of ``out`` results over ``extent`` pixels, one of which varies."""
    found: dict[tuple[object, ...], EndTile] = {}
    for results, pixels in sorted(_tried(window, out, extent)):
        for strip in window.strips(results, pixels):
            for start in range(strip.start, strip.stop, strip.size):
                place = window.place(strip.size, start, pixels)
                if place == window.place_inside:
                    break  # so are those behind it in the strip
                one = replace(strip, start=start, stop=start + strip.size)
                code = window.code_of(one, pixels)
                tile = found.setdefault(code, EndTile(one, pixels, ()))
                if place not in tile.places:
                    found[code] = replace(tile, places=(*tile.places, place))
    whole, size, first = window.whole, window.pixels, _first_inside(window)
    ends = maximum(extent + window.pads[1] - window.reach[1] - 1 + window.strides[1], 0) // window.strides[1]
    last = first + maximum(minimum(ends, out) - first, 0) // size * size
    begins = (0, minimum(first, out), False), (first, last, True), (last, out, False)
    parts = tuple(LinePart(Segment(start, stop, size), inside) for start, stop, inside in begins if start != stop)
    inside = any(part.inside for part in parts)
    return LineEnds(tuple(found.values()), whole if inside else None, parts, window.span)


def known_ends(out: int, extent: int, stride: int) -> bool:
    """Whether all tiles at the ends of a line can be found."""
    return line_shifts(out, extent, stride) is not None


def _first_inside(window: Window) -> int:
    """The first pixel of the first tile that is not at the begin of a line."""
    return -(-window.pads[1] // (window.strides[1] * window.pixels)) * window.pixels


def _tried(window: Window, out: int, extent: int) -> frozenset[tuple[int, int]]:
    """Results and extents of lines that have all tiles there are at ends of lines."""
    known = joint_values(out, extent)
    if known is not None:
        return frozenset((results, pixels) for results, pixels in known)
    (least, most), shifts = span(out), line_shifts(out, extent, window.strides[1])
    if shifts is None:
        raise InternalError(f"lines of {extent} pixels have too many ends")
    enough = max(least, _first_inside(window) + window.span + 2 * window.pixels) + window.pixels
    lines = ((n, n * window.strides[1] + shift) for n in range(least, min(most, enough) + 1) for shift in shifts)
    return frozenset((n, pixels) for n, pixels in lines if pixels >= 0)


def line_shifts(out: int, extent: int, stride: int) -> Collection[int] | None:
    """All that ``extent - out * stride`` may be: of n pixels and (n + 1) // 3 results at stride 3, 0, 1 and 2 less 1.
    None if that cannot be told, or is too much."""
    known = joint_values(out, extent)
    if known is not None:
        return {pixels - results * stride for results, pixels in known}
    shift = extent - out * stride
    low, high = span(shift)
    if high - low < MOST_SHIFTS:
        return range(low, high + 1)
    periods = period(shift)
    if periods is None:
        return None
    (inner,) = symbols(shift)
    found = [value(shift, {inner.name: n}) for n in inner.values[: 2 * periods]]
    once = set(found[:periods])
    return once if found[:periods] == found[periods:] and len(once) < MOST_SHIFTS else None
