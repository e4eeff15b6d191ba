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
from mccompile.ops.conv import Conv
from mccompile.ops.slice import Slice
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
        if not isinstance(node.op, Conv) or not _has_groups(node):
            continue
        what = f"split the groups of {node.where}"
        if reason := _obstacle(graph, node, target):
            remarks.miss(what, reason)
            continue
        _rewrite(r, node)
        remarks.hit(what)
        changes += 1
    r.finish()
    return changes


def _has_groups(node: Node) -> bool:
    """Whether a convolution of bytes has several groups, and is not depthwise with one filter for each channel."""
    x, w = node.operands
    assert isinstance(node.op, Conv)
    assert x is not None
    assert w is not None
    each = node.op.groups == x.shape[1] == w.shape[0]
    return node.op.groups > 1 and not each and x.dtype in (I8, U8) and w.dtype in (I8, U8)


def _obstacle(graph: Graph, node: Node, target: Target) -> str:
    x, w = node.operands
    assert isinstance(node.op, Conv)
    assert x is not None
    assert w is not None
    zero = zero_of(node.pre.get(1), w.dtype)
    if not isinstance(graph.constants.get(w), np.ndarray) or zero is None:
        return "its weights are no constants less one zero point"
    if not multiplies_bytes(target, w.dtype, zero) or 0 not in node.pre or node.pre[0].dtype != I32:
        return "the target has no kernels of such bytes"
    if node.op.groups > MOST:
        return f"it has {node.op.groups} groups"
    if any(node.extras[i].type.count > 1 for body in node.pre.values() for i in ex.variables(body) if i != ex.ACC):
        return "its operand has several zero points"
    return ""


def _rewrite(r: Rewriter, node: Node) -> None:
    (x, w), op, (result,) = node.operands, node.op, node.results
    assert isinstance(op, Conv)
    parts: list[Value | None] = []
    for g in range(op.groups):
        operands: list[Value | None] = [_part(r, node, v, a, g) for v, a in ((x, 1), (w, 0)) if v is not None]
        extras = [_part(r, node, v, v.type.rank - result.type.rank + 1, g) for v in node.extras]
        own = Node(op.in_groups(1), operands, [], extras, dict(node.pre), dict(node.post), origins=node.origins)
        parts += r.insert_node(node, own, [f"{result.name}.group{g}"])
    node.op, node.pre, node.post = Concat(1), {}, {}
    r.rewire(node, parts, [])


def _part(r: Rewriter, node: Node, value: Value, axis: int, group: int) -> Value:
    """What group number ``group`` reads of a value that has channels along an axis, if it has any there."""
    assert isinstance(node.op, Conv)
    if axis < 0 or value.shape[axis] == 1:
        return value
    extent = value.shape[axis] // node.op.groups
    start, name = group * extent, f"{value.name}.group{group}"
    if isinstance(array := r.graph.constants.get(value), np.ndarray):
        return r.graph.constant(name, np.take(array, range(start, start + extent), axis))
    rank = value.type.rank
    starts = tuple(start if a == axis else 0 for a in range(rank))
    extents = tuple(extent if a == axis else e for a, e in enumerate(value.shape))
    return r.insert(node, Slice(starts, (1,) * rank, extents), [value], name)
