"""Extents that several inputs share under different names: an error says which are to be said equal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper

import mccompile
from mccompile.ir.errors import CompileError

NAMED_TWICE: dict[str, tuple[dict[str, Any], dict[str, tuple[str, list[str | int]]]]] = {
    "GridSample": ({}, {"x": ("f32", ["a", 2, 4, 4]), "g": ("f32", ["b", 4, 4, 2])}),
    "GatherND": ({"batch_dims": 1}, {"x": ("f32", ["a", 2, 4]), "i": ("i64", ["b", 3, 1])}),
    "ScatterND": ({}, {"x": ("f32", [3, 2]), "i": ("i64", ["a", 1]), "u": ("f32", ["b", 2])}),
    "Einsum": ({"equation": "bi,bj->bij"}, {"x": ("f32", ["a", 2]), "z": ("f32", ["b", 3])}),
    "MatMul": ({}, {"x": ("f32", [3, "a"]), "z": ("f32", ["b", 3])}),
    "ReverseSequence": ({"batch_axis": 0, "time_axis": 1}, {"x": ("f32", ["a", 4]), "z": ("i64", ["b"])}),
    "RoiAlign": ({}, {"x": ("f32", [1, 2, 8, 8]), "z": ("f32", ["a", 4]), "i": ("i64", ["b"])}),
    "LSTM": (
        {"hidden_size": 5},
        {"x": ("f32", [4, "a", 3]), "w": ("f32", [1, 20, 3]), "r": ("f32", [1, 20, 5]), "": ("f32", []),
         " ": ("f32", []), "h": ("f32", [1, "b", 5])},
    ),
}  # fmt: skip
"""Operators whose operands share an extent: attributes, inputs. Exporters call it differently in each input."""


@pytest.mark.parametrize("op_type", list(NAMED_TWICE))
def test_an_extent_that_two_inputs_call_differently_is_to_be_said_equal(op_type: str, tmp_path: Path) -> None:
    attrs, inputs = NAMED_TWICE[op_type]
    types = {"f32": TensorProto.FLOAT, "i64": TensorProto.INT64}
    given = [helper.make_tensor_value_info(n, types[t], s) for n, (t, s) in inputs.items() if n.strip()]
    node = helper.make_node(op_type, [n.strip() for n in inputs], ["y"], **attrs)
    out = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    model = helper.make_model(
        helper.make_graph([node], "m", given, out), opset_imports=[helper.make_opsetid("", 20)], ir_version=9
    )
    with pytest.raises(CompileError, match=r"say that they are equal: dims=\{'[ab]': '[ab]'\}"):
        mccompile.compile(model, tmp_path / "out", target="generic", dims={"a": "1..4", "b": "1..4"})
    mccompile.compile(model, tmp_path / "out", target="generic", dims={"a": "1..4", "b": "a"})
