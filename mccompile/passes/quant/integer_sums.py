"""Turns sums and means of dequantised elements into sums of integers, which are scaled once, at the end.

Worked example: the mean of 4 elements (q - 3) * 0.3 is the sum of (q - 3), times 0.075::

    %x = map(%q) {expr={(f32((i32(x0) - i32(3))) * 0.3)}}
    %y = pool(%x) {mode='average', kernel=(2, 2), ...} : f32
    %y = pool(%q) {mode='sum', kernel=(2, 2), ...} pre0{ i32(acc) } post0{ (f32((acc - i32(12))) * 0.075) } : f32

The zero point of all elements is one number, but where windows reach into padding: there each element has its own,
``pre0{ (i32(acc) - i32(3)) }``, as padding has none.
"""

from __future__ import annotations

import math

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.dims import bound, varies
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.op import Op
from mccompile.ir.scalar import Array
from mccompile.ir.structure import bounds
from mccompile.ir.types import F32, I32
from mccompile.passes.analysis.analyses import Analyses
from mccompile.passes.analysis.quantised import Quantised, quantised
from mccompile.passes.analysis.steps import has_to_be_exact, stepped
from mccompile.passes.analysis.sums import terms
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.rewriter import Rewriter
from mccompile.targets.target import Target

ROUNDS = True
"""A sum of integers is exact; the sum of floats that it replaces is not."""


def run(graph: Graph, remarks: Remarks, target: Target, whole: Graph, analyses: Analyses) -> int:
    """Sum the integers of dequantised elements, in windows or along axes. Changes rounding only."""
    r = Rewriter(graph)
    found: list[tuple[Node, Quantised, Op, Array]] = []
    for node in r.nodes():
        x = node.operands[0] if node.operands else None
        summing = None if x is None or node.pre else node.op.as_sum(node.operand_types())
        if x is None or summing is None or node.result.dtype != F32:
            continue
        q = quantised(graph, r.producer(x))
        if q is None:
            continue
        what = f"made {node.where} a sum of integers"
        reason = _obstacle(node, q)
        if reason:
            remarks.miss(what, reason)
            continue
        remarks.hit(what)
        found.append((node, q, *summing))
    if found:  # few networks have any: of others nobody need know the steps
        steps = analyses.of_whole(whole, stepped)
        for node, q, summed, weights in found:
            exact = has_to_be_exact(node, steps)
            scaling = _scaling(q.scale.reshape(()), weights, apart=target.requant == "tflite", exact=exact)
            _rewrite(r, node, q, summed, scaling)
    r.finish()
    return len(found)


def _obstacle(node: Node, q: Quantised) -> str:
    if q.scale.size != 1 or q.zero.size != 1:
        return "its scale varies"
    if q.integers.dtype.nbytes > 2:
        return "integers of more than 16 bits would overflow"
    info = np.iinfo(q.integers.dtype.numpy.name)
    zero = int(q.zero.reshape(-1)[0])
    if bound(terms(node)) * max(info.max - zero, zero - info.min) >= 2**31:
        return "the sum would not fit 32 bits"
    return ""


def _elements(summing: Op, x: Value) -> int:
    """How many elements every sum has; 0 if some may have others, for windows reach into padding, or that is not
    known."""
    nests = summing.structure([x.type])
    places = nests[0].reads[0] if len(nests) == 1 else None
    if places is None or varies(x.shape):
        return 0
    loops = nests[0].loops
    for at, extent in zip(places, x.shape, strict=True):
        if at is None or not 0 <= bounds(at, loops)[0] <= bounds(at, loops)[1] < extent:
            return 0
    return math.prod(loops[k] for k in nests[0].reduced)


def _scaling(scale: Array, weights: Array, apart: bool, exact: bool) -> list[tuple[str, Array]]:
    """What is done to the sums: functions and their second operands. Sums that are exact, of whole numbers times a
    power of two, are divided by how many there are: the mean of equal ones is exact, as that of floats is. So are
    others whose mean has to be as ``exact`` as can be: 49 times 10 tenths, over 49, is 1."""
    power = np.frexp(scale)[0] == 0.5
    if (power or exact) and weights.all() and (weights != 1).any():
        counts = np.rint(1 / weights)
        if np.allclose(counts * weights, 1, rtol=1e-6, atol=0):
            steps = [("div", counts.astype(np.float32)), *([("mul", scale)] if scale != 1 else [])]
            return steps if power else steps[::-1]
    together = (scale * weights).astype(np.float32)
    if apart or np.abs(together).max(initial=0) < np.finfo(np.float32).tiny:  # it would lose bits
        return [("mul", scale), ("mul", weights)]
    return [("mul", together)]


def _rewrite(r: Rewriter, node: Node, q: Quantised, summing: Op, scaling: list[tuple[str, Array]]) -> None:
    node.op = summing
    extras = list(node.extras)
    zero, whole = int(q.zero.reshape(-1)[0]), ex.convert(ex.acc(q.integers.dtype), I32)
    once = zero * _elements(summing, q.integers)
    node.pre = {0: ex.apply("sub", whole, ex.num(zero, I32)) if zero and not once else whole}
    scaled: ex.Expr = ex.convert(ex.apply("sub", ex.acc(I32), ex.num(once, I32)) if once else ex.acc(I32), F32)
    for fn, factor in scaling:
        if factor.ndim:
            extras.append(r.graph.constant(f"{node.result.name}.scale", factor))
            number: ex.Expr = ex.var(len(extras) - 1, F32)
        else:
            number = ex.num(factor.item(), F32)
        scaled = ex.apply(fn, scaled, number)
    post = node.post.get(0, ex.acc(F32))
    node.post = {0: ex.substitute(post, lambda v: scaled if v.index == ex.ACC else v)}
    r.rewire(node, [q.integers], extras)

