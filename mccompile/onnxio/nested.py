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


def inner_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Nodes, and those of all graphs inside of them."""
    for node in nodes:
        yield node
        for inner in inner_graphs(node):
            yield from all_nodes(inner)
