"""Axes that are named twice: nobody says what the second one means, but of sums, where it means nothing more."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mccompile
from mccompile.ir.errors import CompileError

TWICE: dict[str, tuple[Sequence[Any], dict[str, Any]]] = {
    "Slice": ([[0, 0], [1, 1], [1, -1]], {}),
    "Pad": ([[0, 1, 0, 1], "", [1, 1]], {}),
    "Resize": (["", [2.0, 2.0]], {"axes": [1, -1]}),
    "CenterCropPad": ([[1, 1]], {"axes": [1, 1]}),
    "Unsqueeze": ([[0, 0]], {}),
}
"""Of operators: the operands behind the first, and attributes."""


def model(path: Path, op_type: str, operands: Sequence[Any], attributes: dict[str, Any]) -> Path:
    names, constants = ["x"], []
    for i, values in enumerate(operands):
        names.append(f"c{i}" if values != "" else "")
        if values != "":
            kind = TensorProto.FLOAT if isinstance(values[0], float) else TensorProto.INT64
            constants.append(helper.make_tensor(f"c{i}", kind, [len(values)], values))
    node = helper.make_node(op_type, names, ["y"], name="node", **attributes)
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3])]
    graph = helper.make_graph([node], "g", given, [onnx.ValueInfoProto(name="y")], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


@pytest.mark.parametrize("op_type", TWICE)
def test_an_axis_is_named_once(op_type: str, tmp_path: Path) -> None:
    with pytest.raises(CompileError) as error:
        mccompile.compile(model(tmp_path / "m.onnx", op_type, *TWICE[op_type]), tmp_path / "out")
    assert "are not distinct" in error.value.rule
    assert "node" in error.value.where


def test_a_sum_over_an_axis_twice_is_the_sum_over_it(tmp_path: Path) -> None:
    path = model(tmp_path / "m.onnx", "ReduceSum", [[1, -1]], {"keepdims": 0})
    mccompile.compile(path, tmp_path / "out", target="generic")
    x = np.array([[1, 2, 4]], np.float32)
    assert mccompile.load(tmp_path / "out").run(x=x)["y"] == 7
