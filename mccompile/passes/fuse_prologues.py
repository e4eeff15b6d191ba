"""Moves a `map` into the prologue of the reduction that reads it."""

from __future__ import annotations

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ops.map import Map
from mccompile.ops.reduce import Reduce
from mccompile.passes.fuse_maps import is_cheap, size
from mccompile.passes.manager import Remarks
from mccompile.passes.rewriter import Rewriter

MAX_SIZE = 8
"""Functions in a prologue: arithmetic that costs less than writing and reading the tensor."""


def run(graph: Graph, remarks: Remarks) -> int:
    """Fuse a map of one operand into the `reduce` that is its only reader: a tensor less in memory. Exact.

    Convolutions, products and pools read their operands several times and are left alone.
    """
    r = Rewriter(graph)
    changes = 0
    for node in r.nodes():
        value = node.operands[0] if isinstance(node.op, Reduce) else None
        producer = r.producer(value)
        if value is None or producer is None or not isinstance(producer.op, Map):
            continue
        what = f"fused {producer.where} into {node.where}"
        reason = _obstacle(r, producer, value)
        if reason:
            remarks.miss(what, reason)
            continue
        before = node.pre.get(0, ex.acc(value.dtype))
        inner = ex.substitute(producer.op.expr, lambda v: ex.acc(v.dtype))
        node.pre[0] = ex.substitute(before, lambda v, inner=inner: inner if v.index == ex.ACC else v)  # type: ignore[misc]
        r.rewire(node, producer.operands[:1])
        node.origins = tuple(dict.fromkeys(producer.origins + node.origins))
        r.erase(producer)
        remarks.hit(what)
        changes += 1
    r.finish()
    return changes


def _obstacle(r: Rewriter, producer: Node, value: Value) -> str:
    assert isinstance(producer.op, Map)
    operand = producer.operands[0]
    if not r.is_private(value):
        return "its result is needed elsewhere"
    if producer.pre or producer.post or len(producer.operands) != 1 or operand is None:
        return "it reads more than one operand"
    if operand.shape != value.shape or operand.type.layout != value.type.layout:
        return "its operand is broadcast"
    if value.dtype.name == "f16":
        return "its result is rounded to f16"
    if size(producer.op.expr) > MAX_SIZE or not is_cheap(producer.op.expr):
        return "it is more than a little arithmetic"
    return ""
