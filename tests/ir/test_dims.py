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
    maximum,
    minimum,
    parse,
    span,
    symbol,
    text,
    value,
)

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
    assert raised.value.hint.startswith("take only multiples: --dim h=32..200:4; or ")
    with pytest.raises(UndecidedError) as raised:
        assert h // 2 > w  # multiples do not help
    assert raised.value.hint.startswith("give each dim")


@pytest.mark.parametrize("written", ["j", "n +", "n.m", "f(n)", "n / 2", ""])
def test_text_that_is_no_extent(written: str) -> None:
    with pytest.raises(ValueError):
        parse(written, {"n": N})
