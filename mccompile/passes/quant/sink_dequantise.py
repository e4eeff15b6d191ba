"""Moves dequantisation behind whatever only moves elements or keeps their order: bytes are moved instead of floats.

Worked example: what a transpose moves need not be floats yet, and a product behind it finds the integers::

    %x = map(%q) {expr={(f32((i32(x0) - i32(3))) * 0.5)}}        %t.q = transpose(%q) {perm=(0, 2, 1)}
    %t = transpose(%x) {perm=(0, 2, 1)}                          %t = map(%t.q) {expr={...}}

Rows that are looked up stay bytes in the blob; scales of rows are looked up beside them::

    %x = map(%q, %s) {expr={(f32(x0) * x1)}} : f32[9,64]         %y.q = gather(%q, %i) {axis=0}
    %y = gather(%x, %i) {axis=0}                                 %y.s = gather(%s, %i) {axis=0} : f32[2,1]
                                                                 %y = map(%y.q, %y.s) {expr={(f32(x0) * x1)}}
"""

from __future__ import annotations

import numpy as np

from mccompile.ir.affine import loop
from mccompile.ir.dims import varies
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.op import Op, TypeRuleError
from mccompile.ir.scalar import Array
from mccompile.ir.types import F32, I32, DType, TensorType
from mccompile.passes.analysis.movement import moves
from mccompile.passes.analysis.quantised import Quantised, dequantised, quantised
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.patterns import is_plain
from mccompile.passes.rewrite.rewriter import Rewriter

LookedUp = tuple[Array, tuple[int, ...] | None]
"""Scales or zero points with the shape that they have for a result; None where they are looked up as its elements."""


def run(graph: Graph, remarks: Remarks) -> int:
    """Move elements, and take the largest of them, before they are dequantised. Exact."""
    r = Rewriter(graph)
    changes = 0
    for node in r.nodes():
        if is_plain(node) and _looks_up(node):
            changes += _sink_lookup(r, node, remarks)
            continue
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
    if node.op.may_pick_none(node.operand_types()):
        return "of no element the largest is infinite, which no integer stands for"
    if node.op.picks:
        return "" if (first.scale > 0).all() and one else "it would take the least instead of the largest"
    if node.op.background is not None:
        return "" if one and _padding(node.op, first) is not None else "the padding is none of the integers"
    if not one and (len(node.operands) > 1 or node.varies):
        return "a scale varies along an axis"
    return ""


def _equal(a: Array, b: Array) -> bool:
    return a.size == b.size == 1 and a.reshape(-1)[0] == b.reshape(-1)[0]


def _padding(op: Op, q: Quantised) -> float | None:
    """The integer that stands for what is padded with; None if none does."""
    assert op.background is not None
    scale, zero = float(q.scale.reshape(-1)[0]), int(q.zero.reshape(-1)[0])
    number = np.rint(op.background / scale) + zero
    info = np.iinfo(q.integers.dtype.numpy.name)
    if not info.min <= number <= info.max:  # neither is what is infinite, or no number
        return None
    with np.errstate(over="ignore"):
        exact = np.float32(number - zero) * np.float32(scale) == np.float32(op.background)
    return float(number) if exact else None


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
        body, others = dequantised(r.graph, whole, scale, zero, y.name)
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


def _looks_up(node: Node) -> bool:
    """Whether a node selects elements of operand 0 at places that its other operands say."""
    return node.op.selects and not node.op.picks and not moves(node.op) and len(node.inputs) > 1 == len(node.results)


def _sink_lookup(r: Rewriter, node: Node, remarks: Remarks) -> int:
    """Look bytes up, and scales and zero points where they vary along axes that are looked up."""
    data = node.operands[0]
    found = quantised(r.graph, r.producer(data))
    if data is None or found is None:
        return 0
    what = f"moved the dequantisation before {node.where} behind it"
    if found.integers in r.graph.constants and _keeps_floats(r, data):
        remarks.miss(what, "the floats are needed elsewhere")
        return 0
    scale, zero = (_looked_up(node, a, found.integers) for a in (found.scale, found.zero))
    if scale is None or zero is None:
        remarks.miss(what, "scales cannot be looked up alone")
        return 0
    y = node.result
    whole = _again(r, node, found.integers, f"{y.name}.whole")
    factors = [_factor(r, node, scale, F32, "scales"), _factor(r, node, zero, I32, "zeros")]
    body, beside = dequantised(r.graph, whole, factors[0], factors[1], y.name)
    r.insert_after(node, Node(body, [whole, *beside], [y], origins=node.origins))
    r.erase(node)
    remarks.hit(what)
    return 1


def _again(r: Rewriter, node: Node, data: Value, name: str) -> Value:
    """What the operator of a node finds in other data, at the same places."""
    more = Node(node.op, [data, *node.operands[1:]], [], origins=node.origins)
    more.results = [r.graph.value(name, *more.infer())]
    r.insert_after(node, more)
    return more.result


def _factor(r: Rewriter, node: Node, found: LookedUp, dtype: DType, name: str) -> Array | Value:
    array, place = found
    if place is not None:
        return array.reshape(place)
    table = r.graph.constant(f"{node.result.name}.{name}", array.astype(dtype.numpy))
    return _again(r, node, table, f"{node.result.name}.{name}.at")


def _keeps_floats(r: Rewriter, data: Value) -> bool:
    """Whether somebody reads constants as floats who has no form for integers: they would be stored twice."""
    return r.is_output(data) or any(u.op.weight_axes is None and not _looks_up(u) for u in r.users(data))


def _looked_up(node: Node, array: Array, source: Value) -> LookedUp | None:
    """A scale or zero point of a node's operand 0. None if it cannot be found without its elements."""
    rank = node.result.type.rank
    if array.size == 1:
        return array, ()
    if varies(source.shape):
        return None
    spread = _compressed(np.broadcast_to(array, source.shape))
    (nest, *more) = node.op.structure(node.operand_types()) or (None,)
    reads = nest.reads[0] if nest is not None and not more else None
    if nest is None or reads is None:
        return None
    place = [1] * rank
    last = -1
    for extent, at in zip(spread.shape, reads, strict=True):
        if extent == 1:
            continue
        if at is None:
            return _by_itself(node, spread) if reads.count(None) == 1 else None
        loops = [k for k, c in enumerate(at.coefs) if c]
        if len(loops) != 1 or at != loop(loops[0], rank) or loops[0] <= last:
            return None
        if nest.loops[loops[0]] != extent:  # less is read than there is
            return None
        place[loops[0]], last = extent, loops[0]
    return spread, tuple(place)


def _by_itself(node: Node, table: Array) -> LookedUp | None:
    """A table that is looked up as operand 0 is; None if that would be no operand."""
    dtype = F32 if table.dtype == np.float32 else I32
    types = [TensorType(dtype, table.shape), *node.operand_types()[1:]]
    try:
        (found,) = node.op.infer(*types)
    except (TypeRuleError, ValueError):
        return None
    y = node.result.shape
    return (table, None) if len(found.shape) == len(y) and all(map(_broadcasts, found.shape, y)) else None


def _broadcasts(extent: int, to: int) -> bool:
    return extent in (1, to)
