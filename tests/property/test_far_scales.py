"""Quantised networks of scales at the ends of f32 round as onnxruntime does, or as their formulas say, where these
have finite numbers: by passes at every ``--requant``, and a few in C."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import mccompile
from mccompile.driver import Options, import_graph, optimize
from tests.support.judge import plain_session

Array = np.ndarray[Any, np.dtype[Any]]
ENDS = (1.4e-45, 9.9e-44, 3e-41, 1.2e-38, 1e-30, 1e-20, 1e-10, 1e-3, 0.05, 1.0, 1e3, 1e10, 1e20, 1e30, 1e38, 3e38)
KINDS = ("conv", "matmul", "gemm", "add", "mul", "pool", "integers", "dynamic", "mean", "chain")
SEEDS = range(120)
NOW = 12
"""So many are not slow."""
WAYS = (("generic", "exact"), ("generic", "tflite"), ("x86-64-v3", "exact"))
MICROSOFT = {"domain": "com.microsoft"}


class Net:
    """A network between bytes; every method adds to it and gives the name of what it adds."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.dtype = str(self.rng.choice(["int8", "uint8"]))
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Array] = {}
        self.feeds: dict[str, Array] = {}

    def scale(self, near: float | None = None) -> np.float32:
        """One at the ends of f32, or near another."""
        if near is not None and self.rng.integers(2):
            drawn = near * float(np.exp(self.rng.uniform(-12, 12)))
        else:
            drawn = float(self.rng.choice(ENDS) * self.rng.uniform(0.8, 1.2))
        return np.float32(min(max(drawn, 1.4e-45), 3.3e38))

    def bytes_of(self, *shape: int, dtype: str = "") -> Array:
        info = np.iinfo(dtype or self.dtype)
        return self.rng.integers(info.min, info.max + 1, shape).astype(info.dtype)

    def constant(self, array: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def zero(self, dtype: str = "") -> str:
        return self.constant(self.bytes_of(dtype=dtype))

    def node(self, op: str, inputs: Sequence[str], **attrs: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attrs))
        return name

    def scaled(self, scale: float) -> list[str]:
        return [self.constant(np.float32(scale)), self.zero()]

    def model(self, y: str) -> onnx.ModelProto:
        kinds = {name: helper.np_dtype_to_tensor_dtype(a.dtype) for name, a in self.feeds.items()}
        inputs = [helper.make_tensor_value_info(name, kinds[name], a.shape) for name, a in self.feeds.items()]
        held = [numpy_helper.from_array(a, name) for name, a in self.constants.items()]
        graph = helper.make_graph(self.nodes, "g", inputs, [onnx.ValueInfoProto(name=y)], held)
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)

    def input(self, *shape: int) -> list[str]:
        self.feeds["x"] = self.bytes_of(*shape)
        return ["x"]


def products(net: Net, kind: str, x: np.float32) -> str:
    """With a bias and a scale of each channel, or without."""
    channels, bias = 4, net.rng.integers(2)
    filters = (channels, 3, 3, 3) if kind == "conv" else (9, channels)
    read = net.input(1, 3, 5, 5) if kind == "conv" else net.input(4, 9)
    each = kind == "conv" and net.rng.integers(2)
    own = np.array([net.scale() for _ in range(channels)], np.float32) if each else net.scale()
    zeros = net.constant(np.full(channels if each else (), 128 if net.dtype == "uint8" else 0, net.dtype))
    y = net.scaled(net.scale(float(x) * float(np.median(own)) * 1000))
    operands = [*read, *net.scaled(x), net.constant(net.bytes_of(*filters)), net.constant(own), zeros]
    begun = net.constant(net.rng.integers(-2000, 2000, channels).astype(np.int32)) if bias else ""
    if kind == "conv":
        return net.node("QLinearConv", [*operands, *y, *([begun] if begun else [])])
    if kind == "matmul":
        return net.node("QLinearMatMul", [*operands, *y])
    return net.node("QGemm", [*operands, begun, *y], **MICROSOFT)


def pairs(net: Net, kind: str, x: np.float32) -> str:
    """Two operands, or one and a constant."""
    read = net.input(8, 32)
    other = net.scale(float(x) if kind == "add" else None)
    near = max(float(x), float(other)) if kind == "add" else float(x) * float(other) * 100
    second = "b"
    if net.rng.integers(2):
        net.feeds["b"] = net.bytes_of(8, 32)
    else:
        second = net.constant(net.bytes_of(32))
    y = net.scaled(net.scale(near))
    return net.node(
        "QLinearAdd" if kind == "add" else "QLinearMul",
        [*read, *net.scaled(x), second, *net.scaled(other), *y], **MICROSOFT,
    )  # fmt: skip


def means(net: Net, kind: str, x: np.float32) -> str:
    read = net.input(1, 3, 5, 5)
    y = net.scaled(x if net.rng.integers(3) == 0 else net.scale(float(x)))
    if kind == "pool":
        attrs = {"kernel_shape": [2, 3], "strides": [1, 1], **MICROSOFT}
        return net.node("QLinearAveragePool", [*read, *net.scaled(x), *y], **attrs)
    real = net.node("DequantizeLinear", [*read, *net.scaled(x)])
    if net.rng.integers(2):
        mean = net.node("ReduceMean", [real, net.constant(np.array([2, 3]))])
    else:
        mean = net.node("AveragePool", [real], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    return net.node("QuantizeLinear", [mean, *y])


def integers(net: Net, x: np.float32) -> str:
    """A sum of integers times up to three scales."""
    weights, zero = net.constant(net.bytes_of(9, 6, dtype="int8")), net.constant(np.int8(0))
    real = net.node("Cast", [net.node("MatMulInteger", [*net.input(4, 9), weights, net.zero(), zero])], to=1)
    total = 1.0
    for factor in (x, *(net.scale() for _ in range(net.rng.integers(3)))):
        real, total = net.node("Mul", [real, net.constant(factor)]), total * float(factor)
    return net.node("QuantizeLinear", [real, *net.scaled(net.scale(total * 1000))])


def dynamic(net: Net, x: np.float32) -> str:
    real = net.node("DequantizeLinear", [*net.input(4, 9), *net.scaled(x)])
    net.nodes.append(helper.make_node("DynamicQuantizeLinear", [real], ["q", "s", "z"]))
    whole = net.node("MatMulInteger", ["q", net.constant(net.bytes_of(9, 6, dtype="int8")), "z"])
    own = net.scale()
    factor = net.node("Mul", ["s", net.constant(own)])
    y = net.node("Mul", [net.node("Cast", [whole], to=1), factor])
    return net.node("QuantizeLinear", [y, *net.scaled(net.scale(float(x) * float(own) * 5000))])


def chain(net: Net, x: np.float32) -> str:
    """Two or three quantisations one after the other."""
    (y,) = net.input(4, 9)
    scale, dtype = float(x), net.dtype
    zero = net.zero()
    for _ in range(net.rng.integers(2, 4)):
        real = net.node("DequantizeLinear", [y, net.constant(np.float32(scale)), zero])
        if net.rng.integers(3) == 0:
            real = net.node("Relu", [real])
        dtype = str(net.rng.choice(["int8", "uint8", "int16", "uint16"]))
        scale, zero = float(net.scale(scale)), net.zero(dtype)
        y = net.node("QuantizeLinear", [real, net.constant(np.float32(scale)), zero])
    return y


def drawn(seed: int) -> tuple[str, onnx.ModelProto, dict[str, Array]]:
    net = Net(seed)
    kind, x = KINDS[seed % len(KINDS)], net.scale()
    match kind:
        case "conv" | "matmul" | "gemm":
            y = products(net, kind, x)
        case "add" | "mul":
            y = pairs(net, kind, x)
        case "pool" | "mean":
            y = means(net, kind, x)
        case "integers":
            y = integers(net, x)
        case "dynamic":
            y = dynamic(net, x)
        case _:
            y = chain(net, x)
    return kind, net.model(y), net.feeds


def far(got: Array, meant: Sequence[Array]) -> Array:
    """Which results are more than a step from all that may be meant; of 16 bits, more than some steps."""
    steps = np.min([np.abs(got.astype(np.int64) - m.astype(np.int64)) for m in meant], axis=0)
    return np.asarray(steps > (1 if got.dtype.itemsize == 1 else 2 + np.abs(got.astype(np.int64)) // 2**13))


@pytest.mark.parametrize("seed", [s if s < NOW else pytest.param(s, marks=pytest.mark.slow) for s in SEEDS])
def test_far_scales_round_right(seed: int, tmp_path: Path) -> None:
    """Passes raise nothing for any; what they make of a network is judged where all of its numbers are finite."""
    kind, model, feeds = drawn(seed)
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    ours: list[Array] | None = None
    for target, requant in WAYS:
        with warnings.catch_warnings(action="error"):
            c = import_graph(path, Options(target=target, opt_level="O2", requant=requant))
            values = c.graph.evaluate(feeds, keep=True)
            wide = next(iter(c.graph.evaluate(feeds, wide=True).values()))
            finite = all(np.isfinite(a).all() for a in values.values() if a.dtype.kind == "f")
            optimize(c)
        got = next(iter(c.graph.evaluate(feeds).values()))
        if finite:
            ours = ours or [*plain_session(model.SerializeToString()).run(None, feeds), wide]
            wrong = far(got, ours)
            said = [a[wrong][:5].tolist() for a in (got, *ours)]
            assert not wrong.any(), f"{kind} for {target} by {requant}: {said}"


@pytest.mark.parametrize(("seed", "requant"), [(0, "tflite"), (1, "exact"), (3, "tflite"), (9, "tflite")])
def test_the_c_of_far_scales(seed: int, requant: str, tmp_path: Path) -> None:
    """It computes what the graph that it is of means."""
    _, model, feeds = drawn(seed)
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    mccompile.compile(path, tmp_path / "out", target="generic", requant=requant)
    c = import_graph(path, Options(target="generic", opt_level="O2", requant=requant))
    optimize(c)
    meant = c.graph.evaluate(feeds)
    for name, got in mccompile.load(tmp_path / "out").run(feeds).items():
        assert not far(got, [meant[name]]).any()
