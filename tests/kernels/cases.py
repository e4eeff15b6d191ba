"""Small networks that force each kernel variant: extents around its tiles, every epilogue, every border of a halo."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, np.dtype[Any]]
OPSET = 17
TOLERANCE = 5e-6
"""Of the largest result, for sums in another order."""


class Net:
    """A network under construction: inputs, weights of a seeded generator, nodes that return their result's name."""

    def __init__(self, seed: int, inside: str = "") -> None:
        self.rng = np.random.default_rng(seed)
        self.inside = inside
        self.graphs = 0
        self.opset = OPSET
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []

    def input(self, *shape: int, dtype: int = TensorProto.FLOAT) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def constant(self, array: Array) -> str:
        name = f"{self.inside}w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, *shape: int) -> str:
        return self.constant(self.rng.uniform(-1, 1, shape).astype(np.float32))

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, dtype=np.int64))

    def __call__(self, op: str, *inputs: str, **attrs: Any) -> str:
        name = f"{self.inside}t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], f"n{len(self.nodes)}", **attrs))
        return name

    def several(self, op: str, inputs: Sequence[str], results: int, **attrs: Any) -> list[str]:
        """A node of several results; returns their names."""
        names = [f"t{len(self.nodes)}_{i}" for i in range(results)]
        self.nodes.append(helper.make_node(op, list(inputs), names, f"n{len(self.nodes)}", **attrs))
        return names

    def conv(self, x: str, shape: Sequence[int], **attrs: Any) -> str:
        """A convolution with weights of ``shape`` and a bias."""
        return self("Conv", x, self.weight(*shape), self.weight(shape[0]), **attrs)

    def graph(self, build: Callable[[Net], Sequence[str]], *inputs: onnx.ValueInfoProto) -> onnx.GraphProto:
        """A graph inside of a node, whose names begin with one of its own; its last result is a float tensor."""
        self.graphs += 1
        inner = Net(len(self.nodes), f"{self.inside}g{self.graphs}.")
        *others, last = build(inner)
        results = [helper.make_tensor_value_info(o, TensorProto.BOOL, []) for o in others]
        results.append(helper.make_tensor_value_info(last, TensorProto.FLOAT, None))
        return helper.make_graph(inner.nodes, inner.inside, inputs, results, inner.weights)

    def model(self, *outputs: str) -> onnx.ModelProto:
        results = [helper.make_empty_tensor_value_info(o) for o in outputs]
        graph = helper.make_graph(self.nodes, "net", self.inputs, results, self.weights)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        return onnx.shape_inference.infer_shapes(model)


@dataclass(frozen=True)
class VariantCase:
    """A network in which ``kernel`` must compute at least one node when it is forced.

    ``op`` is the node's operator where the kernel is called after another one. With ``channels_last`` all values
    between kernels are stored so, whether that is cheaper or not. ``tolerance`` is the error allowed, of the largest
    result.
    """

    name: str
    kernel: str
    build: Callable[[Net], Sequence[str]]
    op: str = ""
    channels_last: bool = False
    tolerance: float = TOLERANCE

    def model(self) -> onnx.ModelProto:
        net = Net(sum(map(ord, self.name)))
        return net.model(*self.build(net))

    @property
    def force(self) -> dict[str, str]:
        return {self.op or self.kernel.split(".")[0]: self.kernel}


Tail = Callable[[Net, str, Sequence[int]], str]


def _swish(n: Net, y: str, shape: Sequence[int]) -> str:
    return n("Mul", y, n("Sigmoid", y))


def _residual(n: Net, y: str, shape: Sequence[int]) -> str:
    """A sum with a value that dies here: its memory may be the result's."""
    return n("Relu", n("Add", y, n("Neg", n.input(*shape))))


def _masks(n: Net, y: str, shape: Sequence[int]) -> str:
    zero, one = n.constant(np.float32(0)), n.constant(np.float32(1))
    inside = n("And", n("Greater", y, zero), n("Not", n("LessOrEqual", one, y)))
    return n("Where", inside, n("Div", y, one), n("Abs", y))


def _roots(n: Net, y: str, shape: Sequence[int]) -> str:
    other = n.input(*shape[-1:])
    return n("Sub", n("Max", n("Sqrt", n("Abs", y)), other), n("Min", y, other))


def _clip(n: Net, y: str, shape: Sequence[int]) -> str:
    return n("Clip", y, n.constant(np.float32(-0.5)), n.constant(np.float32(0.75)))


TAILS: dict[str, Tail] = {
    "plain": lambda n, y, shape: y,
    "swish": _swish,
    "residual": _residual,
    "masks": _masks,
    "roots": _roots,
    "clip": _clip,
}


def matmul(shape: Sequence[int], columns: int, tail: str = "plain", trans: str = "") -> VariantCase:
    """A product of [..., M, K] by a constant [K, N]; ``trans`` names the transposed operands."""

    def build(n: Net) -> Sequence[str]:
        m, k = shape[-2:]
        x = n.input(*(*shape[:-2], k, m) if "a" in trans else shape)
        w = n.weight(columns, k) if "b" in trans else n.weight(k, columns)
        if trans:
            y = n("Gemm", x, w, n.weight(columns), transA=int("a" in trans), transB=int("b" in trans), alpha=0.5)
        else:
            y = n("MatMul", x, w)
        return [TAILS[tail](n, y, (*shape[:-1], columns))]

    return VariantCase(f"matmul {list(shape)} {columns} {tail} {trans}", "matmul.packed", build)


def pointwise(shape: Sequence[int], channels: int, tail: str = "plain") -> VariantCase:
    def build(n: Net) -> Sequence[str]:
        y = n.conv(n("Neg", n.input(*shape)), (channels, shape[1], *(1,) * (len(shape) - 2)))
        return [TAILS[tail](n, y, (shape[0], channels, *shape[2:]))]

    return VariantCase(f"pointwise {list(shape)} {channels} {tail}", "conv.pointwise", build)


def direct(
    shape: Sequence[int], channels: int, kernel: Sequence[int], tail: str = "plain", inner: bool = True, **attrs: Any
) -> VariantCase:
    """A convolution of an intermediate value, or with ``inner`` False of the network's input."""

    def build(n: Net) -> Sequence[str]:
        x = n.input(*shape)
        y = n.conv(n("Neg", x) if inner else x, (channels, shape[1] // attrs.get("group", 1), *kernel), **attrs)
        if tail == "residual":
            extents = onnx.shape_inference.infer_shapes(n.model(y)).graph.output[0].type.tensor_type.shape.dim
            return [TAILS[tail](n, y, [d.dim_value for d in extents])]
        return [TAILS[tail](n, y, (1, channels, 1, 1))]

    return VariantCase(f"direct {list(shape)} {channels} {list(kernel)} {tail} {inner} {attrs}", "conv.direct", build)


def transposed_direct(
    shape: Sequence[int], channels: int, kernel: Sequence[int], tail: str = "plain", **attrs: Any
) -> VariantCase:
    """A transposed convolution of an intermediate value to few channels, by vectors of pixels."""

    def build(n: Net) -> Sequence[str]:
        w = n.weight(shape[1], channels, *kernel)
        y = n("ConvTranspose", n("Neg", n.input(*shape)), w, n.weight(channels), **attrs)
        extents = onnx.shape_inference.infer_shapes(n.model(y)).graph.output[0].type.tensor_type.shape.dim
        return [TAILS[tail](n, y, [d.dim_value for d in extents])]

    name = f"transposed direct {list(shape)} {channels} {list(kernel)} {tail} {attrs}"
    return VariantCase(name, "conv.direct", build, "conv_transpose")


MATMULS = [
    *(matmul((m, 5), n) for m, n in ((1, 1), (1, 15), (1, 16), (1, 129), (2, 7), (5, 8), (6, 9), (7, 17), (29, 31))),
    *(matmul((m, 3), n) for m in (13, 14, 15) for n in (24, 32, 33)),
    *(matmul((4, 1), 18, tail) for tail in TAILS),
    *(matmul((5, 40), 21, "residual", trans) for trans in ("a", "b", "ab")),
    matmul((2, 3, 4, 6), 10, "residual"),
    matmul((3, 1, 7), 20, "swish"),
    matmul((1, 300), 40),
    matmul((120, 2500), 56, "residual"),
    matmul((80, 3300), 72),
    matmul((40, 4500), 24, "swish"),
]
POINTWISE = [
    *(pointwise((1, 4, 7, 7), m) for m in (1, 5, 6, 7, 13, 14, 15)),
    *(pointwise((1, 3, *hw), 9) for hw in ((1, 1), (1, 7), (9, 1), (3, 5), (4, 4), (1, 17), (8, 8), (6, 11))),
    *(pointwise((2, 3, 5, 5), 8, tail) for tail in TAILS if tail != "roots"),
    pointwise((2, 5, 19), 3, "residual"),
    pointwise((1, 2, 3, 4, 5), 6),
    *(pointwise((1, c, 32, 32), m) for c, m in ((5, 15), (33, 7))),  # lines that meet in a cache are copied
    *(pointwise((2, 20, 16, 64), 29, tail) for tail in TAILS if tail != "roots"),
    pointwise((2, 35, 1020), 16, "residual"),
]
DIRECT = [
    *(direct((1, 2, 6, w), 5, (3, 3), pads=[1] * 4) for w in (1, 7, 8, 9, 15, 16, 17, 33)),
    *(direct((1, 3, h, 9), m, (3, 3), pads=[1] * 4) for h, m in ((1, 1), (2, 13), (7, 14), (8, 15), (9, 30))),
    *(direct((1, 2, 7, w), 4, (3, 3), pads=[1] * 4, strides=[2, 2]) for w in (2, 15, 16, 17, 30, 31, 33)),
    *(direct((1, 4, 9, 20), 4, (3, 3), pads=[1] * 4, group=4, strides=[s, s]) for s in (1, 2, 3)),
    *(direct((1, 2, 5, 18), 6, (3, 3), tail, pads=[1] * 4) for tail in ("swish", "residual", "masks", "clip")),
    direct((2, 6, 7, 10), 9, (3, 2), group=3, dilations=[2, 3], pads=[0, 2, 3, 1]),
    direct((1, 8, 6, 6), 16, (5, 5), group=8, pads=[2] * 4),
    direct((1, 2, 12, 12), 3, (3, 3)),
    direct((1, 2, 9, 9), 3, (1, 1), strides=[2, 2]),
    direct((1, 2, 5, 5), 3, (3, 3), pads=[2, 0, 0, 2]),
    direct((2, 3, 21), 7, (5,), "residual", pads=[4, 0]),
    direct((1, 4, 40), 4, (3,), group=4, dilations=[4], pads=[4, 4], strides=[2]),
    direct((1, 3, 8, 8), 4, (3, 3), inner=False, pads=[1] * 4),
    direct((1, 3, 8, 8), 4, (3, 3), "residual", inner=False, pads=[1] * 4, strides=[2, 2]),
]
TRANSPOSED_DIRECT = [
    *(transposed_direct((1, 3, 4, w), 1, (9, 9), strides=[3, 3], pads=[4] * 4) for w in (1, 6, 17)),
    transposed_direct((2, 3, 5, 8), 2, (4, 4), "residual", strides=[2, 2], pads=[1] * 4),
    transposed_direct((1, 4, 5, 9), 3, (3, 5), "swish", strides=[2, 3], pads=[0, 1, 1, 0], output_padding=[1, 2]),
    transposed_direct((1, 2, 5, 19), 1, (3, 3), strides=[1, 1], pads=[1] * 4),
    transposed_direct((1, 3, 6, 5), 2, (4, 3), strides=[2, 1], dilations=[3, 2], pads=[7, 3, 1, 0]),
    transposed_direct((2, 5, 13), 1, (16,), "residual", strides=[8], pads=[4, 4]),
    transposed_direct((1, 150, 2, 9), 1, (4, 4), strides=[2, 2], pads=[1] * 4),
    transposed_direct((1, 600, 9), 2, (4,), strides=[2]),
    transposed_direct((1, 3, 6, 17), 1, (4, 4), strides=[3, 3], dilations=[2, 2]),  # taps of phases 0 and 2
    transposed_direct((1, 3, 6, 17), 2, (3, 7), "residual", strides=[1, 5], dilations=[1, 3], pads=[1, 2, 0, 1]),
]
