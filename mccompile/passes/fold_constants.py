"""Computes at compile time what depends on constants alone."""

from __future__ import annotations

import numpy as np

from mccompile.ir.graph import Graph, Node
from mccompile.passes.manager import Remarks

MAX_GROWTH_BYTES = 1 << 20
"""A folded result may take this much more room in the blob than the constants it is made of."""


def run(graph: Graph, remarks: Remarks) -> int:
    """Compute nodes whose operands are all constants, unless the result is much larger than they are.

    Exact but for functions of the C library, whose last bit numpy may round another way.
    """
    outputs = set(graph.outputs)
    kept: list[Node] = []
    for node in graph.nodes:
        if not node.inputs or any(v not in graph.constants for v in node.inputs):
            kept.append(node)
            continue
        grown = sum(r.type.nbytes for r in node.results) - sum(v.type.nbytes for v in set(node.inputs))
        if not outputs.isdisjoint(node.results):
            remarks.miss(f"folded {node.where}", "its result is an output")
            kept.append(node)
        elif grown > MAX_GROWTH_BYTES:
            remarks.miss(f"folded {node.where}", f"the blob would grow by {grown} bytes")
            kept.append(node)
        else:
            arrays = node.evaluate({v: graph.array(v) for v in node.inputs})
            for result, array in zip(node.results, arrays, strict=True):
                graph.constants[result] = np.ascontiguousarray(array).reshape(result.shape)
            remarks.hit(f"folded {node.where}")
    changes = len(graph.nodes) - len(kept)
    graph.nodes = kept
    return changes
