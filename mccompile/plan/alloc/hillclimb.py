"""Hill-climb on the order of first-gap placement: a block that would exceed the target is moved forward.

The target is always below the best peak so far. When a block does not fit under it, the block is moved in
front of one of the placed blocks it competes with, and only the order from there on is placed again ("squeaky
wheel").
The budget is counted in looked-at rivals, so that the same call gives the same plan on every machine.

Worked example: the order small, small, large puts the small ones at 0 and 4 (they meet) and the large one, which
meets only the second, above it: peak 16. The target is 12: the large one does not fit and is moved in front of the
second, falls to 0, the second goes on top of it: peak 12.

>>> from mccompile.plan.alloc.chains import build_blocks
>>> from mccompile.plan.alloc.conflicts import build_conflicts
>>> from mccompile.plan.alloc.problem import Interval, Problem
>>> lives = (Interval("s", 0, 2, 4, 1), Interval("t", 1, 3, 4, 1), Interval("large", 2, 4, 8, 1))
>>> problem = Problem(lives)
>>> hill_climb(build_conflicts(problem, build_blocks(problem, ())), [0, 1, 2], peak=16, bound=12, budget=1000)
[0, 8, 0]
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from mccompile._dataclass import dataclass
from mccompile.plan.alloc.conflicts import Conflicts
from mccompile.plan.alloc.greedy import UNPLACED, lowest_address, peak_of

STEP_OVERHEAD = 8
"""What one placement costs beside its rivals, in rivals."""


@dataclass(slots=True)
class _Walk:
    conflicts: Conflicts
    order: list[int]
    position: list[int]
    addresses: list[int]
    placed: int = 0
    steps: int = 0

    def advance(self, target: int) -> bool:
        """Place on until all blocks are placed (True) or one ends above `target` (False)."""
        while self.placed < len(self.order):
            i = self.order[self.placed]
            address = lowest_address(self.conflicts, self.addresses, i)
            self.steps += len(self.conflicts.rivals[i]) + STEP_OVERHEAD
            if address + self.conflicts.blocks[i].nbytes > target:
                return False
            self.addresses[i] = address
            self.placed += 1
        return True

    def rewind(self, position: int) -> None:
        """Take away everything from `position` on."""
        for i in self.order[position : self.placed]:
            self.addresses[i] = UNPLACED
        self.placed = position

    def promote(self, rng: random.Random) -> bool:
        """Move the next block forward, mostly by little; False if nothing placed competes with it."""
        i = self.order[self.placed]
        ahead = sorted({self.position[j] for j, _, _ in self.conflicts.rivals[i] if self.addresses[j] >= 0})
        if not ahead:
            return False
        draw = rng.random()
        front = ahead[min(int(len(ahead) * (1 - draw * draw)), len(ahead) - 1)]
        old = self.placed
        self.rewind(front)
        self.order.insert(front, self.order.pop(old))
        for k in range(front, old + 1):
            self.position[self.order[k]] = k
        return True


def hill_climb(
    conflicts: Conflicts, order: Sequence[int], peak: int, bound: int, budget: int, seed: int = 0
) -> list[int] | None:
    """The best addresses with a peak below `peak`, or None; stops at `bound` or after `budget` steps.

    `order` lists every block once. A step is one rival looked at, some 0.1 microseconds.
    """
    count = len(order)
    position = [0] * count
    for k, i in enumerate(order):
        position[i] = k
    walk = _Walk(conflicts, list(order), position, [UNPLACED] * count)
    rng = random.Random(seed)
    best: list[int] | None = None
    while peak > bound and walk.steps < budget:
        target = max(bound, peak - 1 - (peak - bound) // 50)
        if walk.advance(target):
            best, peak = list(walk.addresses), peak_of(conflicts.blocks, walk.addresses)
            target = max(bound, peak - 1 - (peak - bound) // 50)
            tops = ((i, a + conflicts.blocks[i].nbytes) for i, a in enumerate(walk.addresses))
            walk.rewind(min((position[i] for i, top in tops if top > target), default=count))
        elif not walk.promote(rng):
            break
    return best
