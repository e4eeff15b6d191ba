"""Makes one convolution of those that read the same value and whose results are added (RepVGG's branches).

Worked example: a block that was trained with branches, as an exporter writes it::

    ((a(x) + r) + b(x)) + (x * s + t)    becomes    c(x) + r

``a`` has a window of 3, ``b`` one of 1: what b multiplies with is added in the middle of a's window, and so is s
where each channel has a filter of its own, or filters have one tap; c has the sum of the biases and t.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.scalar import Array
from mccompile.ir.types import F16, broadcast_shapes
from mccompile.ops.conv import Conv
from mccompile.passes.algebra.enlarge_windows import added, window_inside
from mccompile.passes.algebra.fold_affine import (
    Affine,
    affine_map,
    constant_bias,
    loses_whole_numbers,
    rounded,
    unfit,
)
from mccompile.passes.analysis.absorption import ROUNDED, are_large
from mccompile.passes.analysis.analyses import Analyses
from mccompile.passes.analysis.steps import has_to_be_exact, stepped
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.rewriter import Rewriter

ROUNDS = True

MOST_ADDERS = 8
"""Nodes that a sum is looked at as."""

MORE = "its result is needed elsewhere, or it has more than constant weights and a bias"
OTHERWISE = "filters see more of other channels, or it is not scaled by channel"


@dataclass(frozen=True)
class _Branch:
    """A term of a sum as a convolution, which a node makes (None: it is what convolutions read)."""

    value: Value
    node: Node | None
    op: Conv
    weights: Array
    bias: Array | None
    """It broadcasts to the result; None: there is none."""

    @property
    def kernel(self) -> tuple[int, ...]:
        return tuple(self.weights.shape[2:])


class _Sum:
    """What a node adds up: its operands, or what these add up where nothing else reads them."""

    def __init__(self, r: Rewriter, node: Node, exact: bool) -> None:
        self.r, self.node, self.exact = r, node, exact
        self._adders = [node]
        self.part: dict[Value, Value] = {}
        """Of each term, the operand that it is, or is part of."""
        self.merged: list[Value] = []
        """What several terms have become, in order."""
        self._instead: Value | None = None
        part = {v: v for v in _operands(node)}
        for adder in self._adders:  # which grow meanwhile
            for value in _operands(adder):
                below = r.producer(value)
                if below and len(self._adders) < MOST_ADDERS and r.is_read_once(value) and _is_sum(below):
                    self._adders.append(below)
                    part |= dict.fromkeys(_operands(below), part[value])
                else:
                    self.part.setdefault(value, part[value])

    def adder(self, term: Value) -> Node | None:
        """The node that adds a term; None for one that was dropped."""
        return next((a for a in self._adders if term in a.operands and not self.r.is_erased(a)), None)

    def drop(self, term: Value) -> bool:
        """Leave a term out. False if it alone gives a sum its shape."""
        adder = self.adder(term)
        assert adder is not None
        left = [v for v in _operands(adder) if v is not term]
        if broadcast_shapes(*(v.shape for v in left)) != adder.result.shape:
            return False
        if len(left) == 1:
            if adder is self.node:
                self._instead = left[0]
            return self.r.bypass(adder, left[0])
        body: ex.Expr = ex.var(0, term.dtype)
        for i in range(1, len(left)):
            body = ex.apply("add", body, ex.var(i, term.dtype))
        adder.op = adder.op.with_elementwise(body)
        self.r.rewire(adder, left)
        return True

    def rename(self) -> None:
        """Give what was merged, and sums on the way to the last, names of their own: they are not what the model
        calls so. What stands for the last sum gets its name."""
        results = [a.result for a in self._adders if a is not self.node and not self.r.is_erased(a)]
        for value in dict.fromkeys((*self.merged, *results)):
            maker = self.r.producer(value)
            if maker is None or self.r.is_output(value) or value is self.node.result:
                continue
            stands = value is self._instead
            own = self.node.result if stands else self.r.graph.value(f"{value.name}.merged", value.type)
            self.r.set_results(maker, [own])
            self.r.replace(value, own)


def run(
    graph: Graph,
    remarks: Remarks,
    whole: Graph,
    analyses: Analyses,
    precision: Mapping[str, str],
    weights: Mapping[str, str],
) -> int:
    """Add the weights of convolutions whose results are added; a smaller window is enlarged by zeros into the other.
    Where each channel has a filter of its own, or filters have one tap, what is read goes into the filters, too, if
    it is added to the result; not where weights may be kept in fewer bits, of which it would take the most.

    May change rounding: sums of weights are rounded, and what else is added is so in another order. Sums of whole
    numbers, which are exact, stay so where a step depends on them.
    """
    r = Rewriter(graph)
    if not any(map(_is_sum, graph.nodes)):
        return 0  # where steps are takes longer to find
    steps = analyses.of_whole(whole, stepped)
    of_f32 = {*precision.values(), *weights.values()} <= {"f32"}
    sums = (_Sum(r, node, has_to_be_exact(node, steps)) for node in r.nodes() if _is_sum(node))
    changes = sum(_merge(total, of_f32, remarks) for total in sums)
    r.finish()
    return changes


def _is_sum(node: Node) -> bool:
    """Whether a node adds its operands up, each once, and does nothing else."""
    body, count = node.op.elementwise, len(node.operands)
    if body is None or node.pre or node.post or count < 2 or len(set(node.operands)) < count:
        return False
    return node.result.dtype.is_float and sorted(_summands(body)) == list(range(count))


def _summands(body: ex.Expr) -> Iterator[int]:
    """The variables that an expression adds up; ACC for anything else."""
    parts = [body]
    while parts:
        match parts.pop():
            case ex.Apply(fn="add", operands=(left, right)):
                parts += (left, right)
            case ex.Var(index=index):
                yield index
            case _:
                yield ex.ACC


def _operands(node: Node) -> list[Value]:
    return [v for v in node.operands if v is not None]


def _merge(total: _Sum, of_f32: bool, remarks: Remarks) -> int:
    """Merge convolutions of a sum and, if weights stay ``of_f32``, what they read where that is added as well."""
    r, changes = total.r, 0
    convs: dict[Value, list[Value]] = {}
    for term in total.part:
        if (x := _convolved(r, term)) is not None:
            beside = convs.setdefault(x, [])
            if _merged(total, beside, term, remarks):
                changes += 1
            else:
                beside.append(term)
    for term in total.part if of_f32 and convs else ():
        x = _scaled(r, term) if term not in convs else term
        if x in convs and total.adder(term) is not None:
            changes += _merged(total, convs[x], term, remarks)
    if changes:
        total.rename()
    return changes


def _maker(r: Rewriter, term: Value) -> tuple[Node, Conv] | None:
    """The convolution that makes a term; None if something else does."""
    node = r.producer(term)
    return (node, node.op) if node is not None and isinstance(node.op, Conv) else None


def _convolved(r: Rewriter, term: Value) -> Value | None:
    """What a convolution makes a term of."""
    maker = _maker(r, term)
    return maker[0].operands[0] if maker else None


def _scaled(r: Rewriter, term: Value) -> Value | None:
    """The only operand of the element-wise node that makes a term for a sum alone."""
    node = r.producer(term)
    if node is None or node.op.elementwise is None or not r.is_read_once(term):
        return None
    variable = [v for v in dict.fromkeys(_operands(node)) if v not in r.graph.constants]
    return variable[0] if len(variable) == 1 else None


def _merged(total: _Sum, beside: list[Value], term: Value, remarks: Remarks) -> bool:
    """Whether a term became part of a convolution beside it, or that of the term, which takes its place."""
    for i, other in enumerate(beside):
        if total.part[other] is total.part[term]:
            continue  # it was tried at the sum below
        survivor = _joined(total, other, term, remarks)
        if survivor is not None:
            beside[i] = survivor
            return True
    return False


def _joined(total: _Sum, conv: Value, term: Value, remarks: Remarks) -> Value | None:
    """Of a convolution and another term, the one that both are now; None where they stay two."""
    r, maker = total.r, total.r.producer(conv)
    assert maker is not None
    what = f"merged {_where(r, term)} into {maker.where}"
    if conv.type != total.node.result.type or term.type != conv.type:
        remarks.miss(what, "one result is broadcast to the other")
        return None
    if conv.dtype == F16:
        remarks.miss(what, "sums of weights would be rounded to f16")
        return None
    big, own = _branch(r, conv), _convolved(r, term) is not None
    small = None if big is None else _branch(r, term) if own else _per_channel(r, term, big)
    if big is None or small is None:
        remarks.miss(what, MORE if own or big is None else OTHERWISE)
        return None
    if math.prod(big.kernel) < math.prod(small.kernel):
        big, small = small, big
    start = window_inside(big.op, big.kernel, small.op, small.kernel)
    if isinstance(start, str):
        remarks.miss(what, start)
        return None
    weights, bias = added(big.weights, small.weights, start), _summed_bias(big, small)
    beside = [r.graph.array(v) for v in total.part if v in r.graph.constants]
    reason = ROUNDED if are_large(big.bias, small.bias, *beside) else unfit(conv.dtype, weights, bias)
    assert big.node is not None
    if total.exact and loses_whole_numbers(r.graph, big.node, weights):
        reason = reason or "sums of whole numbers would be rounded before a step"
    if reason:
        remarks.miss(what, reason)
        return None
    adder = total.adder(small.value)
    if adder is None or not total.drop(small.value):
        remarks.miss(what, "it gives a sum its shape")
        return None
    _rewrite(r, big, weights, bias)
    if small.node is not None:
        r.erase(small.node)
    origins = small.node.origins if small.node is not None else ()
    big.node.origins = tuple(dict.fromkeys((*origins, *big.node.origins, *adder.origins)))
    total.merged.append(big.value)
    remarks.hit(what)
    return big.value


def _where(r: Rewriter, term: Value) -> str:
    maker = r.producer(term)
    return maker.where if maker else f"'{term.name}'"


def _branch(r: Rewriter, term: Value) -> _Branch | None:
    """A convolution as weights and bias; None if it does more, or something else needs its result."""
    maker = _maker(r, term)
    assert maker is not None
    node, op = maker
    weights = r.graph.constants.get(node.operands[1]) if node.operands[1] else None
    if node.pre or not r.is_private(term) or not isinstance(weights, np.ndarray):
        return None
    bias = constant_bias(r.graph, node)
    return None if node.post and bias is None else _Branch(term, node, op, weights, bias)


def _per_channel(r: Rewriter, term: Value, big: _Branch) -> _Branch | None:
    """What a convolution reads, or that scaled and shifted, as a convolution of one tap; None where windows of
    several channels are computed otherwise than by taps (Winograd's): errors of a large one are those of all."""
    x, rank, channels = _convolved(r, big.value), len(big.kernel), big.weights.shape[0]
    assert x is not None
    node = None if term is x else r.producer(term)
    affine = Affine() if node is None else None if node.pre or node.post else affine_map(r.graph, node, x)
    seen = big.weights.shape[1]
    if affine is None or (seen > 1 and math.prod(big.kernel) > 1) or x.shape[2:] != term.shape[2:]:
        return None
    scale = np.ones(()) if affine.scale is None else affine.scale
    along = scale.reshape((1,) * (rank + 2 - scale.ndim) + scale.shape)
    if along.size != along.shape[1]:
        return None
    weights = np.zeros((channels, seen, *(1,) * rank))
    weights[np.arange(channels), np.arange(channels) % seen] = along.reshape(-1, *(1,) * rank)
    op = Conv((1,) * rank, (0,) * 2 * rank, (1,) * rank, big.op.groups)
    return _Branch(term, node, op, weights, affine.shift)


def _summed_bias(big: _Branch, small: _Branch) -> Array | None:
    """The sum of the biases, float64; None if there is none."""
    given = [b.astype(np.float64) for b in (big.bias, small.bias) if b is not None]
    return np.asarray(sum(given[1:], given[0])) if any(b.any() for b in given) else None


def _rewrite(r: Rewriter, big: _Branch, weights: Array, bias: Array | None) -> None:
    node, graph = big.node, r.graph
    assert node is not None
    w, dtype = node.operands[1], node.result.dtype
    assert w is not None
    stem = node.result.name  # not that of the weights so far, which grows with each term
    merged = graph.constant(f"{stem}.weights", rounded(weights, w.dtype))
    extras = [] if bias is None else [graph.constant(f"{stem}.bias", rounded(bias, dtype))]
    node.post = {} if bias is None else {0: ex.apply("add", ex.acc(dtype), ex.var(0, dtype))}
    r.rewire(node, [node.operands[0], merged], extras)
