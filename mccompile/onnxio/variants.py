"""A model in slightly other arithmetic: how much its values move shows how sure they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, MutableSequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from mccompile.ir.names import Names
from mccompile.onnxio.dtypes import dtype_number
from mccompile.onnxio.nested import inner_nodes, value_names
from mccompile.onnxio.proto import normal_domain
from mccompile.onnxio.spelt import spelt
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
                with np.errstate(over="ignore"):
                    moved = np.nextafter(array, toward)
                # The largest float, of masks say, has no neighbour but infinity, which would be another network.
                moved = np.where(np.isfinite(array) & np.isfinite(moved) & (array != 0), moved, array)
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


def sigmoids_by_exp(model: bytes) -> bytes | None:
    """The same model with each Sigmoid as exp(-softplus(-x)), or None if it has none. onnxruntime's own is off by as
    much near 0 as near 1: 8.9e-7 where 8.7e-7 is right.

    Args:
        model: as `extract_with_outputs` gives it, without external data.
    """
    proto = onnx.ModelProto.FromString(model)
    changes = _spell_sigmoids(proto.graph.node, Names(value_names(proto.graph)))
    for function in proto.functions:
        changes += _spell_sigmoids(function.node, Names(value_names(function)))
    return serialize(proto) if changes else None


def sorted_tops(model: bytes) -> bytes | None:
    """The same model with each TopK sorted, or None if all are: of those that are not the standard says no order, and
    ours are sorted.

    Args:
        model: as `extract_with_outputs` gives it, without external data.
    """
    proto = onnx.ModelProto.FromString(model)
    nodes = [n for holder in (proto.graph, *proto.functions) for n in inner_nodes(holder.node)]
    tops = [n for n in nodes if n.op_type == "TopK" and normal_domain(n.domain) == ""]
    unsorted = [a for n in tops for a in n.attribute if a.name == "sorted" and a.i == 0]
    for attribute in unsorted:
        attribute.i = 1
    return serialize(proto) if unsorted else None


_SUMS = {"DFT": (0,), "LayerNormalization": (0, 1, 2), "STFT": (0, 2), **dict.fromkeys(
    ("ReduceMean", "ReduceSum", "ReduceSumSquare"), (0,)
)}  # fmt: skip
"""Operators that are sums of what the run computes, and the operands that become f64 with their first result."""
_CAST_LIKE = 15
"""The opset from which a result can be cast to what the operand was; before it is taken for f32, and a model in which
it is another type is none that a session can be made of."""
_AXES_OPERAND = 18
"""The opset from which ReduceMean has its axes as an operand."""


def sums_in_doubles(model: bytes) -> bytes | None:
    """The same model with sums of activations in f64, or None if it has none. onnxruntime's spectra of lengths that
    are no powers of two are off by 1e-3 of what is small beside the largest; means of squares, less squared means, by
    as much as both are rounded.

    Args:
        model: as `extract_with_outputs` gives it, without external data.
    """
    proto = onnx.ModelProto.FromString(model)
    opset = max((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), default=0)
    changes = _sum_in_doubles(proto.graph.node, Names(value_names(proto.graph)), opset)
    for function in proto.functions:
        own = {o.domain: o.version for o in function.opset_import}
        changes += _sum_in_doubles(function.node, Names(value_names(function)), own.get("", opset))
    return serialize(proto) if changes else None


def _sum_in_doubles(nodes: MutableSequence[onnx.NodeProto], names: Names, opset: int) -> int:
    made: list[onnx.NodeProto] = []
    changes = 0
    for node in nodes:
        changes += sum(_sum_in_doubles(a.g.node, names, opset) for a in node.attribute if a.HasField("g"))
        if not node.domain and node.op_type == "InstanceNormalization":
            if any(a.ref_attr_name for a in node.attribute):  # an epsilon that the call of a function gives
                made.append(node)
                continue
            made += _normalised_in_doubles(node, names, opset)
            changes += 1
            continue
        if node.domain or node.op_type not in _SUMS:
            made.append(node)
            continue
        changes += 1
        first, result = node.input[0], node.output[0]
        for i in _SUMS[node.op_type]:
            if i < len(node.input) and node.input[i]:
                wide = names.fresh(f"{result}.operand{i}")
                made.append(helper.make_node("Cast", [node.input[i]], [wide], to=onnx.TensorProto.DOUBLE))
                node.input[i] = wide
        node.output[0] = names.fresh(f"{result}.wide")
        if opset < _CAST_LIKE:
            back = helper.make_node("Cast", [node.output[0]], [result], to=onnx.TensorProto.FLOAT)
        else:
            back = helper.make_node("CastLike", [node.output[0], first], [result])
        made += [node, back]
    _replace(nodes, made)
    return changes


_NORMALISED = """
    of_channel = Constant<value = int64[3] {1, -1, 1}>()
    in_rows = Constant<value = int64[3] {0, 0, -1}>()
    epsilon = Constant<value = double[1] {EPSILON}>()
    wide = Cast<to: int = 11>(x)
    rows = Reshape(wide, in_rows)
    mean = MEAN(rows)
    apart = Sub(rows, mean)
    square = Mul(apart, apart)
    variance = MEAN(square)
    more = Add(variance, epsilon)
    deviation = Sqrt(more)
    unit = Div(apart, deviation)
    wide_scale = Cast<to: int = 11>(scale)
    each_scale = Reshape(wide_scale, of_channel)
    scaled = Mul(unit, each_scale)
    wide_bias = Cast<to: int = 11>(bias)
    each_bias = Reshape(wide_bias, of_channel)
    shifted = Add(scaled, each_bias)
    narrow = CastLike(shifted, x)
    shape = Shape(x)
    y = Reshape(narrow, shape)
"""
"""InstanceNormalization of x by what it means: onnxruntime has none of f64."""


def _normalised_in_doubles(node: onnx.NodeProto, names: Names, opset: int) -> list[onnx.NodeProto]:
    epsilon = next((a.f for a in node.attribute if a.name == "epsilon"), 1e-5)
    text = _NORMALISED.replace("EPSILON", repr(epsilon))
    if opset < _CAST_LIKE:
        text = text.replace("CastLike(shifted, x)", "Cast<to: int = 1>(shifted)")
    if opset < _AXES_OPERAND:
        text = text.replace("MEAN(", "ReduceMean<axes = [2]>(")
    else:
        text = re.sub(r"MEAN\((\w+)\)", r"ReduceMean(\1, axes)", text)
        text = f"    axes = Constant<value = int64[1] {{2}}>() {text}"
    called = dict(zip(("x", "scale", "bias"), node.input, strict=True)) | {"y": node.output[0]}
    return spelt(text, called, node.output[0], names)


def _replace(nodes: MutableSequence[onnx.NodeProto], by: Iterable[onnx.NodeProto]) -> None:
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in by]
    del nodes[:]
    nodes.extend(kept)


def _spell_sigmoids(nodes: MutableSequence[onnx.NodeProto], names: Names) -> int:
    spelt: list[onnx.NodeProto] = []
    changes = 0
    for node in nodes:
        changes += sum(_spell_sigmoids(a.g.node, names) for a in node.attribute if a.HasField("g"))
        if node.op_type != "Sigmoid" or node.domain:
            spelt.append(node)
            continue
        changes += 1
        last = node.input[0]
        for step, op in enumerate(("Neg", "Softplus", "Neg", "Exp")):
            result = node.output[0] if op == "Exp" else names.fresh(f"{node.output[0]}.sigmoid{step}")
            spelt.append(helper.make_node(op, [last], [result]))
            last = result
    _replace(nodes, spelt)
    return changes
