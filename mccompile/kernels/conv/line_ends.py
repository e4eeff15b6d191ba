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
import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Protocol

from mccompile._dataclass import dataclass
from mccompile.ir.dims import Dim, bound, maximum, minimum, span, symbols, value
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
    def with_pad(self, pad: int) -> Window: ...


@dataclass(frozen=True)
class EndTile:
    """A tile at an end of a line, as code: a strip of one tile, the extent of the line that it was found in, with the
    pad before it, and the places that it is for."""

    strip: Strip
    extent: int
    pad: int
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
    """The tiles of lines of ``out`` results over ``extent`` pixels, if one of these varies, or the window's pad."""
    found: dict[tuple[object, ...], EndTile] = {}
    for results, pixels, pad in sorted(_tried(window, out, extent)):
        known = window.with_pad(pad)
        for strip in known.strips(results, pixels):
            for start in range(strip.start, strip.stop, strip.size):
                place = known.place(strip.size, start, pixels)
                if place == known.place_inside:
                    break  # so are those behind it in the strip
                one = replace(strip, start=start, stop=start + strip.size)
                code = known.code_of(one, pixels)
                tile = found.setdefault(code, EndTile(one, pixels, pad, ()))
                if place not in tile.places:
                    found[code] = replace(tile, places=(*tile.places, place))
    whole, size, first = window.whole, window.pixels, _first_inside(window)
    ends = maximum(extent + window.pads[1] - window.reach[1] - 1 + window.strides[1], 0) // window.strides[1]
    last = first + maximum(minimum(ends, out) - first, 0) // size * size
    begins = (0, minimum(first, out), False), (first, last, True), (last, out, False)
    parts = tuple(LinePart(Segment(start, stop, size), inside) for start, stop, inside in begins if start != stop)
    inside = any(part.inside for part in parts)
    return LineEnds(tuple(found.values()), whole if inside else None, parts, window.span)


def known_ends(out: int, extent: int, stride: int, pad: int) -> bool:
    """Whether all tiles at the ends of a line can be found."""
    return _line_shifts(out, extent, stride, pad) is not None


def _first_inside(window: Window) -> int:
    """The first pixel of the first tile that is not at the begin of a line."""
    return -(-window.pads[1] // (window.strides[1] * window.pixels)) * window.pixels


def _tried(window: Window, out: int, extent: int) -> frozenset[tuple[int, ...]]:
    """Results, extents and pads of lines that have all tiles there are at ends of lines."""
    stride, pad = window.strides[1], window.pads[1]
    known = joint_values(out, extent, pad)
    if known is not None:
        return known
    (least, most), shifts = span(out), _line_shifts(out, extent, stride, pad)
    if shifts is None:
        raise InternalError(f"lines of {extent} pixels have too many ends")
    first = bound(_first_inside(window))
    enough = max(least, first + window.span + 2 * window.pixels) + window.pixels
    some = range(least, min(most, enough) + 1)
    lines = ((n, n * stride + shift, before) for n in some for shift, before in shifts)
    return frozenset(line for line in lines if line[1] >= 0)


def _line_shifts(out: int, extent: int, stride: int, pad: int) -> Collection[tuple[int, int]] | None:
    """All that ``extent - out * stride`` and the pad may be: of n pixels and (n + 1) // 3 results at stride 3, 0, 1
    and 2 less 1. None if that cannot be told, or is too much."""
    known = joint_values(out, extent, pad)
    if known is not None:
        return {(pixels - results * stride, before) for results, pixels, before in known}
    shift = extent - out * stride
    if (repeated := _in_periods(shift, pad)) and len(repeated) < MOST_SHIFTS:
        return repeated
    (low, high), (least, most) = span(shift), span(pad)
    if (high - low + 1) * (most - least + 1) > MOST_SHIFTS:
        return None
    return [(n, before) for n in range(low, high + 1) for before in range(least, most + 1)]


def _in_periods(one: int, other: int) -> set[tuple[int, int]] | None:
    """All that two extents can be at once that repeat themselves as their one symbol grows; None if they do not."""
    periods = [period(n) if isinstance(n, Dim) else 1 for n in (one, other)]
    inner = symbols(one, other)
    if len(inner) != 1 or None in periods:
        return None
    steps = math.lcm(*(p for p in periods if p is not None))
    places = [{inner[0].name: at} for at in inner[0].values[: 2 * steps]]
    found = [(value(one, at), value(other, at)) for at in places]
    return set(found) if found[:steps] == found[steps:] else None
