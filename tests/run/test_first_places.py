"""The first elements of what is joined or padded, where any of its parts may have none, or one only, in a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import mccompile
from mccompile.run.network import Network

F32 = onnx.TensorProto.FLOAT
n = helper.make_node


def _model(path: Path, steps: list[onnx.NodeProto], first: int, count: int) -> Path:
    """``c``, made of x f32[n,2] and y f32[2,2], and -c[first : first + count]."""
    numbers = {"pads": [0, 0, 2, 0], "all": [-1], "start": [first], "end": [first + count], "rows": [0]}
    constants = [onnx.numpy_helper.from_array(np.array(a, np.int64), name) for name, a in numbers.items()]
    nodes = [*steps, n("Slice", ["c", "start", "end", "rows"], ["s"]), n("Neg", ["s"], ["z"])]
    ports = [helper.make_tensor_value_info(name, F32, shape) for name, shape in (("x", ["n", 2]), ("y", [2, 2]))]
    graph = helper.make_graph(nodes, "g", ports, [helper.make_tensor_value_info("z", F32, None)], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    return path


JOINED = [n("Exp", ["x"], ["ex"]), n("Exp", ["y"], ["ey"]), n("Concat", ["ex", "ey"], ["joined"], axis=0)]
CASES = {
    "rows": [*JOINED, n("Identity", ["joined"], ["c"])],
    "elements": [*JOINED, n("Reshape", ["joined", "all"], ["c"])],
    "padded": [n("Exp", ["x"], ["ex"]), n("Pad", ["ex", "pads"], ["c"])],
}
"""What is cut: rows, elements in a line, and what has zeros behind it."""


def _meant(case: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    behind = np.exp(y) if case != "padded" else np.zeros_like(y)
    joined = np.concatenate([np.exp(x), behind])
    return joined.reshape(-1) if case == "elements" else joined


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("first", "count"), [(0, 1), (1, 1), (0, 2)])
@pytest.mark.parametrize("level", ["O1", "O2"])
def test_the_first_places_are_those_of_the_next_part_where_one_is_short(
    tmp_path: Path, case: str, first: int, count: int, level: str
) -> None:
    model = _model(tmp_path / "m.onnx", CASES[case], first, count)
    mccompile.compile(model, tmp_path / "out", target="generic", opt_level=level, dims={"n": "0..3"})
    network = Network(tmp_path / "out")
    rng = np.random.default_rng(first)
    y = rng.standard_normal((2, 2)).astype(np.float32)
    for extent in (3, 0, 1, 2):
        x = rng.standard_normal((extent, 2)).astype(np.float32)
        network.fill_arenas(0xFF)
        given = {k: a for k, a in (("x", x), ("y", y)) if k in network.inputs}
        found = network.run(given)["z"]
        np.testing.assert_allclose(found, -_meant(case, x, y)[first : first + count], rtol=1e-5)
