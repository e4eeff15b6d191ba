"""Tensors of no elements: inputs, outputs, and what reads them beside others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from mccompile import backend
from mccompile.ir.errors import CompileError
from mccompile.ops.cum_sum import CumSum
from mccompile.run.memory import guarded_bytes
from mccompile.run.network import Network
from tests.support.children import in_children
from tests.support.runs import compare

X = np.arange(6, dtype=np.float32).reshape(2, 3)
ROWS = np.zeros((0, 3), np.float32)
NONE = np.zeros(0, np.float32)
COLUMNS = np.zeros((2, 0), np.float32)
CASES: dict[str, tuple[str, list[Any], dict[str, Any], Any]] = {
    "beside others": ("Concat", [X, ROWS, X], {"axis": 0}, np.concatenate([X, X])),
    "beside nothing": ("Concat", [ROWS, ROWS], {"axis": 1}, np.zeros((0, 6), np.float32)),
    "nothing after nothing": ("Concat", [ROWS, ROWS], {"axis": 0}, ROWS),
    "broadcast": ("Add", [X[:1], ROWS], {}, ROWS),
    "an output": ("MatMul", [X, np.zeros((3, 0), np.float32)], {}, COLUMNS),
    "sums of nothing": ("Gemm", [COLUMNS, ROWS, X], {"beta": 2.0}, 2 * X),
    "bytes of nothing": (
        "MatMulInteger", [np.zeros((2, 0), np.uint8), np.zeros((0, 3), np.uint8), np.uint8(7)], {},
        np.zeros((2, 3), np.int32),
    ),
    "what ONNX does not know": ("SimplifiedLayerNormalization", [ROWS, X[0]], {"axis": -1}, ROWS),
    "no updates": ("ScatterND", [X, np.zeros((0, 1), np.int64), ROWS], {}, X),
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES)
def test_tensors_of_no_elements(case: str) -> None:
    op, inputs, attrs, want = CASES[case]
    node = helper.make_node(op, [f"x{i}" for i in range(len(inputs))], ["y"], **attrs)
    for target in ("generic", "native"):
        (got,) = backend.run_node(node, inputs, target=target)
        assert got.shape == want.shape
        np.testing.assert_array_equal(got, want)


def test_an_extent_of_the_run_beside_one_of_nothing(tmp_path: Path) -> None:
    """Rows that are not there have as many columns as the run says."""
    nodes = [
        helper.make_node("Slice", ["x", "two", "end", "zero"], ["none"]),
        helper.make_node("Transpose", ["none"], ["y"]), helper.make_node("Concat", ["none", "x"], ["z"], axis=0),
    ]  # fmt: skip
    constants = {"two": [2], "end": [9], "zero": [0]}
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, "n"])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "yz"],
        [numpy_helper.from_array(np.array(v), k) for k, v in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "n.onnx")
    mccompile.compile(tmp_path / "n.onnx", tmp_path / "out", target="generic", dims={"n": "0..7"})
    network = mccompile.load(tmp_path / "out")
    for n in (3, 0):
        x = np.full((2, n), 5, np.float32)
        got = network.run({"x": x})
        assert got["y"].shape == (n, 0)
        np.testing.assert_array_equal(got["z"], x)


def test_extents_of_which_one_is_always_nothing(tmp_path: Path) -> None:
    """n rows of 1 - n, where n is 0 or 1: no run has an element, though neither extent is 0."""
    nodes = [
        helper.make_node("Shape", ["x"], ["n"]), helper.make_node("Sub", ["one", "n"], ["m"]),
        helper.make_node("Slice", ["b", "zero", "m", "zero"], ["row"]),
        helper.make_node("Unsqueeze", ["x", "one"], ["column"]), helper.make_node("Add", ["column", "row"], ["y"]),
        helper.make_node("Relu", ["x"], ["z"]),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(k, TensorProto.FLOAT, [v]) for k, v in {"x": "n", "b": 1}.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "yz"],
        [numpy_helper.from_array(np.array([v]), k) for k, v in {"zero": 0, "one": 1}.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "n.onnx")
    mccompile.compile(tmp_path / "n.onnx", tmp_path / "out", target="generic", dims={"n": "0..1"})
    network = mccompile.load(tmp_path / "out")
    for n in (1, 0):
        got = network.run({"x": np.ones(n, np.float32), "b": np.ones(1, np.float32)})
        assert (got["y"].shape, got["z"].shape) == ((n, 1 - n), (n,))


@pytest.mark.parametrize("rows", ["n", "7"])
def test_rows_of_nothing_are_as_many_as_turns(rows: str, tmp_path: Path) -> None:
    """A Scan that is unrolled, for one extent or each of several: there are n rows, if of no elements."""
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "a"], ["t"]), helper.make_node("Neg", ["t"], ["r"])], "body",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [0]) for name in "sa"],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [0]) for name in "tr"],
    )  # fmt: skip
    nodes = [
        helper.make_node("Slice", ["x", "two", "end", "one"], ["none"]),
        helper.make_node("Scan", ["start", "none"], ["last", "y"], body=body, num_scan_inputs=1),
    ]
    constants = {"two": [2], "end": [9], "one": [1], "start": np.zeros(0, np.float32)}
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(np.array(v), k) for k, v in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "n.onnx")
    mccompile.compile(tmp_path / "n.onnx", tmp_path / "out", target="generic", dims={"n": rows.replace("n", "4,7")})
    assert mccompile.load(tmp_path / "out").run({"x": np.ones((7, 2), np.float32)})["y"].shape == (7, 0)


@pytest.mark.parametrize(
    ("op", "others", "attrs"),
    [
        ("Resize", {"none": NONE, "scales": NONE, "z": np.array([1, 2, 5, 3])}, {}),
        ("GridSample", {"g": np.zeros((1, 2, 2, 2), np.float32)}, {"padding_mode": "border"}),
        ("RoiAlign", {"r": np.zeros((1, 4), np.float32), "i": np.array([0])}, {"sampling_ratio": 2}),
    ],
)
def test_what_may_be_empty_is_not_sampled(
    op: str, others: dict[str, Any], attrs: dict[str, Any], tmp_path: Path
) -> None:
    """Places are clipped to the last element, which would be the one in front of the first."""
    path = _of_extents(op, ["x", *others], [1, 2, "n", 3], others, attrs, tmp_path)
    with pytest.raises(CompileError, match="n"):
        mccompile.compile(path, tmp_path / "out", target="generic", dims={"n": "0..7"})
    mccompile.compile(path, tmp_path / "out", target="generic", dims={"n": "1..7"})


@pytest.mark.parametrize("level", ["O0", "O2"])
def test_the_best_of_nothing_is_the_first(level: str, tmp_path: Path) -> None:
    """Of no bytes, which the caller lends, nothing is read: they lie before a page that ends the process."""
    path = _of_extents("ArgMax", ["x"], [4096, "n"], {}, {"axis": 1}, tmp_path)
    mccompile.compile(path, tmp_path / "out", target="generic", dims={"n": "0..7"}, opt_level=level, io="caller")

    def run() -> str:
        network = Network(tmp_path / "out", ("-O1",), allocate=guarded_bytes)
        network.set_extents({"n": 0})
        best = network.run({"x": np.zeros((4096, 0), np.float32)})["y"]
        return str(best.shape) + str(best.any())

    assert in_children([run], 60) == [("(4096, 1)False", False)]
    assert "(dim_n == 0) ? 0 : x0" in (tmp_path / "out" / "n.c").read_text()


def _of_extents(
    op: str, inputs: list[str], shape: list[Any], others: dict[str, Any], attrs: dict[str, Any], folder: Path
) -> Path:
    graph = helper.make_graph(
        [helper.make_node(op, inputs, ["y"], **attrs)], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_empty_tensor_value_info("y")], [numpy_helper.from_array(v, k) for k, v in others.items()],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), folder / "n.onnx")
    return folder / "n.onnx"


def test_what_is_more_than_sums_of_nothing_is_refused() -> None:
    node = helper.make_node("LSTM", ["x", "w", "r"], ["", "h"], hidden_size=2)
    inputs = [np.zeros((0, 1, 3), np.float32), np.ones((1, 8, 3), np.float32), np.ones((1, 8, 2), np.float32)]
    with pytest.raises(CompileError, match="no elements"):
        backend.run_node(node, inputs, target="generic")


@pytest.mark.parametrize(
    ("mode", "ends"),
    [("edge", [0, 1, 0, 1]), ("edge", [0, 1, 0, -1]), ("wrap", [0, 1, 0, 0]), ("reflect", [0, 1, 0, 1])],
)
def test_what_may_be_empty_has_no_edge_to_repeat(mode: str, ends: list[int], tmp_path: Path) -> None:
    """A run of too few elements ends with a status, nothing is read beside."""
    graph = helper.make_graph(
        [helper.make_node("Pad", ["x", "pads"], ["y"], mode=mode)], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, "n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array(ends), "pads")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    least = 1 if min(ends) < 0 or mode == "reflect" else 0
    feeds = [{"x": np.arange(3 * n, dtype=np.float32).reshape(3, n)} for n in (least + 1, 7)]
    compare(model, tmp_path, feeds, 0, 0, target="generic", dims={"n": f"{least}..7"})
    with pytest.raises(CompileError, match="extent over bound"):
        mccompile.load(tmp_path / "out").run({"x": np.zeros((3, least), np.float32)})


@pytest.mark.parametrize("exclusive", [False, True])
def test_running_sums_of_nothing_are_nothing(exclusive: bool) -> None:
    (made,) = CumSum(1, exclusive, False).evaluate(COLUMNS)
    assert made.shape == COLUMNS.shape


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32"])
def test_texts_may_reduce_nothing(dtype: str, tmp_path: Path) -> None:
    """Files that do are folded or refused; of a text, the vector kernels leave it to the scalar one."""
    node = f"%y = reduce(%x) {{mode='sum', axes=(0, 1)}} : {dtype}[1,1]"
    text = f"graph @m(%x: {dtype}[2,0]) {{\n  {node}\n  return %y\n}}\n"
    (tmp_path / "m.mcir").write_text(text)
    mccompile.compile(tmp_path / "m.mcir", tmp_path / "out", target="native")
    x = np.zeros((2, 0), {"f32": np.float32, "f64": np.float64, "i32": np.int32}[dtype])
    assert mccompile.load(tmp_path / "out").run({"x": x})["y"] == 0
