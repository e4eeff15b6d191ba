"""The best of a line by vectors, where it could be missed: equal elements, NaN, infinities, rests of vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import mccompile
from mccompile.ops.arg_reduce import ArgReduce
from mccompile.run.network import Network
from tests.kernels.cases import Net
from tests.support.targets import needs_target

LINES = 40


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v4"])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("mode", ["max", "min"])
@pytest.mark.parametrize("count", [32, 33, 79, 200])
def test_the_best_of_a_line_is_found(target: str, mode: str, last: bool, count: int, tmp_path: Path) -> None:
    needs_target(target)
    rng = np.random.default_rng(count)
    x = rng.integers(-9, 9, (LINES, count)).astype(np.float32)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32)
    x[10:] = np.where(rng.random((LINES - 10, count)) < 0.1, rng.choice(special, (LINES - 10, count)), x[10:])
    x[20:23] = [[np.nan], [np.inf], [-np.inf]]
    x[23, 1:] = np.nan
    x[24, :-1] = np.nan
    node = helper.make_node("Arg" + mode.title(), ["x"], ["y"], axis=-1, select_last_index=int(last))
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)]
    results = [helper.make_tensor_value_info("y", TensorProto.INT64, (LINES, 1))]
    graph = helper.make_graph([node], "arg", ports, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    artifacts = mccompile.compile(model, tmp_path / "arg", target=target)
    assert [s["kernel"] for s in artifacts.report["steps"]] == ["arg_reduce.vector"]
    (wanted,) = ArgReduce(mode, 1, last).evaluate(x)
    np.testing.assert_array_equal(mccompile.load(tmp_path / "arg")(x), wanted)


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin", "Hardmax"])
@pytest.mark.parametrize("last", [0, 1])
def test_a_best_that_vectors_take_for_zero_is_found(op: str, last: int, tmp_path: Path) -> None:
    """NEON of 32 bits says that the best is 0; outside of vectors no element is, and the search went on for ever."""
    target, sign = needs_target("armv7-neon"), -1 if op == "ArgMin" else 1
    x = np.full((3, 39), -sign, np.float32)
    x[0, 20] = x[1, 38] = sign * 1e-40
    x[2] = -sign * 1e-40
    n = Net(0)
    attrs = {"select_last_index": last} if op != "Hardmax" else {}
    model = n.model(n(op, n.input(*x.shape), axis=-1, **attrs))
    artifacts = mccompile.compile(model, tmp_path / "arg", target=target)
    kernels = [s["kernel"] for s in artifacts.report["steps"]]
    assert kernels == ["softmax.hard" if op == "Hardmax" else "arg_reduce.vector"]
    (got,) = Network(tmp_path / "arg", emulate=True).run({"x0": x}).values()
    found = got.argmax(1) if op == "Hardmax" else got.reshape(-1)
    assert found.tolist() == [20, 38, 38 if last and op != "Hardmax" else 0]
    assert op != "Hardmax" or got.sum() == 3
