"""Put graphs in order: constants lifted, names unique, values defined once and before use, no dead nodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from mccompile.importer.rewriting import used_names
from mccompile.ir.errors import CompileError
from mccompile.ir.names import free_name
from mccompile.ir.order import in_order
from mccompile.onnxio import AttrValue, OnnxGraph, OnnxNode, OnnxValue, node_label, subgraphs

_CONSTANT_TYPES = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}


def map_subgraphs(node: OnnxNode, new: Mapping[int, OnnxGraph]) -> OnnxNode:
    """The node with nested graphs exchanged; `new` is keyed by the identity of the old ones."""

    def change(value: AttrValue) -> AttrValue:
        if isinstance(value, OnnxGraph):
            return new[id(value)]
        if isinstance(value, tuple) and value and isinstance(value[0], OnnxGraph):
            return tuple(new[id(item)] for item in value if isinstance(item, OnnxGraph))
        return value

    return dataclasses.replace(node, attrs={name: change(value) for name, value in node.attrs.items()})


def lift_constants(graph: OnnxGraph) -> OnnxGraph:
    """The graph, nested graphs included, with Constant nodes turned into initializers."""
    initializers = dict(graph.initializers)
    nodes: list[OnnxNode] = []
    for node in graph.nodes:
        if node.op_type != "Constant" or node.domain:
            inner = {id(nested): lift_constants(nested) for nested in subgraphs(node)}
            nodes.append(map_subgraphs(node, inner) if inner else node)
            continue
        if not any(node.outputs):
            continue  # nobody can read it, and '' is what no operand is called
        if node.outputs[0] in initializers:
            raise CompileError(f"value '{node.outputs[0]}' is defined twice", where=node_label(node))
        initializers[node.outputs[0]] = constant_value(node)
    return dataclasses.replace(graph, nodes=nodes, initializers=initializers)


def constant_value(node: OnnxNode) -> np.ndarray:
    """The array of a Constant node, whichever of its attributes holds it."""
    if len(node.attrs) != 1 or len(node.outputs) != 1:
        raise CompileError("Constant needs exactly one attribute and one output", where=node_label(node))
    ((name, value),) = node.attrs.items()
    if isinstance(value, np.ndarray):
        return value
    if name in _CONSTANT_TYPES:
        return np.array(value, dtype=_CONSTANT_TYPES[name])
    if name in ("value_string", "value_strings"):
        return np.array(value, dtype=object)
    raise CompileError(f"Constant with attribute '{name}' is not supported", where=node_label(node))


def name_nodes(graph: OnnxGraph, taken: set[str] | None = None) -> OnnxGraph:
    """The graph with a unique name for every node, nested graphs included; unique names stay."""
    taken = set() if taken is None else taken
    nodes: list[OnnxNode] = []
    for node in graph.nodes:
        name = node.name
        if not name or name in taken:
            name = free_name(f"{node.op_type}_{node.index}", taken)
        taken.add(name)
        inner = {id(nested): name_nodes(nested, taken) for nested in subgraphs(node)}
        nodes.append(dataclasses.replace(map_subgraphs(node, inner) if inner else node, name=name))
    return dataclasses.replace(graph, nodes=nodes)


def unique_inner_values(graph: OnnxGraph, absent: Sequence[str] = ()) -> OnnxGraph:
    """The graph with values of nested graphs renamed where their names occur in another graph, too. Inputs that are
    ``absent`` are so wherever they are read."""
    taken = set(_definitions(graph))
    nodes = [_unique_in_node(node, dict.fromkeys(absent, ""), taken) for node in graph.nodes]
    return dataclasses.replace(graph, nodes=nodes)


def _unique_in_node(node: OnnxNode, renamed: Mapping[str, str], taken: set[str]) -> OnnxNode:
    inner = {id(nested): _unique_in_graph(nested, renamed, taken) for nested in subgraphs(node)}
    if inner:
        node = map_subgraphs(node, inner)
    return dataclasses.replace(
        node,
        inputs=tuple(renamed.get(name, name) for name in node.inputs),
        outputs=tuple(renamed.get(name, name) for name in node.outputs),
    )


def _unique_in_graph(graph: OnnxGraph, outer: Mapping[str, str], taken: set[str]) -> OnnxGraph:
    renamed = dict(outer)
    for name in _definitions(graph):
        new = free_name(name, taken, "__")
        taken.add(new)
        renamed[name] = new

    def rename(value: OnnxValue) -> OnnxValue:
        return dataclasses.replace(value, name=renamed.get(value.name, value.name))

    return OnnxGraph(
        name=graph.name,
        inputs=[rename(value) for value in graph.inputs],
        outputs=[rename(value) for value in graph.outputs],
        nodes=[_unique_in_node(node, renamed, taken) for node in graph.nodes],
        initializers={renamed[name]: array for name, array in graph.initializers.items()},
        value_info={renamed.get(n, n): rename(value) for n, value in graph.value_info.items()},
    )


def _definitions(graph: OnnxGraph) -> list[str]:
    """Names that a graph defines; `CompileError` if one is defined twice."""
    found: dict[str, str] = {}

    def define(name: str, by: str) -> None:
        if name in found:
            raise CompileError(f"value '{name}' is defined twice: by {found[name]} and by {by}")
        found[name] = by

    for value in graph.inputs:
        define(value.name, "a graph input")
    for name in graph.initializers:
        define(name, "a constant")
    for node in graph.nodes:
        for name in node.outputs:
            if name:
                define(name, node_label(node))
    return list(found)


def sort_graph(graph: OnnxGraph, outer: frozenset[str] = frozenset()) -> OnnxGraph:
    """The graph, nested graphs included, in topological order; file order is kept where it is legal.

    Raises:
        CompileError: a value that is used but not defined, or a cycle, with the nodes on it.
    """
    defined = outer | frozenset(_definitions(graph))
    producer = {name: i for i, node in enumerate(graph.nodes) for name in node.outputs if name}
    needs: list[set[int]] = []
    for node in graph.nodes:
        reads = {name for name in node.inputs if name}
        for nested in subgraphs(node):
            reads |= free_names(nested)
        unknown = sorted(reads - defined)
        if unknown:
            raise CompileError(f"value '{unknown[0]}' is used but not defined", where=node_label(node))
        needs.append({producer[name] for name in reads if name in producer})
    for output in graph.outputs:
        if output.name not in defined:
            raise CompileError(f"graph output '{output.name}' is not defined", where=f"graph '{graph.name}'")
    nodes = [graph.nodes[i] for i in _order(graph.nodes, needs)]
    sorted_nodes: list[OnnxNode] = []
    for node in nodes:
        inner = {id(nested): sort_graph(nested, defined) for nested in subgraphs(node)}
        sorted_nodes.append(map_subgraphs(node, inner) if inner else node)
    return dataclasses.replace(graph, nodes=sorted_nodes)


def free_names(graph: OnnxGraph) -> set[str]:
    """Names that a graph reads but does not define: what it captures from outer graphs."""
    defined = {value.name for value in graph.inputs} | set(graph.initializers)
    defined.update(name for node in graph.nodes for name in node.outputs)
    reads = {value.name for value in graph.outputs}
    for node in graph.nodes:
        reads.update(node.inputs)
        for nested in subgraphs(node):
            reads |= free_names(nested)
    return reads - defined - {""}


def _order(nodes: list[OnnxNode], needs: list[set[int]]) -> list[int]:
    order = in_order(needs)
    if len(order) < len(nodes):
        raise CompileError(
            "the graph has a cycle: " + _cycle(nodes, needs, set(range(len(nodes))) - set(order))
        )
    return order


def _cycle(nodes: list[OnnxNode], needs: list[set[int]], stuck: set[int]) -> str:
    """The nodes of one cycle, in the order in which data goes round."""
    at = min(stuck)
    seen: dict[int, int] = {}
    path: list[int] = []
    while at not in seen:
        seen[at] = len(path)
        path.append(at)
        at = min(needs[at] & stuck)
    loop = path[seen[at] :][::-1]
    shown = [node_label(nodes[i]) for i in loop[:8]]
    more = f" -> ... ({len(loop)} nodes)" if len(loop) > 8 else ""
    return " -> ".join(shown) + more


def remove_dead(graph: OnnxGraph) -> OnnxGraph:
    """The graph, nested graphs included, without nodes and constants that nothing needs."""
    needed = {value.name for value in graph.outputs}
    kept: list[OnnxNode] = []
    for node in reversed(graph.nodes):
        if not needed.intersection(name for name in node.outputs if name):
            continue
        inner = {id(nested): remove_dead(nested) for nested in subgraphs(node)}
        node = map_subgraphs(node, inner) if inner else node
        kept.append(node)
        needed.update(node.inputs)
        for nested in subgraphs(node):
            needed |= used_names(nested)
    return dataclasses.replace(
        graph,
        nodes=kept[::-1],
        initializers={name: array for name, array in graph.initializers.items() if name in needed},
        value_info={name: value for name, value in graph.value_info.items() if name in needed},
    )
