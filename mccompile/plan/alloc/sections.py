"""The blocks of a problem as arrays over the moments at which they crowd, for searches that look at all of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.plan.alloc.conflicts import Conflicts
from mccompile.plan.alloc.problem import Problem, near_holds, padded

Ints = np.ndarray[Any, np.dtype[Any]]

MOST_BLOCKS = 1500
"""Above, the square tables of distances would take too much memory."""


@dataclass(frozen=True)
class Sections:
    """Integers in units of `unit` bytes; B blocks, S sections, E entries (a block in a section).

    A section is a moment with a set of live blocks that no neighbouring moment includes. Entries are listed
    by section (`blocks[starts[s] : starts[s + 1]]` live in s) and, by `by_block` and `block_starts`, by
    block. In its entry a block occupies [low, high) above its address. `above[i, j]` is how far block i must
    lie above block j where both want the same bytes, -`never` elsewhere; `below` is its transpose.
    """

    unit: int
    never: int
    sizes: Ints  # [B]
    aligns: Ints | None  # [B]; None where every sum of distances is aligned
    above: Ints  # [B, B]
    below: Ints  # [B, B]
    blocks: Ints  # [E]
    lows: Ints  # [E]
    highs: Ints  # [E]
    starts: Ints  # [S]
    by_block: Ints  # [E] section of each entry, by block
    block_lows: Ints  # [E] `lows`, by block
    block_starts: Ints  # [B]
    members: tuple[Ints, ...]  # for each section its blocks
    demand: Ints  # [B, S] bytes of a block in a section
    credit: Ints  # [S] bytes that diagonal overlaps may save


def build_sections(problem: Problem, conflicts: Conflicts) -> Sections | None:
    """The arrays, or None for no blocks, too many of them, or blocks that cannot be told from one another."""
    blocks = conflicts.blocks
    if not 0 < len(blocks) <= MOST_BLOCKS:
        return None
    moments, credits = _moments(problem, conflicts)
    numbers = [b.nbytes for b in blocks] + [b.align for b in blocks] + list(credits)
    numbers += [edge for moment in moments for span in moment.values() for edge in span]
    numbers += [high for rivals in conflicts.rivals for _, _, high in rivals]
    unit = math.gcd(*numbers)
    never = 1 << 28
    kind: Any = np.int32
    if sum(b.nbytes + b.align for b in blocks) // unit >= never // 4:
        never, kind = 1 << 60, np.int64
    above = np.full((len(blocks), len(blocks)), -never, kind)
    for i, rivals in enumerate(conflicts.rivals):
        for j, _, high in rivals:
            above[i, j] = max(above[i, j], high // unit)
    entries = [(s, b, low // unit, high // unit) for s, m in enumerate(moments) for b, (low, high) in m.items()]
    section, block, lows, highs = (np.array(column) for column in zip(*entries, strict=True))
    order = np.lexsort((section, block))
    demand = np.zeros((len(blocks), len(moments)), kind)
    demand[block, section] = highs - lows
    members = tuple(np.array(sorted(m)) for m in moments)
    return Sections(
        unit=unit,
        never=never,
        sizes=np.array([b.nbytes // unit for b in blocks], kind),
        aligns=_aligns(conflicts, unit, above[above > -never], kind),
        above=above,
        below=np.ascontiguousarray(above.T),
        blocks=block,
        lows=lows.astype(kind),
        highs=highs.astype(kind),
        starts=np.searchsorted(section, np.arange(len(moments))),
        by_block=section[order],
        block_lows=lows[order].astype(kind),
        block_starts=np.searchsorted(block[order], np.arange(len(blocks))),
        members=members,
        demand=demand,
        credit=np.array([c // unit for c in credits], kind),
    )


def _aligns(conflicts: Conflicts, unit: int, distances: Ints, kind: Any) -> Ints | None:
    """None where every sum of ``distances`` is aligned, also of those below 0: a block may lie below another one."""
    aligns = {b.align // unit for b in conflicts.blocks}
    if len(aligns) == 1 and not (distances % aligns.copy().pop()).any():
        return None
    return np.array([b.align // unit for b in conflicts.blocks], kind)


def _moments(problem: Problem, conflicts: Conflicts) -> tuple[list[dict[int, tuple[int, int]]], list[int]]:
    """The sections: for each the blocks that live then with the bytes they occupy, and its credit."""
    saved: dict[int, int] = {}
    for near in problem.nears:
        if near_holds(problem, near):
            src, dst = (padded(problem.intervals[i]) for i in (near.src, near.dst))
            time = problem.intervals[near.dst].begin
            saved[time] = saved.get(time, 0) + max(0, min(src, dst, dst - near.distance))
    pieces = [
        (problem.intervals[m], b, off)
        for b, block in enumerate(conflicts.blocks)
        for m, off in zip(block.members, block.offsets, strict=True)
    ]
    births: dict[int, list[tuple[int, int, int, int]]] = {}
    for interval, b, off in pieces:
        births.setdefault(interval.begin, []).append((interval.end, b, off, off + padded(interval)))
    live: list[tuple[int, int, int, int]] = []
    moments: list[dict[int, tuple[int, int]]] = []
    credits: list[int] = []
    for time in sorted(births):
        live = [piece for piece in live if piece[0] > time] + births[time]
        moment: dict[int, tuple[int, int]] = {}
        for _, b, low, high in live:
            old = moment.get(b, (low, high))
            moment[b] = (min(old[0], low), max(old[1], high))
        credit = saved.get(time, 0)
        if moments and credit == credits[-1]:
            if moment.items() <= moments[-1].items():
                continue
            if moments[-1].items() <= moment.items():
                moments.pop()
                credits.pop()
        moments.append(moment)
        credits.append(credit)
    return moments, credits
