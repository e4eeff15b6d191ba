"""Adds biases that are quantised with the scale of a sum to the sum itself: one whole number more.

Worked example: with sums of scale 0.125 and a bias of 80, -3 times 0.125::

    conv(%q, %w) {...} with(%b) post0{ ((f32(acc) * 0.125) + x0) }       %b = map(%i) {expr={(f32(x0) * 0.125)}}
    conv(%q, %w) {...} with(%i) post0{ (f32((acc + x0)) * 0.125) }       %i = const [80, -3] : i32[2,1,1]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node
from mccompile.ir.types import I32, I64
from mccompile.passes.analysis.quantised import Quantised, quantised
from mccompile.passes.analysis.sums import beside, sum_range
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.rewriter import Rewriter

ROUNDS = True

_ULPS = 2.0**-21
"""How far the scale of a bias may be from that of the sum: both are products of the same two, rounded."""


def run(graph: Graph, remarks: Remarks) -> int:
    """Begin sums of integers with biases that have their scale. Changes rounding only."""
    r = Rewriter(graph)
    changes = 0
    for node in r.nodes():
        body = node.post.get(0)
        if body is None or node.own_types()[0].dtype not in (I32, I64):
            continue
        changes += _start(r, node, body, remarks)
    r.finish()
    return changes


def _start(r: Rewriter, node: Node, body: ex.Expr, remarks: Remarks) -> int:
    """Begin with the first bias that may; the number of changes."""
    (sums,) = node.own_types()
    for part in ex.distinct(body):
        parts = _bias_of(part)
        bias = None if parts is None else quantised(r.graph, r.producer(node.extras[parts[2]]))
        if parts is None or bias is None or bias.integers not in r.graph.constants or bias.zero.any():
            continue
        sum_, factors, extra = parts
        what = f"began the sums of {node.where} with their bias"
        if reason := _obstacle(r.graph, node, bias, factors):
            remarks.miss(what, reason)
            continue
        new, extras = len(node.extras), [*node.extras, bias.integers]
        begun = ex.apply("add", ex.acc(sums.dtype), ex.convert(ex.var(new, I32), sums.dtype))
        node.post[0] = ex.replaced(body, part, ex.replaced(sum_, ex.acc(sums.dtype), begun))
        if extra not in ex.variables(node.post[0]):
            extras[extra] = extras.pop()
            node.post[0] = _renamed(node.post[0], new, extra)
        r.rewire(node, extras=extras)
        remarks.hit(what)
        return 1
    return 0


def _renamed(body: ex.Expr, old: int, new: int) -> ex.Expr:
    return ex.substitute(body, lambda v: ex.var(new, v.dtype) if v.index == old else v)


def _obstacle(graph: Graph, node: Node, bias: Quantised, factors: Sequence[ex.Num | ex.Var]) -> str:
    """Why a sum cannot begin with a bias."""
    if bias.integers.dtype != I32:
        return f"it is {bias.integers.dtype}"
    if any(isinstance(f, ex.Var) and node.extras[f.index] not in graph.constants for f in factors):
        return "a scale is computed"
    own = np.ones(())  # in f64: of denormal numbers, a product of f32 is another than the scale of the sum
    for f in factors:
        factor = np.float32(f.value) if isinstance(f, ex.Num) else graph.array(node.extras[f.index])
        own = own * factor.astype(np.float64)
    given, own = np.broadcast_arrays(bias.scale, own)
    if not np.allclose(given, own, rtol=_ULPS, atol=0):
        return "it has another scale"
    reach = beside(*sum_range(graph, node), bias.integers.shape, node.result.type.rank)
    begins = graph.array(bias.integers).reshape(-1).astype(np.float64)
    fits = (reach.low + begins >= -(2.0**31)) & (reach.high + begins < 2.0**31)
    return "" if fits.all() else "the sum might overflow"


def _bias_of(e: ex.Expr) -> tuple[ex.Expr, list[ex.Num | ex.Var], int] | None:
    """The scaled sum, the factors that scale it, and the extra operand in ``f32(acc) * scale + extra``."""
    if not isinstance(e, ex.Apply) or e.fn != "add":
        return None
    for sum_, bias in (e.operands, e.operands[::-1]):
        factors = _factors(sum_)
        if factors and isinstance(bias, ex.Var) and bias.index != ex.ACC:
            return sum_, factors, bias.index
    return None


def _factors(e: ex.Expr) -> list[ex.Num | ex.Var] | None:
    """What multiplies the sum in ``f32(acc) * scale * scale``; None if an expression is not of that kind."""
    match e:
        case ex.Convert(operand=ex.Var(index=ex.ACC)):
            return []
        case ex.Apply(fn="mul", operands=(inner, (ex.Num() | ex.Var()) as factor)):
            inner_factors = _factors(inner)
            return None if inner_factors is None else [*inner_factors, factor]
    return None
