"""What a change of the kernel IR does to the planned peak."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mccompile.ir.kernel import Block, Call, Fill, KernelModule
from mccompile.kernels.registry import variant
from mccompile.kernels.views.windows import Order, channels_innermost
from mccompile.plan.alloc.bounds import lower_bound
from mccompile.plan.alloc.chains import choose_overwrites
from mccompile.plan.alloc.portfolio import allocate
from mccompile.plan.plan import lifetimes, memory_problem
from mccompile.plan.schedule import schedule

Step = Call | Fill

SEARCHED_STEPS = 6400
"""Steps, of all plans together, for which orders and places are searched; where it takes more, plans that cost no
search must do."""
SEARCHES = range(8, 65)
"""How many plans these may be."""


@dataclass
class Judge:
    """Plans the memory of the steps that a module might have."""

    module: KernelModule
    keep_inputs: bool
    plans_left: int = 0
    searches: int = 0
    _seen: dict[int, tuple[Step, Step]] = field(default_factory=dict)

    def _most_searches(self) -> int:
        fitting = SEARCHED_STEPS // max(1, sum(1 for _ in self.module.body.linear()))
        return min(max(fitting, SEARCHES.start), SEARCHES.stop - 1)

    def offered(self, step: Step) -> Step:
        """The step with the order its kernel works in, and what may overlap by that. Its views must be final."""
        if id(step) not in self._seen:
            self._seen[id(step)] = (step, _offered(step) if isinstance(step, Call) else step)
        return self._seen[id(step)][1]

    def peak(self, steps: Sequence[Step], limit: int = 0) -> int:
        """The peak of a quick plan; above ``limit`` that of a better one, or a bound if even that is above."""
        self.plans_left -= 1
        m, body = self.module, Block(tuple(map(self.offered, steps)))
        trial = KernelModule(m.name, m.target, m.buffers, body)
        found = self._planned(schedule(trial, self.keep_inputs, 0), limit, 0)
        if (limit and found <= limit) or self.searches >= self._most_searches():
            return found
        self.searches += 1
        return min(found, self._planned(schedule(trial, self.keep_inputs), limit, 1))

    def _planned(self, trial: KernelModule, limit: int, effort: int) -> int:
        problem, _ = memory_problem(trial, lifetimes(trial, self.keep_inputs))
        bound = lower_bound(problem, choose_overwrites(problem))
        if limit and bound > limit:
            return bound
        quick = allocate(problem, 0).peak
        if effort == 0 or (limit and quick <= limit):
            return quick
        # Together the judgements search as long as one plan does.
        return min(quick, allocate(problem, effort, self._most_searches()).peak)


def _offered(call: Call) -> Call:
    if isinstance(call.params, Order):
        y = call.results[0]
        call = replace(call, params=replace(call.params, channels_last=y.linear and channels_innermost(y)))
    found = variant(call.kernel).near(call)
    return replace(call, near=None if found is None else (0, found))
