"""Undoes the merging of leading axes around a matrix product: heads and batches stay apart, as masks need it."""

from __future__ import annotations

import math

from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.types import Shape
from mccompile.ops.matmul import MatMul
from mccompile.ops.reshape import Reshape
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.patterns import is_plain
from mccompile.passes.rewrite.rewriter import Rewriter


def run(graph: Graph, remarks: Remarks) -> int:
    """Let a product whose leading axes a reshape splits afterwards be computed with these axes apart, where its
    operands were merged just for it. Exact; reshapes cost nothing."""
    r = Rewriter(graph)
    changes = 0
    for node in r.nodes():
        product = r.producer(node.operands[0]) if node.op.keeps_order and is_plain(node) else None
        if product is None or not isinstance(product.op, MatMul) or not _splits(r, product, node.result.shape):
            continue
        what = f"split the leading axes of {product.where}"
        reason = _obstacle(r, product, node.result.shape)
        if reason:
            remarks.miss(what, reason)
            continue
        _rewrite(r, product, node)
        remarks.hit(what)
        changes += 1
    r.finish()
    return changes


def _splits(r: Rewriter, product: Node, shape: Shape) -> bool:
    """Whether ``shape`` differs from the product's in leading axes only, and its operands had these once."""
    own = product.result.shape
    if own[-2:] != shape[-2:] or own[:-2] == shape[:-2]:
        return False
    return all(_before(r, v, shape[:-2]) for v in product.operands)


def _before(r: Rewriter, value: Value | None, leading: Shape) -> Value | None:
    """What ``value`` is a reshape of, if that has the ``leading`` axes."""
    reshape = r.producer(value)
    if value is None or reshape is None or not reshape.op.keeps_order or not is_plain(reshape):
        return None
    source = reshape.operands[0]
    assert source is not None
    return source if source.shape == (*leading, *value.shape[-2:]) else None


def _obstacle(r: Rewriter, product: Node, shape: Shape) -> str:
    leading = product.result.shape[:-2]
    if not r.is_private(product.result):
        return "its result is needed elsewhere"
    if product.pre or any(v.type.layout is not None for v in (*product.inputs, *product.results)):
        return "it has a prologue, or a layout is not row-major"
    if any(_split(v.shape, leading, shape) is None for v in product.extras):
        return "an operand of the epilogue is broadcast along some leading axes"
    return ""


def _split(own: Shape, leading: Shape, shape: Shape) -> Shape | None:
    """The shape of what reads along with the result once that has ``shape``; None if there is none."""
    if math.prod(own[:-2]) == 1:
        return own[-2:]
    return (*shape[:-2], *own[-2:]) if own[:-2] == leading else None


def _rewrite(r: Rewriter, product: Node, reshape: Node) -> None:
    shape, leading = reshape.result.shape, product.result.shape[:-2]

    def seen(value: Value, wanted: Shape) -> Value:
        if value.shape == wanted:
            return value
        return _before(r, value, wanted[:-2]) or r.insert(product, Reshape(wanted), [value], f"{value.name}.split")

    operands = [seen(v, (*shape[:-2], *v.shape[-2:])) for v in product.operands if v is not None]
    extras = []
    for v in product.extras:
        wanted = _split(v.shape, leading, shape)
        assert wanted is not None
        extras.append(seen(v, wanted))
    r.rewire(product, operands, extras)
    r.take_over(product, reshape)
