"""What expressions are in C."""

from __future__ import annotations

import pytest

from mccompile.codegen.c_expr import Emitter
from mccompile.codegen.uses import Uses
from mccompile.ir import expr as ex
from mccompile.ir.types import F32, I32, DType


@pytest.mark.parametrize("fn", ["eq", "le", "ge", "lt", "gt"])
@pytest.mark.parametrize("dtype", [F32, I32], ids=str)
def test_only_whole_numbers_are_known_to_be_equal_to_themselves(fn: str, dtype: DType) -> None:
    """A float may be no number: that is compared when the program runs."""
    x = ex.var(0, dtype)
    text = str(Emitter(lambda i: f"v{i}", Uses()).emit(ex.apply(fn, x, x)))
    assert (text.count("v0") == 2) == dtype.is_float
    assert dtype.is_float or "(void)v0" in text
