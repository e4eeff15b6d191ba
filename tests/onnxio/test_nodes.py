"""Evaluating and expanding single nodes, asking the schemas, writing models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mccompile.ir.errors import CompileError, UsageError
from mccompile.onnxio import (
    OnnxGraph,
    OnnxNode,
    OnnxValue,
    dtype_name,
    dtype_number,
    evaluate_node,
    expand_function,
    extract_with_outputs,
    is_function,
    newest_opset,
    numpy_dtype,
    op_names,
    read_model,
    since_version,
    subgraphs,
    tensor_names,
    versions,
    write_model,
)

NEW = newest_opset()


def test_evaluate() -> None:
    x = np.array([[1, -2], [3, 4]], np.float32)
    (y,) = evaluate_node(OnnxNode("Relu", ("x",), ("y",)), [x], NEW)
    np.testing.assert_array_equal(y, [[1, 0], [3, 4]])
    values, absent = evaluate_node(OnnxNode("TopK", ("x", "k"), ("v", "")), [x, np.array([1])], NEW)
    np.testing.assert_array_equal(values, [[1], [4]])
    assert absent.size == 0
    clip = OnnxNode("Clip", ("x", "", "m"), ("y",))
    np.testing.assert_array_equal(evaluate_node(clip, [x, None, np.float32(2)], NEW)[0], [[1, -2], [2, 2]])


@pytest.mark.parametrize(
    ("node", "inputs", "dtype"),
    [
        (OnnxNode("Shape", ("x",), ("y",)), [np.zeros((2, 3), np.float16)], "int64"),
        (OnnxNode("Size", ("x",), ("y",)), [np.zeros((2, 3), np.float16)], "int64"),
        (OnnxNode("Cast", ("x",), ("y",), attrs={"to": 10}), [np.ones(2, np.float32)], "float16"),
        (
            OnnxNode("ReduceMean", ("x",), ("y",), attrs={"keepdims": 0}),
            [np.ones((2, 3), np.float32)],
            "float32",
        ),
        (OnnxNode("Pow", ("x", "e"), ("y",)), [np.ones(2, np.int32), np.full(2, 2.0, np.float32)], "int32"),
        (OnnxNode("Div", ("x", "e"), ("y",)), [np.array([7]), np.array([-2])], "int64"),
        (OnnxNode("Constant", (), ("y",), attrs={"value_float": 1.0}), [], "float32"),
        (OnnxNode("Add", ("a", "b"), ("y",)), [np.ones(2, numpy_dtype("bf16"))] * 2, "bfloat16"),
        (OnnxNode("Transpose", ("x",), ("y",)), [np.ones((2, 3), np.int8)], "int8"),
    ],
)
def test_results_have_the_stated_type(node: OnnxNode, inputs: list[np.ndarray], dtype: str) -> None:
    (result,) = evaluate_node(node, inputs, NEW)
    assert isinstance(result, np.ndarray)
    assert result.dtype.name == dtype
    assert result.flags.c_contiguous


def test_what_has_no_elements_has_a_shape() -> None:
    """Of Resize, the reference does not take that; what it does not take is said without Python's types."""
    nothing = np.zeros((2, 3, 0), np.float32)
    resize = OnnxNode("Resize", ("x", "", "s"), ("y",))
    (y,) = evaluate_node(resize, [nothing, None, np.array([1, 2, 3], np.float32)], NEW)
    assert y.shape == (2, 6, 0)
    assert y.dtype == np.float32
    with pytest.raises(CompileError, match="ArgMax") as refused:
        evaluate_node(OnnxNode("ArgMax", ("x",), ("y",), attrs={"axis": 2}), [nothing], NEW)
    assert "class" not in str(refused.value)


def test_evaluate_with_captured_values() -> None:
    def branch(name: str, op: str) -> OnnxGraph:
        node = OnnxNode(op, ("outer",), (name,))
        return OnnxGraph(name, [], [OnnxValue(name, "f32")], [node])

    node = OnnxNode(
        "If", ("c",), ("y",), attrs={"then_branch": branch("t", "Neg"), "else_branch": branch("e", "Abs")}
    )
    outer = {"outer": np.array([-1, 2], np.float32)}
    assert evaluate_node(node, [np.array(True)], NEW, outer)[0].tolist() == [1, -2]
    assert evaluate_node(node, [np.array(False)], NEW, outer)[0].tolist() == [1, 2]


def test_evaluate_failure_names_the_node() -> None:
    node = OnnxNode("MatMul", ("a", "b"), ("y",), name="head", index=4)
    with pytest.raises(CompileError) as caught:
        evaluate_node(node, [np.ones((2, 3)), np.ones((2, 3))], NEW)
    assert "node 4 'head' (MatMul)" in str(caught.value)
    assert "float64[2, 3]" in str(caught.value)


def test_places_of_gather_elements_are_inside() -> None:
    data = np.arange(80, dtype=np.float32).reshape(40, 2)
    of_lines = OnnxNode("GatherElements", ("a", "b"), ("y",))
    assert evaluate_node(of_lines, [data, np.array([[39, 1], [-1, 0]])], NEW)[0].tolist() == [[78, 3], [78, 1]]
    of_columns = OnnxNode("GatherElements", ("a", "b"), ("y",), attrs={"axis": -1})
    assert evaluate_node(of_columns, [data, np.array([[1, 1, 0]])], NEW)[0].tolist() == [[1, 1, 0]]
    with pytest.raises(CompileError, match="outside of an axis of extent 40"):  # the reference goes around 2^35 times
        evaluate_node(of_lines, [data, np.array([[2**40, 0]])], NEW)


@pytest.mark.parametrize(("op", "place"), [("Gather", [5]), ("GatherND", [[5, 0]]), ("ScatterND", [[5]])])
def test_indices_that_numpy_refuses_are_told_in_our_words(op: str, place: list[int]) -> None:
    given = [np.ones((3, 2), np.float32), np.array(place), np.ones((1, 2), np.float32)]
    names = ("x", "i", "u")[: 3 if op == "ScatterND" else 2]
    with pytest.raises(CompileError) as refused:
        evaluate_node(OnnxNode(op, names, ("y",)), given[: len(names)], NEW)
    assert refused.value.rule.endswith("]): index 5 is outside of an axis of extent 3")


def run_nodes(nodes: list[OnnxNode], values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    for node in nodes:
        captured = {k: v for k, v in values.items() if subgraphs(node)}
        inputs = [values[name] if name else None for name in node.inputs]
        values.update(zip(node.outputs, evaluate_node(node, inputs, NEW, captured), strict=True))
    return values


@pytest.mark.parametrize(
    ("op", "attrs", "inputs"),
    [
        ("Elu", {}, [(2, 3)]),
        ("Elu", {"alpha": 0.3}, [(2, 3)]),
        ("HardSwish", {}, [(2, 3)]),
        ("Softplus", {}, [(2, 3)]),
        ("LayerNormalization", {"axis": 1, "epsilon": 1e-2}, [(2, 3, 4), (3, 4), (3, 4)]),
        ("LayerNormalization", {}, [(2, 3, 4), (4,)]),
        ("Gelu", {}, [(2, 3)]),
        ("Gelu", {"approximate": "tanh"}, [(2, 3)]),
        ("MeanVarianceNormalization", {}, [(2, 3, 4, 4)]),
        ("AffineGrid", {}, [(2, 2, 3), None]),
        ("ReduceL2", {}, [(2, 3)]),
    ],
)
def test_expansion_means_the_same(
    op: str, attrs: dict[str, object], inputs: list[tuple[int, ...] | None]
) -> None:
    rng = np.random.default_rng(5)
    arrays = [
        np.array([2, 1, 4, 5]) if s is None else rng.standard_normal(s).astype(np.float32) for s in inputs
    ]
    names = tuple(f"in{i}" for i in range(len(arrays)))
    node = OnnxNode(op, names, ("out",), "", "block", dict(attrs))  # type: ignore[arg-type]
    types = [
        OnnxValue(n, "i64" if a.dtype == np.int64 else "f32", a.shape)
        for n, a in zip(names, arrays, strict=True)
    ]
    nodes = expand_function(node, NEW, list(types))
    assert nodes is not None
    assert all(n.op_type != op for n in nodes)
    inner = {name for n in nodes for name in n.outputs if name} - {"out"}
    assert all(name.startswith("block/") for name in inner)
    assert len({n.name for n in nodes}) == len(nodes)
    got = run_nodes(nodes, dict(zip(names, arrays, strict=True)))["out"]
    (want,) = evaluate_node(node, arrays, NEW)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


def test_expansion_of_no_function() -> None:
    assert expand_function(OnnxNode("Conv", ("x", "w"), ("y",)), NEW, [None, None]) is None
    assert expand_function(OnnxNode("Gelu", ("x",), ("y",), "com.microsoft"), NEW, [None]) is None
    with pytest.raises(CompileError, match="CastLike"):
        expand_function(OnnxNode("CastLike", ("x", "t"), ("y",)), NEW, [None, None])


def test_schema_questions() -> None:
    names = op_names()
    assert len(names) > 190
    assert "Upsample" not in names
    assert {"Conv", "Softmax"} <= set(names)
    changed: dict[tuple[str, str], set[int]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        changed.setdefault((schema.name, schema.domain), set()).add(schema.since_version)
    assert all(versions(*operator) == tuple(sorted(found)) for operator, found in changed.items())
    assert versions("Nothing") == versions("Conv", "com.acme") == ()
    assert is_function("Softmax")
    assert not is_function("Conv")
    assert not is_function("NoSuchOperator")
    assert versions("Softmax")[:2] == (1, 11)
    assert since_version("Softmax", 12) == 11
    assert since_version("Gelu", 12) is None
    assert [dtype_name(n) for n in (1, 3, 16, 22)] == ["f32", "i8", "bf16", "i4"]
    assert dtype_number("f16") == 10
    with pytest.raises(CompileError):
        dtype_name(77)


def small_model(folder: Path, external: bool = False) -> Path:
    weights = numpy_helper.from_array(np.array([1, 2, 3], np.float32), "w")
    if external:
        (folder / "w.bin").write_bytes(weights.raw_data)
        weights.ClearField("raw_data")
        weights.data_location = TensorProto.EXTERNAL
        weights.external_data.add(key="location", value="w.bin")
    nodes = [helper.make_node("Add", ["x", "w"], ["t"]), helper.make_node("Relu", ["t"], ["y"])]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])
    graph = helper.make_graph(nodes, "g", [x], [y], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_write_and_read_again(tmp_path: Path) -> None:
    model = read_model(small_model(tmp_path))
    write_model(model, tmp_path / "again.onnx")
    onnx.checker.check_model(str(tmp_path / "again.onnx"))
    again = read_model(tmp_path / "again.onnx")
    assert again.graph.nodes == model.graph.nodes
    assert again.graph.inputs == model.graph.inputs
    np.testing.assert_array_equal(again.graph.initializers["w"], model.graph.initializers["w"])


@pytest.mark.parametrize("external", [False, True])
def test_more_outputs(external: bool, tmp_path: Path) -> None:
    ort = pytest.importorskip("onnxruntime")
    path = small_model(tmp_path, external)
    assert tensor_names(path) == ["t", "y"]
    session = ort.InferenceSession(extract_with_outputs(path, ["t", "y"]))
    y, t = session.run(None, {"x": np.array([-4, 0, 1], np.float32)})
    assert (t.tolist(), y.tolist()) == ([-3, 2, 4], [0, 2, 4])
    with pytest.raises(UsageError, match="nothing"):
        extract_with_outputs(path, ["nothing"])
