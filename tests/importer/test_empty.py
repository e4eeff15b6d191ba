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

X = np.arange(6, dtype=np.float32).reshape(2, 3)
ROWS = np.zeros((0, 3), np.float32)
COLUMNS = np.zeros((2, 0), np.float32)
CASES: dict[str, tuple[str, list[Any], dict[str, Any], Any]] = {
    "beside others": ("Concat", [X, ROWS, X], {"axis": 0}, np.concatenate([X, X])),
    "beside nothing": ("Concat", [ROWS, ROWS], {"axis": 1}, np.zeros((0, 6), np.float32)),
    "nothing after nothing": ("Concat", [ROWS, ROWS], {"axis": 0}, ROWS),
    "broadcast": ("Add", [X[:1], ROWS], {}, ROWS),
    "an output": ("MatMul", [X, np.zeros((3, 0), np.float32)], {}, COLUMNS),
    "sums of nothing": ("Gemm", [COLUMNS, ROWS, X], {"beta": 2.0}, 2 * X),
    "no updates": ("ScatterND", [X, np.zeros((0, 1), np.int64), ROWS], {}, X),
}


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


def test_what_is_more_than_sums_of_nothing_is_refused() -> None:
    node = helper.make_node("LSTM", ["x", "w", "r"], ["", "h"], hidden_size=2)
    inputs = [np.zeros((0, 1, 3), np.float32), np.ones((1, 8, 3), np.float32), np.ones((1, 8, 2), np.float32)]
    with pytest.raises(CompileError, match="no elements"):
        backend.run_node(node, inputs, target="generic")


def test_what_may_be_empty_has_no_edge_to_repeat(tmp_path: Path) -> None:
    """A run of no elements is refused when it is compiled, not read beside."""
    for mode, ends in (("edge", [0, 1, 0, 1]), ("edge", [0, 1, 0, -1]), ("wrap", [0, 1, 0, 0])):
        graph = helper.make_graph(
            [helper.make_node("Pad", ["x", "pads"], ["y"], mode=mode)], "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, "n"])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(np.array(ends), "pads")],
        )  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
        onnx.save(model, tmp_path / "n.onnx")
        least = 1 if min(ends) < 0 else 0
        with pytest.raises(CompileError, match="may have no element to be repeated"):
            mccompile.compile(tmp_path / "n.onnx", tmp_path / "out", target="generic", dims={"n": f"{least}..7"})
