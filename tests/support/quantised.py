"""Small quantised networks as ONNX models, in the form that quantisers write: each operator between Q and DQ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Net:
    """A chain of operators between QuantizeLinear and DequantizeLinear; every method adds to it."""

    def __init__(self, seed: int, shape: tuple[int, ...]) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.shape = shape
        self.input = helper.make_tensor_value_info("x", TensorProto.INT8, shape)
        self.scale = "x.scale"
        self.last = "x"
        self._constant("x.scale", np.float32(0.05))
        self._constant("x.zero", np.int8(-7))

    def _constant(self, name: str, array: np.ndarray) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def _node(self, op: str, inputs: list[str], output: str, **attrs: object) -> str:
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attrs))
        return output

    def _real(self, name: str) -> str:
        inputs = [name, f"{name}.scale", f"{name}.zero"]
        return self._node("DequantizeLinear", inputs, f"{name}.real{len(self.nodes)}")

    def _quantised(self, real: str, scale: float, zero: int) -> str:
        name = f"q{len(self.nodes)}"
        self._constant(f"{name}.scale", np.float32(scale))
        self._constant(f"{name}.zero", np.int8(zero))
        self.last = self._node("QuantizeLinear", [real, f"{name}.scale", f"{name}.zero"], name)
        return self.last

    def conv(
        self, channels: int, kernel: int, groups: int = 1, relu: bool = False, add: str = "", dead: int = 0
    ) -> str:
        """A convolution with a scale for each channel; with ``add``, the value of that name is added to it. Every
        third of the first 3 * ``dead`` channels has a bias that no sum makes up for."""
        rank = len(self.shape) - 2
        fan = self.shape[1] // groups
        w = self.rng.integers(-127, 128, (channels, fan, *[kernel] * rank)).astype(np.int8)
        scale = (self.rng.uniform(0.5, 1.5, channels) * 0.02 / np.sqrt(fan * kernel**rank)).astype(np.float32)
        stem = f"w{len(self.nodes)}"
        inputs = [self._constant(stem, w), self._constant(f"{stem}.scale", scale)]
        weights = self._node("DequantizeLinear", inputs, f"{stem}.real", axis=0)
        begins = self.rng.integers(-9999, 9999, channels).astype(np.int32)
        begins[: 3 * dead : 3] = -(2**28)
        bias = self._constant(f"{stem}.b", begins)
        own = self._constant(f"{stem}.bs", (scale * self._scale_of(self.last)).astype(np.float32))
        b = self._node("DequantizeLinear", [bias, own], f"{stem}.breal", axis=0)
        pads = [kernel // 2] * (2 * rank)
        operands = [self._real(self.last), weights, b]
        y = self._node("Conv", operands, f"{stem}.y", pads=pads, group=groups)
        self.shape = (self.shape[0], channels, *self.shape[2:])
        if add:
            self._quantised(y, 0.04, 3)
            y = self._node("Add", [self._real(self.last), self._real(add)], f"{stem}.sum")
        if relu:
            y = self._node("Relu", [y], f"{stem}.relu")
        return self._quantised(y, 0.031, -128 if relu else 5)

    def _scale_of(self, name: str) -> np.float32:
        found = next(t for t in self.constants if t.name == f"{name}.scale")
        return np.float32(numpy_helper.to_array(found))

    def unary(self, op: str, scale: float, zero: int, **attrs: object) -> str:
        real = self._node(op, [self._real(self.last)], f"{op}{len(self.nodes)}", **attrs)
        return self._quantised(real, scale, zero)

    def clip(self, low: float, high: float, scale: float, zero: int) -> str:
        ends = [self._constant(f"end{len(self.constants)}", np.float32(end)) for end in (low, high)]
        real = self._node("Clip", [self._real(self.last), *ends], f"clip{len(self.nodes)}")
        return self._quantised(real, scale, zero)

    def reshape(self, shape: tuple[int, ...], scale: float, zero: int) -> str:
        to = self._constant(f"shape{len(self.constants)}", np.array(shape, np.int64))
        self.shape = shape
        return self._quantised(self._node("Reshape", [self._real(self.last), to], f"r{len(self.nodes)}"), scale, zero)

    def binary(self, op: str, other: str, scale: float, zero: int) -> str:
        """An addition, or a join of channels, with the value of another name, of the same shape."""
        operands = [self._real(self.last), self._real(other)]
        attrs = {"axis": 1} if op == "Concat" else {}
        if op == "Concat":
            self.shape = (self.shape[0], 2 * self.shape[1], *self.shape[2:])
        return self._quantised(self._node(op, operands, f"{op}{len(self.nodes)}", **attrs), scale, zero)

    def constant(self, op: str, shape: tuple[int, ...], scale: float, zero: int) -> str:
        """An operation with constant bytes of a shape that is broadcast: positions, a mask."""
        stem = f"c{len(self.nodes)}"
        self._constant(stem, self.rng.integers(-128, 128, shape).astype(np.int8))
        self._constant(f"{stem}.scale", np.float32(0.02))
        self._constant(f"{stem}.zero", np.int8(self.rng.integers(-128, 128)))
        operands = [self._real(self.last), self._real(stem)]
        return self._quantised(self._node(op, operands, f"{op}{len(self.nodes)}"), scale, zero)

    def model(self, path: Path) -> Path:
        """Write the model, whose output is the last value."""
        out = helper.make_empty_tensor_value_info(self.last)
        graph = helper.make_graph(self.nodes, "quantised", [self.input], [out], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        model = onnx.shape_inference.infer_shapes(model)
        onnx.save(model, path)
        return path


def residual(path: Path, seed: int = 0) -> Path:
    """Two blocks of convolutions with an addition, an average, a sigmoid and a join of axes."""
    net = Net(seed, (1, 3, 9, 7))
    first = net.conv(8, 3, relu=True)
    net.conv(8, 3, groups=8, relu=True)
    net.conv(8, 1, add=first, relu=True)
    net.unary("MaxPool", 0.031, -128, kernel_shape=[2, 2], strides=[2, 2])
    net.shape = (1, 8, 4, 3)
    net.conv(12, 3)
    net.unary("Sigmoid", 1 / 256, -128)
    net.unary("GlobalAveragePool", 1 / 256, -128)
    return net.model(path)
