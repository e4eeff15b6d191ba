"""The least and the largest element in one pass: as two reductions find them, whatever the elements are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from tests.support.judge import plain_session
from tests.support.targets import needs_target

KINDS = {
    "f32": (TensorProto.FLOAT, np.float32),
    "i32": (TensorProto.INT32, np.int32),
    "i64": (TensorProto.INT64, np.int64),
}


def model(shape: tuple[int | str, ...], axes: list[int], kind: str) -> onnx.ModelProto:
    """Both extremes of one input, and what lies between."""
    nodes = [
        helper.make_node("ReduceMax", ["x", "axes"], ["high"], keepdims=1),
        helper.make_node("ReduceMin", ["x", "axes"], ["low"], keepdims=0),
        helper.make_node("ReduceMin", ["x", "axes"], ["kept"], keepdims=1),
        helper.make_node("Sub", ["high", "kept"], ["span"]),
    ]
    number = KINDS[kind][0]
    outputs = [helper.make_tensor_value_info(name, number, None) for name in ("high", "low", "span")]
    inputs = [helper.make_tensor_value_info("x", number, shape)]
    graph = helper.make_graph(nodes, "extremes", inputs, outputs, [numpy_helper.from_array(np.array(axes), "axes")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def drawn(shape: tuple[int, ...], kind: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) * 40 + 100).astype(KINDS[kind][1])


def agree(got: Mapping[str, np.ndarray], given: onnx.ModelProto, x: np.ndarray) -> None:
    wanted = plain_session(given.SerializeToString()).run(None, {"x": x})
    for port, want in zip(given.graph.output, wanted, strict=True):
        np.testing.assert_array_equal(got[port.name], want)


@pytest.mark.parametrize("target", ["generic", "x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("level", ["2", "s"])
@pytest.mark.parametrize(
    ("shape", "axes", "kind"),
    [((3, 70), [1], "f32"), ((2, 5, 33), [0, 2], "f32"), ((4, 6, 5), [1], "f32"), ((6, 9), [0, 1], "i32"),
     ((40,), [0], "i64")],
)  # fmt: skip
def test_both_extremes(
    target: str, level: str, shape: tuple[int, ...], axes: list[int], kind: str, tmp_path: Path
) -> None:
    needs_target(target)
    given = model(shape, axes, kind)
    artifacts = mccompile.compile(given, tmp_path / "out", target=target, opt_level=level)
    kernels = {s["kernel"] for s in artifacts.report["steps"]}
    across = kind == "f32" and shape[-1] > 1 and len(shape) - 1 in axes
    assert any(k.startswith("extremes.") for k in kernels) == (target == "generic" or across)
    x = drawn(shape, kind, 1)
    agree(mccompile.load(tmp_path / "out").run({"x": x}), given, x)


@pytest.mark.parametrize("target", ["generic", "native"])
def test_extents_of_the_run(target: str, tmp_path: Path) -> None:
    given = model(("n", 40), [0, 1], "f32")
    artifacts = mccompile.compile(given, tmp_path / "out", target=target, dims={"n": "1..9"})
    assert any(s["kernel"].startswith("extremes.") for s in artifacts.report["steps"])
    network = mccompile.load(tmp_path / "out")
    for n in (1, 4, 9):
        x = drawn((n, 40), "f32", n)
        agree(network.run({"x": x}), given, x)
