"""Pairs of blocks that may not overlap, as forbidden differences of their addresses.

Worked example: x of 8 bytes and y of 4 are alive together. y may end where x begins (4 below it) or begin where x
ends (8 above it), and lie nowhere in between: for y, addr(y) - addr(x) is not in the open range (-4, 8); for x the
range is mirrored. A diagonal offer of distance 2 ("y may begin 2 bytes behind x") lowers the upper end to 2.

>>> from mccompile.plan.alloc.problem import Interval, Near
>>> from mccompile.plan.alloc.chains import build_blocks
>>> intervals = (Interval("x", 1, 3, 8, 1), Interval("y", 0, 2, 4, 1))
>>> apart, near = Problem(intervals), Problem(intervals, nears=(Near(src=1, dst=0, distance=2),))
>>> build_conflicts(apart, build_blocks(apart, ())).rivals[1]
((0, -4, 8),)
>>> build_conflicts(near, build_blocks(near, ())).rivals[1]
((0, -4, 2),)
"""

from __future__ import annotations

import heapq

from mccompile._dataclass import dataclass
from mccompile.plan.alloc.chains import Block
from mccompile.plan.alloc.problem import Problem, near_holds, padded

Rival = tuple[int, int, int]


@dataclass(frozen=True)
class Conflicts:
    """What placement needs to know of `blocks`.

    `rivals[i]` holds (j, low, high): block i may not lie at an address a with low < a - addr(j) < high. One
    pair may have several such ranges, as chains change their footprint over time.
    """

    blocks: tuple[Block, ...]
    rivals: tuple[tuple[Rival, ...], ...]

    @property
    def pairs(self) -> int:
        """The number of ranges, the cost of placing all blocks once."""
        return sum(map(len, self.rivals)) // 2


def build_conflicts(problem: Problem, blocks: tuple[Block, ...]) -> Conflicts:
    """Sweep over time; every two members of different blocks that live together contribute one range."""
    reach: dict[tuple[int, int], int] = {}
    for near in problem.nears:
        if near_holds(problem, near):
            pair = (near.src, near.dst)
            reach[pair] = min(near.distance, reach.get(pair, near.distance))
    sizes = [padded(interval) for interval in problem.intervals]
    units = [
        (problem.intervals[m].begin, problem.intervals[m].end, b, m, off)
        for b, block in enumerate(blocks)
        for m, off in zip(block.members, block.offsets, strict=True)
    ]
    ranges: dict[tuple[int, int], list[tuple[int, int]]] = {}
    live: list[tuple[int, int, int, int]] = []
    for begin, end, b, m, off in sorted(units):
        while live and live[0][0] <= begin:
            heapq.heappop(live)
        for _, other, n, other_off in live:
            if other == b:
                continue
            low, high = _forbidden(m, n, sizes, reach) if reach else (-sizes[m], sizes[n])
            if low < high:
                shift = other_off - off
                ranges.setdefault((b, other), []).append((low + shift, high + shift))
        heapq.heappush(live, (end, b, m, off))
    rivals: list[list[Rival]] = [[] for _ in blocks]
    for (i, j), pair_ranges in ranges.items():
        for low, high in _merged(pair_ranges):
            rivals[i].append((j, low, high))
            rivals[j].append((i, -high, -low))
    return Conflicts(blocks, tuple(map(tuple, rivals)))


def _forbidden(m: int, n: int, sizes: list[int], reach: dict[tuple[int, int], int]) -> tuple[int, int]:
    """The open range in which addr(m) - addr(n) may not lie."""
    low, high = -sizes[m], sizes[n]
    if (m, n) in reach:
        high = min(high, reach[m, n])
    elif (n, m) in reach:
        low = max(low, -reach[n, m])
    return low, high


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The union of open ranges as few ranges; two that only touch stay apart, as their border is allowed."""
    if len(ranges) == 1:
        return ranges
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return merged
