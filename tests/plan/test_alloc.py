"""The allocators: known optima, random instances, sharing offers, determinism."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mccompile.ir.errors import InternalError
from mccompile.plan.alloc import portfolio
from mccompile.plan.alloc.bounds import lower_bound
from mccompile.plan.alloc.chains import build_blocks, choose_overwrites, expand
from mccompile.plan.alloc.check import check_plan
from mccompile.plan.alloc.conflicts import _merged, build_conflicts
from mccompile.plan.alloc.exact import MOST_BLOCKS, all_plans
from mccompile.plan.alloc.greedy import best_gap, first_gap, orders, peak_of
from mccompile.plan.alloc.hillclimb import hill_climb
from mccompile.plan.alloc.portfolio import allocate
from mccompile.plan.alloc.problem import Interval, Near, Overwrite, Plan, Problem, near_holds
from mccompile.plan.alloc.pushdown import push_down
from mccompile.plan.alloc.stack import NODE_STEPS, _Attempt, bottom_up


def problem_of(*lives: tuple[int, int, int], align: int = 1, overwrites=(), nears=()) -> Problem:
    intervals = tuple(Interval(f"t{k}", b, e, n, align) for k, (b, e, n) in enumerate(lives))
    return Problem(intervals, tuple(overwrites), tuple(nears))


def member_plans(problem: Problem, chosen: tuple[Overwrite, ...]) -> dict[str, Plan]:
    """A plan of every member on its own, not only of the winner."""
    blocks = build_blocks(problem, chosen)
    conflicts = build_conflicts(problem, blocks)
    bound = lower_bound(problem, chosen)
    found = {"push-down": push_down(problem, blocks)}
    for name, order in orders(blocks).items():
        found[f"first {name}"] = first_gap(conflicts, order)
        found[f"best {name}"] = best_gap(conflicts, order)
    worst = max(peak_of(conflicts.blocks, a) for a in found.values()) + 1
    order = list(range(len(blocks)))
    for name, addresses in (
        ("climb", hill_climb(conflicts, order, worst, bound, 20_000, 1)),
        ("bottom-up", bottom_up(problem, conflicts, worst, bound, 20_000)),
    ):
        if addresses is not None:
            found[name] = addresses
    plans = {}
    for name, addresses in found.items():
        offsets = expand(problem, blocks, addresses)
        used = [*chosen, *(n for n in problem.nears if shares(problem, offsets, n))]
        plans[name] = Plan(offsets, peak_of(conflicts.blocks, addresses), bound, name, tuple(used))
    return plans


def shares(problem: Problem, offsets: tuple[int, ...], near: Near) -> bool:
    src, dst = problem.intervals[near.src], problem.intervals[near.dst]
    low, base = offsets[near.src], offsets[near.dst]
    return src.end - 1 == dst.begin and low < base + dst.nbytes + dst.align and base + near.distance <= low


@st.composite
def problems(draw: st.DrawFn, *, offers: bool, most: int = 14) -> Problem:
    count = draw(st.integers(1, most))
    aligns = draw(st.sampled_from([(1,), (4,), (64,), (1, 4, 16), (3, 4)]))
    intervals = []
    for k in range(count):
        begin = draw(st.integers(0, 12))
        size = draw(st.one_of(st.integers(0, 12), st.integers(0, 400)))
        life = draw(st.integers(1, 6))
        intervals.append(Interval(f"t{k}", begin, begin + life, size, draw(st.sampled_from(aligns))))
    overwrites, nears = [], []
    for s, src in enumerate(intervals if offers else ()):
        for d, dst in enumerate(intervals):
            if s != d and src.begin == dst.end - 1 and draw(st.booleans()):
                overwrites.append(Overwrite(s, d, draw(st.sampled_from([0, 0, 4, 16, 64]))))
            if s != d and dst.begin == src.end - 1 and draw(st.integers(0, 3)) == 0:
                nears.append(Near(s, d, draw(st.sampled_from([-8, 0, 4, 32, 1000]))))
    return Problem(tuple(intervals), tuple(overwrites), tuple(nears))


@settings(derandomize=True, max_examples=150, deadline=None)
@given(problems(offers=False))
def test_every_member_is_sound_without_offers(problem: Problem) -> None:
    for plan in member_plans(problem, ()).values():
        check_plan(problem, plan)
        assert plan.peak >= plan.lower_bound


@pytest.mark.thorough
@settings(derandomize=True, max_examples=400, deadline=None)
@given(problems(offers=True))
def test_every_member_is_sound_with_offers(problem: Problem) -> None:
    chosen = choose_overwrites(problem)
    for plan in member_plans(problem, chosen).values():
        check_plan(problem, plan)
        assert plan.peak >= plan.lower_bound


def test_an_offer_below_another_block_is_aligned() -> None:
    """8 bytes below an address are no multiple of 64."""
    spans = (("a", 8, 9, 1), ("b", 0, 1, 0), ("c", 1, 2, 0), ("d", 3, 9, 1))
    lives = [Interval(*span, align=64) for span in spans]
    problem = Problem(tuple(lives), nears=(Near(src=3, dst=0, distance=-8),))
    for plan in member_plans(problem, ()).values():
        check_plan(problem, plan)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(problems(offers=True))
def test_portfolio_is_never_worse_than_a_member_or_than_no_sharing(problem: Problem) -> None:
    plan = allocate(problem, effort=0)
    check_plan(problem, plan)
    for links in (choose_overwrites(problem), ()):
        others = member_plans(problem, links)
        assert plan.peak <= min(other.peak for n, other in others.items() if n not in ("climb", "bottom-up"))


@settings(derandomize=True, max_examples=30, deadline=None)
@given(problems(offers=True, most=10))
def test_same_problem_same_plan(problem: Problem) -> None:
    assert allocate(problem) == allocate(problem)


def brute_force_peak(problem: Problem) -> int:
    """The optimum of a tiny problem with sizes that are multiples of alignments, all addresses tried."""
    best = 1 + sum(i.nbytes + i.align for i in problem.intervals)

    def place(k: int, done: list[tuple[int, Interval]], peak: int) -> None:
        nonlocal best
        if peak >= best:
            return
        if k == len(problem.intervals):
            best = peak
            return
        new = problem.intervals[k]
        for address in range(0, best - new.nbytes, new.align):
            if all(
                address + new.nbytes <= a or a + old.nbytes <= address
                for a, old in done
                if old.begin < new.end and new.begin < old.end
            ):
                place(k + 1, [*done, (address, new)], max(peak, address + new.nbytes))

    place(0, [], 0)
    return best


def brute_force_peak_with_offers(problem: Problem, chosen: tuple[Overwrite, ...]) -> int:
    """The optimum of a tiny problem at alignment 1 where each offer may be used or not."""
    intervals = problem.intervals
    best = sum(i.nbytes for i in intervals)

    def allowed(i: int, j: int, at: list[int]) -> bool:
        a, b = intervals[i], intervals[j]
        if a.end <= b.begin or b.end <= a.begin or at[i] + a.nbytes <= at[j] or at[j] + b.nbytes <= at[i]:
            return True
        inside = any({o.src, o.dst} == {i, j} and at[o.src] == at[o.dst] + o.offset for o in chosen)
        offers = [n for n in problem.nears if {n.src, n.dst} == {i, j} and near_holds(problem, n)]
        return inside or any(at[n.src] >= at[n.dst] + n.distance for n in offers)

    def place(at: list[int], peak: int) -> None:
        nonlocal best
        if peak >= best:
            return
        if len(at) == len(intervals):
            best = peak
            return
        i, size = len(at), intervals[len(at)].nbytes
        for address in range(best - size):
            if all(allowed(i, j, [*at, address]) for j in range(i)):
                place([*at, address], max(peak, address + size))

    place([], 0)
    return best


def test_lower_bound_is_below_every_plan_with_offers() -> None:
    rng = random.Random(12)
    stacked = 0
    for _ in range(150):
        lives = [(k, k + rng.randint(1, 3), rng.randint(1, 4)) for k in range(5)]
        pairs = [(s, d) for s, a in enumerate(lives) for d, b in enumerate(lives) if s != d and b[0] == a[1] - 1]
        nears = [Near(s, d, rng.randint(-1, 3)) for s, d in pairs if rng.random() < 0.7]
        links = [Overwrite(d, s, rng.randint(0, 1)) for s, d in pairs if rng.random() < 0.4]
        problem = problem_of(*lives, overwrites=links, nears=nears)
        chosen = choose_overwrites(problem)
        bound = lower_bound(problem, chosen)
        optimum = brute_force_peak_with_offers(problem, chosen)
        assert bound <= optimum <= allocate(problem).peak
        stacked += bound == optimum
    assert stacked > 100, "the bound is met by most"


def test_overlaps_above_one_another_bound_the_peak() -> None:
    """Each may lie 2 above the next: the first ends at 10 + 3 * 2, though never more than 12 bytes are in use."""
    lives = [(k, k + 2, 10) for k in range(4)]
    plan = allocate(problem_of(*lives, nears=[Near(k, k + 1, 2) for k in range(3)]))
    assert (plan.peak, plan.lower_bound) == (16, 16)


def test_bottom_up_finds_the_optimum() -> None:
    rng = random.Random(5)
    gaps = 0
    for _ in range(60):
        intervals = []
        for k in range(5):
            begin, align = rng.randrange(4), rng.choice((1, 2, 3))
            intervals.append(
                Interval(f"t{k}", begin, begin + rng.randint(1, 4), align * rng.randint(1, 3), align)
            )
        problem = Problem(tuple(intervals))
        conflicts = build_conflicts(problem, build_blocks(problem, ()))
        found = bottom_up(problem, conflicts, 1000, 0, 10_000_000)
        assert found is not None
        optimum = brute_force_peak(problem)
        assert peak_of(conflicts.blocks, found) == optimum
        gaps += optimum > lower_bound(problem, ())
    assert gaps > 0, "the sample must hold instances whose optimum is above the bound"


def test_bottom_up_keeps_its_budget_within_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of few sizes: one restart alone may ask them for a place many thousand times before it gives up."""
    sizes = [432, 432, 2304, 576, 1152, 288, 576, 144, 288, 1152, 576, 2304, 1152, 4608, 2304, 432]
    begins = [-1, 17, 0, 2, 3, 5, 6, 8, 9, 7, 11, 4, 13, 1, 15, 16]
    ends = [19, 19, 2, 4, 5, 7, 8, 10, 11, 12, 13, 14, 15, 16, 17, 18]
    nears = [(3, 4, 588), (4, 11, 1177), (5, 6, 301), (6, 9, 602), (7, 8, 158), (9, 10, 26), (11, 12, 25)]
    offers = [Near(*n) for n in [(2, 13, 2328), *nears, (13, 14, 24), (14, 15, 1)]]
    problem = problem_of(*zip(begins, ends, sizes, strict=True), nears=offers)
    conflicts = build_conflicts(problem, build_blocks(problem, ()))
    nodes: list[int] = []
    slack = _Attempt.slack
    monkeypatch.setattr(_Attempt, "slack", lambda *args: nodes.append(1) or slack(*args))
    assert bottom_up(problem, conflicts, 8823, 8798, 50 * NODE_STEPS) is None
    assert 10 < len(nodes) <= 50


def test_all_plans_of_a_few_blocks_have_the_optimum_among_them() -> None:
    rng = random.Random(6)
    finals = shared = 0
    for _ in range(150):
        lives = [(k, k + rng.randint(1, 3), rng.randint(1, 4)) for k in range(5)]
        pairs = [(s, d) for s, a in enumerate(lives) for d, b in enumerate(lives) if s != d and b[0] == a[1] - 1]
        nears = [Near(s, d, rng.choice([-1, 0, 1, 2])) for s, d in pairs if rng.random() < 0.7]
        problem = problem_of(*lives, nears=nears)
        conflicts = build_conflicts(problem, build_blocks(problem, ()))
        found, final = all_plans(conflicts, 1000, 0)
        assert found is not None
        optimum = brute_force_peak_with_offers(problem, ())
        assert peak_of(conflicts.blocks, found) >= optimum
        assert final or min(n.distance for n in nears) < 0, "only where a rival must be a certain way below"
        if final:
            assert peak_of(conflicts.blocks, found) == optimum
            assert all_plans(conflicts, optimum, 0) == (None, True), "nothing is below the optimum"
        finals += final
        shared += final and optimum < brute_force_peak_with_offers(problem_of(*lives), ())
    assert finals > 60
    assert shared > 20


def test_all_plans_say_when_they_did_not_look_at_all() -> None:
    lives = [(0, 2, 3), (1, 3, 4), (2, 4, 5), (0, 4, 1)]
    conflicts = build_conflicts(problem_of(*lives), build_blocks(problem_of(*lives), ()))
    assert all_plans(conflicts, 1000, 0, budget=1) == (None, False)
    many = problem_of(*[(0, 1, 1)] * (MOST_BLOCKS + 1))
    assert all_plans(build_conflicts(many, build_blocks(many, ())), 1000, 0) == (None, False)


def test_few_blocks_are_not_searched_where_the_bound_cannot_be_met(monkeypatch: pytest.MonkeyPatch) -> None:
    lives = [(1, 2, 5), (0, 4, 8), (3, 7, 4), (0, 4, 1), (3, 7, 1), (3, 6, 4), (4, 5, 6)]
    problem = problem_of(*lives, nears=[Near(1, 2, 3), Near(1, 4, 3), Near(1, 5, 3), Near(3, 2, 3)])
    monkeypatch.setattr(portfolio, "_search_members", lambda *_: pytest.fail("a search of a second or more"))
    plan = allocate(problem)
    assert (plan.peak, plan.lower_bound) == (17, 15)


def test_searches_take_a_part_of_their_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(2)
    lives = [(b := rng.randrange(12), b + rng.randint(1, 5), rng.randint(1, 40)) for _ in range(MOST_BLOCKS + 4)]
    nears = [Near(s, d, 30) for s, a in enumerate(lives) for d, b in enumerate(lives) if s < d and b[0] == a[1] - 1]
    budgets: list[int] = []
    monkeypatch.setattr(portfolio, "hill_climb", lambda *args: budgets.append(args[4]))
    monkeypatch.setattr(portfolio, "bottom_up", lambda *args: budgets.append(args[4]))
    for part in (1, 8):
        allocate(problem_of(*lives, nears=nears), 1, part)
    assert len(budgets) == 6
    assert [8 * b for b in budgets[3:]] == budgets[:3]


def test_chain_of_layers_needs_the_two_largest_neighbours() -> None:
    plan = allocate(problem_of((0, 2, 100), (1, 3, 400), (2, 4, 200), (3, 5, 50)))
    assert (plan.peak, plan.lower_bound) == (600, 600)


def test_search_finds_the_bound_where_push_down_and_all_greedy_members_miss_it() -> None:
    problem = problem_of((3, 5, 4), (4, 6, 3), (0, 4, 4), (3, 6, 4), (4, 5, 3), (3, 4, 2))
    assert allocate(problem, effort=0).peak > 14
    plan = allocate(problem, effort=1)
    assert (plan.peak, plan.lower_bound) == (14, 14)
    blocks = build_blocks(problem, ())
    climbed = hill_climb(build_conflicts(problem, blocks), range(len(blocks)), 100, 14, 100_000)
    assert climbed is not None
    assert max(a + b.nbytes for a, b in zip(climbed, blocks, strict=True)) == 14


def test_alignment_counts_in_sizes_peak_and_bound() -> None:
    plan = allocate(problem_of((0, 2, 490), (0, 2, 8000), align=4))
    assert (plan.peak, plan.lower_bound) == (492 + 8000, 492 + 8000)
    assert all(offset % 4 == 0 for offset in plan.offsets)


def test_in_place_halves_a_chain_of_equal_tensors() -> None:
    lives = [(k, k + 2, 64) for k in range(5)]
    links = [Overwrite(k + 1, k) for k in range(4)]
    plan = allocate(problem_of(*lives, overwrites=links))
    assert (plan.peak, plan.lower_bound, len(set(plan.offsets))) == (64, 64, 1)
    assert plan.used == tuple(links)
    assert allocate(problem_of(*lives)).peak == 128


def test_overwriter_with_offset_frees_head_and_tail() -> None:
    problem = problem_of(
        (0, 3, 100), (2, 6, 20), (3, 6, 40), (3, 6, 40), align=4, overwrites=[Overwrite(1, 0, 40)]
    )
    plan = allocate(problem)
    assert (plan.peak, plan.lower_bound) == (100, 100)
    assert plan.offsets[1] == plan.offsets[0] + 40
    blocks = build_blocks(problem, choose_overwrites(problem))
    fallen = push_down(problem, blocks)
    assert max(a + b.nbytes for a, b in zip(fallen, blocks, strict=True)) == 100


def test_offers_that_do_not_hold_are_not_taken() -> None:
    lives = [(0, 2, 64), (1, 3, 128), (2, 4, 64), (3, 5, 64)]
    bad = [Overwrite(1, 0), Overwrite(2, 1, 100), Overwrite(2, 0), Overwrite(3, 2, 2), Overwrite(3, 2, -4)]
    assert choose_overwrites(problem_of(*lives, align=4, overwrites=bad)) == ()


def test_the_larger_of_two_overwriters_wins() -> None:
    problem = problem_of((0, 3, 64), (2, 4, 16), (2, 4, 48), overwrites=[Overwrite(1, 0), Overwrite(2, 0)])
    assert choose_overwrites(problem) == (Overwrite(2, 0),)


def test_link_that_breaks_alignment_further_up_the_chain_is_dropped() -> None:
    intervals = (Interval("a", 0, 2, 64, 4), Interval("b", 1, 3, 32, 4), Interval("c", 2, 4, 16, 16))
    problem = Problem(intervals, (Overwrite(1, 0, 4), Overwrite(2, 1, 0)))
    assert choose_overwrites(problem) == (Overwrite(1, 0, 4),)
    check_plan(problem, allocate(problem))


def test_overwrites_are_refused_where_they_make_the_peak_grow() -> None:
    """In place, `b` is pinned inside `a` with 20 bytes free on each side; what comes next wants 60."""
    fits = problem_of((0, 3, 60), (2, 6, 20), (3, 6, 40), align=20, overwrites=[Overwrite(1, 0, 20)])
    plan = allocate(fits)
    assert (plan.peak, plan.used) == (80, (Overwrite(1, 0, 20),)), "on equal peaks the overwrites stay"
    splits = problem_of((0, 3, 60), (2, 6, 20), (3, 6, 60), align=20, overwrites=[Overwrite(1, 0, 20)])
    assert choose_overwrites(splits) == (Overwrite(1, 0, 20),)
    plan = allocate(splits)
    assert (plan.peak, plan.used) == (80, ())


def test_diagonal_overlap_saves_all_but_the_distance() -> None:
    near = Near(0, 1, 16)
    plan = allocate(problem_of((0, 2, 100), (1, 3, 100), nears=[near]))
    assert (plan.peak, plan.lower_bound, plan.used) == (116, 116, (near,))
    assert plan.offsets[0] - plan.offsets[1] == 16


def test_diagonal_offer_between_longer_lives_is_ignored() -> None:
    plan = allocate(problem_of((0, 3, 100), (1, 3, 100), nears=[Near(0, 1, 16)]))
    assert (plan.peak, plan.used) == (200, ())


def test_empty_problem_and_empty_buffers() -> None:
    assert allocate(Problem(())).peak == 0
    plan = allocate(
        problem_of((0, 4, 0), (1, 2, 8), (1, 2, 0), overwrites=[Overwrite(2, 1), Overwrite(0, 1)])
    )
    assert (plan.peak, plan.lower_bound, plan.offsets) == (8, 8, (0, 0, 0))


@pytest.mark.parametrize("life", [(3, 3), (4, 3)])
def test_life_that_ends_before_it_begins_is_an_error(life: tuple[int, int]) -> None:
    with pytest.raises(InternalError, match="bad"):
        Interval("bad", *life, 4, 1)


def test_offer_that_names_no_interval_is_an_error() -> None:
    with pytest.raises(InternalError, match="does not name"):
        problem_of((0, 1, 4), overwrites=[Overwrite(0, 1)])


@pytest.mark.thorough
def test_thousands_of_intervals_take_seconds() -> None:
    rng = random.Random(9)
    lives = []
    for k in range(3000):
        lives.append((k, k + 2 + int(rng.expovariate(0.05)), 64 * rng.randint(1, 500)))
    links = [
        Overwrite(s, d)
        for d, (_, end, _) in enumerate(lives)
        if (s := end - 1) < len(lives) and rng.random() < 0.3 and s != d
    ]
    problem = problem_of(*lives, align=64, overwrites=links)
    assert len(choose_overwrites(problem)) > 100
    started = time.process_time()
    plan = allocate(problem, effort=0)
    assert time.process_time() - started < 15, "generous: it takes about two seconds"
    assert plan.peak <= 1.25 * plan.lower_bound


def test_deep_stack_does_not_recurse() -> None:
    """1200 intervals alive at once: push-down's search goes as deep as the stack is high."""
    problem = problem_of(*((k, 6000, 4) for k in range(1200)))
    blocks = build_blocks(problem, ())
    addresses = push_down(problem, blocks)
    assert sorted(addresses) == [4 * k for k in range(1200)]


def test_ranges_that_touch_leave_their_border_free() -> None:
    """x meets only b, the upper end of its block, and may lie at the low end of the block that a has left."""
    intervals = (Interval("a", 0, 3, 24, 1), Interval("b", 2, 5, 8, 1), Interval("x", 3, 6, 16, 1))
    problem = Problem(intervals, (Overwrite(1, 0, 16),))
    conflicts = build_conflicts(problem, build_blocks(problem, choose_overwrites(problem)))
    assert conflicts.rivals[1] == ((0, 0, 24),)
    assert first_gap(conflicts, (0, 1)) == [0, 0]
    assert _merged([(0, 8), (8, 16), (12, 20)]) == [(0, 8), (8, 20)]
