"""The portfolio of allocators: members in turn, the best checked plan kept, an end at the lower bound."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial

from mccompile._dataclass import dataclass
from mccompile.plan.alloc.bounds import lower_bound
from mccompile.plan.alloc.chains import Block, build_blocks, choose_overwrites, expand
from mccompile.plan.alloc.check import check_plan
from mccompile.plan.alloc.conflicts import Conflicts, build_conflicts
from mccompile.plan.alloc.cores import is_needed
from mccompile.plan.alloc.exact import STEPS, all_plans
from mccompile.plan.alloc.greedy import best_gap, first_gap, orders, peak_of
from mccompile.plan.alloc.hillclimb import hill_climb
from mccompile.plan.alloc.problem import Near, Overwrite, Plan, Problem, near_holds, padded
from mccompile.plan.alloc.pushdown import push_down
from mccompile.plan.alloc.stack import bottom_up

GREEDY_STEPS = 6_000_000
"""Rivals looked at by all greedy members together; on very large problems the last orders are left out."""

STACK_STEPS = 8_000_000
CLIMB_STEPS = 1_000_000
LEAST_PART = 8
"""Of all plans of few blocks no less than such a part is looked at."""

Member = tuple[str, Callable[[int], list[int] | None]]
"""A name, and a function from the peak to beat to addresses of the blocks or None."""


@dataclass(frozen=True)
class _Variant:
    """The problem with one set of overwrites taken; `bound` holds for all variants, `own_bound` for this one."""

    problem: Problem
    chosen: tuple[Overwrite, ...]
    bound: int
    own_bound: int

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        return build_blocks(self.problem, self.chosen)

    @cached_property
    def conflicts(self) -> Conflicts:
        """As many as pairs that live together: for those who place blocks one by one, not for push-down."""
        return build_conflicts(self.problem, self.blocks)


@functools.lru_cache(maxsize=4)
def allocate(problem: Problem, effort: int = 1, part: int = 1, limit: int = 0) -> Plan:
    """The best plan of all members, checked; the same for the same arguments on every machine. Kept, as forms of a
    program are planned to be compared, and the one that is taken once more.

    Args:
        problem: intervals and offers; in-place offers are taken only if the peak does not grow by them.
        effort: 0 = push-down and greedy; 1 adds about a second of search, each further level 8 times that.
            Nothing is searched once the lower bound is met.
        part: the searches take only one of so many parts of their steps.
        limit: unless 0, the searches look for a plan of that peak at most, and end with it.
    """
    variants, best, bound = _quick(problem)
    if effort > 0:
        for quick in variants:
            if best.peak > max(bound, quick.own_bound, limit):
                best = _searched(quick, best, effort, part, limit)
    return replace(best, lower_bound=bound)


@functools.lru_cache(maxsize=1)
def _quick(problem: Problem) -> tuple[tuple[_Variant, ...], Plan, int]:
    """The variants of a problem, the best plan that needs no search, and the bound of all; kept for who then asks for
    a search as well."""
    chosen = choose_overwrites(problem)
    bound = lower_bound(problem, chosen)
    best: Plan | None = None
    choices = (chosen, ()) if chosen else ((),)
    variants = []
    # Cheap members see both variants before any search; on equal peaks the first, with overwrites, stays.
    for links in choices:
        if best is None or best.peak > bound:
            # Without overwrites nothing gets below the bound of that variant, so often no search is worth it.
            own = bound if links == chosen else lower_bound(problem, links)
            variants.append(_Variant(problem, links, bound, own))
            best = _improve(variants[-1], best, _quick_members(variants[-1]), bound)
    assert best is not None
    return tuple(variants), best, bound


def _searched(variant: _Variant, best: Plan, effort: int, part: int, limit: int) -> Plan:
    """The better of ``best`` and what the searches find; of few blocks all plans are looked at first."""
    bound = max(variant.bound, variant.own_bound)
    if limit:
        return _searched_for(limit, variant, best, effort, part) if bound <= limit else best
    addresses, final = all_plans(variant.conflicts, best.peak, bound)
    if addresses is not None:
        best = _plan(variant, "all plans", addresses)
    if final or is_needed(variant.conflicts, best.peak):
        return best
    return _improve(variant, best, _search_members(variant, bound, effort, part), bound)


def _searched_for(limit: int, variant: _Variant, best: Plan, effort: int, part: int) -> Plan:
    """A plan of that peak at the most, else ``best``. Where there is one, the searches mostly find it before all
    plans of few blocks would be looked at."""
    for name, run in _search_members(variant, limit, effort, part):
        if (found := run(limit + 1)) is not None:
            return _plan(variant, name, found)
    addresses, _ = all_plans(variant.conflicts, limit + 1, limit, STEPS // min(part, LEAST_PART))
    return best if addresses is None else _plan(variant, "all plans", addresses)


def _improve(variant: _Variant, best: Plan | None, members: Iterator[Member], bound: int) -> Plan:
    """The better of `best` and what the members find, asking no more once the bound is met."""
    peak = best.peak if best else None
    found: tuple[str, list[int]] | None = None
    for name, run in members:
        addresses = run(peak or 0)
        if addresses is not None and (peak is None or peak_of(variant.blocks, addresses) < peak):
            peak, found = peak_of(variant.blocks, addresses), (name, addresses)
        if peak is not None and peak <= bound:
            break
    plan = _plan(variant, *found) if found else best
    assert plan is not None
    return plan


def _quick_members(variant: _Variant) -> Iterator[Member]:
    yield "push-down", lambda _: push_down(variant.problem, variant.blocks)
    conflicts = variant.conflicts
    budget = GREEDY_STEPS
    for name, order in orders(variant.blocks).items():
        budget -= 4 * conflicts.pairs
        if name == "size" or budget > 0:
            yield f"greedy first-gap by {name}", partial(_ignore_peak, first_gap, conflicts, order)
            yield f"greedy best-gap by {name}", partial(_ignore_peak, best_gap, conflicts, order)


def _ignore_peak(
    place: Callable[[Conflicts, list[int]], list[int]], conflicts: Conflicts, order: list[int], _: int
) -> list[int]:
    return place(conflicts, order)


def _search_members(variant: _Variant, bound: int, effort: int, part: int) -> Iterator[Member]:
    conflicts = variant.conflicts
    scale = 8 ** (effort - 1)
    named = orders(variant.blocks)
    for seed, name in enumerate(("crowd-size", "crowd-life")):
        climb = partial(_climb, conflicts, named[name], bound, CLIMB_STEPS * scale // part // 2, seed)
        yield f"hill-climb from {name}", climb
    yield "bottom-up", lambda peak: bottom_up(variant.problem, conflicts, peak, bound, STACK_STEPS * scale // part)


def _climb(
    conflicts: Conflicts, order: list[int], bound: int, steps: int, seed: int, peak: int
) -> list[int] | None:
    return hill_climb(conflicts, order, peak, bound, steps, seed)


def _plan(variant: _Variant, name: str, addresses: Sequence[int]) -> Plan:
    problem = variant.problem
    offsets = expand(problem, variant.blocks, addresses)
    used: list[Overwrite | Near] = [*variant.chosen]
    used += [near for near in problem.nears if _is_used(problem, offsets, near)]
    bound = min(variant.bound, variant.own_bound)
    plan = Plan(offsets, peak_of(variant.blocks, addresses), bound, name, tuple(used))
    check_plan(problem, plan)
    return plan


def _is_used(problem: Problem, offsets: tuple[int, ...], near: Near) -> bool:
    """Whether the two sides share bytes by this offer."""
    src, dst = problem.intervals[near.src], problem.intervals[near.dst]
    low, base = offsets[near.src], offsets[near.dst]
    shared = low < base + padded(dst) and base < low + padded(src)
    offered = near_holds(problem, near) and low >= base + near.distance
    return offered and shared and min(src.nbytes, dst.nbytes) > 0
