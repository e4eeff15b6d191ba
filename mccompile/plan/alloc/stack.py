"""Bottom-up search: the most critical moment is filled from below, by a block that wastes least around it.

In the spirit of MiniMalloc (canonical plans, a floor per section, dominance; doi 10.1145/3623278.3624752), with
another choice of what to place next. Every plan can be pushed down until each block rests on the floor or on
another one, so a block is either placed now at the lowest address it still can have, above all it meets, or
later on top of a block that it meets and that is not placed yet. The search asks this of the blocks of one section at
a time, for one capacity; restarts vary how sections and blocks are chosen. Without sharing offers it is complete:
a search that ends by itself proves that the capacity is too small.

Worked example, capacity 12: a (8 bytes) and b (4) are alive in one section, b and c (8) in the next. Both sections
hold 12 bytes, so not one may be wasted. Placing b at 0 puts a and c on top of it, both at 4: done. Placing a at 0
puts b at 8, and c, which meets only b, falls to 0: done as well.

>>> from mccompile.plan.alloc.chains import build_blocks
>>> from mccompile.plan.alloc.conflicts import build_conflicts
>>> from mccompile.plan.alloc.problem import Interval
>>> problem = Problem((Interval("a", 0, 1, 8, 1), Interval("b", 0, 2, 4, 1), Interval("c", 1, 2, 8, 1)))
>>> found = bottom_up(problem, build_conflicts(problem, build_blocks(problem, ())), 20, 12, 100_000)
>>> found in ([4, 0, 4], [0, 8, 0])
True
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import field
from fractions import Fraction

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.plan.alloc.conflicts import Conflicts
from mccompile.plan.alloc.problem import Problem
from mccompile.plan.alloc.sections import Ints, Sections, build_sections

LOWNESS = (16, 40, 100)
"""How much a low floor counts against little slack when the next section is chosen, in sixteenths."""

PULL = (0, 1, 2, 4)
"""How much the distance in time from a drawn section counts: the full span as much as so many capacities."""

SOFTNESS = (100, 20, 50, 300)
"""Slack below capacity / this hardly differs from none."""

NOISE = 2
"""By how many 1024ths the cost of a choice is disturbed, either way."""

AMBITION = (Fraction(1, 2), Fraction(9, 10), Fraction(3, 4))
"""The capacity a restart tries, from the bound to the best peak."""

FIRST_FAILURES = 40
PATIENCE = 300
"""Restarts before the number of failures that ends one is doubled."""

NODE_STEPS = 700
ENTRIES_PER_STEP = 32
"""A step is some 0.1 microseconds; a node costs so many, and so many array entries are one."""

MOST_ENTRIES = 1 << 20
"""Entries of several choices that are looked at together: all would take gigabytes where many blocks live long."""

SCALE = 1 << 40


@dataclass
class _Attempt:
    """One search for one capacity."""

    s: Sections
    capacity: int
    lowness: int
    bias: Ints  # [S]
    soft: int
    noise: int
    rng: random.Random
    failures_left: int
    most_steps: int
    steps: int = 0
    path: list[tuple[int, int]] = field(default_factory=list)

    def run(self) -> list[int] | None:
        """The address of each block in units, or None."""
        s = self.s
        lowest = np.zeros_like(s.sizes)
        stack = [self.children(lowest, s.demand.sum(axis=0))]
        while stack and self.failures_left > 0:
            child = next(stack[-1], None)
            if child is None:
                stack.pop()
                if self.path:
                    self.path.pop()
                continue
            block, address, lowest, waiting = child
            self.path.append((block, address))
            if len(self.path) == len(s.sizes):
                found = dict(self.path)
                return [found[b] for b in range(len(s.sizes))]
            stack.append(self.children(lowest, waiting))
        return None

    def children(self, lowest: Ints, waiting: Ints) -> Iterator[tuple[int, int, Ints, Ints]]:
        """The ways on, best first: (block, its address, lowest addresses, waiting bytes per section).

        `lowest` is the least address each block can still have, `never` for those that are placed.
        """
        s = self.s
        while True:
            self.steps += NODE_STEPS + 3 * len(s.blocks) // ENTRIES_PER_STEP
            if self.steps > self.most_steps:
                self.failures_left = 0
                return
            unplaced = lowest < s.never
            slack, floors = self.slack(lowest, waiting)
            if (slack < 0).any() or (lowest + s.sizes)[unplaced].max() > self.capacity:
                self.failures_left -= 1
                return
            choices = self.choices(lowest, unplaced, slack, floors)
            if not len(choices):
                self.failures_left -= 1
                return
            rivals = s.above[choices]
            on_top = np.where((rivals > -s.never) & unplaced, lowest + rivals, s.never).min(axis=1)
            later = np.maximum(on_top, lowest[choices] + 1)
            for block, postponed in self.ranked(lowest, waiting, choices):
                moved = self.place(lowest, block)
                others = choices[postponed]
                moved[others] = np.maximum(moved[others], later[postponed])
                yield int(block), int(lowest[block]), self.aligned(moved), waiting - s.demand[block]
            if (on_top >= s.never).any():
                self.failures_left -= 1
                return
            lowest = lowest.copy()
            lowest[choices] = later
            lowest = self.aligned(lowest)

    def slack(self, lowest: Ints, waiting: Ints) -> tuple[Ints, Ints]:
        """For each section the bytes that may still be wasted in it, and the least byte still to be filled."""
        s = self.s
        floors = np.minimum(self.floors(lowest), self.capacity)
        return self.capacity + s.credit - floors - waiting, floors

    def choices(self, lowest: Ints, unplaced: Ints, slack: Ints, floors: Ints) -> Ints:
        """The blocks to be asked next: those of one section below which no unplaced block fits."""
        s = self.s
        tops = np.minimum.reduceat(lowest.take(s.blocks) + s.highs, s.starts)
        room = np.minimum.reduceat(tops.take(s.by_block) - s.block_lows, s.block_starts)
        ready = unplaced & (room > lowest)
        has_ready = np.logical_or.reduceat(ready.take(s.blocks), s.starts)
        urgency = 16 * slack.astype(np.int64) + self.lowness * floors.astype(np.int64) + self.bias
        section = int(np.where(has_ready, urgency, np.iinfo(np.int64).max).argmin())
        members = s.members[section]
        return members[ready[members]]

    def ranked(self, lowest: Ints, waiting: Ints, choices: Ints) -> Iterator[tuple[int, Ints]]:
        """The choices that leave no section without room, least waste first, each with those ranked before."""
        s = self.s
        self.steps += len(choices) * len(s.blocks) // ENTRIES_PER_STEP
        step = max(1, MOST_ENTRIES // len(s.blocks))
        moved = np.maximum(lowest, lowest[choices][:, None] + s.below[choices])
        moved[:, lowest >= s.never] = s.never
        moved[np.arange(len(choices)), choices] = s.never
        floors = np.empty((len(choices), len(s.starts)), moved.dtype)
        for i in range(0, len(choices), step):
            floors[i : i + step] = self.floors(moved[i : i + step])
        left = waiting - s.demand[choices]
        slack = self.capacity + s.credit - np.minimum(floors, self.capacity) - left
        cost = (SCALE // (np.maximum(slack, 0) + self.soft).astype(np.int64)).sum(axis=1)
        if self.noise:
            cost = cost // 1024 * [1024 + self.rng.randint(-self.noise, self.noise) for _ in choices]
        hopeless = (slack < 0).any(axis=1)
        order = np.argsort(cost, kind="stable")
        for rank, k in enumerate(order):
            if not hopeless[k]:
                yield choices[k], order[:rank]

    def floors(self, lowest: Ints) -> Ints:
        """For each section the least byte still to be filled, of one plan [blocks] or of several."""
        s = self.s
        floors: Ints = np.minimum.reduceat(lowest.take(s.blocks, axis=-1) + s.lows, s.starts, axis=-1)
        return floors

    def place(self, lowest: Ints, block: int) -> Ints:
        """The lowest addresses once `block` lies at its own."""
        s = self.s
        moved: Ints = np.maximum(lowest, lowest[block] + s.below[block])
        moved[lowest >= s.never] = s.never
        moved[block] = s.never
        return moved

    def aligned(self, lowest: Ints) -> Ints:
        if self.s.aligns is None:
            return lowest
        rounded: Ints = np.minimum(-(-lowest // self.s.aligns) * self.s.aligns, self.s.never)
        return rounded


def bottom_up(
    problem: Problem, conflicts: Conflicts, peak: int, bound: int, budget: int, seed: int = 0
) -> list[int] | None:
    """The best addresses with a peak below `peak`, or None; stops at `bound` or after `budget` steps.

    Each restart tries a capacity between the bound and the best peak so far.
    """
    s = build_sections(problem, conflicts)
    if s is None:
        return None
    rng = random.Random(seed)
    best: list[int] | None = None
    low, high, steps, restart = -(-bound // s.unit), -(-peak // s.unit), 0, 0
    while low < high and steps < budget:
        capacity = low + int((high - 1 - low) * AMBITION[restart % len(AMBITION)])
        attempt = _attempt(s, capacity, restart, rng, budget - steps)
        found = attempt.run()
        steps += attempt.steps
        restart += 1
        if found is not None:
            best = [address * s.unit for address in found]
            high = max(address + size for address, size in zip(found, s.sizes.tolist(), strict=True))
        elif attempt.failures_left > 0:
            low = capacity + 1
    return best


def _attempt(s: Sections, capacity: int, restart: int, rng: random.Random, most_steps: int) -> _Attempt:
    """The first restarts are the plain forms of the search, later ones are drawn."""
    plain = restart < len(LOWNESS)
    count = len(s.starts)
    distance = np.abs(np.arange(count) - rng.randrange(count))
    pull = 0 if plain else rng.choice(PULL)
    return _Attempt(
        s,
        capacity,
        lowness=LOWNESS[restart] if plain else rng.choice(LOWNESS),
        bias=distance * (16 * capacity * pull) // count,
        soft=max(1, capacity // (SOFTNESS[0] if plain else rng.choice(SOFTNESS))),
        noise=0 if plain else NOISE,
        rng=rng,
        failures_left=FIRST_FAILURES << min(restart // PATIENCE, 20),
        most_steps=most_steps,
    )
