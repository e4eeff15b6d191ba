"""Computes at compile time what depends on constants alone."""

from __future__ import annotations

from collections.abc import Mapping, Set

import numpy as np

from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.limits import exceeds, to_raise
from mccompile.passes.manager import Remarks

MAX_GROWTH_BYTES = 1 << 20
"""The constants of a graph may take this much more room after folding than before."""


def run(graph: Graph, remarks: Remarks) -> int:
    """Compute nodes whose operands are all constants, unless the constants would take much more room then.

    Exact but for functions of the C library, whose last bit numpy may round another way.
    """
    outputs = set(graph.outputs)
    readers = {v: len(nodes) for v, nodes in graph.users().items()}
    kept: list[Node] = []
    grown = 0
    for node in graph.nodes:
        if not node.inputs or node.varies or any(v not in graph.constants for v in node.inputs):
            kept.append(node)
            continue
        if not node.evaluates:
            remarks.miss(f"folded {node.where}", "what it computes is known to C alone")
            kept.append(node)
            continue
        if is_dequantised(node):
            remarks.miss(f"folded {node.where}", "integers that stand for floats are small, and may stay so")
            kept.append(node)
            continue
        steps = sum(node.op.turns_inside() * len(region.nodes) for region in node.regions)
        if exceeds("folded-steps", steps):
            remarks.miss(f"folded {node.where}", f"a loop of {steps:,} steps; {to_raise('folded-steps', steps)}")
            kept.append(node)
            continue
        growth = _growth(node, readers, outputs)
        if not outputs.isdisjoint(node.results):
            remarks.miss(f"folded {node.where}", "its result is an output")
            kept.append(node)
        elif grown + growth > MAX_GROWTH_BYTES:
            remarks.miss(f"folded {node.where}", f"the blob would grow by {grown + growth} bytes")
            kept.append(node)
        else:
            arrays = node.evaluate({v: graph.array(v) for v in node.inputs})
            for result, array in zip(node.results, arrays, strict=True):
                graph.constants[result] = np.ascontiguousarray(array).reshape(result.shape)
            for v in set(node.inputs):
                readers[v] -= 1
            grown += growth
            remarks.hit(f"folded {node.where}")
    changes = len(graph.nodes) - len(kept)
    graph.nodes = kept
    return changes


def is_dequantised(node: Node) -> bool:
    """Whether a node makes floats of as many integers: see `fold-dequantised`."""
    y = node.results[0]
    whole = any(v.dtype.kind in "iu" and v.type.count == y.type.count for v in node.inputs)
    return node.op.elementwise is not None and y.dtype.is_float and y.type.count > 1 and whole


def _growth(node: Node, readers: Mapping[Value, int], outputs: Set[Value]) -> int:
    """Bytes that the results take, less those of the operands that nothing else needs."""
    freed = sum(v.type.nbytes for v in set(node.inputs) if readers[v] == 1 and v not in outputs)
    return sum(r.type.nbytes for r in node.results if r in readers) - freed
