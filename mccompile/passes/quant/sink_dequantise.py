"""Moves dequantisation behind whatever only moves elements or keeps their order: bytes are moved instead of floats.

Worked example: what a transpose moves need not be floats yet, and a product behind it finds the integers::

    %x = map(%q) {expr={(f32((i32(x0) - i32(3))) * 0.5)}}        %t.q = transpose(%q) {perm=(0, 2, 1)}
    %t = transpose(%x) {perm=(0, 2, 1)}                          %t = map(%t.q) {expr={...}}
"""

from __future__ import annotations

import numpy as np

from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.op import Op
from mccompile.ir.scalar import Array
from mccompile.passes.analysis.movement import moves
from mccompile.passes.analysis.quantised import Quantised, dequantised, quantised
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.patterns import is_plain
from mccompile.passes.rewrite.rewriter import Rewriter


def run(graph: Graph, remarks: Remarks) -> int:
    """Move elements, and take the largest of them, before they are dequantised. Exact."""
    r = Rewriter(graph)
    changes = 0
    for node in r.nodes():
        if not is_plain(node) or not (moves(node.op) or node.op.picks):
            continue
        data = [v for v in node.operands if v is not None and v.dtype == node.results[0].dtype]
        found = [quantised(graph, r.producer(v)) for v in data]
        known = [q for q in found if q is not None]
        if not known:
            continue
        what = f"moved the dequantisation before {node.where} behind it"
        reason = _obstacle(node, found)
        if reason:
            remarks.miss(what, reason)
            continue
        _sink(r, node, known)
        remarks.hit(what)
        changes += 1
    r.finish()
    return changes


def _obstacle(node: Node, found: list[Quantised | None]) -> str:
    if None in found:
        return "another operand is not quantised"
    first = found[0]
    assert first is not None
    for q in found[1:]:
        assert q is not None
        alike = _equal(q.scale, first.scale) and _equal(q.zero, first.zero)
        if not alike or q.integers.dtype != first.integers.dtype:
            return "its parts have several scales"
    one = first.scale.size == first.zero.size == 1
    if node.op.picks:
        return "" if (first.scale > 0).all() and one else "it would take the least instead of the largest"
    if node.op.background is not None:
        return "" if one and _padding(node.op, first) is not None else "the padding is none of the integers"
    if not one and len(node.operands) > 1:
        return "a scale varies along an axis"
    return ""


def _equal(a: Array, b: Array) -> bool:
    return a.size == b.size == 1 and a.reshape(-1)[0] == b.reshape(-1)[0]


def _padding(op: Op, q: Quantised) -> float | None:
    """The integer that stands for what is padded with; None if none does."""
    assert op.background is not None
    scale, zero = float(q.scale.reshape(-1)[0]), int(q.zero.reshape(-1)[0])
    number = round(op.background / scale) + zero
    info = np.iinfo(q.integers.dtype.numpy.name)
    exact = np.float32(number - zero) * np.float32(scale) == np.float32(op.background)
    return float(number) if exact and info.min <= number <= info.max else None


def _sink(r: Rewriter, node: Node, known: list[Quantised]) -> None:
    """``node`` becomes the dequantisation of what its operator makes of integers."""
    op: Op = node.op
    if op.background is not None:
        value = _padding(op, known[0])
        assert value is not None
        op = op.with_background(value)
    integers = iter(known)
    operands = [
        v if v is None or v.dtype != node.results[0].dtype else next(integers).integers for v in node.operands
    ]
    parts = Node(op, list(operands), [], origins=node.origins)
    parts.results = [r.graph.value(f"{y.name}.whole", t) for y, t in zip(node.results, parts.infer(), strict=True)]
    results = list(node.results)
    scales, zeros = (_moved(op, a, known[0].integers, results) for a in (known[0].scale, known[0].zero))
    r.insert_after(node, parts)
    for y, whole, scale, zero in zip(results, parts.results, scales, zeros, strict=True):
        body, others = dequantised(r.graph, Quantised(whole, scale, zero), y.name)
        r.insert_after(node, Node(body, [whole, *others], [y], origins=node.origins))
    r.erase(node)


def _moved(op: Op, array: Array, source: Value, results: list[Value]) -> list[Array]:
    """A scale or zero point moved as the elements are, for each result; one for all stays so."""
    if array.size == 1:
        return [array.reshape(-1)[:1].reshape(())] * len(results)
    spread = np.ascontiguousarray(np.broadcast_to(array, source.shape))
    return [_compressed(np.asarray(a)) for a in op.evaluate(spread)]


def _compressed(array: Array) -> Array:
    """The array without repetitions along whole axes."""
    for axis in range(array.ndim):
        first = array.take([0], axis)
        if (first == array).all():
            array = first
    return array
