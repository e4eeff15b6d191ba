"""Reductions of doubles over vectors: along every axis, around whole vectors, with what is no number, in parts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from mccompile.ir.scalar import Array
from tests.support.targets import needs_target

MODES: dict[str, Callable[..., Any]] = {
    "ReduceSum": np.sum, "ReduceMax": np.max, "ReduceMin": np.min, "ReduceProd": np.prod, "ReduceMean": np.mean,
}  # fmt: skip
SHAPES = [((3, 37), (1,)), ((37, 3), (0,)), ((5, 130), (1,)), ((4, 70), (0,)), ((2, 3, 4, 9), (1, 3))]
SHAPES += [((2, 3, 40), (0, 1)), ((6, 2), (0, 1)), ((300,), (0,)), ((2, 9, 1), (1,))]


def _model(x: Array) -> onnx.ModelProto:
    """Every mode, of whose results a half is an output."""
    half = numpy_helper.from_array(np.array(0.5), "half")
    nodes, weights, results = [], [half], []
    for mode in MODES:
        nodes.append(helper.make_node(mode, ["x", "axes"], [mode], keepdims=0))
        nodes.append(helper.make_node("Mul", [mode, "half"], [f"{mode}_half"]))
        results.append(helper.make_empty_tensor_value_info(f"{mode}_half"))
    port = helper.make_tensor_value_info("x", TensorProto.DOUBLE, x.shape)
    return helper.make_graph(nodes, "r", [port], results, weights)


def _compiled(x: Array, axes: tuple[int, ...], target: str, folder: Path, threads: int = 1) -> mccompile.Network:
    graph = _model(x)
    graph.initializer.append(numpy_helper.from_array(np.array(axes), "axes"))
    model = onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    )
    made = mccompile.compile(model, folder, target=target, threads=threads, kernels={"reduce": "reduce.doubles"})
    assert [s["kernel"] for s in made.report["steps"]] == ["reduce.doubles"] * len(MODES)
    return mccompile.load(folder, threads=threads)


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize(("shape", "axes"), SHAPES)
def test_doubles_are_reduced_as_numpy_does(
    shape: tuple[int, ...], axes: tuple[int, ...], target: str, tmp_path: Path
) -> None:
    rng = np.random.default_rng(4)
    network = _compiled(np.zeros(shape), axes, needs_target(target), tmp_path / "net")
    plain = rng.uniform(0.5, 1.5, shape) * rng.choice([-1, 1], shape)
    some = np.where(rng.random(shape) < 0.02, np.nan, plain)
    infinite = np.where(rng.random(shape) < 0.1, np.inf, plain)
    for x in (plain, some, infinite):
        for name, got in network.run({"x": x}).items():
            with np.errstate(all="ignore"):
                want = 0.5 * MODES[name.removesuffix("_half")](x, axis=axes)
            np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-13, err_msg=name)


@pytest.mark.parametrize(("shape", "axes"), [((64, 2000), (1,)), ((2000, 64), (0,))])
def test_parts_have_the_same_bits(shape: tuple[int, ...], axes: tuple[int, ...], tmp_path: Path) -> None:
    x = np.random.default_rng(4).standard_normal(shape)
    target = needs_target("x86-64-v3")
    found = [_compiled(x, axes, target, tmp_path / str(n), n).run({"x": x}) for n in (1, 2)]
    for name, one in found[0].items():
        assert one.tobytes() == found[1][name].tobytes()
    made = mccompile.load(tmp_path / "2").report["steps"]
    assert all(s["parts"] is not None for s in made)
