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
([0, 0, 4], True)
"""

from __future__ import annotations

from mccompile._dataclass import dataclass
from mccompile.plan.alloc.conflicts import Conflicts
from mccompile.plan.alloc.greedy import UNPLACED, lowest_address, peak_of

MOST_BLOCKS = 24

STEPS = 500_000
"""Addresses asked for, each as many steps as its block has rivals: some tenth of a second."""

STEP_OVERHEAD = 8
"""What one address costs beside its rivals, in rivals."""

_Place = tuple[int, int, int]
"""An address, and what tells blocks at the same one apart: those born later come first, as they lie below the
others by diagonal offers; then the number of the block."""


@dataclass
class _Walk:
    conflicts: Conflicts
    peak: int
    bound: int
    steps_left: int
    best: list[int] | None = None

    def place(self, addresses: list[int], last: _Place) -> None:
        """Go through the ways to place the others behind the ``last`` one."""
        left = [i for i, a in enumerate(addresses) if a == UNPLACED]
        if not left:
            self.best, self.peak = list(addresses), peak_of(self.conflicts.blocks, addresses)
            return
        blocks, ends, ways = self.conflicts.blocks, 0, []
        for i in left:
            self.steps_left -= len(self.conflicts.rivals[i]) + STEP_OVERHEAD
            # Addresses only grow as more is placed, so one block that ends too high ends this way.
            low = lowest_address(self.conflicts, addresses, i, last[0])
            ends = max(ends, low + blocks[i].nbytes)
            if lowest_address(self.conflicts, addresses, i) == low:
                ways.append((low, -blocks[i].begin, i))
        for way in sorted(ways):
            if self.peak <= max(ends, self.bound) or self.steps_left <= 0:
                return
            if way > last:
                addresses[way[2]] = way[0]
                self.place(addresses, way)
                addresses[way[2]] = UNPLACED


def all_plans(
    conflicts: Conflicts, peak: int, bound: int, budget: int = STEPS
) -> tuple[list[int] | None, bool]:
    """The best addresses with a peak below ``peak``, or None, and whether nothing better is left to be found.

    Ends at ``bound`` or after ``budget`` steps; there must be `MOST_BLOCKS` at most, else nothing is looked for.
    """
    if len(conflicts.blocks) > MOST_BLOCKS:
        return None, False
    walk = _Walk(conflicts, peak, bound, budget)
    walk.place([UNPLACED] * len(conflicts.blocks), (0, -(1 << 60), -1))
    return walk.best, walk.peak <= bound or (walk.steps_left > 0 and _has_order(conflicts))


def _has_order(conflicts: Conflicts) -> bool:
    """True if a block never needs to lie a certain way below a rival: then it may be pushed down freely."""
    begins = [b.begin for b in conflicts.blocks]
    return all(
        low < 0 or (low == 0 and begins[i] > begins[j])
        for i, rivals in enumerate(conflicts.rivals)
        for j, low, _ in rivals
    )
