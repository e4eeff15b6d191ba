"""Nodes without the form of their operators are refused before ONNX's inference, which might end the process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mccompile.driver import Options, import_graph
from mccompile.ir.errors import CompileError

N = helper.make_node
FLOATS = np.ones((2, 3, 4), np.float32)


def _save(folder: Path, nodes: Sequence[onnx.NodeProto], constants: Mapping[str, Any]) -> Path:
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, FLOATS.shape)],
        [onnx.ValueInfoProto(name="y")], [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )  # fmt: skip
    path = folder / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return path


def _refusal(folder: Path, nodes: Sequence[onnx.NodeProto], constants: Mapping[str, Any]) -> CompileError:
    with pytest.raises(CompileError) as caught:
        import_graph(_save(folder, nodes, constants), Options(target="generic"))
    return caught.value


INDICES = {"i": np.zeros((1, 1), np.int64)}
ENDS: dict[str, tuple[onnx.NodeProto, dict[str, Any], str]] = {
    "below all axes": (N("GatherND", ["x", "i"], ["y"], batch_dims=-9), INDICES, "'batch_dims' is -9"),
    "far below": (N("GatherND", ["x", "i"], ["y"], batch_dims=-(2**31)), INDICES, "'batch_dims' is -2147483648"),
    "an input left out": (N("EyeLike", [""], ["y"]), {}, "input 0 (input) is required"),
    "no input": (N("EyeLike", [], ["y"]), {}, "input 0 (input) is required"),
    "a string left out": (N("RegexFullMatch", [""], ["y"], pattern="a"), {}, "input 0 (X) is required"),
    "more outputs than parts": (N("Split", ["x"], ["y", "a"], num_outputs=1), {}, "there are 2 outputs"),
    "parts without end": (N("Split", ["x"], ["y"], num_outputs=2**31), {}, "'num_outputs' is 2147483648"),
}
"""What ends the process, or takes all memory, in onnx.shape_inference."""


@pytest.mark.parametrize("case", ENDS)
def test_inference_sees_nothing_that_it_would_not_survive(case: str, tmp_path: Path) -> None:
    node, constants, told = ENDS[case]
    error = _refusal(tmp_path, [node], constants)
    assert told in error.rule
    assert node.op_type in error.where


TYPES: dict[str, tuple[onnx.NodeProto, str]] = {
    "a float for an int": (N("Shape", ["x"], ["y"], start=1.0), "'start' = 1.0 is no int"),
    "a float for a flag": (N("ReduceSum", ["c"], ["y"], keepdims=0.5), "'keepdims' = 0.5 is no int"),
    "a string for a float": (N("LeakyRelu", ["c"], ["y"], alpha="0.5"), "'alpha' = '0.5' is no float"),
    "one int for several": (N("Transpose", ["c"], ["y"], perm=1), "'perm' = 1 is no list of ints"),
    "floats for ints": (N("Transpose", ["c"], ["y"], perm=[0.0, 2.0, 1.0]), "'perm' is no list of ints"),
    "an int for a string": (N("Gelu", ["c"], ["y"], approximate=1), "'approximate' = 1 is no string"),
    "a number for a tensor": (N("ConstantOfShape", ["s"], ["y"], value=1.0), "'value' = 1.0 is no tensor"),
}
"""Of constants ``c`` and ``s`` too, which are folded."""


@pytest.mark.parametrize("case", TYPES)
def test_attributes_of_another_type_are_refused(case: str, tmp_path: Path) -> None:
    node, told = TYPES[case]
    error = _refusal(tmp_path, [node], {"c": FLOATS, "s": np.array([2, 3])})
    assert told in error.rule
    assert node.op_type in error.where


def test_whole_numbers_may_stand_for_floats(tmp_path: Path) -> None:
    path = _save(tmp_path, [N("LeakyRelu", ["x"], ["y"], alpha=2)], {})
    graph = import_graph(path, Options(target="generic")).graph
    np.testing.assert_array_equal(graph.evaluate({"x": -FLOATS})["y"], -2 * FLOATS)


def test_every_node_is_named_in_branches_too(tmp_path: Path) -> None:
    inner = helper.make_graph([N("Relu", ["x", "x"], ["r"], name="inner")], "b", [], [onnx.ValueInfoProto(name="r")])
    nodes = [N("If", ["k"], ["a"], then_branch=inner, else_branch=inner), N("Neg", ["a"], ["y"], name="outer", z=1)]
    nodes[1].input.append("a")
    error = _refusal(tmp_path, nodes, {"k": np.array(True)})
    assert "'inner'" in error.rule
    assert "'outer'" in error.rule


ML_OPSETS = [helper.make_opsetid("", 23), helper.make_opsetid("ai.onnx.ml", 4), helper.make_opsetid("c", 1)]
UNTYPED = {
    "LabelEncoder": {"domain": "ai.onnx.ml", "keys_strings": ["a"], "values_strings": ["x"]},
    "RegexFullMatch": {"pattern": "a"},
    "DictVectorizer": {"domain": "ai.onnx.ml", "int64_vocabulary": [1]},
}
"""Operators whose inference reads the type of an operand that may have none."""


@pytest.mark.parametrize("op", UNTYPED)
@pytest.mark.parametrize("before", [N("StringSplit", ["x"], ["s", "n"]), N("Foo", ["x"], ["s"], domain="c")])
def test_what_reads_a_value_without_a_type_does_not_end_the_process(
    op: str, before: onnx.NodeProto, tmp_path: Path
) -> None:
    nodes = [before, N(op, ["s"], ["y"], **UNTYPED[op])]
    x = helper.make_tensor_value_info("x", TensorProto.INT64, [4])
    graph = helper.make_graph(nodes, "g", [x], [onnx.ValueInfoProto(name="y")])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=ML_OPSETS, ir_version=9), path)
    with pytest.raises(CompileError, match=before.op_type):
        import_graph(path, Options(target="generic"))
