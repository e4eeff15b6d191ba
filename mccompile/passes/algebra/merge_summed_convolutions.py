"""Makes one convolution of two that read the same value and whose results are added (RepVGG's branches)."""

from __future__ import annotations

import math

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node
from mccompile.ir.scalar import Array
from mccompile.ir.types import F16
from mccompile.ops.conv import Conv
from mccompile.passes.algebra.enlarge_windows import added, window_inside
from mccompile.passes.algebra.fold_affine import rounded, unfit
from mccompile.passes.analysis.absorption import ROUNDED, absorbs
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.rewriter import Rewriter

ROUNDS = True


@dataclass(frozen=True)
class _Branch:
    """A convolution with its weights and its bias, which broadcasts to the result (None: it has none)."""

    node: Node
    op: Conv
    weights: Array
    bias: Array | None

    @property
    def kernel(self) -> tuple[int, ...]:
        return tuple(self.weights.shape[2:])


def run(graph: Graph, remarks: Remarks) -> int:
    """Add the weights of convolutions whose results are added; a smaller window is enlarged by zeros into the other.

    May change rounding: sums of weights are rounded.
    """
    r = Rewriter(graph)
    changes = sum(_merge(r, node, remarks) for node in r.nodes() if node.op.elementwise is not None)
    r.finish()
    return changes


def _merge(r: Rewriter, node: Node, remarks: Remarks) -> int:
    makers = [r.producer(v) for v in node.operands]
    pairs = [(m, m.op) for m in makers if m is not None and isinstance(m.op, Conv)]
    convs = [m for m, _ in pairs]
    if len(node.operands) != 2 or len(convs) != 2 or convs[0] is convs[1] or not _is_sum(node):
        return 0
    if convs[0].operands[0] is not convs[1].operands[0]:
        return 0
    what = f"merged {convs[1].where} into {convs[0].where}"
    if any(conv.result.type != node.result.type for conv in convs):
        remarks.miss(what, "one result is broadcast to the other")
        return 0
    if node.result.dtype == F16:
        remarks.miss(what, "sums of weights would be rounded to f16")
        return 0
    branches = [_branch(r, *pair) for pair in pairs]
    big, small = branches
    if big is None or small is None:
        remarks.miss(what, "its result is needed elsewhere, or it has more than constant weights and a bias")
        return 0
    if math.prod(big.kernel) < math.prod(small.kernel):
        big, small = small, big
    weights, bias = _enlarged(big, small), _summed_bias(big, small)
    reason = weights if isinstance(weights, str) else unfit(node.result.dtype, weights, bias)
    if absorbs(big.bias, small.bias):
        reason = ROUNDED
    if reason or isinstance(weights, str):
        remarks.miss(what, reason)
        return 0
    _rewrite(r, big, weights, bias)
    r.erase(small.node)
    r.take_over(big.node, node)
    big.node.origins = tuple(dict.fromkeys(small.node.origins + big.node.origins))
    remarks.hit(what)
    return 1


def _is_sum(node: Node) -> bool:
    assert node.op.elementwise is not None
    e = node.op.elementwise
    plain = isinstance(e, ex.Apply) and e.fn == "add" and all(isinstance(a, ex.Var) for a in e.operands)
    return plain and not node.pre and not node.post and ex.variables(e) == {0, 1}


def _branch(r: Rewriter, node: Node, op: Conv) -> _Branch | None:
    """The convolution as weights and bias; None if it does more, or something else needs its result."""
    weights = r.graph.constants.get(node.operands[1]) if node.operands[1] else None
    if node.pre or not r.is_private(node.result) or not isinstance(weights, np.ndarray):
        return None
    if not node.post:
        return _Branch(node, op, weights, None)
    dtype = node.result.dtype
    bias = r.graph.constants.get(node.extras[0]) if len(node.extras) == 1 else None
    sums = [ex.apply("add", *pair) for pair in _orders(ex.acc(dtype), ex.var(0, dtype))]
    if not isinstance(bias, np.ndarray) or node.post[0] not in sums:
        return None
    return _Branch(node, op, weights, bias)


def _orders(a: ex.Expr, b: ex.Expr) -> tuple[tuple[ex.Expr, ex.Expr], ...]:
    return (a, b), (b, a)


def _enlarged(big: _Branch, small: _Branch) -> Array | str:
    """The sum of the weights, float64, or the reason why there is none."""
    start = window_inside(big.op, big.kernel, small.op, small.kernel)
    return start if isinstance(start, str) else added(big.weights, small.weights, start)


def _summed_bias(big: _Branch, small: _Branch) -> Array | None:
    """The sum of the biases, float64; None if there is none."""
    given = [b.astype(np.float64) for b in (big.bias, small.bias) if b is not None]
    return np.asarray(sum(given[1:], given[0])) if given else None


def _rewrite(r: Rewriter, big: _Branch, weights: Array, bias: Array | None) -> None:
    node, graph = big.node, r.graph
    w, dtype = node.operands[1], node.result.dtype
    assert w is not None
    merged = graph.constant(w.name, rounded(weights, w.dtype))
    extras = []
    if bias is not None:
        extras = [graph.constant(f"{w.name}.bias", rounded(bias, dtype))]
        node.post = {0: ex.apply("add", ex.acc(dtype), ex.var(0, dtype))}
    r.rewire(node, [node.operands[0], merged], extras)
