"""Operators on tensors of no elements that have results all the same: sums of nothing are 0.

    [2,0] x [0,3] + C      is      0 + C
"""

from __future__ import annotations

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Graph, Node
from mccompile.ops.map import Map


def without_empty_operands(graph: Graph) -> None:
    """Let no node with results read a tensor of no elements.

    CompileError naming every node whose results are more than sums of its elements.
    """
    errors = []
    for node in graph.nodes:
        empty = [i for i, v in enumerate(node.operands) if v is not None and v.type.count == 0]
        if not empty or all(r.type.count == 0 for r in node.results):
            continue
        if set(empty) & set(node.op.multilinear) and len(node.results) == 1 and not node.result.type.varies:
            _sum_nothing(graph, node)
        else:
            errors.append(f"{node.where} reads a tensor of no elements")
    if errors:
        raise CompileError("; ".join(errors), hint="compile the model for extents of at least 1")


def _sum_nothing(graph: Graph, node: Node) -> None:
    """Make of a node the map of its epilogue, applied to zeros; what only a prologue read is read no more."""
    result = node.result
    body = node.post.get(0, ex.acc(result.dtype.compute))
    sums = (e.dtype for e in ex.distinct(body) if isinstance(e, ex.Var) and e.index == ex.ACC)
    kind = next(sums, result.dtype.compute)
    zeros = graph.constant(f"{result.name}.nothing", np.zeros(result.shape, kind.numpy))
    read = sorted(ex.variables(body) - {ex.ACC})
    places = {ex.ACC: 0, **{index: 1 + i for i, index in enumerate(read)}}
    node.op = Map(
        ex.substitute(body, lambda v: ex.var(places[v.index], v.dtype)),
        result.dtype.name if result.dtype.compute != result.dtype else "",
    )
    node.operands, node.extras, node.pre, node.post = [zeros, *(node.extras[i] for i in read)], [], {}, {}
