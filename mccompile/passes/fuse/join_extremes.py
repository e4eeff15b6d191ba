"""Finds the least and the largest elements of a value in one pass over it, where both are asked for.

Worked example: what DynamicQuantizeLinear asks of a tensor before it is rounded. Each element is read once::

    %low = reduce(%x) {mode='min', axes=(0, 1)} post0{ min(acc, 0) }
    %high = reduce(%x) {mode='max', axes=(0, 1)} post0{ max(acc, 0) }

    %low, %high = extremes(%x) {axes=(0, 1)} post0{ min(acc, 0) } post1{ max(acc, 0) }
"""

from __future__ import annotations

from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.op import Op
from mccompile.ir.types import Shape
from mccompile.kernels.extremes import in_vectors
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.rewriter import Rewriter
from mccompile.targets.target import Target


def run(graph: Graph, remarks: Remarks, target: Target) -> int:
    """Join reductions to the least and to the largest elements of one value over the same axes, where a kernel finds
    both as fast as one. Exact."""
    r = Rewriter(graph)
    found: dict[tuple[Value | None, Shape], dict[str, list[Node]]] = {}
    for node in graph.nodes:
        if node.op.picks and not node.pre:
            alike = found.setdefault((node.operands[0], node.results[0].shape), {"least": [], "largest": []})
            alike[node.op.picks].append(node)
    joined = 0
    pairs = [pair for alike in found.values() for pair in zip(*alike.values(), strict=False)]
    for low, high in pairs:
        op = low.op.beside(high.op)
        if op is None:
            continue
        what = f"one pass for {low.where} and {high.where}"
        if low.extras or high.extras:
            remarks.miss(what, "an epilogue reads another value")
        elif target.lanes > 1 and not in_vectors(low.inputs[0], low.result):
            remarks.miss(what, "vectors would not be used")
        else:
            _join(r, op, low, high)
            remarks.hit(what)
            joined += 1
    r.finish()
    return joined


def _join(r: Rewriter, op: Op, low: Node, high: Node) -> None:
    """Let the node of the least elements find the largest ones, too."""
    results = [low.result, high.result]
    low.post = {i: n.post[0] for i, n in enumerate((low, high)) if 0 in n.post}
    low.origins = tuple(dict.fromkeys((*low.origins, *high.origins)))
    low.op = op
    r.erase(high)
    r.set_results(low, results)
