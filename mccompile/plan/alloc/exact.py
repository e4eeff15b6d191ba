"""All plans of a few blocks: what a search would look for for a second is found, or shown not to be there, at once.

Every plan can be pushed down until no block can go lower, and in the order of their addresses such blocks each lie
at the lowest address that those before leave free. So all such orders are all plans that need be looked at.

Worked example: a and b (4 bytes each) never meet, c (4) meets both. Orders a b c and a c b put a at 0; in the first b
falls to 0 too and c to 4: peak 8, the bound, and the search ends. Eight bytes are two blocks high, so no order is
better.

>>> from mccompile.plan.alloc.chains import build_blocks
>>> from mccompile.plan.alloc.conflicts import build_conflicts
>>> from mccompile.plan.alloc.problem import Interval, Problem
>>> lives = (Interval("a", 0, 1, 4, 1), Interval("b", 1, 2, 4, 1), Interval("c", 0, 2, 4, 1))
>>> problem = Problem(lives)
>>> all_plans(build_conflicts(problem, build_blocks(problem, ())), peak=12, bound=8)
((0, 0, 4), True)
"""

from __future__ import annotations

import functools

from mccompile._dataclass import dataclass
from mccompile.plan.alloc.conflicts import Conflicts
from mccompile.plan.alloc.greedy import UNPLACED, lowest_free, peak_of

MOST_BLOCKS = 24

STEPS = 500_000
"""Addresses asked for, each as many steps as its block has rivals: some tenth of a second."""

STEP_OVERHEAD = 8
"""What one address costs beside its rivals, in rivals."""

_Place = tuple[int, int, int]
"""An address, and what tells blocks at the same one apart: those born later come first, as they lie below the
others by diagonal offers; then the number of the block."""


_Forbidden = tuple[list[tuple[int, int]], int]
"""For a block, the open ranges of addresses that placed rivals take from it, by their low ends, and the lowest that
they leave."""


@dataclass
class _Walk:
    """``against`` has for each block the others that it keeps away from addresses, relative to its own."""

    conflicts: Conflicts
    against: list[list[tuple[int, int, int]]]
    peak: int
    bound: int
    steps_left: int
    best: list[int] | None = None

    def place(self, addresses: list[int], forbidden: list[_Forbidden], last: _Place) -> None:
        """Go through the ways to place the others behind the ``last`` one."""
        left = [i for i, a in enumerate(addresses) if a == UNPLACED]
        if not left:
            self.best, self.peak = list(addresses), peak_of(self.conflicts.blocks, addresses)
            return
        blocks, ends, ways = self.conflicts.blocks, 0, []
        for i in left:
            self.steps_left -= len(self.conflicts.rivals[i]) + STEP_OVERHEAD
            # Addresses only grow as more is placed, so one block that ends too high ends this way.
            ranges, low = forbidden[i]
            if low >= last[0]:
                ways.append((low, -blocks[i].begin, i))
            else:
                low = lowest_free(ranges, blocks[i].align, last[0])
            ends = max(ends, low + blocks[i].nbytes)
        for way in sorted(ways):
            if self.peak <= max(ends, self.bound) or self.steps_left <= 0:
                return
            if way > last:
                addresses[way[2]] = way[0]
                self.place(addresses, self._with(forbidden, way), way)
                addresses[way[2]] = UNPLACED

    def _with(self, forbidden: list[_Forbidden], way: _Place) -> list[_Forbidden]:
        """What is forbidden once one more is placed."""
        base, _, placed = way
        more = list(forbidden)
        for i, low, high in self.against[placed]:
            ranges = sorted((*more[i][0], (base + low, base + high)))
            more[i] = ranges, lowest_free(ranges, self.conflicts.blocks[i].align, 0)
        return more


@functools.lru_cache(maxsize=32)
def all_plans(
    conflicts: Conflicts, peak: int, bound: int, budget: int = STEPS
) -> tuple[tuple[int, ...] | None, bool]:
    """`every_plan`, once: passes ask for the plan of what is then the program. There must be `MOST_BLOCKS` at most,
    else nothing is looked for."""
    return every_plan(conflicts, peak, bound, budget) if len(conflicts.blocks) <= MOST_BLOCKS else (None, False)


def every_plan(
    conflicts: Conflicts, peak: int, bound: int, budget: int
) -> tuple[tuple[int, ...] | None, bool]:
    """The best addresses with a peak below ``peak``, or None, and whether nothing better is left to be found.

    Ends at ``bound`` or after ``budget`` steps.
    """
    against: list[list[tuple[int, int, int]]] = [[] for _ in conflicts.blocks]
    for i, rivals in enumerate(conflicts.rivals):
        for j, low, high in rivals:
            against[j].append((i, low, high))
    walk = _Walk(conflicts, against, peak, bound, budget)
    walk.place([UNPLACED] * len(against), [([], 0) for _ in against], (0, -(1 << 60), -1))
    found = None if walk.best is None else tuple(walk.best)
    return found, walk.peak <= bound or (walk.steps_left > 0 and _has_order(conflicts))


def _has_order(conflicts: Conflicts) -> bool:
    """True if a block never needs to lie a certain way below a rival: then it may be pushed down freely."""
    begins = [b.begin for b in conflicts.blocks]
    return all(
        low < 0 or (low == 0 and begins[i] > begins[j])
        for i, rivals in enumerate(conflicts.rivals)
        for j, low, _ in rivals
    )
