"""Extents that are known at run time only: their arithmetic against plain numbers, their order, their text."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest

from mccompile.ir.dims import (
    Dim,
    UndecidedError,
    bound,
    counter,
    exact,
    maximum,
    minimum,
    span,
    symbol,
    text,
    value,
)
from mccompile.ir.dims_hints import equality, hint_of
from mccompile.ir.dims_text import declaration, parse, parse_declaration

N, M, K = symbol("n", 1, 6), symbol("m", 0, 4), symbol("k", 4, 12, 4)


def _drawn(rng: np.random.Generator, depth: int) -> tuple[int, str]:
    """An extent, and the same as an expression of Python over n, m and k."""
    if depth == 0:
        pick = int(rng.integers(0, 4))
        return [(N, "n"), (M, "m"), (K, "k"), (i := int(rng.integers(0, 5)), str(i))][pick]
    (a, one), (b, other) = _drawn(rng, depth - 1), _drawn(rng, depth - 1)
    by = int(rng.integers(1, 5))
    made = [
        (a + b, f"({one} + {other})"), (a - b, f"({one} - {other})"), (a * b, f"({one} * {other})"),
        (a // by, f"({one} // {by})"), (a % by, f"({one} % {by})"),
        (minimum(a, b), f"min({one}, {other})"), (maximum(a, b), f"max({one}, {other})"),
    ]  # fmt: skip
    return made[int(rng.integers(0, len(made)))]


@pytest.mark.parametrize("seed", range(4))
def test_arithmetic_is_that_of_numbers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(60):
        extent, expression = _drawn(rng, int(rng.integers(1, 4)))
        given = [{"n": n, "m": m, "k": k} for n, m, k in itertools.product(range(1, 7), range(5), (4, 8, 12))]
        tried = [(value(extent, at), eval(expression, {**at, "min": min, "max": max})) for at in given]
        assert all(ours == theirs for ours, theirs in tried), expression
        low, high = span(extent)
        assert low <= min(t for _, t in tried), expression
        assert bound(extent) == high >= max(t for _, t in tried), expression
        assert parse(text(extent), {"n": N, "m": M, "k": K}) == extent
        assert pickle.loads(pickle.dumps(extent)) == extent


def test_orders_are_told_where_they_always_hold() -> None:
    assert N <= 6
    assert N < 7
    assert not N > 6
    assert N * M >= 0
    assert minimum(N, 10) == N
    assert N * 4 - N == 3 * N
    assert N != 3  # it may be another number
    with pytest.raises(UndecidedError, match=r"n < 4 depends on n = 1\.\.6"):
        assert N < 4
    with pytest.raises(UndecidedError):
        assert N // M


@pytest.mark.parametrize("seed", range(3))
def test_a_quotient_is_what_is_divided_less_a_rest(seed: int) -> None:
    """Ranges of extents of too many values to try them: frames of a signal end within it."""
    rng, wide = np.random.default_rng(seed), symbol("wide", 800, 9000)
    values = np.arange(800, 9001)
    assert 160 * (wide // 160) + 399 < wide + 400
    for _ in range(40):
        by, count, more, off = (int(rng.integers(*ends)) for ends in ((2, 300), (-40, 40), (-3, 4), (-50, 50)))
        extent = count * by * ((wide + off) // by) + more * wide
        truth = count * by * ((values + off) // by) + more * values
        low, high = span(extent)
        assert low <= truth.min() <= truth.max() <= high
        assert more != -count or high - low <= abs(count) * (by - 1)  # the rest is all that is left


def test_what_may_be_more_than_one_is_taken_for_more() -> None:
    assert N > 1
    assert not N <= 1
    assert M
    assert N != 1
    assert not isinstance(symbol("k", 3, 3), Dim)


def test_what_is_undecided_proposes_multiples() -> None:
    h, w = symbol("h", 32, 200), symbol("w", 8, 64)
    with pytest.raises(UndecidedError) as raised:
        assert ((h + 1) // 2 + 1) // 2 * 4 > h
    assert hint_of(raised.value).startswith("take only multiples: --dim h=32..200:4; or ")
    with pytest.raises(UndecidedError) as raised:
        assert h // 2 > w  # multiples do not help
    assert hint_of(raised.value).startswith("give each dim")


@pytest.mark.parametrize("written", ["j", "n +", "n.m", "f(n)", "n / 2", ""])
def test_text_that_is_no_extent(written: str) -> None:
    with pytest.raises(ValueError):
        parse(written, {"n": N})


def test_a_counter_is_less_than_its_count() -> None:
    n = symbol("n", 1, 1000)
    i = counter("i", n)
    assert minimum(i + 1, n) - minimum(i, n) == 1
    assert span(n - i) == (1, 1000)
    assert span(2 * i - 3 * n) == (-3000, -3)
    assert counter("i", 5) == symbol("i", 0, 4)
    assert span(counter("i", symbol("n", 0, 99)) * symbol("m", 0, 99)) == (0, 98 * 99)  # a turn is none of no turns
    said = declaration([i])
    assert said == " extents(i=0..999<n, n=1..1000)"
    assert parse_declaration(said[len(" extents(") : -1])["i"] == i
    with pytest.raises(ValueError, match="n is no extent"):
        parse_declaration("i=0..9<n")


def test_exact_is_a_quotient_without_a_rest() -> None:
    assert (exact(N * 6, 3), exact(N * M, N), exact(12, 4)) == (2 * N, M, 3)
    assert exact(N, 2) is exact(58, N * 58) is exact(7, 2) is None


def test_equal_extents_are_said_by_the_last_name() -> None:
    w, v = symbol("w", 8, 64, 8), symbol("v", 8, 32, 8)
    assert equality(w, v) == "--dim w=v"
    assert equality(N, 9) == ""  # which it never is
    assert equality(N * 2, M * 2) == ""
    assert equality(N + 1, M) == equality(M, N + 1) == "--dim m=n+1"
    past, total = symbol("past", 4, 9), symbol("total", 5, 10)
    assert equality(minimum(total, past) - total + N, 0) == "--dim total=n+past"
    assert equality(minimum(total, past), N) == ""  # a least that is an extent by no equation


def test_the_negative_of_a_count_is_below_0() -> None:
    """As a count of 0 to 5 is never taken for 0: strides that run backwards are its negative."""
    n = symbol("n", 0, 5)
    assert -n < 0
    assert not -n >= 0
    assert bool(-n)
    assert abs(-n) == n
