"""Tiles of convolutions and products of bytes, and what they take.

Worked example: 16 channels to 96, by PMADDWD of AVX2. A sum has 8 steps. Tiles of 6 pixels by 2 vectors and of 2 by
4 take as long for the steps; but four vectors of sums become 32 bytes in fewer instructions (`kernels/model/woven`),
which eight steps do not hide. 384 channels are 192 steps: a loop, in which tiles of 6 by 2 wait less for weights.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace

from mccompile._dataclass import dataclass
from mccompile.ir.scalar import Array
from mccompile.kernels.model.arithmetic import MADD, MADDUBS, Arithmetic, by_name, refused
from mccompile.kernels.model.tiles import MAX_ROWS, MAX_VECTORS, Segment, Tile, columns, segments, tile_cycles
from mccompile.kernels.model.woven import is_woven
from mccompile.kernels.views.windows import covered
from mccompile.targets.machine import Machine
from mccompile.targets.target import Target

UNEVEN = 1.12
"""Times as long tiles of three vectors take by PMADDWD with 16 registers: a step of 3 by 3 sums takes 6.7 cycles, of
6 by 2 8.0, of 5 by 2 6.8, of 2 by 4 5.3 (Zen 3)."""
EPILOGUE = 10
"""Cycles of a vector of results, from sums to bytes."""
WOVEN = {2: 0.5, 4: 1.0}
"""Cycles of these that are spared where so many vectors are woven (Zen 3)."""
FEW_STEPS, FEW_WOVEN_STEPS = 8, 24
"""Steps of a sum that are written out: of most tiles, and of four woven vectors."""
TURNS = (4, 2, 3)
"""Steps of a longer sum that are one turn of its loop: the first of these that leaves no rest."""
ENOUGH_SUMS, FEW_SUMS = 10, 1.08
"""Times as long a step takes for each sum where a tile has fewer (Zen 3): there are as many loads for less to hide
them. Where steps of four woven vectors are written out, they are hidden."""
SHORT_STEP = 3
"""Cycles that a step of PMADDWD takes at least: a sum waits for an addition alone, but loads are not hidden (2 by
2)."""
KEPT, FEW_REGISTERS = 2, 16
"""Registers that stay free in functions that do several tiles, where there are more than these: with none left gcc 12
puts sums on the stack there (14 by 2 of AVX-512 took 1.7 times as long as 6 by 4, Zen 4), and with two it does not.
With 16, sums are worth more."""
TURN = 4
"""Cycles from one tile to the next of a function that does several."""


@dataclass(frozen=True)
class IntegerTile(Tile):
    """Tiles of ``rows`` pixels of a line, in chunks of ``lines`` lines of the result, or of ``span`` pixels of one;
    or tiles of ``tall`` whole lines, where that is more than one.

    Attributes:
        arithmetic: the name of an `Arithmetic`.
        staged: lines of the operand are copied to scratch before they are read.
        packs: the second operand is packed when it runs, in scratch, for each image; its zero point is ``other``.
        zero: the zero point of the operand, which padding is.
        ahead: bytes by which weights are asked for early; 0: they are near.
        pads: what comes before the operand.
        weaves: columns lie woven, where a block has as many vectors as that takes.
        twice: words of a block that are read twice, each time with half of their weights.
        early_results: the lines of results are asked for before their sums begin.
    """

    arithmetic: str
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int]
    zero: int
    staged: bool
    lines: int
    span: int
    packs: bool = False
    other: int = 0
    tall: int = 1
    ahead: int = 0
    weaves: bool = False
    twice: int = 0
    early_results: bool = False

    @property
    def own(self) -> Arithmetic:
        return by_name(self.arithmetic)

    def chunks(self, extent: int) -> tuple[Segment, ...]:
        """Lines of the result, in chunks."""
        return segments(extent, self.lines)

    def spans(self, extent: int) -> tuple[Segment, ...]:
        """Pixels of a line, in chunks."""
        return segments(extent, self.span)

    def tiles_h(self, extent: int) -> tuple[Segment, ...]:
        return segments(extent, self.tall)

    def sizes(self, lines: int, pixels: int) -> list[int]:
        """Pixels that tiles have."""
        if self.tall > 1:
            tiles = [h for chunk in self.chunks(lines) for h in self.tiles_h(chunk.size)]
            return list(dict.fromkeys(h.size * pixels for h in tiles))
        return list(dict.fromkeys(d.size for s in self.spans(pixels) for d in self.tiles_m(s.size)))

    def woven(self, size: int) -> bool:
        """Whether the columns of a block of ``size`` are."""
        return self.weaves and is_woven(size, self.lanes)

    def written_out(self, size: int, steps: int) -> int:
        """How many steps of a loop of ``steps`` are written out, in tiles of ``size`` columns: all, or as many as it
        is a whole number of turns of. 1: the compiler may unroll it, and write the rest in front; addresses of
        several steps of narrow vectors would not fit into registers.

        Told to unroll a loop of 16 steps by four, gcc 12 puts three of them in front, and the sums that these share
        with the loop on the stack.
        """
        most = FEW_WOVEN_STEPS if size == 4 * self.lanes and self.woven(size) else FEW_STEPS
        if steps <= most:
            return steps
        return next((n for n in TURNS if steps % n == 0 and self.lanes > 4), 1)

    @property
    def one_run(self) -> bool:
        """Whether the taps of a line of the window are neighbours."""
        return one_run(self.kernel, self.dilations)

    def words(self, channels: int) -> int:
        """Steps of a run."""
        return self.own.words(self.kernel[1] * channels if self.one_run else channels)

    def steps(self, channels: int) -> int:
        """Steps of a sum."""
        return self.kernel[0] * (1 if self.one_run else self.kernel[1]) * self.words(channels) + self.twice

    def pitch(self, size: int) -> int:
        """Words of a packed row of ``size`` columns."""
        return -(-size // self.lanes) * self.lanes

    def column_bytes(self, channels: int) -> int:
        """Bytes of a packed column: what its sum begins with, its weights, and where words are read twice."""
        return self.own.begin_bytes + self.steps(channels) * self.own.word_bytes + 4 * self.twice

    def packed_words(self, channels: int, columns: int) -> int:
        """Words of 32 bits of all blocks of columns that are packed when they run."""
        blocks = sum((s.stop - s.start) // s.size * self.pitch(s.size) for s in self.tiles_n(columns))
        return (self.steps(channels) + 1) * blocks

    def several(self, channels: int) -> bool:
        """Whether a function does several tiles: what a core does at the end of one and at the beginning of the next
        overlaps. Long sums over windows of several lines leave no registers for that."""
        return _several(self.kernel, self.steps(channels))

    def staged_width(self, out: int) -> int:
        """Pixels of a staged line, for ``out`` results."""
        return covered(out, self.kernel[1], self.strides[1], self.dilations[1])

    def staged_lines(self, out: int) -> int:
        """Lines that are staged for ``out`` lines of the result."""
        return covered(out, self.kernel[0], self.strides[0], self.dilations[0])


def _several(kernel: tuple[int, int], steps: int) -> bool:
    return kernel[0] == 1 or steps <= FEW_WOVEN_STEPS


def one_run(kernel: tuple[int, int], dilations: tuple[int, int]) -> bool:
    return kernel[1] == 1 or dilations[1] == 1


@dataclass(frozen=True)
class Chosen:
    """An arithmetic, and how many words are read ``twice`` in blocks of one, two .. vectors: nothing if none are."""

    own: Arithmetic
    twice: tuple[int, ...] = ()


@dataclass(frozen=True)
class Problem:
    """A product as the kernel sees it: ``lines`` lines of ``pixels`` results, sums over ``channels`` and a window."""

    images: int
    lines: int
    pixels: int
    columns: int
    channels: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]


@functools.lru_cache(maxsize=512)
def best_integer_tile(
    problem: Problem,
    own: Arithmetic,
    flip: bool,
    target: Target,
    weaves: bool = False,
    twice: tuple[int, ...] = (),
) -> tuple[float, Tile]:
    """The cheapest tile of a product, and its cycles; of equals the largest. It may have the pixels of several lines.
    ``flip``: each word that is read has its top bits flipped; ``weaves``: columns may be woven;
    ``twice``: words that are, in blocks of one, two .. vectors."""
    lanes, machine = target.lanes, target.machine
    found = []
    lines, pixels = problem.lines, problem.pixels
    kept = KEPT if machine.registers > FEW_REGISTERS and _several(problem.kernel, _steps(problem, own)) else 0
    several = range(2 * pixels, min(lines * pixels, MAX_ROWS) + 1, pixels)
    for rows in (*range(1, min(pixels, MAX_ROWS) + 1), *several):
        for vectors in range(1, min(-(-problem.columns // lanes), MAX_VECTORS) + 1):
            if own.registers(rows, vectors, flip) + kept > machine.registers:
                continue
            tile = Tile(rows, vectors, lanes)
            cycles = _cycles(problem, tile, own, machine, twice[vectors - 1] if twice else 0)
            for s in tile.tiles_n(problem.columns) if weaves else ():
                if is_woven(s.size, lanes):
                    cycles -= lines * pixels * (s.stop - s.start) // lanes * WOVEN[s.size // lanes]
            found.append((cycles, -rows * vectors, tile))
    cycles, _, tile = min(found, key=lambda f: f[:2])
    results = lines * pixels * -(-problem.columns // lanes) * EPILOGUE
    return problem.images * (cycles + results), tile


def words_twice(own: Arithmetic, columns: Array, lanes: int) -> tuple[int, ...]:
    """Words that are read twice in blocks of one, two .. vectors of ``columns`` [columns, words, steps]."""
    return tuple(max(map(len, refused(own, columns, n * lanes))) for n in range(1, MAX_VECTORS + 1))


def _runs(problem: Problem) -> int:
    return problem.kernel[0] * (1 if one_run(problem.kernel, problem.dilations) else problem.kernel[1])


def _steps(problem: Problem, own: Arithmetic) -> int:
    """Steps of a sum."""
    runs = _runs(problem)
    return runs * own.words(math.prod(problem.kernel) // runs * problem.channels)


def _cycles(problem: Problem, tile: Tile, own: Arithmetic, machine: Machine, twice: int = 0) -> float:
    """Cycles of the sums of an image, in tiles."""
    runs = _runs(problem)
    words = _steps(problem, own) // runs + twice
    parts = columns(problem.columns, tile.width, tile.lanes)
    apart = problem.channels * own.staged.nbytes * problem.strides[1]
    lines, pixels, rows = problem.lines, problem.pixels, tile.rows
    tiles = segments(lines * pixels, rows) if rows > pixels else segments(pixels, rows) * lines
    if own in (MADD, MADDUBS):
        call = TURN if _several(problem.kernel, runs * words) else machine.call
        machine = replace(machine, latency=SHORT_STEP, call=call)
    cycles = tile_cycles(tiles, parts, runs * words, machine, load=own.rows, apart=apart)
    if own == MADD and machine.registers <= 16 and rows > 1:
        if tile.vectors == 3:
            cycles *= UNEVEN
        if rows * tile.vectors < ENOUGH_SUMS and (tile.vectors < 4 or words > FEW_WOVEN_STEPS):
            cycles *= FEW_SUMS
    return cycles
