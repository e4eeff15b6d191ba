"""Cells of few units whose weights are inputs: gcc 12 -O3 made other sums of them than were written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def cell(path: Path, op: str, units: int, seed: int, **attributes: int) -> Path:
    """A cell in both directions over two steps of a constant, from a constant state, by weights that are an input."""
    rows, rng = GATES[op] * units, np.random.default_rng(seed)

    def constant(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)

    stored = [constant("x", 2, 1, 3), constant("w", 2, rows, 3), constant("h", 2, 1, units)]
    node = helper.make_node(
        op, ["x", "w", "r", "", "", "h"], ["y"], hidden_size=units, direction="bidirectional", **attributes
    )
    weights = helper.make_tensor_value_info("r", TensorProto.FLOAT, [2, rows, units])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 2, 1, units])
    graph = helper.make_graph([node], "cell", [weights], [result], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("units", [4, 8])
@pytest.mark.parametrize(
    ("op", "attributes"), [("GRU", {"linear_before_reset": 1}), ("GRU", {}), ("LSTM", {}), ("RNN", {})]
)
def test_small_cells_are_right_as_compilers_see_fit(
    op: str, attributes: dict[str, int], units: int, tmp_path: Path
) -> None:
    model = cell(tmp_path / "cell.onnx", op, units, units, **attributes)
    found = mccompile.check(model, target="native")
    assert found.ok, found
