"""Folds per-channel scales and shifts (BatchNormalization) into the weights of what they follow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.scalar import Array
from mccompile.ops.map import Map
from mccompile.passes.manager import Remarks


@dataclass(frozen=True)
class _Affine:
    """result = value * scale + shift, both constants that broadcast to the result; None: absent."""

    scale: Array | None
    shift: Array | None


def run(graph: Graph, remarks: Remarks) -> int:
    """Fold x * s + b after a convolution or matrix product into its weights. Rounding changes by an ulp or two."""
    changes = 0
    for node in list(graph.nodes):
        if isinstance(node.op, Map) and node in graph.nodes:
            changes += _fold(graph, node, remarks)
    return changes


def _fold(graph: Graph, node: Node, remarks: Remarks) -> int:
    users, producers = graph.users(), graph.producers()
    variable = [v for v in node.operands if v not in graph.constants and v is not None]
    producer = producers.get(variable[0]) if len(variable) == 1 else None
    if producer is None or producer.op.name not in ("conv", "conv_transpose", "matmul"):
        return 0
    value = producer.result
    affine = _match(graph, node, value)
    what = f"folded {node.where} into the weights of {producer.where}"
    if affine is None or affine.scale is None or value.dtype.name == "f16":
        return 0
    weights = producer.operands[1]
    if value in graph.outputs or len(users[value]) != 1 or value.shape != node.result.shape:
        remarks.miss(what, "its result is needed elsewhere or is broadcast")
    elif weights is None or weights not in graph.constants:
        remarks.miss(what, "its weights are no constant")
    elif producer.pre or not _is_bias(producer.post.get(0)):
        remarks.miss(what, "it has another epilogue already")
    else:
        scale = _per_weight(producer, affine.scale, graph.array(weights))
        if scale is None:
            remarks.miss(what, "the scale does not vary by output channel alone")
            return 0
        _rewrite(graph, producer, node, affine, graph.array(weights) * scale)
        remarks.hit(what)
        return 1
    return 0


def _is_bias(body: ex.Expr | None) -> bool:
    """True for no epilogue, and for ``acc + x0``."""
    match body:
        case None:
            return True
        case ex.Apply(fn="add", operands=(ex.Var(index=ex.ACC), ex.Var(index=0))):
            return True
    return False


def _match(graph: Graph, node: Node, value: Value) -> _Affine | None:
    """The scale and shift of a map that multiplies ``value`` by a constant, adds one, or both."""
    assert isinstance(node.op, Map)

    def constant(e: ex.Expr) -> Array | None:
        if isinstance(e, ex.Num):
            return np.asarray(e.value, dtype=np.float64)
        if isinstance(e, ex.Var):
            operand = node.operands[e.index]
            if operand in graph.constants and operand is not None:
                return graph.array(operand).astype(np.float64)
        return None

    def is_value(e: ex.Expr) -> bool:
        return isinstance(e, ex.Var) and node.operands[e.index] is value

    def product(e: ex.Expr) -> Array | None:
        if isinstance(e, ex.Apply) and e.fn in ("mul", "div"):
            a, b = e.operands
            if is_value(a) and (c := constant(b)) is not None:
                return 1 / c if e.fn == "div" else c
            if e.fn == "mul" and is_value(b):
                return constant(a)
        return None

    body = node.op.expr
    if (scale := product(body)) is not None:
        return _Affine(scale, None)
    if isinstance(body, ex.Apply) and body.fn in ("add", "sub"):
        a, b = body.operands
        sign = -1 if body.fn == "sub" else 1
        if (scale := product(a)) is not None and (shift := constant(b)) is not None:
            return _Affine(scale, sign * shift)
        if sign == 1 and (scale := product(b)) is not None and (shift := constant(a)) is not None:
            return _Affine(scale, shift)
    return None


def _per_weight(producer: Node, scale: Array, weights: Array) -> Array | None:
    """The scale in the shape that multiplies the weights, or None if it varies along another axis."""
    rank = len(producer.result.shape)
    axis = rank - 1 if producer.op.name == "matmul" else 1
    full = scale.reshape((1,) * (rank - scale.ndim) + scale.shape) if scale.ndim <= rank else None
    if full is None or any(e != 1 and a != axis for a, e in enumerate(full.shape)):
        return None
    flat = full.reshape(-1)
    if producer.op.name == "conv":
        return flat.reshape((-1,) + (1,) * (weights.ndim - 1))
    if producer.op.name == "conv_transpose":
        groups = int(getattr(producer.op, "groups", 1))
        if flat.size == 1:
            return flat.reshape((1,) * weights.ndim)
        if groups > 1:
            per_group = flat.reshape(groups, 1, -1, *(1,) * (weights.ndim - 2))
            spread = np.broadcast_to(per_group, (groups, weights.shape[0] // groups, *per_group.shape[2:]))
            return spread.reshape(weights.shape[0], *per_group.shape[2:])
        return flat.reshape((1, -1) + (1,) * (weights.ndim - 2))
    if getattr(producer.op, "trans_b", False):
        return flat.reshape(-1, 1)
    return flat


def _rewrite(graph: Graph, producer: Node, node: Node, affine: _Affine, weights: Array) -> None:
    """Scaled weights; the bias becomes bias * scale + shift."""
    old = producer.operands[1]
    assert old is not None and affine.scale is not None
    dtype = producer.result.dtype
    producer.operands[1] = graph.constant(f"{old.name}.scaled", weights.astype(dtype.numpy))
    if producer.post and producer.extras[0] not in graph.constants:
        bias = producer.extras[0]
        scale = graph.constant(f"{old.name}.scale", affine.scale.astype(dtype.numpy))
        body = ex.apply("add", ex.acc(dtype), ex.apply("mul", ex.var(0, dtype), ex.var(1, dtype)))
        producer.extras = [bias, scale]
        if affine.shift is not None:
            producer.extras.append(graph.constant(f"{old.name}.shift", affine.shift.astype(dtype.numpy)))
            body = ex.apply("add", body, ex.var(2, dtype))
        producer.post[0] = body
    else:
        bias64 = graph.array(producer.extras[0]).astype(np.float64) * affine.scale if producer.post else None
        shift = affine.shift
        total = shift if bias64 is None else bias64 + (0 if shift is None else shift)
        producer.post, producer.extras = {}, []
        if total is not None:
            producer.extras = [graph.constant(f"{old.name}.bias", np.asarray(total).astype(dtype.numpy))]
            producer.post = {0: ex.apply("add", ex.acc(dtype), ex.var(0, dtype))}
    producer.results = node.results
    producer.origins = tuple(dict.fromkeys(producer.origins + node.origins))
    graph.nodes.remove(node)
