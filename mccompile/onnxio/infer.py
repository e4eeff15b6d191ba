"""Infer element types and shapes of a model's inner values by ONNX's own inference, as far as it goes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Set

import onnx
import onnx.shape_inference

from mccompile.onnxio.dtypes import dtype_of_array
from mccompile.onnxio.model import OnnxGraph, OnnxModel, OnnxNode, OnnxValue, subgraphs
from mccompile.onnxio.proto import graph_to_proto, value_from_proto
from mccompile.onnxio.untyped import UNTYPED_ENDS
from mccompile.onnxio.wellformed import require_wellformed
from mccompile.onnxio.write import opset_imports

_SMALL = 64


_OTHERS = ("sequence", "optional", "map", "sparse", "opaque")


def infer_types(model: OnnxModel) -> OnnxModel:
    """The model with `value_info` filled, in nested graphs too, by what ONNX infers from the graph inputs.

    What the file states of inner values and outputs is not used: exporters get it wrong. The model has to be
    topologically sorted, with value names unique over all its graphs. A value that cannot be inferred has no
    entry.

    Raises:
        CompileError: nodes without the form of their operators, on which ONNX's inference may end the process.
    """
    require_wellformed(model)
    found: dict[str, OnnxValue] = {}
    if any((node.domain, node.op_type) in UNTYPED_ENDS for node in _all_nodes(model.graph)):
        found = _inferred(model, {})
    return dataclasses.replace(model, graph=_with_info(model.graph, _inferred(model, found)))


def _inferred(model: OnnxModel, known: Mapping[str, OnnxValue]) -> dict[str, OnnxValue]:
    """The types that ONNX infers, without `UNTYPED_ENDS` nodes whose operand has no type: in ``known`` or stated."""
    stated = {v.name for g in _all_graphs(model.graph) for v in (*g.inputs, *_typed_constants(g))}
    hidden = _without_untyped(_skeleton(model.graph), stated | set(known))
    proto = onnx.ModelProto(ir_version=onnx.IR_VERSION, graph=graph_to_proto(hidden))
    proto.opset_import.extend(opset_imports(model))
    try:
        inferred = onnx.shape_inference.infer_shapes(proto, check_type=False, strict_mode=False)
    except Exception:
        return {}  # inference is an extra: whoever uses the types also does without
    found: dict[str, OnnxValue] = {}
    graphs = [inferred.graph]
    while graphs:
        graph = graphs.pop()
        for value in (*graph.value_info, *graph.output):
            if value.type.WhichOneof("value"):
                found.setdefault(value.name, value_from_proto(value))
        for node in graph.node:
            graphs.extend(attribute.g for attribute in node.attribute if attribute.HasField("g"))
    return found


def _all_graphs(graph: OnnxGraph) -> Iterator[OnnxGraph]:
    """A graph and those nested in it."""
    yield graph
    for node in graph.nodes:
        for inner in subgraphs(node):
            yield from _all_graphs(inner)


def _all_nodes(graph: OnnxGraph) -> Iterator[OnnxNode]:
    return (node for g in _all_graphs(graph) for node in g.nodes)


def _typed_constants(graph: OnnxGraph) -> list[OnnxValue]:
    return [OnnxValue(name, dtype_of_array(array), array.shape) for name, array in graph.initializers.items()]


def _without_untyped(graph: OnnxGraph, typed: Set[str]) -> OnnxGraph:
    """The graph without `UNTYPED_ENDS` nodes that read what has no type, in nested graphs too."""
    nodes = []
    for node in graph.nodes:
        if (node.domain, node.op_type) in UNTYPED_ENDS and not typed >= set(filter(None, node.inputs)):
            continue
        nested = {k: _without_untyped(v, typed) for k, v in node.attrs.items() if isinstance(v, OnnxGraph)}
        nodes.append(dataclasses.replace(node, attrs={**node.attrs, **nested}) if nested else node)
    return dataclasses.replace(graph, nodes=nodes)


def _skeleton(graph: OnnxGraph) -> OnnxGraph:
    """The graph with large constants as typed inputs, so that weights are not copied; outputs untyped."""
    large = {name: array for name, array in graph.initializers.items() if array.size > _SMALL}
    return dataclasses.replace(
        graph,
        inputs=[*graph.inputs, *(OnnxValue(k, dtype_of_array(a), a.shape) for k, a in large.items())],
        outputs=[OnnxValue(value.name, "unknown") for value in graph.outputs],
        initializers={name: array for name, array in graph.initializers.items() if name not in large},
        nodes=[_tensors_alone(node) for node in graph.nodes],
    )


def _tensors_alone(node: OnnxNode) -> OnnxNode:
    """The node with sequences and the like untyped in nested graphs: their types cannot be written."""
    nested = {k: _without_others(v) for k, v in node.attrs.items() if isinstance(v, OnnxGraph)}
    return dataclasses.replace(node, attrs={**node.attrs, **nested}) if nested else node


def _without_others(graph: OnnxGraph) -> OnnxGraph:
    def tensor(value: OnnxValue) -> OnnxValue:
        return OnnxValue(value.name, "unknown") if value.dtype in _OTHERS else value

    return dataclasses.replace(
        graph,
        inputs=[tensor(v) for v in graph.inputs],
        outputs=[tensor(v) for v in graph.outputs],
        value_info={name: tensor(v) for name, v in graph.value_info.items()},
        nodes=[_tensors_alone(node) for node in graph.nodes],
    )


def _with_info(graph: OnnxGraph, found: dict[str, OnnxValue]) -> OnnxGraph:
    names = [name for node in graph.nodes for name in node.outputs if name]
    nodes: list[OnnxNode] = []
    for node in graph.nodes:
        nested = {k: _with_info(v, found) for k, v in node.attrs.items() if isinstance(v, OnnxGraph)}
        nodes.append(dataclasses.replace(node, attrs={**node.attrs, **nested}) if nested else node)
    info = {name: found[name] for name in names if name in found}
    return dataclasses.replace(graph, nodes=nodes, value_info=info)
