"""The nodes of a model as it is in the file, for those who show what became of them: what each is, what it reads.

Worked example: of `Conv -> Relu -> Add(Relu, Conv)` it is

    0 Conv       reads ()       1 Relu       reads (0,)       2 Add       reads (1, 0)

Constants are left out: they are weights to everyone else. Nodes have the names that errors, reports and comments use.
"""

from __future__ import annotations

from mccompile._dataclass import dataclass
from mccompile.importer.scopes import lift_constants, name_nodes
from mccompile.onnxio import OnnxGraph, OnnxNode, subgraphs


@dataclass(frozen=True)
class OutlineNode:
    """A node: its name, its operator (with the domain, if it is not ONNX's own), the nodes whose results it reads."""

    name: str
    op: str
    reads: tuple[int, ...]


@dataclass(frozen=True)
class Outline:
    """``nodes`` in the order of the file; ``values`` are the names of all that inputs and nodes give."""

    nodes: tuple[OutlineNode, ...] = ()
    values: frozenset[str] = frozenset()


def outline(graph: OnnxGraph) -> Outline:
    """The outline of a graph; what is in the bodies of its nodes is not told apart."""
    named = name_nodes(lift_constants(graph))
    maker: dict[str, int] = {name: i for i, node in enumerate(named.nodes) for name in node.outputs if name}
    nodes = []
    for node in named.nodes:
        read = [maker[name] for name in _read(node) if name in maker]
        op = f"{node.domain}:{node.op_type}" if node.domain else node.op_type
        nodes.append(OutlineNode(node.name, op, tuple(dict.fromkeys(read))))
    return Outline(tuple(nodes), frozenset([*maker, *(v.name for v in named.inputs)]))


def _read(node: OnnxNode) -> list[str]:
    """The names that a node reads, and those that the graphs inside of it do."""
    found = list(node.inputs)
    for inner in subgraphs(node):
        for one in inner.nodes:
            found += _read(one)
    return found
