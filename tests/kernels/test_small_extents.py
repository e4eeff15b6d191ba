"""Windows at the ends of axes whose extents are known at run time only, from one element on: what lies in the padding
is not read, what lies behind the results is not written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mccompile.check.check import check
from mccompile.driver import Options

TARGETS = ("generic", "x86-64-v3")
CHANNELS = 8


def _model(
    shape: Sequence[int | str], op: str, weights: Sequence[int], dtype: int = TensorProto.FLOAT, **attrs: Any
) -> onnx.ModelProto:
    """A window over x of channels, which a 1x1 convolution of floats reads, so that vectors run over channels."""
    r = np.random.default_rng(0)
    constants = {"one": np.ones((CHANNELS, CHANNELS, *(1,) * (len(shape) - 2)), np.float32)}
    inputs, nodes = ["x"], []
    if dtype == TensorProto.UINT8:  # of scales of which no sum is on a tie
        constants |= {"w": r.integers(-90, 90, weights).astype(np.int8), "scale": np.array(0.0211, np.float32)}
        constants |= {"middle": np.array(128, np.uint8), "zero": np.array(0, np.int8)}
        inputs += ["scale", "middle", "w", "scale", "zero", "scale", "middle"]
    elif weights:
        constants["w"] = r.uniform(-1, 1, weights).astype(np.float32)
        inputs += ["w"]
    nodes.append(helper.make_node(op, inputs, ["y"], **attrs))
    if dtype == TensorProto.FLOAT:
        nodes.append(helper.make_node("Conv", ["y", "one"], ["z"]))
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", dtype, shape)],
        [helper.make_empty_tensor_value_info(nodes[-1].output[0])],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _judge(model: onnx.ModelProto, target: str, extents: tuple[int, ...], folder: Path) -> None:
    onnx.save(model, folder / "m.onnx")
    named = any(d.dim_param for d in model.graph.input[0].type.tensor_type.shape.dim)
    dims = {"n": "{}..{}".format(*extents)} if named else {}
    result = check(folder / "m.onnx", Options(target=target, dims=dims))
    assert result.ok, "\n".join(result.lines())


C = CHANNELS
LINES = {"kernel_shape": [2, 2], "strides": [2, 1], "pads": [0, 0, 1, 0]}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("op", "weights", "attrs"),
    [
        ("Conv", (C, C, 2, 2), {}),
        ("Conv", (C, 1, 2, 2), {"group": C}),
        ("MaxPool", (), {}),
        ("AveragePool", (), {"count_include_pad": 0}),
        ("AveragePool", (), {"count_include_pad": 1}),
    ],
    ids=["conv", "depthwise", "max", "mean", "mean of pads"],
)
def test_lines_behind_the_only_one(
    op: str, weights: Sequence[int], attrs: dict[str, int], target: str, tmp_path: Path
) -> None:
    _judge(_model([1, C, "n", 12], op, weights, **LINES, **attrs), target, (1, 2), tmp_path)
    turned = {k: v[::-1] if k == "strides" else v for k, v in LINES.items()} | {"pads": [0, 0, 0, 1]}
    _judge(_model([1, C, 12, "n"], op, weights, **turned, **attrs), target, (1, 2), tmp_path)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("groups", [1, C])
def test_lines_of_bytes_behind_the_only_one(groups: int, target: str, tmp_path: Path) -> None:
    model = _model([1, C, "n", 12], "QLinearConv", (C, C // groups, 2, 2), TensorProto.UINT8, group=groups, **LINES)
    _judge(model, target, (1, 2), tmp_path)


@pytest.mark.parametrize(
    ("stride", "pads", "extents"), [(2, [1, 1], (7, 8)), (4, [1, 5], (5, 8)), (3, [0, 2], (1, 3))]
)
def test_as_many_results_for_each_of_some_extents(
    stride: int, pads: list[int], extents: tuple[int, int], tmp_path: Path
) -> None:
    _judge(_model([1, C, "n"], "Conv", (C, C, 3), strides=[stride], pads=pads), "x86-64-v3", extents, tmp_path)


@pytest.mark.parametrize(
    ("shape", "kernel", "attrs", "extents"),
    [
        ([1, C, 5, "n"], (2, 2), {"strides": [2, 2], "pads": [0, 0, 1, 1]}, (4, 20)),
        ([1, C, "n"], (2,), {"strides": [2], "pads": [0, 1]}, (4, 20)),
        ([1, C, 5, "n"], (3, 3), {"strides": [2, 2], "pads": [1, 2, 1, 0], "output_padding": [0, 1]}, (1, 20)),
        ([1, C, 5, 1], (3, 3), {"strides": [2, 2], "pads": [1, 2, 1, 0], "output_padding": [0, 1]}, (1, 1)),
    ],
)
def test_phases_of_transposed_convolutions(
    shape: list[int | str],
    kernel: tuple[int, ...],
    attrs: dict[str, list[int]],
    extents: tuple[int, int],
    tmp_path: Path,
) -> None:
    _judge(_model(shape, "ConvTranspose", (C, C, *kernel), **attrs), "x86-64-v3", extents, tmp_path)
