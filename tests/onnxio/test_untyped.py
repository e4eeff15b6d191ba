"""Files on which ONNX's own code would end the process: types that nobody knows, forms that it takes for granted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import onnx
import onnx.defs
import pytest
from onnx import AttributeProto, TensorProto, helper

from mccompile.driver import Options, import_graph
from mccompile.ir.errors import CompileError
from mccompile.onnxio import read_model
from mccompile.onnxio.untyped import converted, inferred
from tests.support.fuzz.isolated import isolated

N = helper.make_node
Kinds = onnx.defs.OpSchema.AttrType
VALUES: Mapping[Any, Any] = {
    Kinds.INT: 1, Kinds.FLOAT: 1.0, Kinds.STRING: "a", Kinds.INTS: [1], Kinds.FLOATS: [1.0], Kinds.STRINGS: ["a"],
    Kinds.TENSOR: helper.make_tensor("t", TensorProto.FLOAT, [1], [1.0]),
}  # fmt: skip


def _model(
    nodes: list[onnx.NodeProto], opsets: Mapping[str, int], functions: list[onnx.FunctionProto] | None = None
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])], [onnx.ValueInfoProto(name="y")]
    )
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=10, functions=functions or [])


def _untyped(op: Any, attributes: bool) -> onnx.ModelProto:
    """An operator with all its inputs, of which no type is known, and with the attributes that it needs, or all."""
    given = {
        name: VALUES[a.type] for name, a in op.attributes.items() if (attributes or a.required) and a.type in VALUES
    }
    names = [f"x{i}" for i in range(min(op.max_input, 6))]
    node = N(op.name, names, [f"y{i}" for i in range(max(op.min_output, 1))], domain=op.domain, **given)
    return _model([N("Of", ["x"], names, domain="nobody"), node], {"": 5, "nobody": 1, op.domain: op.since_version})


def _every_operator() -> Iterator[onnx.ModelProto]:
    for op in onnx.defs.get_all_schemas_with_history():
        if not op.deprecated:
            yield from (_untyped(op, attributes) for attributes in (False, True))


def _survives(do: Callable[[onnx.ModelProto], Any], models: list[onnx.ModelProto]) -> None:
    def every(say: Callable[[str], None]) -> int:
        for model in models:
            say(model.graph.node[-1].op_type)
            try:
                do(model)
            except Exception:
                continue
        return len(models)

    ended = isolated(every, 60)
    assert ended.answer == len(models), f"{ended.by} in {ended.last}"


def test_no_operator_of_unknown_types_ends_inference() -> None:
    _survives(inferred, list(_every_operator()))


def test_no_operator_of_unknown_types_ends_the_converter() -> None:
    old = [m for m in _every_operator() if any(o.domain == "" and o.version < 7 for o in m.opset_import)]
    assert len(old) > 100
    _survives(lambda m: converted(m, 7), old)


def _refusal(model: onnx.ModelProto, folder: Path) -> str:
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(CompileError) as caught:
        import_graph(path, Options(target="generic"))
    return str(caught.value)


def _function(opset: int, nodes: list[onnx.NodeProto], *names: str) -> onnx.FunctionProto:
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_function("my", "F", ["a"], ["b"], nodes, imports, list(names))


def test_functions_of_another_opset_are_converted_whatever_their_types(tmp_path: Path) -> None:
    of_text = [N("RegexFullMatch", ["a"], ["m"], pattern="a"), N("DictVectorizer", ["m"], ["b"], domain="ai.onnx.ml",
                                                               string_vocabulary=["a"])]  # fmt: skip
    path = tmp_path / "m.onnx"
    calls = [N("F", ["x"], ["y"], domain="my")]
    opsets = {"": 22, "my": 1, "ai.onnx.ml": 3}
    path.write_bytes(_model(calls, opsets, [_function(21, of_text)]).SerializeToString())
    ended = isolated(lambda say: [[n.domain, n.op_type] for n in read_model(path).graph.nodes], 60)
    assert ended.answer == [["", "RegexFullMatch"], ["ai.onnx.ml", "DictVectorizer"]], ended.by


def test_functions_of_another_opset_have_the_form_that_is_taken_for_granted(tmp_path: Path) -> None:
    node = N("Slice", ["a"], ["b"], starts=[1])
    node.attribute.append(helper.make_attribute("ends", 1))
    calls = [N("F", ["x"], ["y"], domain="my")]
    assert "'ends' = 1 is no list of ints" in _refusal(
        _model(calls, {"": 18, "my": 1}, [_function(9, [node])]), tmp_path
    )
    del node.attribute[:]
    for name in ("starts", "ends"):  # given by who calls it: nothing to look at here
        node.attribute.append(AttributeProto(name=name, ref_attr_name=name, type=AttributeProto.INTS))
    path = tmp_path / "m.onnx"
    calls = [N("F", ["x"], ["y"], domain="my", starts=[1], ends=[2])]
    path.write_bytes(
        _model(calls, {"": 18, "my": 1}, [_function(9, [node], "starts", "ends")]).SerializeToString()
    )
    assert import_graph(path, Options(target="generic")).graph.outputs[0].shape == (1, 3)


def test_operators_that_came_later_are_refused(tmp_path: Path) -> None:
    """Which of their forms is meant, nobody knows; those that were experimental before have their first one."""
    for op, opset, first in (("Erf", 5, 9), ("Celu", 9, 12)):
        told = _refusal(_model([N(op, ["x"], ["y"])], {"": opset}), tmp_path)
        assert f"opset {opset} has no {op}, which came with opset {first}" in told
    path = tmp_path / "m.onnx"
    path.write_bytes(_model([N("ThresholdedRelu", ["x"], ["y"])], {"": 6}).SerializeToString())
    assert import_graph(path, Options(target="generic")).graph.outputs[0].shape == (2, 3)
    floats = N("MeanVarianceNormalization", ["x"], ["y"], axes=[1.5])
    assert "'axes' is no list of ints" in _refusal(_model([floats], {"": 1}), tmp_path)


CONTRIB = {
    "ints": (N("Crop", ["x"], ["y"], border=[0.5, 0.0, 0.0, 0.0]), "'border' is no list of ints"),
    "floats": (N("ImageScaler", ["x"], ["y"], bias=["a"]), "'bias' is no list of floats"),
    "parameters": (
        N("FusedGemm", ["x", "x"], ["y"], transB=1, domain="com.microsoft", activation="LeakyRelu",
          activation_alpha=[1]), "'activation_alpha' is no float",
    ),
    "of two": (
        N("FusedMatMul", ["x", "x"], ["y"], transB=1.5, domain="com.microsoft"), "'transB' = 1.5 is no int",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CONTRIB)
def test_lists_of_operators_without_a_schema_are_looked_into(case: str, tmp_path: Path) -> None:
    node, told = CONTRIB[case]
    assert told in _refusal(_model([node], {"": 9, "com.microsoft": 1}), tmp_path)
