"""Small networks, each with what memory plans and generated C usually get wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.support.judge import plain_session

Array = np.ndarray[Any, np.dtype[Any]]
_OPSET = 17


class Maker:
    """Builds a model node by node; weights come from a generator of fixed seed."""

    def __init__(self, seed: int = 7, opset: int = _OPSET) -> None:
        self.opset = opset
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, shape: Sequence[int], dtype: int = TensorProto.FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def weight(self, shape: Sequence[int], dtype: str = "float32") -> str:
        return self.const(self.random.normal(0, 0.5, shape).astype(dtype))

    def const(self, array: Array) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, op: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        """Adds a node of one result; gives the name of the result."""
        name = output or f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=f"node_{name}", **attributes))
        return name

    def model(self, outputs: Sequence[str]) -> onnx.ModelProto:
        """The model with its shapes inferred; ``outputs`` are names of results."""
        infos = [helper.make_empty_tensor_value_info(o) for o in outputs]
        graph = helper.make_graph(self.nodes, "small", self.inputs, infos, self.weights)
        for info in infos:
            info.ClearField("type")
        graph.ClearField("output")
        graph.output.extend(infos)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def conv_padding() -> onnx.ModelProto:
    """Convolutions with padding on all sides, strides, dilation and groups, and a padded pool."""
    m = Maker()
    x = m.input("x", (1, 3, 9, 7))
    a = m.node("Conv", [x, m.weight((5, 3, 3, 3)), m.weight((5,))], pads=[1, 2, 0, 1], strides=[1, 2])
    a = m.node("Relu", [a])
    a = m.node("Conv", [a, m.weight((5, 1, 3, 3))], group=5, pads=[2, 2, 2, 2], dilations=[2, 2])
    a = m.node("Clip", [a, m.const(np.float32(0)), m.const(np.float32(6))])
    a = m.node("MaxPool", [a], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])
    m.node("Conv", [a, m.weight((4, 5, 1, 1)), m.weight((4,))], "y")
    return m.model(["y"])


def concat() -> onnx.ModelProto:
    """Branches joined and split again."""
    m = Maker()
    x = m.input("x", (1, 4, 5, 5))
    a = m.node("Conv", [x, m.weight((3, 4, 3, 3))], pads=[1, 1, 1, 1])
    b = m.node("Sigmoid", [m.node("Conv", [x, m.weight((2, 4, 1, 1))])])
    c = m.node("Concat", [a, b, x], axis=1)
    d = m.node("Conv", [c, m.weight((6, 9, 1, 1))])
    m.node("Concat", [d, c], "y", axis=1)
    return m.model(["y"])


def pad_modes() -> onnx.ModelProto:
    """Pad in all its modes, negative pads too."""
    m = Maker()
    x = m.input("x", (1, 2, 5, 6))
    pads = m.const(np.array([0, 0, 2, 1, 0, 0, 1, 3], np.int64))
    a = m.node("Pad", [m.node("Tanh", [x]), pads, m.const(np.float32(-1.5))])
    b = m.node("Pad", [x, pads], mode="reflect")
    c = m.node("Pad", [m.node("Neg", [x]), pads], mode="edge")
    d = m.node("Add", [m.node("Mul", [a, b]), c])
    crop = m.const(np.array([0, 0, -1, 0, 0, 1, 0, -2], np.int64))
    m.node("Pad", [d, crop, m.const(np.float32(2))], "y")
    return m.model(["y"])


def residual() -> onnx.ModelProto:
    """Additions whose results may overwrite an operand, and one operand that is needed once more."""
    m = Maker()
    x = m.input("x", (1, 6, 4, 5))
    a = m.node("Relu", [x])
    b = m.node("Conv", [a, m.weight((6, 6, 3, 3))], pads=[1, 1, 1, 1])
    c = m.node("Relu", [m.node("Add", [b, a])])
    d = m.node("Conv", [c, m.weight((6, 6, 3, 3))], pads=[1, 1, 1, 1])
    e = m.node("Add", [d, c])
    f = m.node("Mul", [e, m.node("Sigmoid", [e])])
    g = m.node("Add", [f, m.weight((6, 1, 1))])
    m.node("Sub", [m.node("Exp", [m.node("Neg", [g])]), a], "y")
    return m.model(["y"])


def views() -> onnx.ModelProto:
    """Reshapes that are views, transposes that are not, a batched matrix product, a slice and a split."""
    m = Maker()
    x = m.input("x", (2, 3, 4, 5))
    a = m.node("Reshape", [x, m.const(np.array([6, 20], np.int64))])
    b = m.node("MatMul", [a, m.weight((20, 12))])
    c = m.node("Reshape", [b, m.const(np.array([2, 3, 3, 4], np.int64))])
    d = m.node("Transpose", [c], perm=[0, 2, 1, 3])
    e = m.node("MatMul", [d, m.node("Transpose", [c], perm=[0, 1, 3, 2])])
    f = m.node("Slice", [e, *(m.const(np.array(v, np.int64)) for v in ([-1], [-4], [3], [-2]))])
    m.node("Flatten", [f], "y", axis=1)
    m.node("ReduceMean", [e], "z", axes=[2], keepdims=0)
    return m.model(["y", "z"])


def many_outputs() -> onnx.ModelProto:
    """Outputs that others are computed from, an output that is an input, a scalar."""
    m = Maker()
    x = m.input("x", (1, 8))
    u = m.input("u", (8,))
    a = m.node("Relu", [x], "a")
    b = m.node("Sigmoid", [a], "b")
    m.node("Identity", [u], "same")
    m.node("ReduceSum", [b], "total", keepdims=0)
    m.node("Add", [m.node("Sqrt", [m.node("Abs", [u])]), b], "last")
    return m.model(["a", "b", "same", "total", "last"])


def half() -> onnx.ModelProto:
    """fp16 in memory."""
    m = Maker()
    x = m.input("x", (1, 3, 7, 5), TensorProto.FLOAT16)
    a = m.node("Conv", [x, m.weight((5, 3, 3, 3), "float16"), m.weight((5,), "float16")], pads=[1, 1, 1, 1])
    a = m.node("Relu", [a])
    b = m.node("Add", [a, m.weight((5, 1, 1), "float16")])
    m.node("Concat", [a, b], "y", axis=1)
    return m.model(["y"])


def integers() -> onnx.ModelProto:
    """Integers of several widths, booleans, and conversions between them, floats out of range too."""
    m = Maker()
    x = m.input("x", (3, 5))
    i = m.input("i", (3, 5), TensorProto.INT32)
    b = m.node("Greater", [x, m.const(np.float32(0.25))])
    c = m.node("Where", [b, m.node("Mul", [i, i]), m.node("Neg", [i])])
    d = m.node("Cast", [c], to=TensorProto.INT64)
    e = m.node("Cast", [m.node("Clip", [x, m.const(np.float32(0)), m.const(np.float32(100))])], to=TensorProto.UINT8)
    f = m.node("Add", [d, m.node("Cast", [e], to=TensorProto.INT64)])
    m.node("Concat", [f, d], "y", axis=0)
    m.node("Not", [b], "z")
    return m.model(["y", "z"])


MODELS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    f.__name__: f for f in (conv_padding, concat, pad_modes, residual, views, many_outputs, half, integers)
}
"""By name; every one compiles for every target and level."""


def write_model(name: str, folder: Path) -> Path:
    """The model of `MODELS` as a file."""
    path = folder / f"{name}.onnx"
    onnx.save(MODELS[name](), path)
    return path


def draw_inputs(path: Path, seed: int) -> dict[str, Array]:
    """Values for the inputs of a model file, by name; a free dimension is 1."""
    random = np.random.default_rng(seed)
    inputs = {}
    for info in onnx.load(path).graph.input:
        shape = tuple(d.dim_value or 1 for d in info.type.tensor_type.shape.dim)
        dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        values = random.normal(0, 1, shape) if np.dtype(dtype).kind == "f" else random.integers(-9, 9, shape)
        inputs[info.name] = values.astype(dtype)
    return inputs


def ort_run(path: Path, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """onnxruntime's outputs by name, its optimisations off."""
    session = plain_session(path.read_bytes())
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))
