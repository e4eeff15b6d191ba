"""Extents of the run, in C: which numbers the setter of one refuses, and what it is before it is set."""

from __future__ import annotations

import pytest

from mccompile.codegen.extents import GivenExtent

WIDTH = 20


def _refused(extent: GivenExtent) -> list[int]:
    """The numbers that the condition in C is true of, which Python reads alike but for two operators."""
    condition = extent.wrong.replace("||", "or").replace("&&", "and")
    return [n for n in range(-2, WIDTH) if eval(condition, {"extent": n})]


@pytest.mark.parametrize(
    ("extent", "allowed"),
    [
        (GivenExtent("n", 3, 5), [3, 4, 5]),
        (GivenExtent("n", 4, 4), [4]),
        (GivenExtent("n", 0, 2), [0, 1, 2]),
        (GivenExtent("n", 2, 8, 2), [2, 4, 6, 8]),
        (GivenExtent("n", 3, 9, 3), [3, 6, 9]),
        (GivenExtent("n", 3, 9, 1, (3, 5, 9)), [3, 5, 9]),
    ],
    ids=lambda x: x.range if isinstance(x, GivenExtent) else "",
)
def test_a_setter_refuses_all_but_what_the_extent_may_be(extent: GivenExtent, allowed: list[int]) -> None:
    assert [n for n in range(-2, WIDTH) if n not in _refused(extent)] == allowed


def test_an_extent_begins_at_its_most_and_one_that_grows_at_its_least() -> None:
    assert GivenExtent("n", 3, 9).begin == 9
    assert GivenExtent("n", 3, 9, by="1").begin == 3


@pytest.mark.parametrize(
    ("extent", "text"),
    [
        (GivenExtent("n", 3, 9), "3 to 9"),
        (GivenExtent("n", 2, 8, 2), "2 to 8, multiples of 2"),
        (GivenExtent("n", 3, 9, 1, (3, 5, 9)), "3, 5 or 9"),
    ],
)
def test_what_it_may_be_is_said(extent: GivenExtent, text: str) -> None:
    assert extent.range == text
