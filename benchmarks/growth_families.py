"""Networks of any number of nodes, by family: what `growth.py` compiles to see how time and memory grow.

    chain of 3    x -> Conv+Relu -> Conv+Relu -> Conv+Relu -> y
    fan of 3      x -> three Convs -> Sum -> y
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CHANNELS, WIDTH = 4, 6


@dataclass
class Builder:
    """A model that is being made: nodes and constants in order; numbers are drawn by a fixed seed."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    outputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))

    def add(self, op: str, *operands: str, **attributes: object) -> str:
        """A node with one result; the result's name."""
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(operands), [name], name, **attributes))
        return name

    def weights(self, *shape: int) -> str:
        """A constant of drawn numbers."""
        return self.constant((self.random.standard_normal(shape) / np.sqrt(max(shape[-1:], default=1))).astype("f4"))

    def constant(self, value: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def input(self, *shape: int) -> str:
        name = f"in{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return name

    def output(self, name: str) -> None:
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))

    def model(self) -> onnx.ModelProto:
        graph = helper.make_graph(self.nodes, "growth", self.inputs, self.outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _conv(b: Builder, x: str, channels: int = CHANNELS) -> str:
    return b.add("Conv", x, b.weights(channels, channels, 3, 3), b.weights(channels), pads=[1, 1, 1, 1])


def convolutions(b: Builder, n: int) -> None:
    """Conv and Relu in turn."""
    x = b.input(1, CHANNELS, WIDTH, WIDTH)
    for _ in range(n // 2):
        x = b.add("Relu", _conv(b, x))
    b.output(x)


def residuals(b: Builder, n: int) -> None:
    """Blocks of Conv, Relu, Conv and an Add of what the block began with."""
    x = b.input(1, CHANNELS, WIDTH, WIDTH)
    for _ in range(n // 4):
        x = b.add("Add", _conv(b, b.add("Relu", _conv(b, x))), x)
    b.output(x)


def maps(b: Builder, n: int) -> None:
    """Element-wise operators one behind the other, which fuse."""
    x = b.input(1, 64)
    for i in range(n):
        x = b.add(("Tanh", "Abs", "Sin", "Exp", "Sigmoid")[i % 5], x)
    b.output(x)


def movements(b: Builder, n: int) -> None:
    """Transposes, and softmaxes that keep them apart."""
    x = b.input(8, 8)
    for _ in range(n // 2):
        x = b.add("Softmax", b.add("Transpose", x, perm=[1, 0]), axis=-1)
    b.output(x)


def fan(b: Builder, n: int) -> None:
    """Convolutions of one tensor, all summed."""
    x = b.input(1, CHANNELS, WIDTH, WIDTH)
    b.output(b.add("Sum", *[_conv(b, x) for _ in range(n)]))


def joined(b: Builder, n: int) -> None:
    """Reductions of one tensor, all concatenated."""
    x = b.input(1, CHANNELS, WIDTH, WIDTH)
    parts = [b.add("Softmax", b.add("Mul", x, b.weights(CHANNELS, 1, 1)), axis=1) for _ in range(n // 2)]
    b.output(b.add("Concat", *parts, axis=1))


def additions(b: Builder, n: int) -> None:
    """A sum of inputs' slices, two at a time."""
    x = b.input(n + 1, 8)
    rows = [b.add("Gather", x, b.constant(np.array(i)), axis=0) for i in range(n // 2 + 1)]
    total = rows[0]
    for row in rows[1:]:
        total = b.add("Add", total, row)
    b.output(total)


def ports(b: Builder, n: int) -> None:
    """As many inputs and outputs as nodes."""
    for _ in range(n):
        b.output(b.add("Softmax", b.input(1, 8), axis=-1))


def attention(b: Builder, n: int) -> None:
    """Layers of a transformer, 24 nodes each, as exporters write them."""
    width, heads, length = 16, 2, 8
    x = b.input(1, length, width)
    split = b.constant(np.array([1, length, heads, width // heads]))
    merge = b.constant(np.array([1, length, width]))
    for _ in range(max(n // 24, 1)):
        h = b.add("LayerNormalization", x, b.weights(width), b.weights(width))
        q, k, v = (
            b.add("Transpose", b.add("Reshape", _dense(b, h, width, width), split), perm=perm)
            for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        )
        scores = b.add("Div", b.add("MatMul", q, k), b.constant(np.float32(2.83)))
        mixed = b.add("MatMul", b.add("Softmax", scores, axis=-1), v)
        mixed = b.add("Reshape", b.add("Transpose", mixed, perm=[0, 2, 1, 3]), merge)
        x = b.add("Add", x, _dense(b, mixed, width, width))
        h = b.add("LayerNormalization", x, b.weights(width), b.weights(width))
        h = _dense(b, b.add("Tanh", _dense(b, h, width, 2 * width)), 2 * width, width)
        x = b.add("Add", x, h)
    b.output(x)


def _dense(b: Builder, x: str, inner: int, outer: int) -> str:
    return b.add("Add", b.add("MatMul", x, b.weights(inner, outer)), b.weights(outer))


def unrolled(b: Builder, n: int) -> None:
    """A recurrent cell of 7 nodes, unrolled, with one set of weights."""
    width = 8
    x, h = b.input(max(n // 7, 1), 1, width), b.input(1, width)
    u, w, bias = b.weights(width, width), b.weights(width, width), b.weights(width)
    one = b.constant(np.float32(0.5))
    for i in range(max(n // 7, 1)):
        row = b.add("Gather", x, b.constant(np.array(i)), axis=0)
        z = b.add("Add", b.add("Add", b.add("MatMul", row, u), b.add("MatMul", h, w)), bias)
        h = b.add("Mul", b.add("Tanh", z), one)
    b.output(h)


def quantised(b: Builder, n: int) -> None:
    """Convolutions of bytes between DequantizeLinear and QuantizeLinear, 5 nodes each."""
    zero, scale = b.constant(np.int8(3)), b.constant(np.float32(0.04))
    x = b.add("QuantizeLinear", b.input(1, CHANNELS, WIDTH, WIDTH), scale, zero)
    for _ in range(max(n // 5, 1)):
        stored = b.constant(b.random.integers(-127, 128, (CHANNELS, CHANNELS, 3, 3)).astype("i1"))
        w = b.add("DequantizeLinear", stored, b.constant(np.float32(0.01)), b.constant(np.int8(0)))
        made = b.add("Conv", b.add("DequantizeLinear", x, scale, zero), w, pads=[1, 1, 1, 1])
        x = b.add("QuantizeLinear", b.add("Relu", made), scale, zero)
    b.output(b.add("DequantizeLinear", x, scale, zero))


def shapes(b: Builder, n: int) -> None:
    """Reshapes to what Shape, Gather, Unsqueeze and Concat compute, 6 nodes each, and a softmax."""
    x = b.input(4, 6)
    first, second, axis = (b.constant(np.array(v)) for v in (0, 1, [0]))
    for _ in range(max(n // 7, 1)):
        shape = b.add("Shape", x)
        extents = [b.add("Unsqueeze", b.add("Gather", shape, i, axis=0), axis) for i in (second, first)]
        x = b.add("Softmax", b.add("Reshape", x, b.add("Concat", *extents, axis=0)), axis=-1)
    b.output(x)


@dataclass(frozen=True)
class Family:
    """How a network grows, and the sizes it is compiled at."""

    build: Callable[[Builder, int], None]
    sizes: tuple[int, ...]

    @property
    def what(self) -> str:
        return (self.build.__doc__ or "").strip()

    def model(self, nodes: int) -> onnx.ModelProto:
        builder = Builder()
        self.build(builder, nodes)
        return builder.model()


FAMILIES: Mapping[str, Family] = {
    f.__name__: Family(f, sizes)
    for f, sizes in (
        (convolutions, (1_000, 10_000)),
        (residuals, (1_000, 10_000)),
        (maps, (1_000, 100_000)),
        (movements, (1_000, 10_000)),
        (fan, (1_000, 10_000)),
        (joined, (1_000, 10_000)),
        (additions, (1_000, 10_000)),
        (ports, (250, 1_000)),
        (attention, (288, 1_152)),
        (unrolled, (1_000, 10_000)),
        (quantised, (1_000, 10_000)),
        (shapes, (1_000, 10_000)),
    )
}
