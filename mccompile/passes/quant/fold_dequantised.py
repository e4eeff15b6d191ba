"""Computes at compile time the floats that integers stand for, where nothing took the integers."""

from __future__ import annotations

import numpy as np

from mccompile.ir.graph import Graph
from mccompile.passes.clean.fold_constants import is_dequantised
from mccompile.passes.manager import Remarks


def run(graph: Graph, remarks: Remarks) -> int:
    """Compute the floats that constants of integers stand for: their readers multiply floats. Exact."""
    kept = []
    outputs = set(graph.outputs)
    for node in graph.nodes:
        if any(v not in graph.constants for v in node.inputs) or not is_dequantised(node):
            kept.append(node)
            continue
        if node.result in outputs:
            remarks.miss(f"folded {node.where}", "its result is an output")
            kept.append(node)
            continue
        (array,) = node.evaluate({v: graph.array(v) for v in node.inputs})
        graph.constants[node.result] = np.ascontiguousarray(array).reshape(node.result.shape)
        remarks.hit(f"folded {node.where}: {node.result.type.nbytes} bytes")
    changes = len(graph.nodes) - len(kept)
    graph.nodes = kept
    return changes
