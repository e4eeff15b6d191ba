"""Sequences as inputs and outputs: one port for each tensor."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from mccompile import backend
from mccompile.driver import Options, import_graph
from mccompile.ir.errors import CompileError

FLOATS = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
SEQUENCE = helper.make_sequence_type_proto(FLOATS)


def _model() -> onnx.ModelProto:
    """y, the tensors of x with a constant of 2 behind them; n, whether there are any."""
    nodes = [
        helper.make_node("Constant", [], ["two"], value_floats=[2.0]),
        helper.make_node("SequenceInsert", ["x", "two"], ["y"]),
        helper.make_node("OptionalHasElement", ["x"], ["n"]),
    ]
    inputs = [helper.make_value_info("x", SEQUENCE)]
    flag = helper.make_tensor_value_info("n", TensorProto.BOOL, [])
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_value_info("y", SEQUENCE), flag])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.mark.thorough
def test_each_tensor_of_a_sequence_is_a_port() -> None:
    given = [np.arange(3, dtype=np.float32), np.ones((2, 2), np.float32)]
    y, n = backend.prepare(_model(), target="generic").run([given])
    assert n
    assert len(y) == 3
    for got, want in zip(y, [*given, np.array([2], np.float32)], strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_sequence_needs_the_shapes_of_its_tensors(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(_model().SerializeToString())
    with pytest.raises(CompileError, match="not known") as caught:
        import_graph(path, Options(target="generic"))
    assert "--input-shape x_0=" in caught.value.hint
    shapes = {"x_0": [3], "x_1": [2, 2]}
    graph = import_graph(path, Options(target="generic", input_shapes=shapes)).graph
    assert [v.name for v in graph.outputs] == ["y_0", "y_1", "y_2", "n"]
