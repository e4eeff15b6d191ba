"""Quality on the MiniMalloc instances, all of which fit in 1,048,576 bytes."""

from __future__ import annotations

import pytest

from mccompile.plan.alloc.check import check_plan
from mccompile.plan.alloc.instances import read_minimalloc_csv
from mccompile.plan.alloc.portfolio import allocate
from tests._skips import needs_shared

OPTIMUM = 1_048_576
MEASURED = {
    "A": 1.142,
    "B": 1.111,
    "C": 1.199,
    "D": 1.131,
    "E": 1.133,
    "F": 1.087,
    "G": 1.109,
    "H": 1.085,
    "I": 1.155,
    "J": 1.092,
    "K": 1.2,
}
"""Peak / optimum of `allocate(problem)` at effort 1; budgets are counts, so that machines agree."""


@pytest.mark.parametrize("name", sorted(MEASURED))
def test_peak_stays_within_two_percent_of_what_was_measured(name: str) -> None:
    problem = read_minimalloc_csv(needs_shared(f"planner/minimalloc/{name}.1048576.csv"))
    assert len(problem.intervals) > 100
    plan = allocate(problem)
    check_plan(problem, plan)
    assert plan.lower_bound <= OPTIMUM
    assert plan.peak <= OPTIMUM * MEASURED[name] * 1.02
