"""Bounds and plans of thousands of buffers: what is found, and that time does not grow with their square."""

from __future__ import annotations

import random
import time

import pytest

from mccompile.plan.alloc import portfolio
from mccompile.plan.alloc.bounds import _chained, _chains_need, _Link, lower_bound
from mccompile.plan.alloc.portfolio import allocate
from mccompile.plan.alloc.problem import Interval, Near, Overwrite, Problem

SECONDS = 5
"""Of the processor; walks over all pairs would take minutes."""


def _by_all_ways(chain: list[_Link], sizes: list[int]) -> int:
    """The least peak of a chain, over all sets of taken links."""
    least = sum(sizes) + sum(link.apart for link in chain)
    for taken in range(1 << len(chain)):
        address, need = 0, sizes[-1]
        for k in range(len(chain) - 1, -1, -1):
            if taken >> k & 1:
                address = max(0, address + chain[k].distance)
            else:
                address, need = 0, max(need, chain[k].apart)
            need = max(need, address + sizes[k])
        least = min(least, need)
    return least


def test_the_bound_of_a_chain_is_that_of_the_best_way() -> None:
    rng = random.Random(3)
    above = 0
    for _ in range(300):
        sizes = [rng.randint(1, 30) for _ in range(rng.randint(2, 7))]
        chain = [_Link(i, i + 1, rng.randint(-6, 20), rng.randint(5, 60)) for i in range(len(sizes) - 1)]
        least, want = max(rng.randint(0, 40), *sizes), _by_all_ways(chain, sizes)
        assert _chains_need(chain[::-1], sizes, least) == max(least, want)
        above += want > least
    assert above > 100


def test_the_bound_of_chains_that_run_together_is_the_largest_of_theirs() -> None:
    rng = random.Random(4)
    above = 0
    for _ in range(300):
        sizes = [rng.randint(1, 30) for _ in range(8)]
        behind = {src: rng.randint(src + 1, 7) for src in range(7)}
        links = [_Link(src, dst, rng.randint(-6, 20), rng.randint(5, 60)) for src, dst in behind.items()]
        least = max(rng.randint(0, 40), *sizes)
        want = least
        for src in set(behind) - set(behind.values()):
            chain = [links[src]]
            while chain[-1].dst in behind:
                chain.append(links[chain[-1].dst])
            own = [sizes[b] for b in (src, *(link.dst for link in chain))]
            want = max(want, _by_all_ways(chain, own))
        assert _chains_need(links[::-1], sizes, least) == want
        above += want > least
    assert above > 100


def test_chains_that_run_together_are_looked_at_once() -> None:
    """In each block of a residual network a chain begins that goes on through all the others."""
    trunk = [_Link(2 * i, 2 * i + 2, 0, 9) for i in range(1_000)]
    branches = [_Link(2 * i + 1, 2 * i + 2, 0, 9) for i in range(1_000)]
    links = [*branches, *trunk]
    assert len(_chained(links)) == len(links)


@pytest.mark.parametrize("overwrites", [False, True])
def test_long_chains_take_no_squares(overwrites: bool) -> None:
    count = 20_000
    intervals = tuple(Interval(f"b{i}", i, i + 2, 64, 16) for i in range(count))
    nears = tuple(Near(i, i + 1, 16) for i in range(count - 1))
    offers = tuple(Overwrite(i + 1, i) for i in range(count - 1)) if overwrites else ()
    start = time.process_time()
    assert lower_bound(Problem(intervals, offers, nears), offers) == (64 if overwrites else 128)
    assert time.process_time() - start < SECONDS


def test_push_down_that_meets_the_bound_builds_no_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of inputs and outputs, all alive together."""
    monkeypatch.setattr(portfolio, "build_conflicts", lambda problem, blocks: pytest.fail("pairs are built"))
    problem = Problem(tuple(Interval(f"b{i}", 0, 2, 16 + i % 3 * 16, 16) for i in range(1_000)))
    assert allocate(problem).peak == sum(i.nbytes for i in problem.intervals)
