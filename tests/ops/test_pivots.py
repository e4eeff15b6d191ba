"""Matrices whose elimination has to exchange rows: zeros on their diagonals, and small numbers above large ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import mccompile

SWAPS = np.eye(4)[[[1, 0, 3, 2], [3, 0, 1, 2], [2, 3, 0, 1], [0, 1, 3, 2], [1, 2, 0, 3]]]
"""Of one, two and three exchanges."""


@pytest.mark.parametrize("op", ["Det", "Inverse"])
@pytest.mark.parametrize("small", [0.0, 1e-9])
def test_rows_are_exchanged(op: str, small: float, tmp_path: Path) -> None:
    x = (SWAPS * np.array([2.0, -3.0, 0.5, 4.0]) + small).astype(np.float32)
    node = helper.make_node(op, ["x"], ["y"], domain="com.microsoft" if op == "Inverse" else "")
    x_info = helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)
    y_info = helper.make_empty_tensor_value_info("y")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(
        helper.make_graph([node], "net", [x_info], [y_info]), opset_imports=opsets, ir_version=8
    )
    mccompile.compile(model, tmp_path / "out")
    got = mccompile.load(tmp_path / "out").run(x)["y"]
    wide = x.astype(np.float64)
    np.testing.assert_allclose(got, np.linalg.det(wide) if op == "Det" else np.linalg.inv(wide), rtol=1e-5, atol=1e-6)
