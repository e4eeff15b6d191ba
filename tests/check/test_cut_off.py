"""Layers of which a ReLU has left little are as unsure as what it cut off; outputs are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mccompile.check.cut_off import before_cut
from mccompile.check.reference import open_judge
from mccompile.onnxio import read_model


def _net(path: Path) -> Path:
    """A convolution of 2 channels whose sums are around -100, of which a ReLU leaves next to nothing."""
    w = np.random.default_rng(0).standard_normal((2, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Relu", ["x"], ["in"]),
        helper.make_node("Conv", ["in", "w", "b"], ["sums"], pads=[1] * 4),
        helper.make_node("Relu", ["sums"], ["left"]),
        helper.make_node("MaxPool", ["left"], ["most"], kernel_shape=[2, 2]),
        helper.make_node("Add", ["most", "most"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 6, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w * 10, "w"), numpy_helper.from_array(np.float32([-100, -1]), "b")],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_what_was_there_before(tmp_path: Path) -> None:
    graph = read_model(_net(tmp_path / "m.onnx")).graph
    assert before_cut(graph, ["in", "sums", "left", "most", "y"]) == {"left": "sums", "most": "sums"}


@pytest.mark.parametrize("name", ["left", "most"])
def test_layers_are_as_unsure_as_their_sums(name: str, tmp_path: Path) -> None:
    judge = open_judge(_net(tmp_path / "m.onnx"), ["y"], ["sums", name])
    expected = judge.run({"x": np.random.default_rng(1).standard_normal((1, 3, 6, 6)).astype(np.float32)})
    for off, ok in ((2e-5, True), (1e-3, False)):  # of the largest sum
        moved = expected.values[name] + np.float32(off * np.abs(expected.values["sums"][:, 0]).max())
        assert expected.compared(name, moved).ok == ok
    y = expected.values["y"]
    assert not expected.compared("y", y + np.float32(2e-4) * np.abs(expected.values["sums"]).max()).ok
