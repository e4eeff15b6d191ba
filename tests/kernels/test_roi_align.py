"""Regions whose samples become elements of another size in the epilogue: sums of channels stay floats."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from tests._skips import needs_tool
from tests.support.judge import plain_session

TAILS = {
    "bools": [helper.make_node("Greater", ["r", "half"], ["y"])],
    "bytes": [helper.make_node("QuantizeLinear", ["r", "tenth", "zero"], ["y"])],
    "halves": [helper.make_node("Cast", ["r"], ["y"], to=TensorProto.FLOAT16)],
}


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("tail", TAILS)
def test_scratch_memory_holds_floats_whatever_they_become(tail: str, mode: str, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(1, 19, 8, 8)).astype(np.float32)
    how = {"output_height": 2, "output_width": 2, "sampling_ratio": 1, "coordinate_transformation_mode": "half_pixel"}
    nodes = [helper.make_node("RoiAlign", ["x", "regions", "images"], ["r"], mode=mode, **how), *TAILS[tail]]
    given = {
        "regions": np.array([[1, 1, 6, 5], [0, 2, 7, 7]], np.float32), "images": np.zeros(2, np.int64),
        "half": np.float32(0.5), "tenth": np.float32(0.1), "zero": np.int8(0),
    }  # fmt: skip
    read = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)], [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in given.items() if name in read],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=9)
    mccompile.compile(model, tmp_path / "out", target="generic", name="net")
    strict = ["-std=c99", "-Wall", "-Werror", "-fsyntax-only", "net.c"]
    subprocess.run([needs_tool("gcc"), *strict], cwd=tmp_path / "out", check=True)
    (wanted,) = plain_session(model.SerializeToString()).run(None, {"x": x})
    np.testing.assert_array_equal(mccompile.load(tmp_path / "out").run({"x": x})["y"], wanted)


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_samples_at_the_very_ends_take_part(mode: str, tmp_path: Path) -> None:
    """At -1, and at the extents: what lies beyond is outside."""
    x = np.random.default_rng(1).uniform(1, 2, (1, 2, 5, 6)).astype(np.float32)
    regions = np.array([[-3, -3, 1, 1], [3, 2, 9, 8], [-2, -2, 0, 0], [4, 3, 8, 7], [-1e9, 0, 1e9, 2]], np.float32)
    how = {"output_height": 2, "output_width": 2, "sampling_ratio": 1, "coordinate_transformation_mode": "half_pixel"}
    graph = helper.make_graph(
        [helper.make_node("RoiAlign", ["x", "regions", "images"], ["y"], mode=mode, **how)], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)], [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(regions, "regions"), numpy_helper.from_array(np.zeros(5, np.int64), "images")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=9)
    mccompile.compile(model, tmp_path / "out", target="generic", name="net")
    (wanted,) = plain_session(model.SerializeToString()).run(None, {"x": x})
    np.testing.assert_allclose(mccompile.load(tmp_path / "out").run({"x": x})["y"], wanted, rtol=1e-6)
