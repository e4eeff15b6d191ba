"""The plan checker: each planted fault must be caught, and name the intervals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mccompile.ir.errors import InternalError
from mccompile.plan.alloc.check import check_plan
from mccompile.plan.alloc.problem import Interval, Near, Overwrite, Plan, Problem

INTERVALS = (
    Interval("in", 0, 2, 30, 8),
    Interval("mid", 1, 4, 32, 8),
    Interval("tail", 3, 5, 16, 8),
    Interval("out", 4, 6, 24, 8),
)
PLACE = Overwrite(2, 1, 8)
DIAGONAL = Near(2, 3, 8)
PROBLEM = Problem(INTERVALS, (PLACE, Overwrite(2, 1, 24)), (DIAGONAL,))
GOOD = Plan((32, 0, 8, 0), 64, 48, "by hand", (PLACE, DIAGONAL))


def test_the_good_plan_is_accepted() -> None:
    check_plan(PROBLEM, GOOD)


def faulty(message: str, problem: Problem = PROBLEM, **changes: object) -> None:
    with pytest.raises(InternalError, match=message):
        check_plan(problem, replace(GOOD, **changes))  # type: ignore[arg-type]


def test_overlap_names_both() -> None:
    faulty(r"mid at .* and in at|in at .* and mid at", offsets=(24, 0, 8, 0), peak=56)


def test_overlap_of_the_padding_alone() -> None:
    """`in` has 30 bytes, but occupies 32."""
    intervals = (replace(INTERVALS[0], begin=0), Interval("byte", 1, 2, 1, 1))
    plan = Plan((0, 31), 32, 32, "", ())
    with pytest.raises(InternalError, match=r"in at .* and byte at"):
        check_plan(Problem(intervals), plan)
    check_plan(Problem(intervals), replace(plan, offsets=(0, 32), peak=33))


def test_overlap_of_intervals_that_do_not_touch_in_time_is_fine() -> None:
    check_plan(Problem((Interval("a", 0, 2, 8, 1), Interval("b", 2, 3, 8, 1))), Plan((0, 0), 8, 8, "", ()))


@pytest.mark.parametrize("place", [0, 1, 255, 256, 257, 511, 512, 598])
def test_overlap_among_many(place: int) -> None:
    """One of 600 intervals that live one behind the other lives on until the last, in its bytes."""
    last = 599
    lives = [Interval(f"v{i}", i, last + 1 if i == place else i + 1, 8, 1) for i in range(last + 1)]
    apart = tuple(0 if i == place else 8 for i in range(last + 1))
    check_plan(Problem(tuple(lives)), Plan(apart, 16, 8, "", ()))
    for other in {place + 1, (place + last) // 2 + 1, last}:
        over = tuple(0 if i == other else a for i, a in enumerate(apart))
        with pytest.raises(InternalError, match=rf"^v{place} at .* and v{other} at"):
            check_plan(Problem(tuple(lives)), Plan(over, 16, 8, "", ()))


def test_misalignment() -> None:
    faulty("in: address 36", offsets=(36, 0, 8, 0), peak=68)


def test_negative_address() -> None:
    faulty("in: address -32", offsets=(-32, 0, 8, 0), peak=32)


def test_wrong_peak() -> None:
    faulty("peak 63", peak=63)
    faulty("peak 72", peak=72)


def test_lower_bound_above_what_is_live() -> None:
    check_plan(PROBLEM, replace(GOOD, lower_bound=64))
    faulty("lower bound 65", lower_bound=65)


def test_missing_address() -> None:
    faulty("3 addresses for 4", offsets=(32, 0, 8))


def test_offer_not_used_is_an_overlap() -> None:
    faulty("mid .* tail", used=(DIAGONAL,))
    faulty("tail .* out|out .* tail", used=(PLACE,))


def test_overwriter_that_sticks_out() -> None:
    faulty("tail and mid: .* sticks out", used=(Overwrite(2, 1, 24), DIAGONAL), offsets=(32, 0, 24, 0))


def test_overwriter_at_another_offset_than_offered() -> None:
    faulty("tail is not at offset 8 of mid", offsets=(32, 0, 16, 0))


def test_offer_nobody_made() -> None:
    faulty("tail and mid: nobody offered", used=(Overwrite(2, 1, 16), DIAGONAL), offsets=(32, 0, 16, 0))
    faulty("tail and out: nobody offered", used=(PLACE, Near(2, 3, 4)))


def test_overwritten_interval_that_lives_on() -> None:
    longer = replace(INTERVALS[1], end=5)
    problem = replace(PROBLEM, intervals=(INTERVALS[0], longer, *INTERVALS[2:]))
    faulty("mid does not die where tail", problem)


def test_overwritten_interval_born_with_its_overwriter() -> None:
    problem = Problem((Interval("a", 3, 4, 8, 1), Interval("b", 3, 6, 8, 1)), (Overwrite(1, 0),))
    with pytest.raises(InternalError, match="a does not die where b"):
        check_plan(problem, Plan((0, 0), 8, 8, "", problem.overwrites))


def test_diagonal_too_close() -> None:
    problem = replace(PROBLEM, nears=(Near(2, 3, 16),))
    faulty("tail is less than 16 bytes above out", problem, used=(PLACE, Near(2, 3, 16)))


def test_diagonal_between_lives_that_share_more_than_one_step() -> None:
    problem = replace(PROBLEM, intervals=(*INTERVALS[:2], replace(INTERVALS[2], end=6), INTERVALS[3]))
    faulty("tail does not die where out", problem)
