"""Computes equal nodes once."""

from __future__ import annotations

from mccompile.ir.graph import Graph, Node, Value
from mccompile.passes.manager import Remarks


def run(graph: Graph, remarks: Remarks) -> int:
    """Compute nodes of equal operator, operands and bodies once; store equal constants once."""
    changes = _merge_constants(graph)
    seen: dict[object, Node] = {}
    for node in list(graph.nodes):
        key = (
            node.op, tuple(node.operands), tuple(node.extras),
            tuple(sorted(node.pre.items())), tuple(sorted(node.post.items())),
            tuple(r.type for r in node.results),
        )  # fmt: skip
        twin = seen.setdefault(key, node)
        if twin is node or any(r in graph.outputs for r in node.results):
            continue
        for old, new in zip(node.results, twin.results, strict=True):
            graph.replace(old, new)
        graph.nodes.remove(node)
        remarks.hit(f"{node.where} is computed by {twin.where}")
        changes += 1
    return changes


def _merge_constants(graph: Graph) -> int:
    seen: dict[object, Value] = {}
    changes = 0
    for value in list(graph.constants):
        data = graph.array(value)
        twin = seen.setdefault((value.type, data.tobytes()), value)
        if twin is not value and value not in graph.outputs:
            graph.replace(value, twin)
            del graph.constants[value]
            changes += 1
    return changes
