"""What the planner would make of steps that a module might have: the peak, at a bounded effort."""

from __future__ import annotations

from mccompile._dataclass import dataclass
from mccompile.ir.kernel import KernelModule
from mccompile.plan.alloc.bounds import lower_bound
from mccompile.plan.alloc.chains import choose_overwrites
from mccompile.plan.alloc.portfolio import allocate
from mccompile.plan.plan import lifetimes, memory_problem
from mccompile.plan.schedule import schedule

SEARCHED_STEPS = 6400
"""Steps, of all plans together, for which orders and places are searched; where it takes more, plans that cost no
search must do."""
SEARCHES = range(8, 65)
"""How many plans these may be."""
PART = 4
"""By how much less orders are searched than for a plan: 50 of 319 refusals of 60 networks were taken back by a
search, as many with beams of a quarter, and fewer with those of an eighth."""


@dataclass
class Oracle:
    """Plans modules of about ``steps`` steps, and searches as long for all of them as one plan does for its own."""

    steps: int
    keep_inputs: bool = False
    searches: int = 0

    def _most_searches(self) -> int:
        fitting = SEARCHED_STEPS // max(1, self.steps)
        return min(max(fitting, SEARCHES.start), SEARCHES.stop - 1)

    def peak(self, module: KernelModule, limit: int = 0) -> int:
        """The peak of a quick plan; above ``limit`` that of a better one, or a bound if even that is above."""
        found = self._planned(schedule(module, self.keep_inputs, 0), limit, 0)
        if (limit and found <= limit) or self.searches >= self._most_searches():
            return found
        self.searches += 1
        return min(found, self._planned(schedule(module, self.keep_inputs, part=PART), limit, 1))

    def _planned(self, module: KernelModule, limit: int, effort: int) -> int:
        problem, _ = memory_problem(module, lifetimes(module, self.keep_inputs))
        bound = lower_bound(problem, choose_overwrites(problem))
        if limit and bound > limit:
            return bound
        quick = allocate(problem, 0).peak
        if effort == 0 or (limit and quick <= limit):
            return quick
        return min(quick, allocate(problem, effort, self._most_searches(), limit).peak)
