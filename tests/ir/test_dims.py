"""Extents that are known at run time only: their arithmetic against plain numbers, their order, their text."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from mccompile.ir import dims_ranges
from mccompile.ir.dims import (
    Dim,
    UndecidedError,
    bound,
    counter,
    exact,
    maximum,
    minimum,
    require_equal,
    span,
    symbol,
    text,
    value,
)
from mccompile.ir.dims_hints import equality, hint_of
from mccompile.ir.dims_text import declaration, parse, parse_declaration

N, M, K = symbol("n", 1, 6), symbol("m", 0, 4), symbol("k", 4, 12, 4)
LEAVES = [(N, "n"), (M, "m"), (K, "k")]


def _drawn(rng: np.random.Generator, depth: int) -> tuple[int, str]:
    """An extent, and the same as an expression of Python over n, m and k."""
    if depth == 0:
        pick = int(rng.integers(0, 4))
        return [*LEAVES, (i := int(rng.integers(0, 5)), str(i))][pick]
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


@pytest.fixture
def untried() -> Iterator[None]:
    """Ranges are found as those of symbols are that have too many values to try them all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dims_ranges, "MAX_TRIED", 0)
        dims_ranges._range_of.cache_clear()
        yield
    dims_ranges._range_of.cache_clear()


@pytest.mark.usefixtures("untried")
@pytest.mark.parametrize("seed", range(4))
def test_ranges_that_are_not_tried_hold_all_values(seed: int) -> None:
    """Products of what is left of an extent beside the lesser of two, or a multiple."""
    rng, leaves = np.random.default_rng(seed), [*LEAVES, (counter("i", N - 1), "i")]
    every = itertools.product(range(1, 7), range(5), (4, 8, 12), range(5))
    given = [dict(zip("nmki", at, strict=True)) for at in every if at[3] < at[0] - 1]

    def factor() -> tuple[int, str]:
        (a, one), (b, other) = (leaves[i] for i in rng.integers(0, len(leaves), 2))
        by, times = (int(n) for n in rng.integers(1, 5, 2))
        c, last = [
            (minimum(a, b), f"min({one}, {other})"), (maximum(a, b), f"max({one}, {other})"),
            ((a + times) // by * times, f"({one} + {times}) // {by} * {times}"), (-b, f"-{other}"),
        ][int(rng.integers(0, 4))]  # fmt: skip
        d, first = [(a, one), (b, other)][int(rng.integers(0, 2))]
        return (d - c, f"({first} - {last})")

    for _ in range(80):
        (a, one), (b, other), (c, last) = factor(), factor(), factor()
        extent, expression = a * b + c, f"{one} * {other} + {last}"
        if rng.random() < 0.4:
            extent, expression = a * a - c * b, f"{one} * {one} - {last} * {other}"
        code = compile(expression, "", "eval")
        tried = [eval(code, {**at, "min": min, "max": max}) for at in given]
        assert [value(extent, at) for at in given[::7]] == tried[::7], expression
        low, high = span(extent)
        assert low <= min(tried) <= max(tried) <= high, expression


def _up(h: int, k: int) -> int:
    """What is added to make a multiple, as exporters write it."""
    return (k - h % k) % k


def _part(h: int, start: int, stop: int) -> int:
    """The extent of a slice."""
    return maximum(minimum(stop, h) - minimum(start, h), 0)


EXTENTS: dict[str, Callable[[int, int, int], int]] = {
    "pad": lambda h, w, p: h + _up(h, 7),
    "pad, by w": lambda h, w, p: (h + _up(h, 7)) * w,
    "pad both": lambda h, w, p: (h + _up(h, 16)) * (w + _up(w, 16)) * 64,
    "pad both by division": lambda h, w, p: (h + 31) // 32 * 32 * ((w + 31) // 32 * 32),
    "pad on both sides": lambda h, w, p: (h + _up(h, 8) // 2 + (_up(h, 8) - _up(h, 8) // 2)) * (w + _up(w, 8)),
    "pad in front": lambda h, w, p: (h + _up(h, 8) // 2) * w,
    "what is padded": lambda h, w, p: _up(h, 7) * w,
    "pad to even": lambda h, w, p: (h + h % 2) * (w + w % 2),
    "pad to odd": lambda h, w, p: (h + 1 - h % 2) * (w + 1 - w % 2),
    "pad by a whole window": lambda h, w, p: (h + 8 - h % 8) * (w + 8 - w % 8),
    "pad to the least": lambda h, w, p: (h + maximum(16 - h, 0)) * (w + maximum(16 - w, 0)),
    "windows": lambda h, w, p: ((h + _up(h, 8)) // 8) * ((w + _up(w, 8)) // 8),
    "windows of the product": lambda h, w, p: (h + _up(h, 7)) * (w + _up(w, 7)) // 49,
    "overlapping windows": lambda h, w, p: w * ((h + _up(h, 512)) // 256 - 1),
    "shifted windows": lambda h, w, p: ((h + 7) // 8 * 8 - 4) * w,
    "pad, and a convolution": lambda h, w, p: ((h + _up(h, 32) - 1) // 2 + 1) * ((w + _up(w, 32) - 1) // 2 + 1),
    "pad, and crop": lambda h, w, p: minimum(h + _up(h, 7), h) * minimum(w + _up(w, 7), w),
    "crop": lambda h, w, p: (h - h % 14) * (w - w % 14),
    "patches": lambda h, w, p: (h - h % 14) // 14 * ((w - w % 14) // 14),
    "crop in the middle": lambda h, w, p: _part(h + _up(h, 8), _up(h, 8) // 2, _up(h, 8) // 2 + h) * w,
    "halves": lambda h, w, p: h // 2 * 2 * (w // 2 * 2),
    "the first half": lambda h, w, p: (h + 1) // 2 * w,
    "the second half": lambda h, w, p: (h - (h + 1) // 2) * w,
    "the larger half": lambda h, w, p: (h - h // 2) * w,
    "what halves leave": lambda h, w, p: (h - h // 2 * 2) * w,
    "halves of even lines": lambda h, w, p: (h + h % 2) // 2 * ((w + w % 2) // 2),
    "halved and doubled": lambda h, w, p: (((h + 1) // 2 + 1) // 2 * 4 - h) * w,
    "pool, rounded up": lambda h, w, p: (-((1 - h) // 2) + 1) * (-((1 - w) // 2) + 1),
    "quotients, rounded up": lambda h, w, p: -(-h // 16) * -(-w // 16),
    "frames": lambda h, w, p: (maximum(h * 160, 400) - 400) // 160 * w,
    "the last": lambda h, w, p: _part(h, h - 1, h) * w,
    "all but the last": lambda h, w, p: maximum(h - 1, 0) * w,
    "the last three": lambda h, w, p: (h - maximum(h - 3, 0)) * w,
    "at most": lambda h, w, p: minimum(h, 512) * minimum(w, 512),
    "every second of the first, backwards": lambda h, w, p: maximum(h - 100, 0) % 2 * w,
    "what thirds of the shorter leave": lambda h, w, p: minimum(h, p) % 3 * w,
    "behind thirds of the new": lambda h, w, p: w * (maximum(h - p, 0) - maximum(h - p, 0) // 3 * 2),
    "behind the past": lambda h, w, p: (h - minimum(h, p)) * w,
    "behind the past, by itself": lambda h, w, p: (h - minimum(h, p)) * (h - minimum(h, p)),
    "before the past, by itself": lambda h, w, p: (p - minimum(p, h)) * (p - minimum(p, h)),
    "behind the past, by all": lambda h, w, p: (h - minimum(h, p)) * (h - minimum(h, p) + p),
    "new tokens by all": lambda h, w, p: _part(h + p, p, h + p) * (h + p),
    "the longer": lambda h, w, p: maximum(h, p) * (h + p),
    "relative places": lambda h, w, p: (2 * h - 1) * (2 * w - 1),
}
"""Extents of networks, of h and w of 1 to 3000 and p of 0 to 3000."""


@pytest.mark.parametrize("name", EXTENTS)
def test_ranges_of_what_networks_compute(name: str) -> None:
    """No extent is negative for all that is known, and none has much more memory than it needs."""
    extent = EXTENTS[name](symbol("h", 1, 3000), symbol("w", 1, 3000), symbol("p", 0, 3000))
    several = (1, 2, 5, 7, 16, 33, 1500, 2993, 2999, 3000)
    tried = [EXTENTS[name](*at) for at in itertools.product(several, several, (0, 1, 1500, 3000))]
    low, high = span(extent)
    assert 0 <= low <= min(tried)
    assert max(tried) <= high <= 1.01 * max(tried)


def test_ways_to_round_up_are_one() -> None:
    h = symbol("h", 1, 3000)
    assert h + _up(h, 32) == (h + 31) // 32 * 32 == -(-h // 32) * 32
    assert (h + h % 2) // 2 - (h + 1) // 2 == 0
    assert (64 * N - h + 9) // 64 == N - (h + 54) // 64


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


def test_what_is_undecided_proposes_a_smaller_range() -> None:
    """Positions for so many tokens, or tokens that come in fours, behind others."""
    s = symbol("s", 1, 40)
    for least, other, option in [
        (minimum(s, 32), s, "s=1..32"), (minimum(s + 2, 32), s + 2, "s=1..30"), (maximum(s, 8), s, "s=8..40"),
    ]:  # fmt: skip
        with pytest.raises(UndecidedError) as raised:
            require_equal(least, other)
        assert hint_of(raised.value).startswith(f"take no others than: --dim {option}; or ")
    fours = symbol("s", 4, 40, 4)
    with pytest.raises(UndecidedError) as raised:
        require_equal(minimum(fours, 30), fours)
    assert hint_of(raised.value).startswith("take no others than: --dim s=4..28:4; or ")
    with pytest.raises(UndecidedError) as raised:
        require_equal(minimum(s, 32), symbol("t", 1, 40))
    assert "take no others" not in hint_of(raised.value)
    with pytest.raises(UndecidedError) as raised:  # they are equal for 35, and for none of 1 to 32
        require_equal(minimum(s, 32), s - 3)
    assert "take no others" not in hint_of(raised.value)


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


def _same_window(e: int, kernel: int, stride: int, upper: bool) -> tuple[int, int, int]:
    """The pads that keep an extent but for the stride, as auto_pad says, and what windows of these make of it."""
    whole = maximum((-(-e // stride) - 1) * stride + kernel - e, 0)
    small = whole // 2
    large = maximum(whole - small, 0)
    before, behind = (small, large) if upper else (large, small)
    return before, behind, (e + before + behind - kernel) // stride + 1


@pytest.mark.parametrize("ends", [(16, 64), (1, 64), (1, 4000), (32, 8192)])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 2), (2, 2), (5, 2), (7, 2), (3, 3), (5, 3), (1, 1), (2, 3)])
def test_windows_that_keep_an_extent_but_for_the_stride(kernel: int, stride: int, ends: tuple[int, int]) -> None:
    for upper in (True, False):
        extent = symbol("w", *ends)
        for _ in range(4):
            before, behind, out = _same_window(extent, kernel, stride, upper)
            assert span(before)[0] >= 0
            assert span(behind)[0] >= 0
            assert out == -(-extent // stride)
            extent = out


@pytest.mark.parametrize("step", [1, 4])
@pytest.mark.parametrize("seed", range(2))
def test_quotients_of_quotients_are_those_of_numbers(seed: int, step: int) -> None:
    """Of extents that have few values, of which the ranges are exact, and of such that have too many to try them."""
    rng = np.random.default_rng([seed, step])
    for low, high in ((8, 20), (12, 64), (8, 4000)):
        w, values = symbol("w", low, high, step), np.arange(low, high + 1, step)
        pool = [(w, values), ((w + 1) // 2, (values + 1) // 2), (w // 3, values // 3)]
        for _ in range(25 if high < 100 else 8):
            (a, x), (b, y) = (pool[i] for i in rng.integers(0, len(pool), 2))
            i, j, more, by = (int(n) for n in rng.integers((-2, -2, -9, 2), (4, 3, 10, 6)))
            made, truth = (a * i + b * j + more) // by, (x * i + y * j + more) // by
            assert [value(made, {"w": int(n)}) for n in values[::7]] == truth[::7].tolist()
            if isinstance(made, Dim) and low + high < 100:
                assert span(made) == (truth.min(), truth.max())
            assert span(made)[0] <= truth.min() <= truth.max() <= span(made)[1]
            if isinstance(made, Dim) and made.atoms < 7:
                pool.append((made, truth))


def test_a_product_of_what_is_not_negative_is_not() -> None:
    h, w = symbol("h", 1, 3000), symbol("w", 1, 3000)
    area = (h // 2 - h // 4) * (w // 2 - w // 4)
    assert span(area)[0] == 0
    assert area
    assert area > 0
