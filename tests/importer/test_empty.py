"""Tensors of no elements: inputs, outputs, and what reads them beside others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from mccompile import backend
from mccompile.ir.errors import CompileError

X = np.arange(6, dtype=np.float32).reshape(2, 3)
ROWS = np.zeros((0, 3), np.float32)
COLUMNS = np.zeros((2, 0), np.float32)
CASES: dict[str, tuple[str, list[Any], dict[str, Any], Any]] = {
    "beside others": ("Concat", [X, ROWS, X], {"axis": 0}, np.concatenate([X, X])),
    "broadcast": ("Add", [X[:1], ROWS], {}, ROWS),
    "an output": ("MatMul", [X, np.zeros((3, 0), np.float32)], {}, COLUMNS),
    "sums of nothing": ("Gemm", [COLUMNS, ROWS, X], {"beta": 2.0}, 2 * X),
    "no updates": ("ScatterND", [X, np.zeros((0, 1), np.int64), ROWS], {}, X),
}


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES)
def test_tensors_of_no_elements(case: str) -> None:
    op, inputs, attrs, want = CASES[case]
    node = helper.make_node(op, [f"x{i}" for i in range(len(inputs))], ["y"], **attrs)
    for target in ("generic", "native"):
        (got,) = backend.run_node(node, inputs, target=target)
        assert got.shape == want.shape
        np.testing.assert_array_equal(got, want)


def test_what_is_more_than_sums_of_nothing_is_refused() -> None:
    node = helper.make_node("LSTM", ["x", "w", "r"], ["", "h"], hidden_size=2)
    inputs = [np.zeros((0, 1, 3), np.float32), np.ones((1, 8, 3), np.float32), np.ones((1, 8, 2), np.float32)]
    with pytest.raises(CompileError, match="no elements"):
        backend.run_node(node, inputs, target="generic")
