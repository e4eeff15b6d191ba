"""Gathers and scatters: bad indices are caught at run time and at import, and known ones need no index at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from mccompile.driver import Options, import_graph
from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Graph
from mccompile.ops.registry import front_ends
from mccompile.ops.text import encoded
from tests.support.draw import SeededDraw
from tests.support.opcases import case_inputs, case_model, mismatch, ort_outputs

Array = np.ndarray[Any, np.dtype[Any]]
MCC_E_INDEX = 11

DATA = np.arange(24, dtype=np.float32).reshape(4, 6)
UPDATES = -1 - np.arange(12, dtype=np.float32).reshape(2, 6)

# Each: operator, attributes, indices that are right, updates; 4 is one too many and -5 one too few for axis 0.
KERNELS: dict[str, tuple[str, dict[str, Any], Array, Array | None]] = {
    "gather": ("Gather", {"axis": 0}, np.array([1, -1, -4]), None),
    "gather_elements": ("GatherElements", {"axis": 0}, np.array([[1, -1, 3], [0, -4, 2]]), None),
    "gather_nd": ("GatherND", {}, np.array([[1, -1], [-4, 5]]), None),
    "gather_nd_batch": ("GatherND", {"batch_dims": 1}, np.array([[[1]], [[-1]], [[0]], [[3]]]), None),
    "scatter_elements": ("ScatterElements", {"axis": 0}, np.array([[1, -1], [0, -4]]), UPDATES[:, :2]),
    "scatter_elements_add": (
        "ScatterElements", {"axis": 0, "reduction": "add"}, np.array([[1, -1], [1, -1]]), UPDATES[:, :2],
    ),
    "scatter_nd": ("ScatterND", {}, np.array([[1], [-1]]), UPDATES),
    "scatter_nd_max": ("ScatterND", {"reduction": "max"}, np.array([[1, 0], [-1, -6]]), UPDATES[:, 0]),
}  # fmt: skip
BAD = {"gather_nd_batch": (6, -7)}


def build_model(
    path: Path, nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, Array], constants: Mapping[str, Array]
) -> Path:
    """A model of ``nodes`` whose last node's output is the output."""
    given = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for k, a in inputs.items()
    ]
    result = helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)
    tensors = [numpy_helper.from_array(a, k) for k, a in constants.items()]
    graph = helper.make_graph(list(nodes), "g", given, [result], tensors)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("elsewhere", 1)]
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString())
    return path


def expect(path: Path, inputs: Mapping[str, Array]) -> Array:
    session = ort.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, dict(inputs))[0])


@pytest.mark.parametrize(
    ("kernel", "dtype"),
    [*((k, np.int64) for k in KERNELS), *((k, np.int32) for k in KERNELS if "nd" not in k.split("_"))],
)
def test_run_time_indices_are_checked(kernel: str, dtype: type, tmp_path: Path) -> None:
    op_type, attrs, indices, updates = KERNELS[kernel]
    inputs = {"data": DATA, "indices": indices.astype(dtype)}
    if updates is not None:
        inputs["updates"] = updates
    node = helper.make_node(op_type, list(inputs), ["y"], **attrs)
    path = build_model(tmp_path / "m.onnx", [node], inputs, {})
    mccompile.compile(path, tmp_path / "out", target="generic", name="net")
    net = mccompile.load(tmp_path / "out")
    assert np.array_equal(net.run(inputs)["y"], expect(path, inputs))
    wide = [2**31 - 1, -(2**31)] + ([2**32, -(2**63)] if dtype is np.int64 else [])
    for bad in (*BAD.get(kernel, (4, -5)), *wide):
        for place in (0, -1):
            wrong = inputs["indices"].copy()
            if "nd" in kernel.split("_"):
                wrong.reshape(-1, wrong.shape[-1])[place, 0] = bad
            else:
                wrong.reshape(-1)[place] = bad
            with pytest.raises(CompileError, match=rf"status {MCC_E_INDEX}\b"):
                net.run({**inputs, "indices": wrong})
    assert np.array_equal(net.run(inputs)["y"], expect(path, inputs))


@pytest.mark.parametrize("kernel", [k for k in KERNELS if k.startswith("scatter")])
def test_scattering_into_memory_that_is_not_needed_again_does_not_copy(kernel: str, tmp_path: Path) -> None:
    op_type, attrs, indices, updates = KERNELS[kernel]
    assert updates is not None
    inputs = {"x": DATA, "indices": indices, "updates": updates}
    nodes = [
        helper.make_node("Exp", ["x"], ["data"]),
        helper.make_node(op_type, ["data", "indices", "updates"], ["y"], **attrs),
    ]
    path = build_model(tmp_path / "m.onnx", nodes, inputs, {})
    mccompile.compile(path, tmp_path / "out", target="generic", name="net")
    net = mccompile.load(tmp_path / "out")
    assert ["y", "data"] in net.report["memory"]["in_place"]
    for scale in (0.1, -0.2):
        given = {**inputs, "x": DATA * np.float32(scale)}
        assert not mismatch(net.run(given)["y"], expect(path, given), 1e-6)


def imported(
    tmp_path: Path, node: onnx.NodeProto, inputs: Mapping[str, Array], constants: Mapping[str, Array]
) -> Graph:
    path = build_model(tmp_path / "m.onnx", [node], inputs, constants)
    graph = import_graph(path, Options(target="generic")).graph
    assert np.array_equal(graph.evaluate(dict(inputs))["y"], expect(path, inputs))
    return graph


WINDOWS = np.add.outer(np.arange(4), np.arange(3))


@pytest.mark.parametrize(
    ("indices", "operators"),
    [
        (np.array(-2), ["slice", "reshape"]),
        (np.array([1, 2, 3]), ["slice"]),
        (np.array([5, 3, 1]), ["slice"]),
        (np.array([[0, 1, 2], [3, 4, 5]]), ["reshape"]),
        (np.array([2, 2, 2]), ["take"]),
        (WINDOWS, ["take"]),
        (np.array([0, 1, 3]), ["gather"]),
    ],
)
def test_even_indices_of_gather_are_movement(indices: Array, operators: list[str], tmp_path: Path) -> None:
    node = helper.make_node("Gather", ["data", "i"], ["y"], axis=1)
    graph = imported(tmp_path, node, {"data": DATA}, {"i": indices})
    assert [n.op.name for n in graph.nodes] == operators


def test_slice_assignment_is_an_insert(tmp_path: Path) -> None:
    box = np.stack(np.meshgrid([1, 2], [2, 4], indexing="ij"), axis=-1)
    node = helper.make_node("ScatterND", ["data", "i", "updates"], ["y"])
    inputs = {"data": DATA, "updates": UPDATES[:, :2].copy()}
    assert [n.op.name for n in imported(tmp_path, node, inputs, {"i": box}).nodes] == ["insert"]
    twice = np.array([[1], [1]])
    inputs = {"data": DATA, "updates": UPDATES}
    assert [n.op.name for n in imported(tmp_path, node, inputs, {"i": twice}).nodes] == ["scatter_nd"]


@pytest.mark.parametrize("kernel", list(KERNELS))
def test_constant_indices_are_checked_at_import(kernel: str, tmp_path: Path) -> None:
    op_type, attrs, indices, updates = KERNELS[kernel]
    wrong = indices.astype(np.int64)
    wrong.reshape(-1)[0] = 77
    inputs = {"data": DATA} if updates is None else {"data": DATA, "updates": updates}
    names = ["data", "i"] if updates is None else ["data", "i", "updates"]
    path = build_model(tmp_path / "m.onnx", [helper.make_node(op_type, names, ["y"], **attrs)], inputs, {"i": wrong})
    with pytest.raises(CompileError, match=r"index 77 is outside of an axis of extent [46]") as caught:
        import_graph(path, Options(target="generic"))
    assert op_type in caught.value.where


def test_operators_that_are_folded_must_have_constants(tmp_path: Path) -> None:
    node = helper.make_node("ConstantOfShape", ["shape"], ["y"])
    path = build_model(tmp_path / "m.onnx", [node], {"shape": np.array([2, 3])}, {})
    with pytest.raises(CompileError, match="extent 0 of the result is computed at run time"):
        import_graph(path, Options(target="generic"))


def test_what_follows_an_unsupported_node_is_not_reported_if_it_would_be_folded(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Unheard", ["x"], ["a"], domain="elsewhere"),
        helper.make_node("Shape", ["a"], ["s"]),
        helper.make_node("ConstantOfShape", ["s"], ["c"]),
        helper.make_node("Size", ["c"], ["n"]),
        helper.make_node("Range", ["n", "n", "n"], ["r"]),
        helper.make_node("EyeLike", ["a"], ["y"]),
    ]
    path = build_model(tmp_path / "m.onnx", nodes, {"x": DATA}, {})
    with pytest.raises(CompileError, match="Unheard is not supported") as caught:
        import_graph(path, Options(target="generic"))
    assert "cannot be compiled" not in caught.value.rule  # which would be a list


INDEXED = (
    "Compress", "CumSum", "DepthToSpace", "Expand", "Gather", "GatherElements", "GatherND", "OneHot",
    "ReverseSequence", "ScatterElements", "ScatterND", "SpaceToDepth", "Tile", "Trilu",
)  # fmt: skip


@pytest.mark.parametrize("op_type", INDEXED)
def test_the_meaning_in_numpy_agrees_with_onnxruntime(op_type: str, tmp_path: Path) -> None:
    front_end = front_ends()["", op_type]
    assert front_end.sample is not None
    for seed in range(100, 125):
        case = front_end.sample(SeededDraw(seed))
        path = tmp_path / "m.onnx"
        model = case_model(front_end, case)
        path.write_bytes(model.SerializeToString())
        graph = import_graph(path, Options(target="generic")).graph
        (got,) = graph.evaluate(case_inputs(case)).values()
        assert not mismatch(got, ort_outputs(model, case)[0], front_end.tolerance.get("f32", 0.0)), f"seed {seed}"


def test_what_is_no_number_is_no_class(tmp_path: Path) -> None:
    constants = {"depth": np.array(3, np.float32), "values": np.array([0, 1], np.float32)}
    nodes = [helper.make_node("OneHot", ["x", "depth", "values"], ["y"])]
    x = np.array([np.nan, 1, -3, 7, -np.inf], np.float32)
    path = build_model(tmp_path / "m.onnx", nodes, {"x": x}, constants)
    graph = import_graph(path, Options(target="generic")).graph
    with np.errstate(invalid="ignore"):
        (found,) = graph.evaluate({"x": x}).values()
    assert found.tolist() == [[0, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 0], [0, 0, 0]]
    mccompile.compile(path, tmp_path / "out", target="generic")
    assert np.array_equal(mccompile.load(tmp_path / "out").run({"x": x})["y"], found)


@pytest.mark.parametrize("kind", ["int64", "float32", "text"])
def test_categories_that_nobody_knows_end_the_run_where_zeros_is_0(kind: str, tmp_path: Path) -> None:
    """What scikit-learn writes of an encoder that is not told to ignore unknown categories."""
    text = kind == "text"
    cats = {"cats_strings": ["b", "a", "é"]} if text else {"cats_int64s": [3, -1, 7]}
    rows = [["b", "é"], ["a", "b"]] if text else [[3, 7], [-1, 3]]
    want = [[[1, 0, 0], [0, 0, 1]], [[0, 1, 0], [1, 0, 0]]]
    x = encoded(np.array(rows, object)) if text else np.array(rows, kind)
    element = TensorProto.STRING if text else helper.np_dtype_to_tensor_dtype(x.dtype)
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node("OneHotEncoder", ["x"], ["y"], domain="ai.onnx.ml", zeros=0, **cats)], "m",
            [helper.make_tensor_value_info("x", element, ["n", 2])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        ),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)], ir_version=8,
    )  # fmt: skip
    mccompile.compile(model, tmp_path / "out", target="generic", dims={"n": "1..2"}, string_bytes=x.shape[-1])
    net = mccompile.load(tmp_path / "out")
    assert np.array_equal(net.run({"x": x})["y"], want)
    unknown = x.copy()
    unknown[1, 0] = x[1, 0] + 1
    with pytest.raises(CompileError, match=rf"status {MCC_E_INDEX}\b"):
        net.run({"x": unknown})
    assert np.array_equal(net.run({"x": x[:1]})["y"], want[:1])
