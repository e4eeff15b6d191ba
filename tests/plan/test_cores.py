"""What a few blocks show of all, and searches that have only to reach a limit."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from mccompile.plan.alloc import portfolio
from mccompile.plan.alloc.bounds import lower_bound
from mccompile.plan.alloc.chains import build_blocks
from mccompile.plan.alloc.check import check_plan
from mccompile.plan.alloc.conflicts import Conflicts, build_conflicts
from mccompile.plan.alloc.cores import is_needed
from mccompile.plan.alloc.exact import all_plans
from mccompile.plan.alloc.greedy import peak_of
from mccompile.plan.alloc.portfolio import allocate
from mccompile.plan.alloc.problem import Interval, Near, Problem
from tests.plan.test_alloc import problems

FAR_APART = 100
"""Steps between the core and the buffers around it."""


def around(core: list[tuple[int, int, int]], nears: list[Near]) -> Problem:
    """A core in the middle of buffers that are alive one after the other, too many for all their plans."""
    lives = [(t, t + 2, 3) for t in range(-FAR_APART, 0, 4)] + core
    lives += [(t, t + 2, 3) for t in range(10, FAR_APART, 4)]
    first = FAR_APART // 4
    intervals = tuple(Interval(f"t{k}", begin, end, size, 1) for k, (begin, end, size) in enumerate(lives))
    return Problem(intervals, nears=tuple(Near(n.src + first, n.dst + first, n.distance) for n in nears))


def conflicts_of(problem: Problem) -> Conflicts:
    return build_conflicts(problem, build_blocks(problem, ()))


CORE = around([(0, 4, 8), (0, 2, 4), (1, 3, 1), (2, 4, 4)], [Near(1, 2, 0), Near(2, 3, 3)])
"""Two overlaps, of which only one can be had: 13 bytes, where 12 are alive at the most."""


def test_a_core_among_many_blocks_shows_what_all_need() -> None:
    assert lower_bound(CORE, ()) == 12
    assert all_plans(conflicts_of(CORE), 100, 0) == (None, False)
    assert is_needed(conflicts_of(CORE), 13)
    assert not is_needed(conflicts_of(CORE), 14)


def test_nothing_is_searched_below_what_a_core_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portfolio, "_search_members", lambda *_: pytest.fail("a core shows that it is in vain"))
    allocate.cache_clear()
    plan = allocate(CORE)
    assert (plan.peak, plan.lower_bound) == (13, 12)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(problems(offers=True, most=9))
def test_a_core_never_promises_too_much(problem: Problem) -> None:
    conflicts = conflicts_of(problem)
    best, final = all_plans(conflicts, 1 << 40, 0)
    if best is not None and final:
        assert not is_needed(conflicts, peak_of(conflicts.blocks, best) + 1)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(problems(offers=False, most=9))
def test_with_a_limit_a_plan_of_that_peak_is_found_where_there_is_one(problem: Problem) -> None:
    best = allocate(problem)
    for limit in (best.peak, best.peak + 1):
        assert allocate(problem, limit=limit).peak <= limit


@settings(derandomize=True, deadline=None, max_examples=100)
@given(problems(offers=True, most=9))
def test_plans_for_a_limit_are_sound(problem: Problem) -> None:
    best = allocate(problem)
    for limit in (best.peak, max(best.peak - 1, 1)):
        plan = allocate(problem, limit=limit)
        check_plan(problem, plan)
        assert plan.peak >= best.lower_bound
