"""What operands and attributes have to be where ONNX's inference does not look: axes, lengths, kinds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

from mccompile.driver import Options, import_graph
from mccompile.ir.errors import CompileError
from mccompile.onnxio import OnnxNode, require_operands
from mccompile.onnxio.contrib import MICROSOFT, operands
from mccompile.ops.registry import front_ends


def _model(op: str, shapes: list[tuple[int, ...]], domain: str = "", **attrs: object) -> ModelProto:
    inputs = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, s) for i, s in enumerate(shapes)]
    node = helper.make_node(op, [v.name for v in inputs], ["y"], domain=domain, **attrs)
    output = helper.make_empty_tensor_value_info("y")
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(helper.make_graph([node], "g", inputs, [output]), opset_imports=opsets, ir_version=10)


def _refused(model: ModelProto, folder: Path, options: Options | None = None) -> str:
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(CompileError) as e:
        import_graph(path, options or Options())
    return str(e.value)


def test_operands_have_the_axes_of_the_rule(tmp_path: Path) -> None:
    said = _refused(_model("CDist", [(6,), (3, 1)], "com.microsoft"), tmp_path)
    assert "input 0 is f32[6], but it has 2 axes by the operator's rule" in said


def test_attributes_of_other_domains_are_of_a_kind(tmp_path: Path) -> None:
    said = _refused(_model("UnfoldTensor", [(5, 7)], "com.microsoft", size="three"), tmp_path)
    assert "attribute 'size' = 'three' is no int" in said


def test_what_is_asked_for_is_there_in_files_and_in_definitions(tmp_path: Path) -> None:
    model = _model("Gelu", [(5, 7)], "com.microsoft")
    model.graph.node[0].input[0] = ""
    assert "input 0 is required" in _refused(model, tmp_path)
    with pytest.raises(CompileError, match=r"input 0 \(X\) is required"):
        require_operands(OnnxNode("Gelu", ("",), ("y",), "", "n", {}), 23)


def test_lists_of_a_scan_have_a_number_for_each(tmp_path: Path) -> None:
    row = helper.make_tensor_value_info("row", TensorProto.FLOAT, (3,))
    body = helper.make_graph([helper.make_node("Neg", ["row"], ["out"])], "body", [row],
                             [helper.make_tensor_value_info("out", TensorProto.FLOAT, (3,))])  # fmt: skip
    model = _model("Scan", [(4, 3)], body=body, num_scan_inputs=1, scan_input_axes=[0, 0])
    assert "attribute 'scan_input_axes' has 2 numbers, but there are 1 that it tells of" in _refused(model, tmp_path)


def test_a_condition_is_one_bool(tmp_path: Path) -> None:
    def branch(name: str) -> object:
        output = helper.make_tensor_value_info(name, TensorProto.FLOAT, (3,))
        return helper.make_graph([helper.make_node("Neg", ["x0"], [name])], name, [], [output])

    model = _model("If", [(3,)], then_branch=branch("a"), else_branch=branch("b"))
    model.graph.node[0].input[0] = "many"
    model.graph.input.append(helper.make_tensor_value_info("many", TensorProto.BOOL, (2,)))
    assert "bool[2], but it may only be one" in _refused(model, tmp_path)
    model.graph.input.pop()
    model.graph.initializer.append(helper.make_tensor("many", TensorProto.BOOL, (0,), np.zeros(0, bool)))
    assert "is bool[0], but it may only be one" in _refused(model, tmp_path)


@pytest.mark.parametrize("count", [0, 2])
def test_a_condition_of_a_loop_is_one_bool(count: int, tmp_path: Path) -> None:
    """Also one that the body gives as a constant."""
    ports = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, (3,)) for name in ("x", "out")}
    turn = helper.make_tensor_value_info("turn", TensorProto.INT64, ())
    going = helper.make_tensor_value_info("going", TensorProto.BOOL, ())
    often = helper.make_tensor("often", TensorProto.BOOL, (count,), np.ones(count, bool))
    goes = helper.make_tensor_value_info("often", TensorProto.BOOL, None)
    body = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["out"])], "body", [turn, going, ports["x"]], [goes, ports["out"]], [often]
    )
    model = _model("Loop", [(3,)], body=body)
    model.graph.node[0].input[:] = ["trips", "", "x0"]
    model.graph.input.append(helper.make_tensor_value_info("trips", TensorProto.INT64, ()))
    assert f"bool[{count}], but it may only be one" in _refused(model, tmp_path, Options(bounds={"Loop_0": 5}))


def test_what_onnxruntimes_operators_take_is_known() -> None:
    """`tools/write_contrib.py` writes the table when a front end is added."""
    assert [op for domain, op in front_ends() if domain == MICROSOFT and operands(op) is None] == []


def test_a_third_type_beside_one_that_is_shared_is_refused(tmp_path: Path) -> None:
    model = _model("CDist", [(6, 2), (3, 2)], "com.microsoft")
    model.graph.input[1].type.tensor_type.elem_type = TensorProto.DOUBLE
    assert "inputs 0 and 1 are f32 and f64; CDist takes them of one type" in _refused(model, tmp_path)
    model.graph.node[0].input.append("x0")
    assert "it has 3 inputs, the most is 2" in _refused(model, tmp_path)


def test_pads_take_no_more_than_there_is(tmp_path: Path) -> None:
    model = _model("Pad", [(3,)])
    model.graph.node[0].input.append("pads")
    model.graph.initializer.append(helper.make_tensor("pads", TensorProto.INT64, (2,), [1, -(2**63)]))
    assert "take more than there is" in _refused(model, tmp_path)
