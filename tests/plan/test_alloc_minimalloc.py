"""Quality on the MiniMalloc instances, all of which are known to fit in 1,048,576 bytes."""

from __future__ import annotations

import pytest

from mccompile.plan.alloc.check import check_plan
from mccompile.plan.alloc.instances import read_minimalloc_csv
from mccompile.plan.alloc.portfolio import allocate
from tests._skips import needs_shared

OPTIMUM = 1_048_576
SECOND = {
    "A": 1.027,
    "B": 1.049,
    "C": 1.011,
    "D": 0.999,
    "E": 1.078,
    "F": 1.013,
    "G": 1.001,
    "H": 1.0,
    "I": 1.032,
    "J": 0.981,
    "K": 1.063,
}
"""Peak / optimum of `allocate(problem)`, about a second each; budgets are counts, so that machines agree."""


@pytest.mark.parametrize("name", sorted(SECOND))
def test_a_second_of_search_comes_within_a_tenth(name: str) -> None:
    problem = read_minimalloc_csv(needs_shared(f"planner/minimalloc/{name}.1048576.csv"))
    assert len(problem.intervals) > 100
    plan = allocate(problem)
    check_plan(problem, plan)
    assert plan.lower_bound <= OPTIMUM
    assert plan.peak <= OPTIMUM * SECOND[name] * 1.005


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SECOND))
def test_more_search_comes_closer(name: str) -> None:
    problem = read_minimalloc_csv(needs_shared(f"planner/minimalloc/{name}.1048576.csv"))
    plan = allocate(problem, effort=2)
    check_plan(problem, plan)
    assert plan.peak <= OPTIMUM * 1.05
