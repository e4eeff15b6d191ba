"""Element types and shapes that an operator does not take: one error that names the node, whatever the operator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from mccompile.driver import Options, import_graph
from mccompile.ir.errors import CompileError
from mccompile.onnxio import formals

N = helper.make_node
MS = "com.microsoft"
F32, F16, BF16 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16
I8, I32, BOOL = TensorProto.INT8, TensorProto.INT32, TensorProto.BOOL


def _import(folder: Path, node: onnx.NodeProto, types: Mapping[str, int], shape: tuple[int, ...] = (2, 4)) -> None:
    node.name = "here"
    inputs = [helper.make_tensor_value_info(name, dtype, shape) for name, dtype in types.items()]
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y")])
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid(MS, 1)]
    path = folder / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    import_graph(path, Options(target="generic"))


CASES: dict[str, tuple[onnx.NodeProto, dict[str, int], str]] = {
    "one that is not taken": (N("Elu", ["x"], ["y"]), {"x": I8}, "input 0 is i8; Elu takes f64, f32, f16"),
    "of a reduction": (N("ReduceSum", ["x"], ["y"]), {"x": BOOL}, "input 0 is bool"),
    "two that differ": (N("Add", ["x", "b"], ["y"]), {"x": F32, "b": I32}, "inputs 0 and 1 are f32 and i32"),
    "of the last of many": (N("Max", ["x", "x", "b"], ["y"]), {"x": F32, "b": F16}, "inputs 0 and 2 are f32 and f16"),
    "bfloat16 by its own name": (N("BitShift", ["x", "x"], ["y"], direction="LEFT"), {"x": BF16}, "input 0 is bf16"),
    "of onnxruntime's own": (
        N("SkipLayerNormalization", ["x", "b", "g"], ["y"], domain=MS), {"x": F32, "b": I8, "g": F32},
        "input 1 is i8; SkipLayerNormalization takes f32, f16",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_error_names_the_node_and_the_types(case: str, tmp_path: Path) -> None:
    node, types, told = CASES[case]
    with pytest.raises(CompileError) as caught:
        _import(tmp_path, node, types)
    assert told in caught.value.rule
    assert "'here" in caught.value.where


@pytest.mark.parametrize(
    ("to", "told"),
    [(BF16, ""), (TensorProto.STRING, "Cast to string is not supported"), (None, "'to'"), (1.5, "'to'"), (99, "99")],
)
def test_extents_of_the_run_become_what_their_type_says(to: object, told: str, tmp_path: Path) -> None:
    """Numbers that are known, or extents, are followed through Cast; not where it gives no type of C."""
    asked = {} if to is None else {"to": to}
    nodes = [N("Shape", ["x"], ["s"]), N("Cast", ["s"], ["c"], **asked), N("Cast", ["c"], ["y"], to=F32)]
    inputs = [helper.make_tensor_value_info("x", I32, ("n", 2))]
    kept, out = (nodes[:2], "c") if told else (nodes, "y")
    graph = helper.make_graph(kept, "g", inputs, [onnx.ValueInfoProto(name=out)])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10), path)
    options = Options(target="generic", dims={"n": "1..4"})
    if told:
        with pytest.raises(CompileError, match=told):
            import_graph(path, options)
    else:
        assert import_graph(path, options).graph.outputs[0].type.dtype.name == "f32"


@pytest.mark.parametrize("bias", [0, 3])
def test_a_bias_that_does_not_broadcast_is_the_nodes_error(bias: int, tmp_path: Path) -> None:
    graph = helper.make_graph(
        [N("Conv", ["x", "w", "b"], ["y"], name="here")], "g",
        [helper.make_tensor_value_info("x", F32, (1, 2, 4, 4)), helper.make_tensor_value_info("w", F32, (2, 2, 1, 1)),
         helper.make_tensor_value_info("b", F32, (bias,))],
        [onnx.ValueInfoProto(name="y")],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)]), tmp_path / "m.onnx")
    with pytest.raises(CompileError) as caught:
        import_graph(tmp_path / "m.onnx", Options(target="generic"))
    assert "broadcast" in caught.value.rule
    assert "'here'" in caught.value.where


def test_what_schemas_say() -> None:
    data, places = formals("Gather", "", 2) or ()
    assert (data.variable, places.types) == ("T", frozenset({"i32", "i64"}))
    assert "bf16" in data.types
    assert [f.variable for f in formals("Concat", "", 3) or ()] == ["T"] * 3
    different = [f.variable for f in formals("Loop", "", 5) or ()]
    assert len(set(different[2:])) > 1, "what a loop carries may be of any types"
    assert [f.variable for f in formals("FastGelu", MS, 1) or ()] == ["T"]
    assert formals("Unknown", MS, 1) is None
