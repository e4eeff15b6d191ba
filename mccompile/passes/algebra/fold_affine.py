"""Folds per-channel scales and shifts (BatchNormalization) into the weights of what they follow."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.scalar import Array
from mccompile.ir.types import DType
from mccompile.passes.analysis.absorption import ROUNDED, absorbs
from mccompile.passes.analysis.analyses import Analyses
from mccompile.passes.analysis.contraction import contraction
from mccompile.passes.analysis.steps import Steps, has_to_be_exact, stepped
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.rewriter import Rewriter

ROUNDS = True


@dataclass(frozen=True)
class Affine:
    """value * scale + shift in float64, both constants that broadcast to the value; None: absent."""

    scale: Array | None = None
    shift: Array | None = None


def run(graph: Graph, remarks: Remarks, whole: Graph, analyses: Analyses) -> int:
    """Fold x * s + b after a convolution or matrix product into its weights and bias.

    Not exact: products and sums of constants are rounded once more, which moves results by an ulp or two. Sums of
    whole numbers, which are exact, stay so where a step depends on them: floor((4 + 5) / 9) is 1.
    """
    r = Rewriter(graph)
    if not any(_affine_behind_product(r, node) for node in graph.nodes):
        return 0  # where steps are takes longer to find
    steps = analyses.of_whole(whole, stepped)
    changes = sum(_fold(r, node, steps, remarks) for node in r.nodes())
    r.finish()
    return changes


def _affine_behind_product(r: Rewriter, node: Node) -> tuple[Node, Affine] | None:
    """The product whose result a map reads, and the scale and shift that it does to that."""
    if node.op.elementwise is None or node.post or node.pre:
        return None
    variable = [v for v in dict.fromkeys(node.operands) if v is not None and v not in r.graph.constants]
    producer = r.producer(variable[0]) if len(variable) == 1 else None
    if producer is None or producer.op.multilinear[:2] != (0, 1):
        return None
    affine = affine_map(r.graph, node, variable[0])
    return None if affine is None else (producer, affine)


@np.errstate(over="ignore", invalid="ignore")  # what is not finite is refused
def _fold(r: Rewriter, node: Node, steps: Steps, remarks: Remarks) -> int:
    found = _affine_behind_product(r, node)
    if found is None:
        return 0
    producer, affine = found
    what = f"folded {node.where} into the weights of {producer.where}"
    reason = _obstacle(r, node, producer, affine)
    if reason:
        remarks.miss(what, reason)
        return 0
    weights = _scaled_weights(r.graph, producer, affine.scale)
    bias = _moved_bias(r.graph, producer, affine)
    if isinstance(bias, str):
        remarks.miss(what, bias)
        return 0
    reason = unfit(producer.result.dtype, weights, bias)
    if reason:
        remarks.miss(what, reason)
        return 0
    if has_to_be_exact(node, steps) and loses_whole_numbers(r.graph, producer, weights):
        remarks.miss(what, "sums of whole numbers would be rounded before a step")
        return 0
    _rewrite(r, producer, affine, weights, bias)
    r.take_over(producer, node)
    remarks.hit(what)
    return 1


def _obstacle_of_value(r: Rewriter, node: Node, producer: Node) -> str:
    value = producer.result
    if not r.is_private(value):
        return "its result is needed elsewhere"
    if value.shape != node.result.shape or value.type.layout != node.result.type.layout:
        return "its result is broadcast"
    if value.dtype != node.result.dtype or value.dtype.kind != "f" or value.dtype.name == "f16":
        return f"{value.dtype} to {node.result.dtype} would be rounded in another way"
    if producer.pre or not is_bias(producer.post.get(0)):
        return "it has another epilogue already"
    return ""


def _obstacle(r: Rewriter, node: Node, producer: Node, affine: Affine) -> str:
    reason, weights = _obstacle_of_value(r, node, producer), producer.operands[1]
    if reason or affine.scale is None:
        return reason
    if weights is None or weights not in r.graph.constants:
        return "its weights are no constant"
    if not all(u is producer or _is_scaled_alike(r, u, affine.scale) for u in r.users(weights)):
        return "its weights are shared with another node"
    if _per_weight(producer, affine.scale) is None:
        return "the scale does not vary by output channel alone"
    return ""


def _is_scaled_alike(r: Rewriter, other: Node, scale: Array) -> bool:
    """True if another node that reads the weights will be scaled alike: both read the same new weights then."""
    users = r.users(other.result) if len(other.results) == 1 else []
    if len(users) != 1 or users[0].op.elementwise is None or other.operands[0] is other.operands[-1]:
        return False
    (node,) = users
    variable = [v for v in dict.fromkeys(node.operands) if v is not None and v not in r.graph.constants]
    if variable != [other.result] or node.pre or node.post:
        return False
    own = affine_map(r.graph, node, other.result)
    if own is None or own.scale is None or not np.array_equal(own.scale, scale):
        return False
    return not _obstacle_of_value(r, node, other)


def is_bias(body: ex.Expr | None) -> bool:
    """True for no epilogue, for ``acc + x0``, and for ``acc + number``, as a bias of one value is written."""
    return body is None or _bias_term(body) is not None


def _bias_term(body: ex.Expr | None) -> ex.Var | ex.Num | None:
    match body:
        case ex.Apply(fn="add", operands=(ex.Var(index=ex.ACC), (ex.Var(index=0) | ex.Num()) as term)):
            return term
        case ex.Apply(fn="add", operands=((ex.Var(index=0) | ex.Num()) as term, ex.Var(index=ex.ACC))):
            return term
    return None


def constant_bias(graph: Graph, node: Node) -> Array | None:
    """The bias of a node whose epilogue is a bias and no more, float64; None if there is none, or it is computed."""
    term = _bias_term(node.post.get(0))
    if isinstance(term, ex.Num):
        return np.asarray(term.value, dtype=np.float64)
    return graph.array(node.extras[0]).astype(np.float64) if term and node.extras[0] in graph.constants else None


# -- what a map does to its variable operand ---------------------------------------------------------------
def affine_map(graph: Graph, node: Node, value: Value) -> Affine | None:
    """The scale and shift of a map that does nothing else to ``value``."""
    assert node.op.elementwise is not None
    if not value.dtype.is_float:
        return None

    def leaf(index: int) -> Affine:
        operand = node.operands[index]
        assert operand is not None
        if operand is value:
            return Affine(np.ones(()))
        return Affine(None, graph.array(operand).astype(np.float64))

    with np.errstate(all="ignore"):
        found = _affine(node.op.elementwise, leaf)
    if found is None or (found.scale is None and found.shift is None):
        return None
    unscaled = found.scale is not None and bool(np.all(found.scale == 1))
    return Affine(None if unscaled else found.scale, found.shift)


def _affine(e: ex.Expr, leaf: Callable[[int], Affine]) -> Affine | None:
    """An expression as scale * value + shift; a constant has no scale. None if it is anything else."""
    match e:
        case ex.Var(index=index):
            return leaf(index)
        case ex.Num() if e.dtype.is_float:
            return Affine(None, np.asarray(e.value, dtype=np.float64))
        case ex.Apply(fn=("add" | "sub" | "mul" | "div") as fn, operands=(left, right)):
            a, b = _affine(left, leaf), _affine(right, leaf)
            return None if a is None or b is None else _combine(fn, a, b)
    return None


def _combine(fn: str, a: Affine, b: Affine) -> Affine | None:
    if fn in ("add", "sub"):
        if absorbs(a.shift, b.shift):
            return None
        return Affine(_sum(fn, a.scale, b.scale), _sum(fn, a.shift, b.shift))
    if fn == "mul" and a.scale is None:
        a, b = b, a
    if b.scale is not None or b.shift is None:
        return None
    factor = b.shift if fn == "mul" else 1 / b.shift
    scaled = [None if part is None else part * factor for part in (a.scale, a.shift)]
    return Affine(scaled[0], scaled[1])


def _sum(fn: str, a: Array | None, b: Array | None) -> Array | None:
    if b is None:
        return a
    signed = -b if fn == "sub" else b
    return signed if a is None else a + signed


# -- what becomes of the weights ---------------------------------------------------------------------------
def _per_weight(producer: Node, scale: Array) -> Array | None:
    """What multiplies the weights; None if the scale varies along another axis than that of the output channels."""
    found = contraction(producer)
    return None if found is None else found.result.factor(scale)


def _scaled_weights(graph: Graph, producer: Node, scale: Array | None) -> Array | None:
    """The new weights, float64; None if they stay."""
    weights = producer.operands[1]
    if scale is None or weights is None:
        return None
    factor = _per_weight(producer, scale)
    assert factor is not None
    return np.asarray(graph.array(weights).astype(np.float64) * factor)


def loses_whole_numbers(graph: Graph, producer: Node, weights: Array | None) -> bool:
    """Whether weights that are whole numbers would be replaced by others."""
    old = producer.operands[1]
    if weights is None or old is None or not _is_whole(graph.array(old)):
        return False
    return not _is_whole(rounded(weights, old.dtype))


def _is_whole(a: Array) -> bool:
    return bool(np.all(a == np.rint(a)))


def _moved_bias(graph: Graph, producer: Node, affine: Affine) -> Array | str | None:
    """The new bias where it is a constant, float64; None if there is none, or it is computed at run time; or why it
    cannot be moved."""
    total = affine.shift
    if producer.post:
        bias = constant_bias(graph, producer)
        if bias is None:
            return None
        scaled = bias * (1 if affine.scale is None else affine.scale)
        if absorbs(scaled, total):
            return ROUNDED
        total = scaled if total is None else scaled + total
    return total


def unfit(dtype: DType, weights: Array | None, bias: Array | None) -> str:
    """Why weights and a bias that were made of constants cannot take the place of these in ``dtype``; "" if they can.

    None may be infinite. Where all weights are below the normal numbers of f32, products with large elements would
    lose bits; some may be, as dead channels have them.

    >>> from mccompile.ir.types import F32
    >>> unfit(F32, np.array([1.0, 1e39]), None)
    'a weight or bias would not be finite'
    >>> unfit(F32, np.array([0.0, 1e-40]), None), unfit(F32, np.array([1.0, 1e-40]), np.array([1e-40]))
    ('all weights would be below the normal numbers', '')
    """
    if not all(a is None or np.isfinite(rounded(a, dtype)).all() for a in (weights, bias)):
        return "a weight or bias would not be finite"
    largest = 0.0 if weights is None else float(np.abs(weights).max(initial=0))
    return "all weights would be below the normal numbers" if 0 < largest < np.finfo(np.float32).tiny else ""


def rounded(a: Array, dtype: DType) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(a).astype(dtype.numpy)


def _rewrite(r: Rewriter, producer: Node, affine: Affine, weights: Array | None, bias: Array | None) -> None:
    """Scaled weights; the bias becomes bias * scale + shift."""
    old = producer.operands[1]
    assert old is not None
    graph, dtype = r.graph, producer.result.dtype
    operands = list(producer.operands)
    if weights is not None:
        operands[1] = graph.constant(f"{old.name}.scaled", rounded(weights, old.dtype))
    extras: list[Value] = []
    body: ex.Expr = ex.acc(dtype)

    def read(value: Value) -> ex.Expr:
        extras.append(value)
        return ex.var(len(extras) - 1, dtype)

    if bias is not None:
        if bias.any():
            body = ex.apply("add", body, read(graph.constant(f"{old.name}.bias", rounded(bias, dtype))))
    elif producer.post:
        term = read(producer.extras[0])
        if affine.scale is not None:
            scale = graph.constant(f"{old.name}.scale", rounded(affine.scale, dtype))
            term = ex.apply("mul", term, read(scale))
        body = ex.apply("add", body, term)
        if affine.shift is not None:
            shift = graph.constant(f"{old.name}.shift", rounded(affine.shift, dtype))
            body = ex.apply("add", body, read(shift))
    producer.post = {} if isinstance(body, ex.Var) else {0: body}
    r.rewire(producer, operands, extras)
