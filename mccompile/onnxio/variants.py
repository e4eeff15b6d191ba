"""A model in slightly other arithmetic: how much its values move shows how sure they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import onnx
from onnx import numpy_helper

from mccompile.onnxio.dtypes import dtype_number
from mccompile.onnxio.write import serialize

_WEIGHTS = 16
"""Constants of fewer elements are left as they are: epsilons, bounds, scales that decide shapes."""


def jitter_weights(model: bytes, seed: int = 0) -> bytes:
    """The same model, each f32 weight moved by one unit in the last place, up or down.

    Args:
        model: as `extract_with_outputs` gives it, without external data.
    """
    proto = onnx.ModelProto.FromString(model)
    rng = np.random.default_rng(seed)
    for tensor in _tensors(proto.graph):
        if tensor.data_type == onnx.TensorProto.FLOAT:
            array = numpy_helper.to_array(tensor)
            if array.size >= _WEIGHTS:
                toward = np.where(rng.integers(0, 2, array.shape) > 0, np.float32(np.inf), np.float32(-np.inf))
                moved = np.where(np.isfinite(array) & (array != 0), np.nextafter(array, toward), array)
                name = tensor.name
                tensor.CopyFrom(numpy_helper.from_array(moved.astype(np.float32), name))
    return serialize(proto)


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            if attribute.HasField("g"):
                yield from _tensors(attribute.g)


def widened(model: bytes, narrow: str = "f16") -> bytes | None:
    """The same model in f32 wherever it says f16 (or bf16), or None if it says so nowhere: what that rounds away.

    Args:
        model: as `extract_with_outputs` gives it, without external data.
        narrow: our name of the type.
    """
    proto, number = onnx.ModelProto.FromString(model), dtype_number(narrow)
    changes = _widen_graph(proto.graph, number)
    for function in proto.functions:
        changes += _widen_nodes(function.node, number)
    return serialize(proto) if changes else None


def _widen_graph(graph: onnx.GraphProto, narrow: int) -> int:
    del graph.value_info[:]
    changes = sum(_widen_tensor(tensor, narrow) for tensor in graph.initializer)
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type == narrow:
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
            changes += 1
    return changes + _widen_nodes(graph.node, narrow)


def _widen_nodes(nodes: Iterable[onnx.NodeProto], narrow: int) -> int:
    changes = 0
    for node in nodes:
        for attribute in node.attribute:
            if attribute.name in ("to", "dtype", "output_dtype") and attribute.i == narrow:
                attribute.i = onnx.TensorProto.FLOAT
                changes += 1
            if attribute.HasField("t"):
                changes += _widen_tensor(attribute.t, narrow)
            if attribute.HasField("g"):
                changes += _widen_graph(attribute.g, narrow)
    return changes


def _widen_tensor(tensor: onnx.TensorProto, narrow: int) -> int:
    if tensor.data_type != narrow:
        return 0
    name, array = tensor.name, numpy_helper.to_array(tensor)
    tensor.CopyFrom(numpy_helper.from_array(array.astype(np.float32), name))
    return 1
