"""Outputs that an operator does not have, of nodes that become others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from mccompile.ir.errors import CompileError
from mccompile.ir.scan import reason


def test_an_output_that_nothing_makes_is_refused(tmp_path: Path) -> None:
    """The nodes that QLinearAveragePool becomes know nothing of a second one."""
    node = helper.make_node(
        "QLinearAveragePool", ["x", "s", "z", "s", "z"], ["y", "one_more"], domain="com.microsoft",
        kernel_shape=[2, 2],
    )  # fmt: skip
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", TensorProto.UINT8, [1, 2, 4, 4])],
        [helper.make_empty_tensor_value_info(name) for name in ("y", "one_more")],
        [numpy_helper.from_array(np.array(v), k) for k, v in {"s": np.float32(0.5), "z": np.uint8(3)}.items()],
    )  # fmt: skip
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), tmp_path / "n.onnx")
    with pytest.raises(CompileError, match=r"output 'one_more' of QLinearAveragePool is not supported"):
        mccompile.compile(tmp_path / "n.onnx", tmp_path / "out", target="generic")


def test_a_loop_has_no_more_outputs_than_its_body_makes(tmp_path: Path) -> None:
    """It stays a loop, for the number of its turns is known when it runs."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["go"]), helper.make_node("Neg", ["h"], ["h2"])], "body",
        [helper.make_tensor_value_info(*v) for v in (("t", TensorProto.INT64, []), ("c", TensorProto.BOOL, []))]
        + [helper.make_tensor_value_info("h", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("go", TensorProto.BOOL, []),
         helper.make_tensor_value_info("h2", TensorProto.FLOAT, [2])],
    )  # fmt: skip
    node = helper.make_node("Loop", ["m", "", "x"], ["y", "one_more"], body=body, name="loop")
    inputs = [helper.make_tensor_value_info("m", TensorProto.INT64, []),
              helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])]  # fmt: skip
    graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info("y")])
    imports = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), tmp_path / "n.onnx")
    with pytest.raises(CompileError, match="it has 2 outputs, its graph 1"):
        mccompile.compile(tmp_path / "n.onnx", tmp_path / "out", target="generic", bounds={"loop": 3})


def test_what_the_reference_does_not_take_is_said_without_python() -> None:
    """It resizes tensors of no elements with words of Python's types."""
    said = reason(TypeError("'NoneType' object has no attribute 'reshape'"))
    assert said == "an operand that it needs is not there"


@pytest.mark.parametrize(("numbers", "said"), [("1", "fewer"), ("1:2:3", "more")])
def test_other_counts_than_are_due_are_said_without_python(numbers: str, said: str) -> None:
    with pytest.raises(ValueError, match="unpack") as found:
        _low, _high = numbers.split(":")
    assert reason(found.value) == f"where 2 are due, there are {said}"
