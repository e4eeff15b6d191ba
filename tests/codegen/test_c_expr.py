"""What expressions are in C."""

from __future__ import annotations

import numpy as np
import pytest

from mccompile.codegen.c_expr import Emitter, decided, literal
from mccompile.codegen.uses import Uses
from mccompile.ir import expr as ex
from mccompile.ir.types import BOOL, F32, I8, I16, I32, I64, U8, U32, DType


@pytest.mark.parametrize("fn", ["eq", "le", "ge", "lt", "gt"])
@pytest.mark.parametrize("dtype", [F32, I32], ids=str)
def test_only_whole_numbers_are_known_to_be_equal_to_themselves(fn: str, dtype: DType) -> None:
    """A float may be no number: that is compared when the program runs."""
    x = ex.var(0, dtype)
    text = str(Emitter(lambda i: f"v{i}", Uses()).emit(ex.apply(fn, x, x)))
    assert (text.count("v0") == 2) == dtype.is_float
    assert dtype.is_float or "(void)v0" in text


@pytest.mark.parametrize("fn", ["eq", "le", "ge", "lt", "gt"])
def test_other_numbers_are_compared(fn: str) -> None:
    x, y = ex.var(0, I32), ex.var(1, I32)
    text = str(Emitter(lambda i: f"v{i}", Uses()).emit(ex.apply(fn, x, y)))
    assert (text.count("v0"), text.count("v1")) == (1, 1)


@pytest.mark.parametrize("source", [I8, U8, BOOL], ids=str)
@pytest.mark.parametrize("to", [I8, U8, I16, U32, I64], ids=str)
@pytest.mark.parametrize("fn", ["eq", "le", "ge", "lt", "gt"])
def test_what_types_decide_is_so_for_all_numbers(fn: str, to: DType, source: DType) -> None:
    """gcc and clang warn of comparisons whose answer the types of what is converted tell."""
    low, high = (0, 1) if source == BOOL else source.ends
    x = ex.convert(ex.var(0, source), to) if to != source else ex.var(0, source)
    for number in {-300, -129, -128, -1, 0, 1, 2, 127, 128, 255, 256, 300, low, high, *to.ends}:
        if to.ends[0] <= number <= to.ends[1]:
            for a, b in ((x, ex.num(number, to)), (ex.num(number, to), x)):
                found = decided(fn, a, b)
                values = np.arange(low, high + 1).astype(source.numpy)
                answers = set(np.atleast_1d(ex.evaluate(ex.apply(fn, a, b), lambda i, v=values: v)).tolist())
                assert found is None or answers == {found}
                wraps = not (to.ends[0] <= low and high <= to.ends[1])
                assert found is not None or len(answers) > 1 or wraps


def test_operands_are_wrapped_where_c_binds_otherwise() -> None:
    """(x + y) * x is another number without its parentheses; arguments need none."""
    x, y = ex.var(0, F32), ex.var(1, F32)
    product = ex.apply("mul", ex.apply("add", x, y), x)
    text = str(Emitter(lambda i: f"v{i}", Uses()).emit(product))
    assert "(v0 + v1) * v0" in text
    largest = ex.apply("max", ex.apply("add", x, y), x)
    assert "(v0 + v1, v0)" in str(Emitter(lambda i: f"v{i}", Uses()).emit(largest))


def test_the_least_numbers_have_names() -> None:
    """-2147483648 is an operator and a number that i32 does not have."""
    assert str(literal(-(2**31), I32)) == "INT32_MIN"
    assert str(literal(-(2**63), I64)) == "INT64_MIN"
    assert str(literal(1 - 2**31, I32)) == "-2147483647"


@pytest.mark.parametrize(("value", "text"), [(1.5, "1.5f"), (2, "2.0f"), (1e20, "1e+20f"), (-0.5, "-0.5f")])
def test_floats_are_floats_of_c(value: float, text: str) -> None:
    assert str(literal(value, F32)) == text


def test_what_is_read_twice_is_computed_once() -> None:
    power = ex.apply("exp", ex.var(0, F32))
    emitter = Emitter(lambda i: f"v{i}", Uses())
    assert str(emitter.emit(ex.apply("mul", power, power))) == "t0 * t0"
    assert emitter.lines == ["const float t0 = expf(v0);"]
