"""Graphs inside of graphs, as protobuf has them: the branches of If, the bodies of Loop and Scan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx


def inner_graphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """The graphs that a node has itself."""
    return [attribute.g for attribute in node.attribute if attribute.HasField("g")]


def all_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """A graph and all inside of it."""
    yield graph
    for node in graph.node:
        for inner in inner_graphs(node):
            yield from all_graphs(inner)


def all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a graph and of all inside of it."""
    for each in all_graphs(graph):
        yield from each.node


def value_names(of: onnx.GraphProto | onnx.FunctionProto) -> set[str]:
    """Every name of a value that a graph or a function, or a graph inside of it, defines or reads."""
    names = set() if isinstance(of, onnx.GraphProto) else {*of.input, *of.output}
    graphs = [of] if isinstance(of, onnx.GraphProto) else []
    for node in inner_nodes(of.node):
        names.update(node.input, node.output)
        graphs += inner_graphs(node)
    for graph in graphs:
        names.update(v.name for v in (*graph.input, *graph.output, *graph.initializer, *graph.value_info))
    return names


def inner_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Nodes, and those of all graphs inside of them."""
    for node in nodes:
        yield node
        for inner in inner_graphs(node):
            yield from all_nodes(inner)
