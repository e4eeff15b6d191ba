"""Arithmetic on extents: what is computed of symbols is, in each run, what is computed of its numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mccompile.importer.extents import computed
from mccompile.ir.dims import symbol, value
from mccompile.onnxio import OnnxNode

T = symbol("t", 0, 6)
KNOWN = (2, 4, 9)
CASES: dict[str, tuple[int, int]] = {
    "Add": (2, 3), "Sub": (2, 2), "Mul": (2, 3), "Div": (2, 2), "Mod": (2, 2), "Min": (1, 3), "Max": (1, 3),
    "Clip": (1, 3), "Neg": (1, 1), "Abs": (1, 1), "Identity": (1, 1), "Floor": (1, 1),
}  # fmt: skip
"""Operators, the fewest and the most of their operands."""


def _array(number: Any, rank: int) -> np.ndarray[Any, Any]:
    array = np.empty((1,) * rank, object)
    array[...] = number
    return array


def _at(array: np.ndarray[Any, Any], t: int) -> list[int]:
    return [value(n, {"t": t}) for n in array.reshape(-1)]


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("op", CASES)
def test_symbols_are_numbers_of_each_run(op: str, rank: int) -> None:
    """Of no axes, too, where numpy takes an extent that it gave itself for the number of the longest run."""
    fewest, most = CASES[op]
    for count in range(fewest, most + 1):
        names = tuple("abc"[:count])
        for first in (T, 2 * T + 1):
            operands = [_array(n, rank) for n in (first, *KNOWN)[:count]]
            found = computed(OnnxNode(op, names, ("y",)), operands)
            assert found is not None
            for t in range(7):
                numbers = [_array(value(first, {"t": t}), rank), *operands[1:]]
                wanted = computed(OnnxNode(op, names, ("y",)), numbers)
                assert wanted is not None
                assert _at(found[0], t) == _at(wanted[0], t), (op, count, first, t)
