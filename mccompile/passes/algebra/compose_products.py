"""Makes one convolution or matrix product of two with nothing between them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.dims import bound
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.op import TypeRuleError
from mccompile.ir.same_bits import product
from mccompile.ir.scalar import Array
from mccompile.ops.conv import Conv
from mccompile.ops.matmul import MatMul
from mccompile.passes.algebra.fold_affine import constant_bias, is_bias, rounded, unfit
from mccompile.passes.analysis.absorption import FAR, ROUNDED, absorbs, shifted
from mccompile.passes.analysis.contraction import contraction
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.patterns import Any, Fail, Is, Match, Rule, apply_rules

ROUNDS = True


def run(graph: Graph, remarks: Remarks) -> int:
    """Compose a convolution with a 1x1 convolution before or after it, and two matrix products, where MACs fall.

    May change rounding: the products of the weights are rounded, and sums are taken in another order.
    """
    return apply_rules(graph, remarks, RULES)


def _weights(m: Match, node: Node) -> Array | None:
    w = node.operands[1]
    constant = w is not None and w in m.r.graph.constants
    return m.r.graph.array(w).astype(np.float64) if constant and w is not None else None


def _bias(m: Match, node: Node) -> Array | None:
    """The bias as one number per output channel; None if it is none of that kind. Without a bias, zeros."""
    found = contraction(node)
    if found is None:
        return None
    axis = found.result.axis
    channels = node.result.shape[axis]
    if not node.post:
        return np.zeros(channels)
    bias, rank = constant_bias(m.r.graph, node), len(node.result.shape)
    if bias is None:
        return None
    shape = (1,) * (rank - bias.ndim) + bias.shape
    alone = all(e == 1 for a, e in enumerate(shape) if a != axis)
    return np.broadcast_to(bias.reshape(-1), (channels,)) if alone else None


def _check_pair(m: Match) -> Fail | None:
    first, last = m.nodes["first"], m.root
    if first.pre or last.pre or any(v.type.layout is not None for n in (first, last) for v in n.inputs):
        return Fail("there is a prologue or a layout")
    if not is_bias(first.post.get(0)) or not is_bias(last.post.get(0)):
        return Fail("")
    if first.result.dtype.name not in ("f32", "f64") or any(_weights(m, n) is None for n in (first, last)):
        return Fail("the weights are no constants of at least 32 bits")
    inner = _bias(m, first)
    if inner is None or _bias(m, last) is None:
        return Fail("a bias is computed, or does not vary by channel alone")
    weights, found = _weights(m, last), contraction(last)
    assert weights is not None
    assert found is not None
    shift = inner.reshape(-1, *(1,) * (found.operand.rank - 1 - found.operand.axis))
    if shifted(weights, found, shift) > FAR:
        return Fail("the first bias is so large that what it leaves would be rounded")
    if not m.r.is_private(first.result):
        return Fail("the result of the first is needed elsewhere")
    return None


def _pays(m: Match, op: Conv | MatMul, weights: Array, bias: Array) -> Fail | None:
    """Fewer MACs, and the same result as the two have."""
    if reason := unfit(m.root.result.dtype, weights, bias):
        return Fail(reason)
    first, last, x = m.nodes["first"], m.root, m.values["x"]
    w = replace(last.operand_types()[1], shape=weights.shape)  # type: ignore[type-var]
    try:
        (result,) = op.infer(x.type, w)
    except (TypeRuleError, ValueError) as e:
        return Fail(str(e))
    if result != last.result.type:
        return Fail("the windows do not compose")
    before = sum(bound(n.op.macs(n.operand_types(), [n.result.type])) for n in (first, last))
    after = bound(op.macs([x.type, w], [result]))
    return Fail(f"it would take {after} MACs in place of {before}") if after >= before else None


def _install(m: Match, op: Conv | MatMul, weights: Array, bias: Array) -> None:
    graph, node, first = m.r.graph, m.root, m.nodes["first"]
    old, dtype, found = node.operands[1], node.result.dtype, contraction(node)
    assert old is not None
    assert found is not None
    composed = graph.constant(f"{old.name}.composed", rounded(weights, old.dtype))
    extras: list[Value] = []
    node.op, node.post = op, {}
    if np.any(bias != 0):
        shape = (-1, *(1,) * (found.result.rank - 1 - found.result.axis))
        extras = [graph.constant(f"{old.name}.bias", rounded(bias, dtype).reshape(shape))]
        node.post = {0: ex.apply("add", ex.acc(dtype), ex.var(0, dtype))}
    m.r.rewire(node, [m.values["x"], composed], extras)
    node.origins = tuple(dict.fromkeys(first.origins + node.origins))


# -- convolutions --------------------------------------------------------------------------------------------
@np.errstate(over="ignore", invalid="ignore")  # what is not finite is refused
def _composed_conv(m: Match) -> tuple[Conv, Array, Array] | Fail:
    """Operator, weights and bias of both; a Fail if there is none."""
    first, last = m.op(Conv, "first"), m.op(Conv)
    v, w = _weights(m, m.nodes["first"]), _weights(m, m.root)
    assert v is not None
    assert w is not None
    inner, outer = _bias(m, m.nodes["first"]), _bias(m, m.root)
    assert inner is not None
    assert outer is not None
    if first.groups != 1 or last.groups != 1:
        return Fail("")
    moved = product(w.reshape(*w.shape[:2], -1).sum(2), inner[:, None])[:, 0]
    if absorbs(outer, moved):
        return Fail(ROUNDED)
    bias = outer + moved
    if set(w.shape[2:]) == {1}:
        if any(last.pads):
            return Fail("")
        strides = tuple(a * b for a, b in zip(first.strides, last.strides, strict=True))
        return replace(first, strides=strides), np.einsum("om,mc...->oc...", w.reshape(w.shape[:2]), v), bias
    if set(v.shape[2:]) == {1}:
        if any(first.pads) or set(first.strides) != {1}:
            return Fail("the windows do not compose")
        if any(last.pads) and np.any(inner != 0):
            return Fail("zero padding comes between the bias and the second convolution")
        return last, np.einsum("om...,mc->oc...", w, v.reshape(v.shape[:2])), bias
    return Fail("")


def _check_conv(m: Match) -> Fail | None:
    failed = _check_pair(m)
    found = failed or _composed_conv(m)
    return found if isinstance(found, Fail) else _pays(m, *found)


def _rewrite_conv(m: Match) -> None:
    found = _composed_conv(m)
    assert not isinstance(found, Fail)
    _install(m, *found)


# -- matrix products -----------------------------------------------------------------------------------------
@np.errstate(over="ignore", invalid="ignore")
def _composed_matmul(m: Match) -> tuple[MatMul, Array, Array] | Fail:
    """x A + a, times B, plus b, is x (A B) + (a B + b)."""
    first, last = m.op(MatMul, "first"), m.op(MatMul)
    (a, inner), (b, outer) = ((_weights(m, n), _bias(m, n)) for n in (m.nodes["first"], m.root))
    assert a is not None
    assert b is not None
    assert inner is not None
    assert outer is not None
    a, b = (w.T if op.trans_b else w for w, op in ((a, first), (b, last)))
    moved = product(inner[None], b)[0]
    return Fail(ROUNDED) if absorbs(outer, moved) else (MatMul(first.trans_a), product(a, b), moved + outer)


def _check_matmul(m: Match) -> Fail | None:
    first, last = m.nodes["first"], m.root
    if m.op(MatMul).trans_a or any(n.operands[1] is None or len(n.operands[1].shape) != 2 for n in (first, last)):
        return Fail("their operands are not simply rows and matrices")
    failed = _check_pair(m)
    if failed:
        return failed
    found = _composed_matmul(m)
    return found if isinstance(found, Fail) else _pays(m, *found)


def _rewrite_matmul(m: Match) -> None:
    found = _composed_matmul(m)
    assert not isinstance(found, Fail)
    _install(m, *found)


def _pair(op: type[Conv | MatMul]) -> Is:
    first = Is(op, (Any("x"), Any("v")), "first", plain=False)
    return Is(op, (first, Any("w")), "last", plain=False)


RULES = (
    Rule("composed two convolutions", _pair(Conv), _check_conv, _rewrite_conv),
    Rule("composed two products", _pair(MatMul), _check_matmul, _rewrite_matmul),
)
