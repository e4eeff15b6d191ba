"""Quantised networks as float networks: activations are rounded to the grid of their scale in float arithmetic."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def float_model(path: Path) -> onnx.ModelProto:
    """The QDQ model with the QuantizeLinear and DequantizeLinear of activations as Div, Round, Add, Clip and
    Sub, Mul; those of weights stay, with arrays computed from them as constants, and so do the graph's inputs."""
    model = onnx.load(path)
    graph = model.graph
    constants = {w.name: numpy_helper.to_array(w) for w in graph.initializer}
    nodes: list[onnx.NodeProto] = []
    for i, node in enumerate(graph.node):
        if node.op_type == "QuantizeLinear":
            nodes += _quantize(i, node, constants)
        elif node.op_type == "DequantizeLinear" and node.input[0] in constants:
            constants[node.output[0]] = _dequantized(node, constants)
        elif node.op_type == "DequantizeLinear":
            nodes += _dequantize(i, node, constants)
        else:
            nodes.append(node)
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend(numpy_helper.from_array(a, name) for name, a in constants.items())
    del graph.value_info[:]
    for output in graph.output:
        output.type.tensor_type.elem_type = TensorProto.FLOAT
    return model


def _dequantized(node: onnx.NodeProto, constants: dict[str, np.ndarray]) -> np.ndarray:
    x, scale, zero = (constants[name] for name in node.input)
    axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
    shape = [-1 if a == axis else 1 for a in range(x.ndim)] if scale.ndim else []
    return ((x.astype(np.float32) - zero.reshape(shape)) * scale.reshape(shape)).astype(np.float32)


def _quantize(i: int, node: onnx.NodeProto, constants: dict[str, np.ndarray]) -> list[onnx.NodeProto]:
    x, scale, zero = node.input
    info = np.iinfo(constants[zero].dtype)
    for name, value in (("zero", constants[zero]), ("low", info.min), ("high", info.max)):
        constants[f"q{i}.{name}"] = np.asarray(value, np.float32)
    return [
        helper.make_node("Div", [x, scale], [f"q{i}.a"]),
        helper.make_node("Round", [f"q{i}.a"], [f"q{i}.b"]),
        helper.make_node("Add", [f"q{i}.b", f"q{i}.zero"], [f"q{i}.c"]),
        helper.make_node("Clip", [f"q{i}.c", f"q{i}.low", f"q{i}.high"], [node.output[0]]),
    ]


def _dequantize(i: int, node: onnx.NodeProto, constants: dict[str, np.ndarray]) -> list[onnx.NodeProto]:
    x, scale, zero = node.input
    constants[f"d{i}.zero"] = constants[zero].astype(np.float32)
    return [
        helper.make_node("Cast", [x], [f"d{i}.a"], to=TensorProto.FLOAT),
        helper.make_node("Sub", [f"d{i}.a", f"d{i}.zero"], [f"d{i}.b"]),
        helper.make_node("Mul", [f"d{i}.b", scale], [node.output[0]]),
    ]
