"""Layers of quantised networks are found among the reference's tensors where ties make several alike, or turned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mccompile.check.check import check
from mccompile.driver import Options

U8, I8 = np.uint8, np.int8


class _Net:
    """Operators of x, each rounded to bytes."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.rng = np.random.default_rng(0)
        self.x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, array: Any) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(array), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def node(self, op: str, *inputs: str, **attrs: Any) -> str:
        self.nodes.append(helper.make_node(op, list(inputs), [f"t{len(self.nodes)}"], **attrs))
        return self.nodes[-1].output[0]

    def rounded(self, x: str, scale: float, zero: int, dtype: type = U8) -> str:
        forms = self.constant(np.float32(scale)), self.constant(dtype(zero))
        return self.node("DequantizeLinear", self.node("QuantizeLinear", x, *forms), *forms)

    def weights(self, *shape: int) -> str:
        forms = self.constant(np.float32(0.004)), self.constant(I8(0))
        return self.node("DequantizeLinear", self.constant(self.rng.integers(-127, 128, shape).astype(I8)), *forms)

    def save(self, path: Path) -> Path:
        last = self.nodes[-1].output[0]
        y = helper.make_tensor_value_info(last, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "g", [self.x], [y], self.constants)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
        return path


@pytest.mark.parametrize(("turn", "requant"), [(True, "exact"), (False, "exact"), (True, "tflite")])
def test_inner_tensors_that_are_ties_everywhere_are_no_layer(turn: bool, requant: str, tmp_path: Path) -> None:
    """Hard sigmoids of steps of 6/255 are rounded to 1/255: half a step beside every whole number."""
    net = _Net((1, 8, 8, 6))
    y = net.rounded("x", 6 / 255, 128)
    for _ in range(3):
        y = net.rounded(net.node("Conv", y, net.weights(8, 8, 1, 1)), 6 / 255, 128)
        gate = net.rounded(net.node("HardSigmoid", y, alpha=1 / 6), 1 / 255, -128, I8)
        y = net.rounded(net.node("Mul", y, gate), 5 / 255, 51)
        y = net.node("Transpose", y, perm=[0, 1, 3, 2]) if turn else y
        gate = net.rounded(net.node("HardSigmoid", y, alpha=1 / 6), 1 / 256, 0)
        y = net.rounded(net.node("Mul", y, gate), 5 / 255, -77, I8)
    path = net.save(tmp_path / "m.onnx")
    result = check(path, Options(target="generic", requant=requant), per_layer=True)
    assert result.ok, result.lines()
    assert result.ties is not None
    assert result.ties.layers >= 4


@pytest.mark.parametrize("turn", [(0, 1, 3, 2), (0, 2, 3, 1), (0, 2, 1, 3)])
def test_outputs_whose_axes_are_turned_behind_the_last_layer(turn: tuple[int, ...], tmp_path: Path) -> None:
    """Their bytes are those of a tensor that has been judged, in another order."""
    net = _Net((1, 4, 12, 12))
    y = net.node("Conv", net.rounded("x", 6 / 256, 128), net.weights(4, 4, 3, 3), pads=[1] * 4)
    y = net.rounded(y, 0.02, 128)
    y = net.rounded(net.node("Sigmoid", y), 1 / 256, 0)
    y = net.rounded(net.node("AveragePool", y, kernel_shape=[2, 2], strides=[2, 2]), 0.01, 128)
    net.node("Transpose", y, perm=turn)
    path = net.save(tmp_path / "m.onnx")
    result = check(path, Options(target="generic", io="quantized"), per_layer=True)
    assert result.ok, result.lines()
