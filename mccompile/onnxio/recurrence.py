"""Recurrent cells that round their states as they run, as cells of floats with the same weights.

onnxruntime's DynamicQuantizeLSTM rounds x, and the state of each step, to 8 bits between their extremes. Weights of
-127 to 127 with the scale 0.01 are real numbers, though, and what the network says of a state is a sum of these::

    DynamicQuantizeLSTM(x, W [d, input, 4 hidden] of i8, ..)
        ->  q, s, z = DynamicQuantizeLinear(x)
            LSTM(DequantizeLinear(q, s, z), (W - zero) * scale [d, 4 hidden, input], ..)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from mccompile.ir.names import Names
from mccompile.onnxio.nested import all_graphs, value_names
from mccompile.onnxio.read import read_structure
from mccompile.onnxio.spelt import spelt
from mccompile.onnxio.write import serialize

_CELL = ("DynamicQuantizeLSTM", "com.microsoft")
_BYTES_AND_ZERO = ("bytes", "byte_zero")
_WEIGHTS = ((1, 8, 9), (2, 10, 11))
"""Where the node has a matrix, its scales and its zero points."""
_LENGTHS = 4
"""The input that says how long each sequence is."""
_NEWER = 11
"""The opset that DynamicQuantizeLinear is of, and Range."""
_INPUTS = 8
"""Inputs that LSTM has as well."""


def rounded_inputs(path: str | Path) -> list[str]:
    """What the importer calls the bytes, and the zero points, of what each DynamicQuantizeLSTM of a model file's main
    graph reads; `unrounded_recurrence` calls them so, too."""
    proto = read_structure(Path(path))
    cells = [node for node in proto.graph.node if (node.op_type, node.domain) == _CELL]
    taken = value_names(proto.graph) if cells else set()
    names = [f"{node.output[0]}.{part}" for node in cells for part in _BYTES_AND_ZERO]
    return [name for name in names if name not in taken]


def unrounded_recurrence(model: bytes, inner: Sequence[str] = ()) -> bytes | None:
    """The same model with LSTM in place of each DynamicQuantizeLSTM, or None if it has none with constant weights.

    Args:
        model: as `extract_with_outputs` gives it, without external data.
        inner: those of `rounded_inputs` that are to be outputs, too.
    """
    proto = onnx.ModelProto.FromString(model)
    constants = {t.name: t for graph in all_graphs(proto.graph) for t in graph.initializer}
    names = Names(value_names(proto.graph))
    opset = max((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), default=_NEWER)
    changes = 0
    for graph in all_graphs(proto.graph):
        for at in reversed(range(len(graph.node))):  # nodes are inserted in front
            if _replace(graph.node[at], proto.graph, constants, names):
                for made in reversed(_rounded(graph.node[at], names, opset)):
                    graph.node.insert(at, made)
                changes += 1
    defined = {name for node in proto.graph.node for name in node.output}
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in inner if name in defined)
    if changes and not any(o.domain in ("", "ai.onnx") for o in proto.opset_import):
        proto.opset_import.append(helper.make_opsetid("", 17))
    return serialize(proto) if changes else None


def _replace(
    node: onnx.NodeProto, graph: onnx.GraphProto, constants: Mapping[str, onnx.TensorProto], names: Names
) -> bool:  # fmt: skip
    """Make a node LSTM, if it is of that kind; ``graph`` gets its weights."""
    if (node.op_type, node.domain) != _CELL or len(node.input) <= _WEIGHTS[1][2]:
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


def _rounded(cell: onnx.NodeProto, names: Names, opset: int) -> list[onnx.NodeProto]:
    """The nodes that round x to 8 bits, as far as a sequence reads it; the cell reads what they make."""
    x, made = cell.input[0], []
    cell.input[0] = names.fresh(f"{x}.rounded")
    has_lengths = len(cell.input) > _LENGTHS and cell.input[_LENGTHS] != ""
    if has_lengths and opset >= _NEWER:  # else Range is not known, nor how to do without it
        read = names.fresh(f"{x}.read")
        made += spelt(_READ, {"x": x, "lengths": cell.input[_LENGTHS], "y": read}, x, names)
        x = read
    called = {"x": x, "y": cell.input[0]}
    called |= {part: names.fresh(f"{cell.output[0]}.{part}") for part in _BYTES_AND_ZERO}
    return made + spelt(_BYTES if opset >= _NEWER else _OLD_BYTES, called, x, names)


_READ = """
    shape = Shape(x)
    first = Constant<value = int64 {0}>()
    next = Constant<value = int64 {1}>()
    steps = Gather(shape, first)
    step = Range(first, steps, next)
    length = ReduceMax<keepdims = 0>(lengths)
    longest = Cast<to: int = 7>(length)
    before = Less(step, longest)
    column = Constant<value = int64[3] {-1, 1, 1}>()
    is_read = Reshape(before, column)
    nothing = Constant<value = float {0}>()
    y = Where(is_read, x, nothing)
"""
"""x without what lies behind the longest sequence, at whose extremes onnxruntime does not look; 0 is between them."""

_BYTES = """
    bytes, scale, byte_zero = DynamicQuantizeLinear(x)
    y = DequantizeLinear(bytes, scale, byte_zero)
"""

_OLD_BYTES = """
    none = Constant<value = float {0}>()
    one = Constant<value = float {1}>()
    top = Constant<value = float {255}>()
    least = Constant<value = uint8 {0}>()
    largest = ReduceMax<keepdims = 0>(x)
    smallest = ReduceMin<keepdims = 0>(x)
    high = Max(largest, none)
    low = Min(smallest, none)
    span = Sub(high, low)
    scale = Div(span, top)
    below = Neg(low)
    shift = Div(below, scale)
    byte_zero = com.microsoft.QuantizeLinear(shift, one, least)
    bytes = com.microsoft.QuantizeLinear(x, scale, byte_zero)
    y = com.microsoft.DequantizeLinear(bytes, scale, byte_zero)
"""
"""The same below opset 11. x of zeros alone is no number here."""
