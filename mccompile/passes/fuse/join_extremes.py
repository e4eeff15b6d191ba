"""Finds the least and the largest elements of a value in one pass over it, where both are asked for.

Worked example: what DynamicQuantizeLinear asks of a tensor before it is rounded. Each element is read once::

    %low = reduce(%x) {mode='min', axes=(0, 1)} post0{ min(acc, 0) }
    %high = reduce(%x) {mode='max', axes=(0, 1)} post0{ max(acc, 0) }

    %low, %high = extremes(%x) {axes=(0, 1)} post0{ min(acc, 0) } post1{ max(acc, 0) }
"""

from __future__ import annotations

from mccompile.ir.graph import Graph, Node, Value
from mccompile.kernels.extremes import in_vectors
from mccompile.ops.extremes import Extremes
from mccompile.ops.reduce import Reduce
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.rewriter import Rewriter
from mccompile.targets.target import Target

_MODES = ("min", "max")


def run(graph: Graph, remarks: Remarks, target: Target) -> int:
    """Join reductions to the least and to the largest elements of one value over the same axes, where a kernel finds
    both as fast as one. Exact."""
    r = Rewriter(graph)
    found: dict[tuple[Value, tuple[int, ...]], dict[str, Node]] = {}
    for node in graph.nodes:
        if isinstance(node.op, Reduce) and node.op.mode in _MODES and not node.pre:
            x = node.operands[0]
            assert x is not None
            found.setdefault((x, node.op.axes), {}).setdefault(node.op.mode, node)
    joined = 0
    for (x, axes), by_mode in found.items():
        if len(by_mode) < len(_MODES):
            continue
        low, high = (by_mode[mode] for mode in _MODES)
        what = f"one pass for {low.where} and {high.where}"
        if low.extras or high.extras:
            remarks.miss(what, "an epilogue reads another value")
        elif target.lanes > 1 and not in_vectors(x, low.result):
            remarks.miss(what, "vectors would not be used")
        else:
            _join(r, axes, low, high)
            remarks.hit(what)
            joined += 1
    r.finish()
    return joined


def _join(r: Rewriter, axes: tuple[int, ...], low: Node, high: Node) -> None:
    """Let the node of the least elements find the largest ones, too."""
    results = [low.result, high.result]
    low.post = {i: n.post[0] for i, n in enumerate((low, high)) if 0 in n.post}
    low.origins = tuple(dict.fromkeys((*low.origins, *high.origins)))
    low.op = Extremes(axes)
    r.erase(high)
    r.set_results(low, results)
