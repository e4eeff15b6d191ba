"""Recurrent cells that round their states as they run, as cells of floats with the same weights.

onnxruntime's DynamicQuantizeLSTM rounds x, and the state of each step, to 8 bits between their extremes. Weights of
-127 to 127 with the scale 0.01 are real numbers, though, and what the network says of a state is a sum of these::

    DynamicQuantizeLSTM(x, W [d, input, 4 hidden] of i8, ..)
        ->  q, s, z = DynamicQuantizeLinear(x)
            LSTM(DequantizeLinear(q, s, z), (W - zero) * scale [d, 4 hidden, input], ..)
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper, numpy_helper

from mccompile.ir.names import Names
from mccompile.onnxio.nested import all_graphs, value_names
from mccompile.onnxio.write import serialize

_WEIGHTS = ((1, 8, 9), (2, 10, 11))
"""Where the node has a matrix, its scales and its zero points."""
_INPUTS = 8
"""Inputs that LSTM has as well."""


def unrounded_recurrence(model: bytes) -> bytes | None:
    """The same model with LSTM in place of each DynamicQuantizeLSTM, or None if it has none with constant weights.

    Args:
        model: as `extract_with_outputs` gives it, without external data.
    """
    proto = onnx.ModelProto.FromString(model)
    constants = {t.name: t for graph in all_graphs(proto.graph) for t in graph.initializer}
    names = Names(value_names(proto.graph))
    changes = 0
    for graph in all_graphs(proto.graph):
        for at in reversed(range(len(graph.node))):  # nodes are inserted in front
            if _replace(graph.node[at], proto.graph, constants, names):
                for made in reversed(_rounded(graph.node[at], names)):
                    graph.node.insert(at, made)
                changes += 1
    if changes and not any(o.domain in ("", "ai.onnx") for o in proto.opset_import):
        proto.opset_import.append(helper.make_opsetid("", 17))
    return serialize(proto) if changes else None


def _replace(
    node: onnx.NodeProto, graph: onnx.GraphProto, constants: Mapping[str, onnx.TensorProto], names: Names
) -> bool:  # fmt: skip
    """Make a node LSTM, if it is of that kind; ``graph`` gets its weights."""
    if node.op_type != "DynamicQuantizeLSTM" or node.domain != "com.microsoft" or len(node.input) <= _WEIGHTS[1][2]:
        return False
    if any(node.input[i] not in constants for places in _WEIGHTS for i in places):
        return False
    given = list(node.input)
    for places in _WEIGHTS:
        matrix, scale, zero = (numpy_helper.to_array(constants[given[i]]) for i in places)
        rows = (matrix.shape[0], 1, -1)
        real = (matrix.astype(np.float32) - zero.reshape(rows)) * scale.reshape(rows)
        given[places[0]] = names.fresh(f"{given[places[0]]}.real")
        made = np.ascontiguousarray(real.astype(np.float32).swapaxes(1, 2))
        graph.initializer.append(numpy_helper.from_array(made, given[places[0]]))
    del node.input[:]
    node.input.extend(given[:_INPUTS])
    node.op_type, node.domain = "LSTM", ""
    return True


def _rounded(cell: onnx.NodeProto, names: Names) -> list[onnx.NodeProto]:
    """The nodes that round x to 8 bits; the cell reads what they make."""
    x = cell.input[0]
    parts = [names.fresh(f"{x}.{part}") for part in ("bytes", "byte_scale", "byte_zero")]
    cell.input[0] = names.fresh(f"{x}.rounded")
    return [
        helper.make_node("DynamicQuantizeLinear", [x], parts),
        helper.make_node("DequantizeLinear", parts, [cell.input[0]]),
    ]
