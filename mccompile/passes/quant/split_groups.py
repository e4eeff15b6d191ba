"""Splits convolutions of bytes in several groups into one for each group, which there are kernels of bytes for.

Worked example: two groups of two channels; the slices and the concat are views where the arena allows it::

    %y = conv(%q, %w) {groups=2, ..} with(%b) .. post0{ (acc + x0) } : i32[1,4,8,8]        %w : i8[4,2,3,3]

    %a = slice(%q) : u8[1,2,8,8]
    %c = slice(%q) : u8[1,2,8,8]
    %d = conv(%a, %w0) {..} with(%b0) .. post0{ (acc + x0) } : i32[1,2,8,8]
    %e = conv(%c, %w1) {..} with(%b1) .. post0{ (acc + x0) } : i32[1,2,8,8]
    %y = concat(%d, %e) {axis=1}
"""

from __future__ import annotations

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.types import I8, I32, U8
from mccompile.kernels.integers import multiplies_bytes, zero_of
from mccompile.ops.concat import Concat
from mccompile.ops.slice import Slice
from mccompile.passes.analysis.contraction import Contraction, contraction
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.rewriter import Rewriter
from mccompile.targets.target import Target

MOST = 32
"""Groups, each of which is a step of its own."""


def run(graph: Graph, remarks: Remarks, target: Target) -> int:
    """Compute each group of a convolution of bytes by itself, where kernels of bytes take one. Exact."""
    r = Rewriter(graph)
    changes = 0
    for node in list(r.nodes()):
        found = _in_groups(node)
        if found is None:
            continue
        what = f"split the groups of {node.where}"
        if reason := _obstacle(graph, node, found, target):
            remarks.miss(what, reason)
            continue
        _rewrite(r, node, found)
        remarks.hit(what)
        changes += 1
    r.finish()
    return changes


def _in_groups(node: Node) -> Contraction | None:
    """How a product of bytes sums up several groups of channels, of which one has several: of operand or result."""
    found = contraction(node)
    if found is None or found.groups == 1 or found.scattered or found.extents[1:3] == (1, 1):
        return None
    return found if all(v is not None and v.dtype in (I8, U8) for v in node.operands) else None


def _obstacle(graph: Graph, node: Node, found: Contraction, target: Target) -> str:
    w = node.operands[1]
    assert w is not None
    zero = zero_of(node.pre.get(1), w.dtype)
    if not isinstance(graph.constants.get(w), np.ndarray) or zero is None:
        return "its weights are no constants less one zero point"
    if not multiplies_bytes(target, w.dtype, zero) or 0 not in node.pre or node.pre[0].dtype != I32:
        return "the target has no kernels of such bytes"
    if found.groups > MOST:
        return f"it has {found.groups} groups"
    if any(node.extras[i].type.count > 1 for body in node.pre.values() for i in ex.variables(body) if i != ex.ACC):
        return "its operand has several zero points"
    return ""


def _rewrite(r: Rewriter, node: Node, found: Contraction) -> None:
    (x, w), (result,) = node.operands, node.results
    assert x is not None
    assert w is not None
    op, axis = node.op.in_groups(1), found.result.axis
    parts: list[Value | None] = []
    for g in range(found.groups):
        own = (g, found.groups)
        operands: list[Value | None] = [
            _part(r, node, x, found.operand.axis, own), _part(r, node, w, found.group_weights, own)
        ]  # fmt: skip
        extras = [_part(r, node, v, axis - (result.type.rank - v.type.rank), own) for v in node.extras]
        made = Node(op, operands, [], extras, dict(node.pre), dict(node.post), origins=node.origins)
        parts += r.insert_node(node, made, [f"{result.name}.group{g}"])
    node.op, node.pre, node.post = Concat(axis), {}, {}
    r.rewire(node, parts, [])


def _part(r: Rewriter, node: Node, value: Value, axis: int, own: tuple[int, int]) -> Value:
    """What group ``own[0]`` of ``own[1]`` reads of a value that has channels along an axis, if it has any there."""
    if axis < 0 or value.shape[axis] == 1:
        return value
    group, count = own
    extent, name = value.shape[axis] // count, f"{value.name}.group{group}"
    start = group * extent
    if isinstance(array := r.graph.constants.get(value), np.ndarray):
        return r.graph.constant(name, np.take(array, range(start, start + extent), axis))
    rank = value.type.rank
    starts = tuple(start if a == axis else 0 for a in range(rank))
    extents = tuple(extent if a == axis else e for a, e in enumerate(value.shape))
    return r.insert(node, Slice(starts, (1,) * rank, extents), [value], name)
