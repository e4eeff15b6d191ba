"""What is known of values before a run: sums of as many elements as it says, elements of tables."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mccompile.ir import expr as ex
from mccompile.ir.dims import symbol
from mccompile.ir.ranges import Range, of_expression
from mccompile.ir.types import DTYPES, TensorType
from mccompile.ops.reduce import Reduce


@pytest.mark.parametrize("dtype", ["f32", "i32"])
def test_sums_of_as_many_as_a_run_says_are_no_one_number(dtype: str) -> None:
    x = TensorType(DTYPES[dtype], (symbol("n", 0, 5), 2))
    (found,) = Reduce("sum", (0,)).value_range([x], [Range(np.array([2.0, 0.0]), np.array([2.0, 0.0]))])
    assert (found.low[0], found.high[0]) == (0, 10)
    assert found.known.tolist() == [False, True]
    (found,) = Reduce("sum", (0,)).value_range([x.at({"n": 3})], [Range(np.array([2.0, 0.0]), np.array([2.0, 0.0]))])
    assert found.low.tolist() == found.high.tolist() == [6, 0]


@pytest.mark.parametrize(("first", "ends"), [(0, (-np.inf, np.inf)), (3, (1, 9))])
def test_a_table_with_nan_has_no_ends(first: int, ends: tuple[float, float]) -> None:
    """As that of the 8 bits that a float becomes, of which some are NaN: as long as these are reached."""
    table = np.array([np.nan, 1, 1, *range(1, 10), *[9] * 244], np.float32)
    bytes_ = Range(np.array([first]), np.array([255]))
    found = of_expression(ex.lookup(ex.var(0, DTYPES["u8"]), table), lambda _: bytes_)
    assert (found.low[0], found.high[0]) == ends


@pytest.mark.parametrize("text", ["xor(u64(64), bitnot(x0))", "x0 * u64(9007199254740993)", "x0 - u64(4)"])
def test_integers_that_no_float64_tells_apart_are_not_known(text: str) -> None:
    body = ex.parse(text, [DTYPES["u64"]])
    found = of_expression(body, lambda _: Range(np.array([1.0]), np.array([1.0])))
    value = float(ex.evaluate(body, lambda _: np.array([1], np.uint64))[0])
    assert found.low[0] <= value <= found.high[0]
    assert not found.known[0] or float(int(value)) < 2**53


def test_products_that_no_float64_has_are_rounded_either_way() -> None:
    body = ex.parse("mulhi(x0, x1)", [DTYPES["i32"]] * 2)
    ends = np.array([2.0**31 - 1]), np.array([-(2.0**31) + 1])
    found = of_expression(body, lambda i: Range(ends[i], ends[i]))
    value = ex.evaluate(body, lambda i: ends[i].astype(np.int32))[0]
    assert found.low[0] <= value <= found.high[0]


def test_what_is_too_large_is_infinite() -> None:
    body = ex.parse("x0 * 3e+38", [DTYPES["f32"]])
    found = of_expression(body, lambda _: Range(np.array([-9.0]), np.array([9.0])))
    assert (found.low[0], found.high[0]) == (-np.inf, np.inf)


def test_what_is_too_small_is_zero() -> None:
    """1e-60 as f32, which is rounded up to 1 if it is taken for a number above 0."""
    body = ex.parse("ceil(x0 * x0)", [DTYPES["f32"]])
    found = of_expression(body, lambda _: Range(np.array([1e-30]), np.array([2e-30])))
    value = float(ex.evaluate(body, lambda _: np.array([1.5e-30], np.float32))[0])
    assert found.low[0] <= value <= found.high[0]


@pytest.mark.parametrize("dtype", ["i8", "i64", "u8"])
@pytest.mark.parametrize("text", ["x0 / x1", "mod(x0, x1)", "fmod(x0, x1)"])
def test_quotients_and_remainders_of_whole_numbers(text: str, dtype: str) -> None:
    """Of all pairs of short ranges, also those with 0, and at the ends of the type."""
    body, low = ex.parse(text, [DTYPES[dtype]] * 2), 0 if dtype == "u8" else -128
    middles = [low, low + 1, *((-5, -1, 0) if low else (0,)), 1, 4, 120]
    ends = [(first, first + more) for first in middles for more in (0, 1, 6)]
    told = 0
    for both in itertools.product(ends, ends):
        found = of_expression(body, [Range(np.array([low]), np.array([high])) for low, high in both].__getitem__)
        pairs = list(itertools.product(*(range(first, last + 1) for first, last in both)))
        values = ex.evaluate(body, np.array(pairs).astype(DTYPES[dtype].numpy).T.__getitem__)
        assert found.low[0] <= values.min()
        assert values.max() <= found.high[0]
        told += found.high[0] < 64
    assert told > len(ends)


def test_remainders_of_any_number_are_less_than_the_divisor() -> None:
    known = {0: DTYPES["i64"].ends, 1: (7, 7)}
    for text, ends in (("mod(x0, x1)", (0, 6)), ("fmod(x0, x1)", (-6, 6))):
        body = ex.parse(text, [DTYPES["i64"]] * 2)
        found = of_expression(body, lambda i: Range(*(np.array([float(e)]) for e in known[i])))
        assert (found.low[0], found.high[0]) == ends
