"""Turns sums and means of dequantised elements into sums of integers, which are scaled once, at the end.

Worked example: the mean of 4 elements (q - 3) * 0.5 is the sum of (q - 3), times 0.125::

    %x = map(%q) {expr={(f32((i32(x0) - i32(3))) * 0.5)}}
    %y = pool(%x) {mode='average', kernel=(2, 2), ...} : f32
    %y = pool(%q) {mode='sum', kernel=(2, 2), ...} pre0{ (i32(acc) - i32(3)) } post0{ (f32(acc) * 0.125) } : f32
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node
from mccompile.ir.op import Op
from mccompile.ir.scalar import Array
from mccompile.ir.types import F32, I32
from mccompile.ops.pool import Pool
from mccompile.ops.reduce import Reduce
from mccompile.passes.analysis.quantised import Quantised, quantised
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.rewriter import Rewriter

ROUNDS = True
"""A sum of integers is exact; the sum of floats that it replaces is not."""


def run(graph: Graph, remarks: Remarks) -> int:
    """Sum the integers of dequantised elements, in windows or along axes. Changes rounding only."""
    r = Rewriter(graph)
    changes = 0
    for node in r.nodes():
        x = node.operands[0] if node.operands else None
        if x is None or node.pre or not _sums(node.op) or node.result.dtype != F32:
            continue
        q = quantised(graph, r.producer(x))
        if q is None:
            continue
        what = f"made {node.where} a sum of integers"
        reason = _obstacle(node, q)
        if reason:
            remarks.miss(what, reason)
            continue
        _rewrite(r, node, q)
        remarks.hit(what)
        changes += 1
    r.finish()
    return changes


def _sums(op: Op) -> bool:
    return (isinstance(op, Pool) and op.mode in ("sum", "average")) or (isinstance(op, Reduce) and op.mode == "sum")


def _obstacle(node: Node, q: Quantised) -> str:
    if q.scale.size != 1 or q.zero.size != 1:
        return "its scale varies"
    if q.integers.dtype.nbytes > 2:
        return "integers of more than 16 bits would overflow"
    info = np.iinfo(q.integers.dtype.numpy.name)
    zero = int(q.zero.reshape(-1)[0])
    if _count(node) * max(info.max - zero, zero - info.min) >= 2**31:
        return "the sum would not fit 32 bits"
    return ""


def _count(node: Node) -> int:
    x = node.operands[0]
    assert x is not None
    return math.prod(node.op.kernel) if isinstance(node.op, Pool) else x.type.count // node.result.type.count


def _rewrite(r: Rewriter, node: Node, q: Quantised) -> None:
    factor = q.scale.reshape(())
    if isinstance(node.op, Pool) and node.op.mode == "average":
        average = node.op
        node.op = replace(average, mode="sum", count_pad=False)
        factor = (factor * _weights(average, q)).astype(np.float32)
    extras = list(node.extras)
    if factor.ndim:
        extras.append(r.graph.constant(f"{node.result.name}.scale", factor))
        scale: ex.Expr = ex.var(len(extras) - 1, F32)
    else:
        scale = ex.num(factor.item(), F32)
    scaled = ex.apply("mul", ex.convert(ex.acc(I32), F32), scale)
    post = node.post.get(0, ex.acc(F32))
    node.post = {0: ex.substitute(post, lambda v: scaled if v.index == ex.ACC else v)}
    whole = ex.convert(ex.acc(q.integers.dtype), I32)
    zero = int(q.zero.reshape(-1)[0])
    node.pre = {0: ex.apply("sub", whole, ex.num(zero, I32)) if zero else whole}
    r.rewire(node, [q.integers], extras)


def _weights(op: Pool, q: Quantised) -> Array:
    """One over the number of elements that an average counts: a number, or one of each window where they differ."""
    ones = np.ones((1, 1, *q.integers.shape[2:]), np.float64)
    (mean,), (total,) = op.evaluate(ones), replace(op, mode="sum", count_pad=False).evaluate(ones)
    weights = (mean / total).astype(np.float32)
    return weights.reshape(-1)[:1].reshape(()) if np.unique(weights).size == 1 else weights

