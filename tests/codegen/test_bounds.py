"""Bounds of expressions hold, and are finite only where no value is an infinity or NaN."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mccompile.codegen.bounds import magnitude, of_view
from mccompile.ir import expr as ex
from mccompile.ir.types import BOOL, F16, F32, I8, I32, U8, DType, TensorType
from mccompile.ir.views import Buffer, whole

X, Y = ex.var(0, F32), ex.var(1, F32)
N, M = ex.var(0, I32), ex.var(1, I32)
BYTE = ex.var(0, U8)
WIDE = 3e9


def _bound(e: ex.Expr, *of_variables: float) -> float:
    return magnitude(e, lambda i: of_variables[i])


@pytest.mark.parametrize(
    ("e", "least"),
    [
        (ex.apply("add", X, Y), 150.0),
        (ex.apply("sub", X, Y), 150.0),
        (ex.apply("mul", X, Y), 5000.0),
        (ex.apply("mul", X, ex.num(0.25)), 25.0),
        (ex.apply("max", X, Y), 100.0),
        (ex.apply("min", Y, X), 100.0),
        (ex.apply("abs", X), 100.0),
        (ex.apply("rne", ex.apply("mul", X, ex.num(0.015))), 2.0),
        (ex.apply("floor", ex.apply("mul", X, ex.num(-0.011))), 2.0),
        (ex.apply("ceil", ex.apply("mul", X, ex.num(0.011))), 2.0),
        (ex.convert(X, I32), 100.0),
        (ex.convert(ex.apply("mul", X, ex.num(0.005)), I32), 0.5),
        (ex.convert(N, F32), 100.0),
        (ex.apply("add", N, M), 150.0),
        (ex.apply("sub", N, M), 150.0),
        (ex.apply("tanh", X), 1.0),
        (ex.lookup(BYTE, np.linspace(-7, 3, 256).astype(np.float32)), 7.0),
    ],
    ids=str,
)
def test_no_value_is_larger_and_the_bound_is_near(e: ex.Expr, least: float) -> None:
    """``least`` is the largest value there is where x is at most 100 and y at most 50."""
    assert least <= _bound(e, 100.0, 50.0) <= 1.001 * least + 1


@pytest.mark.parametrize(
    ("e", "dtype"),
    [(ex.apply("add", N, M), I32), (ex.apply("sub", N, M), I32), (ex.convert(X, I32), I32)],
    ids=str,
)
def test_whole_numbers_are_of_their_type_at_most(e: ex.Expr, dtype: DType) -> None:
    assert _bound(e, WIDE, WIDE) == 2.0**31
    assert _bound(ex.convert(X, I8), WIDE) == 128


def test_what_is_below_zero_is_large_without_a_sign() -> None:
    assert _bound(ex.convert(N, U8), 1.0) == 255  # of -1
    assert _bound(ex.apply("sub", BYTE, BYTE), 1.0) == 255
    assert _bound(ex.convert(X, U8), 1.0) <= 1.001  # a float saturates


@pytest.mark.parametrize(
    "e",
    [
        X, ex.apply("add", X, Y), ex.apply("mul", X, Y), ex.apply("max", X, Y), ex.apply("div", Y, Y),
        ex.num(math.inf), ex.num(math.nan), ex.apply("tanh", X), ex.apply("sigmoid", X), ex.apply("erf", X),
        ex.apply("rne", X), ex.lookup(BYTE, np.full(256, np.nan, np.float32)),
        ex.lookup(BYTE, np.full(256, -np.inf, np.float32)),
    ],
    ids=str,
)  # fmt: skip
def test_what_may_be_no_number_has_no_bound(e: ex.Expr) -> None:
    assert _bound(e, math.inf, 50.0) == math.inf


def test_large_numbers_have_no_bound() -> None:
    """Their products would be infinite before anyone asks."""
    assert _bound(ex.apply("mul", X, Y), 1e20, 1e20) == math.inf
    assert _bound(ex.convert(ex.var(0, BOOL), F32), 1.0) <= 2


@pytest.mark.parametrize(
    ("dtype", "data", "bound"),
    [
        (F32, [-3.5, 2.0], 3.5), (F32, [math.inf, 2.0], math.inf), (F32, [math.nan, 2.0], math.inf),
        (F32, None, math.inf), (F16, [1.0, 2.0], math.inf), (I8, None, 128.0), (I8, [1, 2], 128.0),
    ],
)  # fmt: skip
def test_weights_are_bounded_by_what_they_are(dtype: DType, data: list[float] | None, bound: float) -> None:
    array = None if data is None else np.array(data, dtype.numpy)
    assert of_view(whole(Buffer("w", TensorType(dtype, (2,)), "blob", 16, data=array))) == bound
