"""The guard that finds extents taken for numbers."""

from __future__ import annotations

import numpy as np
import pytest

from mccompile.ir.dims import bound, symbol
from tests.support.strict_extents import LostExtentError, strict_extents


def test_arithmetic_that_loses_an_extent_is_found() -> None:
    n = symbol("n", 1, 7)
    assert [14 / n, float(np.float32(n))] == [2, 7]  # what the guard is for
    with strict_extents():
        for lost in (lambda: 14 / n, lambda: n / 2, lambda: float(n), lambda: 2**n, lambda: np.float32(n)):
            with pytest.raises(LostExtentError, match="n is taken for 7"):
                lost()
        assert bound(n) / 2 == 3.5
        assert str((n + 1) // 2 * 3) == "3*((n+1)//2)"
    assert 14 / n == 2
