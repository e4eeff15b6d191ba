"""Products of integers that vectors have no kernels of: of whole floats, whose sums are those of integers. And sums
of quotients that are whole."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mccompile.targets.target import runs_here
from tests.ops.test_exact_answers import Array, N, answers
from tests.support.judge import plain_session

TARGETS = ["generic", *(t for t in ("x86-64-v2", "x86-64-v3", "x86-64-v4-vnni") if runs_here(t))]


@dataclass(frozen=True)
class Layer:
    """A product between two quantised tensors."""

    name: str
    op: str
    x: tuple[int, ...]
    w: tuple[int, ...]
    operand: str = "uint8"
    weights: str = "int8"
    attributes: dict[str, Any] = field(default_factory=dict)


LAYERS = (
    Layer("groups", "Conv", (1, 12, 7, 9), (20, 3, 3, 3), attributes={"group": 4, "pads": [1, 1, 1, 1]}),
    Layer("two filters of a channel", "Conv", (1, 6, 8, 8), (12, 1, 3, 3), weights="uint8", attributes={"group": 6}),
    Layer("long lines", "Conv", (2, 8, 40), (8, 1, 9), attributes={"group": 8, "pads": [4, 4]}),
    Layer("volumes", "Conv", (1, 5, 4, 6, 5), (7, 5, 3, 2, 3), attributes={"strides": [1, 2, 1]}),
    Layer("transposed", "ConvTranspose", (1, 6, 5, 6), (6, 9, 3, 3), attributes={"strides": [2, 2]}),
    Layer("matrices", "MatMul", (3, 9, 20), (3, 20, 17)),
    Layer("windows over 16 bits", "Conv", (1, 6, 9, 9), (8, 6, 3, 3), "int16", attributes={"pads": [1, 0, 1, 0]}),
    Layer("16 bits, of both", "MatMul", (5, 33), (33, 18), "uint16", "int16"),
)


def drawn(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> Array:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_layers_without_kernels_of_bytes(layer: Layer, target: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(LAYERS.index(layer))
    x, w = drawn(rng, layer.x, layer.operand), drawn(rng, layer.w, layer.weights)
    middle = {"uint8": 120, "uint16": 32000}.get(layer.operand, 3)
    step = np.float32(2.6 if "16" in layer.operand else 0.0419)
    constants = {
        "w": w, "s": np.float32(0.0131), "z": np.array(middle, layer.operand), "ws": np.float32(0.0071),
        "wz": np.array(128 if layer.weights == "uint8" else 0, layer.weights), "ys": step,
    }  # fmt: skip
    nodes = [
        N("DequantizeLinear", ["x", "s", "z"], ["xr"]), N("DequantizeLinear", ["w", "ws", "wz"], ["wr"]),
        N(layer.op, ["xr", "wr"], ["yr"], **layer.attributes), N("QuantizeLinear", ["yr", "ys", "z"], ["y"]),
    ]  # fmt: skip
    got = answers(tmp_path, nodes, {"x": x}, target, "O2", constants)["y"].astype(np.int64)
    (want,) = plain_session((tmp_path / "m.onnx").read_bytes()).run(None, {"x": x})
    apart = np.abs(got - np.asarray(want).astype(np.int64))
    assert apart.max() <= 1
    assert (apart > 0).mean() < 0.01  # ties, which the reference's sums of rounded floats break
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    if target != "generic":
        whole = [n for n in report["quantised"]["floats"] if "floats in vectors" in n["why"]]
        assert whole, report["quantised"]


@pytest.mark.parametrize("target", TARGETS)
def test_whole_quotients_are_whole_behind_sums(target: str, tmp_path: Path) -> None:
    """41 times the inverse of 41 is less than 1: behind what picks one of several, or adds them up, too."""
    whole, eye = np.arange(1, 65, dtype=np.float32).reshape(8, 8), np.eye(8, dtype=np.float32)
    nodes = [
        N("Div", ["x", "k"], ["q"]), N("MatMul", ["q", "eye"], ["p"]), N("Floor", ["p"], ["columns"]),
        N("Div", ["x", "k"], ["r"]), N("MatMul", ["one-hot", "r"], ["o"]), N("Cast", ["o"], ["rows"], to=7),
        N("Div", ["x", "k"], ["s"]), N("Mul", ["s", "eye"], ["d"]), N("ReduceSum", ["d", "axis"], ["t"]),
        N("Cast", ["t"], ["diagonal"], to=7), N("Div", ["x", "k"], ["u"]), N("CumSum", ["u", "1"], ["v"]),
        N("Floor", ["v"], ["running"]), N("Div", ["x", "k"], ["w"]),
        N("ScatterElements", ["zeros", "places", "w"], ["z"], axis=1, reduction="add"),
        N("Floor", ["z"], ["scattered"]),
    ]  # fmt: skip
    constants: dict[str, Array] = {
        "k": np.array(41, np.float32), "eye": eye, "axis": np.array([1]), "1": np.array(1),
        "zeros": np.zeros((8, 8), np.float32), "places": np.tile(np.arange(8), (8, 1)),
    }  # fmt: skip
    feeds = {"x": whole * 41, "one-hot": eye[::-1].copy()}
    got = answers(tmp_path, nodes, feeds, target, "O2", constants, opset=18)
    np.testing.assert_array_equal(got["columns"], whole)
    np.testing.assert_array_equal(got["rows"], whole[::-1])
    np.testing.assert_array_equal(got["diagonal"], np.diag(whole)[:, None])
    np.testing.assert_array_equal(got["running"], np.cumsum(whole, 1))
    np.testing.assert_array_equal(got["scattered"], whole)
