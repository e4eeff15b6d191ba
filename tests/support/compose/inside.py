"""Noise inside of the graphs of a node: what a body of a Loop computes is off as well, not its results alone.

Worked example: a body computes ``s = Tanh(x)`` and ``r = x - s``, where x is 1e-7 and r what is left of rounding.

    s = Tanh(x)         becomes         s.sure = Tanh(x); s = s.sure * off1

with ``off1`` a value of the graph outside, 1 but for 4e-6 of either sign, so that r is as unsure as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import helper

Array = np.ndarray[Any, np.dtype[Any]]
Size = Callable[[onnx.NodeProto, str], float]
"""How far the floats of a node may be off, relative to the largest, by their type's name."""

FLOATS = {onnx.TensorProto.FLOAT: np.float32, onnx.TensorProto.DOUBLE: np.float64}


def unsure(model: onnx.ModelProto, size: Size) -> tuple[onnx.NodeProto, dict[str, tuple[type, float]]]:
    """The first node of a model with its floats inside times factors; of each of these the type, and how far it may
    be from 1."""
    node, inferred = model.graph.node[0], onnx.shape_inference.infer_shapes(model).graph.node[0]
    factors: dict[str, tuple[type, float]] = {}
    for graph, known in zip(_graphs(node), _graphs(inferred), strict=True):
        _make_unsure(graph, known, size, factors)
    return node, factors


def _graphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    return [a.g for a in node.attribute if a.HasField("g")]


def _make_unsure(
    graph: onnx.GraphProto, inferred: onnx.GraphProto, size: Size, factors: dict[str, tuple[type, float]]
) -> None:
    """``inferred`` is the graph with the types of its values; their shapes are those of one run."""
    types = {v.name: v.type.tensor_type.elem_type for v in (*inferred.value_info, *inferred.output)}
    nodes: list[onnx.NodeProto] = []
    for node, typed in zip(graph.node, inferred.node, strict=True):
        inner = _graphs(node)
        for one, known in zip(inner, _graphs(typed), strict=True):
            _make_unsure(one, known, size, factors)
        nodes.append(node)
        for i, name in enumerate(node.output):
            dtype = FLOATS.get(types.get(name, 0))
            off = size(node, np.dtype(dtype).name) if dtype is not None and not inner else 0.0
            if dtype is None or not off:
                continue
            factor = f"{name}.off{len(factors)}"
            factors[factor] = (dtype, off)
            node.output[i] = f"{name}.sure"
            nodes.append(helper.make_node("Mul", [f"{name}.sure", factor], [name]))
    del graph.node[:]
    graph.node.extend(nodes)
