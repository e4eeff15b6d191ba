"""Register tiles of products: rows that share each loaded vector, by vectors that share each broadcast scalar.

Worked example: AVX2 has 16 registers of 8 floats. Tiles of 4 rows by 2 vectors hold 8 sums, 2 vectors of weights
and a scalar of each row. 35 rows are eight such tiles and one of three rows; 24 columns are one tile of 16 and one
of 8. 20 packed floats are padded to three vectors of 8, or to one of 16 and half a one.

>>> from mccompile.targets.target import resolve
>>> avx2 = resolve("x86-64-v3")
>>> fits(4, 2, avx2), fits(8, 2, avx2)
(True, False)
>>> tile = Tile(rows=4, vectors=2, lanes=8)
>>> tile.tiles_m(35)
(Segment(start=0, stop=32, size=4), Segment(start=32, stop=35, size=3))
>>> tile.tiles_n(24)
(Segment(start=0, stop=16, size=16), Segment(start=16, stop=24, size=8))
>>> pitch(20, lanes=8), pitch(20, lanes=16)
(24, 24)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from mccompile._dataclass import dataclass
from mccompile.ir.dims import bound, varies
from mccompile.ir.types import row_major
from mccompile.ir.views import View
from mccompile.kernels.views.collapse import collapse
from mccompile.targets.machine import Machine
from mccompile.targets.target import Target

MAX_ROWS = 16
MAX_VECTORS = 8
KEPT = 9
"""Lines of one set that stay from step to step of a reduction, while weights pass through."""
EVICTED = 1.1
"""Cycles to fetch a line again that did not stay (1024 channels, Zen 4: 9 rows at the peak, 14 rows at 0.8 of it)."""
_HALVED = 16
"""From so many floats on, a last vector that is at most half full is one of half the width: in half the time."""


class Stretch(Protocol):
    """A stretch of an axis, walked in tiles of ``size``."""

    @property
    def start(self) -> int: ...

    @property
    def stop(self) -> int: ...

    @property
    def size(self) -> int: ...


@dataclass(frozen=True)
class Segment:
    """A stretch of an axis walked in steps of ``size``: tiles of one extent. What is known at run time only may be
    empty; a ``size`` that is so is that of the one tile there is."""

    start: int
    stop: int
    size: int

    @property
    def lone(self) -> bool:
        """Whether there is one tile, or at most one."""
        return self.stop - self.start == self.size

    @property
    def named(self) -> str:
        """What the function for such a tile is called by."""
        return "rest" if varies([self.size]) else str(self.size)


@functools.lru_cache(maxsize=4096, typed=True)
def segments(extent: int, size: int, unit: int = 1) -> tuple[Segment, ...]:
    """An axis as whole tiles and what is left.

    What is left of an extent that varies are ever smaller tiles, down to one ``unit``, and less than a unit:

    >>> from mccompile.ir.dims import symbol
    >>> for s in segments(symbol("n", 1, 99), 24, unit=8): print(s)
    Segment(start=0, stop=24*(n//24), size=24)
    Segment(start=24*(n//24), stop=8*(n//8), size=8)
    Segment(start=8*(n//8), stop=n, size=-8*(n//8)+n)
    """
    if varies([extent]):
        return descending(extent, divisors(size, unit))
    whole = extent // size * size
    parts = (Segment(0, whole, size), Segment(whole, extent, extent - whole))
    return tuple(s for s in parts if s.stop > s.start)


def flush(extent: int, size: int) -> tuple[Segment, ...]:
    """An axis as whole tiles, the last of which ends with it: it covers again what the one before it does.

    >>> flush(35, 4)
    (Segment(start=0, stop=32, size=4), Segment(start=31, stop=35, size=4))
    """
    if varies([extent]) or extent < size or extent % size == 0:
        return segments(extent, size)
    return Segment(0, extent // size * size, size), Segment(extent - size, extent, size)


def divisors(size: int, unit: int) -> Iterator[int]:
    """A size, then its largest part, and the largest part of that, down to ``unit``: 6, 3, 1, or 24, 8 of units of 8.
    """
    while size > unit:
        yield size
        size = next(d for d in range(size - unit, 0, -unit) if size % d == 0)
    yield unit


def descending(extent: int, sizes: Iterable[int]) -> tuple[Segment, ...]:
    """An extent that varies in tiles of each of ``sizes``, which are multiples of those that follow, and the rest.
    What is always empty is left out, also where that is told by the difference alone.

    >>> from mccompile.ir.dims import minimum, symbol
    >>> [s.size for s in descending(6 * minimum(2 * (symbol("n", 0, 7) // 2) + 2, 6), [4])]
    [4]
    """
    found, start = [], 0
    for size in sizes:
        stop = extent // size * size
        found.append(Segment(start, stop, size))
        start = stop
    found.append(Segment(start, extent, extent - start))
    return tuple(s for s in found if bound(s.stop - s.start) > 0)


def chunks(extent: int, size: int) -> tuple[Segment, ...]:
    """An axis in chunks, and what is left: one chunk, too."""
    if varies([extent]):
        return descending(extent, [size] if bound(extent) > size else [])
    return segments(extent, size)


LONG = 1000
"""Steps of a sum from which on it goes in runs: a running sum of f32 loses about 1e-8 of its value with each."""
RUN = 256
"""Steps of a run, at most: what is added up behind it takes less than a hundredth of its instructions."""


def runs(steps: int, total: int) -> tuple[Segment, ...]:
    """How ``steps`` of a sum of ``total`` are cut into runs; none where the sum is short.

    They are as long as whole turns of four steps allow with no rest, or with one of four steps at most:

    >>> runs(1152, 1152)
    (Segment(start=0, stop=1152, size=192),)
    >>> runs(1021, 1021)
    (Segment(start=0, stop=1020, size=204), Segment(start=1020, stop=1021, size=1))
    >>> runs(1000, 1000)
    ()
    """
    if bound(total) <= LONG:
        return ()
    if varies([steps]):
        return descending(steps, [RUN])
    if steps <= RUN:
        return segments(steps, steps)
    return segments(steps, min(range(RUN // 2, RUN + 1), key=lambda size: (_leftover(steps, size), -size)))


def turns(steps: int) -> int:
    """Turns of a loop, each of ``steps``, that a run has; 0 where a turn is longer than a run."""
    return RUN // steps


def _leftover(steps: int, size: int) -> int:
    """How much code runs of ``size`` take beside a loop of four steps to a turn: for their rest, and their own."""
    rest = steps % size
    return (rest > 0) + (rest > 4) + (size % 4 > 0)


@dataclass(frozen=True)
class Tile:
    """Parameters of a tiled kernel: ``rows`` x ``vectors`` accumulators of ``lanes`` floats."""

    rows: int
    vectors: int
    lanes: int

    @property
    def width(self) -> int:
        """Floats of a tile's row."""
        return self.vectors * self.lanes

    def tiles_m(self, extent: int) -> tuple[Segment, ...]:
        return segments(extent, self.rows)

    def tiles_n(self, extent: int) -> tuple[Segment, ...]:
        return segments(extent, self.width, self.lanes)

    def runs(self, steps: int, total: int = 0) -> tuple[Segment, ...]:
        """`runs` of a sum that has no other steps, or ``total`` of them."""
        return runs(steps, total or steps)

    def turns(self, steps: int) -> int:
        """Turns of a loop, each of ``steps``, that a run has; 0 where a turn is longer than a run."""
        return turns(steps)


@dataclass(frozen=True, kw_only=True)
class Prefetching:
    """What tiles of several rows ask for early: weights, ``ahead`` bytes before they are read (0: they are near), and
    with ``early_results`` the lines of results before their sums begin. One row waits for nothing but memory."""

    ahead: int = 0
    early_results: bool = False


class InChunks(Tile):
    """A tile whose rows are taken in chunks of ``chunk``."""

    chunk: int

    def chunks_m(self, extent: int) -> tuple[Segment, ...]:
        return chunks(extent, self.chunk)

    def starts_m(self, extent: int) -> list[int]:
        """Where tiles of rows begin, where rows are what comes in chunks."""
        starts: list[int] = []
        for chunk in self.chunks_m(extent):
            within = list(tile_starts(self.tiles_m(chunk.size)))
            starts += [first + at for first in tile_starts([chunk]) for at in within]
        return starts

    def heights(self, extent: int) -> list[int]:
        """Rows that tiles have, where rows are what comes in chunks."""
        return list(dict.fromkeys(d.size for piece in self.chunks_m(extent) for d in self.tiles_m(piece.size)))


@dataclass(frozen=True)
class PackedTile(InChunks, Prefetching):
    """A tile whose columns are packed weights; rows are taken in chunks of ``chunk`` along row axis ``axis``.

    All columns are done for a chunk before the next one: what a chunk reads is to stay in the second cache. With
    ``depth``, so many steps of the reduction are done for all rows of a chunk before the next ones. With ``staged``
    the rows of a tile are copied before they are read, so that results may take their place. With ``covers`` a last
    tile that would have fewer rows computes some again instead, and has no code of its own.
    """

    axis: int
    chunk: int
    depth: int = 0
    staged: bool = False
    covers: bool = False

    def tiles_m(self, extent: int) -> tuple[Segment, ...]:
        return flush(extent, self.rows) if self.covers else super().tiles_m(extent)

    def pitch(self, size: int) -> int:
        """Floats of a packed row of ``size`` columns."""
        return pitch(size, self.lanes)


def narrow(lanes: int) -> int:
    """Floats of the narrowest vector that kernels use: half of one where that pays."""
    return lanes // 2 if lanes >= _HALVED else lanes


def pitch(size: int, lanes: int) -> int:
    """``size`` rounded up to whole vectors, or to a half one where there are such. What is known at run time only is
    less than a vector, and takes a whole one."""
    if varies([size]):
        return lanes
    step = narrow(lanes)
    return -(-size // step) * step


def tile_starts(pieces: Iterable[Stretch]) -> Iterator[int]:
    """Where the tiles of an axis begin."""
    for s in pieces:
        yield from range(s.start, s.stop, s.size)


def fits(rows: int, vectors: int, target: Target, spare: int = 0) -> bool:
    """True if the accumulators, a vector for each column, the broadcasts and ``spare`` registers do not spill."""
    return rows * vectors + vectors + (target.broadcasts or rows) + spare <= target.machine.registers


def step_cycles(rows: int, vectors: float, machine: Machine, load: float = 1.0) -> float:
    """Cycles of one step of the reduction: multiply-adds, their latency, or loads.

    ``load`` is the number of loads that a vector takes. Loads are never hidden altogether: a quarter is added.
    """
    parts = max(machine.vector_bytes / machine.load_bytes, 1)
    loads = (vectors * parts * load + rows) / machine.loads
    return max(rows * vectors * machine.lanes() / machine.multiply_adds, machine.latency, loads) + loads / 4


def crowded(rows: int, apart: int, way: int) -> float:
    """Cycles that a step loses because its rows, ``apart`` bytes from one to the next, meet in sets of the cache."""
    sets = way // math.gcd(way, apart)
    return EVICTED * sets * max(-(-rows // sets) - KEPT, 0)


def tile_cycles(
    rows: Iterable[Segment],
    vectors: Iterable[tuple[int, float]],
    steps: int,
    machine: Machine,
    load: float = 1.0,
    apart: int = 0,
) -> float:
    """Cycles of all tiles; ``vectors`` are (tiles, vectors per tile), ``steps`` the length of the reduction.

    ``apart`` is how many bytes lie between rows, 0 if it does not matter.
    """
    columns = list(vectors)
    total = 0.0
    for r in rows:
        for count, n in columns:
            step = step_cycles(r.size, n, machine, load) + (crowded(r.size, apart, machine.way) if apart else 0.0)
            one = steps * step + 2 * r.size * n + machine.call
            total += (r.stop - r.start) // r.size * count * one
    return total


def columns(extent: int, width: int, lanes: int) -> list[tuple[int, float]]:
    """(tiles, vectors per tile) of an axis of floats cut in tiles of ``width``."""
    return [((s.stop - s.start) // s.size, -(-s.size // lanes)) for s in segments(extent, width)]


def packed_columns(extent: int, width: int, lanes: int) -> list[tuple[int, float]]:
    """`columns` whose last vector may be a half one."""
    return [((s.stop - s.start) // s.size, pitch(s.size, lanes) / lanes) for s in segments(extent, width)]


def vector_counts(width: int, lanes: int, together: int = 1) -> list[int]:
    """Vectors that a row of a tile may have of ``width`` floats: no few left over where one load brings ``together``.

    >>> vector_counts(96, 4, together=4)
    [1, 2, 3, 4, 8]
    """
    most = min(-(-width // lanes), MAX_VECTORS)
    return [n for n in range(1, most + 1) if n < together or n % together == 0]


def best_tile(extent: int, width: int, steps: int, target: Target, packed: bool = False) -> tuple[float, Tile]:
    """The first of `ranked_tiles`."""
    return ranked_tiles(extent, width, steps, target, packed)[0]


@functools.lru_cache(maxsize=512)
def ranked_tiles(
    extent: int, width: int, steps: int, target: Target, packed: bool = False
) -> tuple[tuple[float, Tile], ...]:
    """The tiles for ``extent`` rows of ``width`` floats with their cycles, cheapest first; of equals the largest.

    With ``packed`` the floats are weights, padded to whole or half vectors, and rows of ``steps`` floats lie one
    behind the other.
    """
    lanes = target.lanes
    apart = 4 * steps if packed else 0
    cut = packed_columns if packed else columns
    counts = vector_counts(width, lanes, target.machine.vectors_loaded if packed else 1)
    found = []
    for rows in range(1, min(extent, MAX_ROWS) + 1):
        for vectors in counts:
            if fits(rows, vectors, target):
                parts = cut(width, vectors * lanes, lanes)
                cycles = tile_cycles(segments(extent, rows), parts, steps, target.machine, apart=apart)
                found.append((cycles, -rows * vectors, Tile(rows, vectors, lanes)))
    return tuple((cycles, tile) for cycles, _, tile in sorted(found, key=lambda f: f[:2]))


def merge(views: Sequence[View], axes: range) -> list[View] | str:
    """The views with a run of axes, of equal extents in all of them, merged to as few as possible, at least one.

    Returns the reason if a view's layout is blocked.
    """
    if any(not v.linear for v in views):
        return "the layout is blocked"
    strides = [v.axis_strides() for v in views]
    merged = collapse([v.along(axes) for v in views])
    if isinstance(merged, str):
        return merged
    out = []
    for v, s, m in zip(views, strides, merged, strict=True):
        extents, steps = (m.shape, m.strides) if m.rank else ((1,), (0,))
        shape = (*v.shape[: axes.start], *extents, *v.shape[axes.stop :])
        stride = (*s[: axes.start], *steps, *s[axes.stop :])
        out.append(View(v.buffer, shape, row_major(len(shape)), stride, v.offset))
    return out
