"""Takes zero points that are known at run time only out of sums of integers: kernels then multiply bytes as they are.

Worked example: DynamicQuantizeLinear finds the zero point z of q when the network runs. The sum of (q - z) * w over K
places is that of q * w, less z times the sum of the weights, which is known::

    %w = const [1, 2, 3, 4] : i8[2,2]
    %y = matmul(%q, %w) with(%z) pre0{ (i32(acc) - i32(x0)) } pre1{ i32(acc) }

    %s = const [4, 6] : i32[1,2]
    %y = matmul(%q, %w) with(%z, %s) pre0{ i32(acc) } pre1{ i32(acc) } post0{ (acc - (i32(x0) * x1)) }

Windows over padding read zeros, which is not what a byte of 0 means: for kernels of bytes the operand is padded by
the zero point beforehand. Its lines from 1 to 28 of 30 are the operand's, and so are its columns::

    %p = pad(%q) {pads=(0, 0, 1, 1, 0, 0, 1, 1)}
    %f = map(%p, %rows, %columns, %z) {expr={select(and(x1, x2), x0, x3)}} : u8[1,64,30,30]
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.dims import may_reach, span, varies
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.op import Op
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Nest, bounds
from mccompile.ir.types import BOOL, I8, I32, U8
from mccompile.kernels.integers import lowest, multiplies_bytes
from mccompile.ops.map import Map
from mccompile.ops.pad import Pad
from mccompile.passes.analysis.sums import by_channel, known_weights
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.rewriter import Rewriter
from mccompile.targets.target import Target

_PADDING = "padding has no zero point"


def run(graph: Graph, remarks: Remarks, target: Target) -> int:
    """Subtract zero points that are known at run time from sums of bytes, times the sums of the weights. Exact."""
    r = Rewriter(graph)
    changes = 0
    for node in r.nodes():
        found = _zero_of(graph, node)
        if found is None:
            continue
        whole, zero = found
        what = f"took the zero point out of the sums of {node.where}"
        sums = _sums_of_weights(graph, node, zero)
        if isinstance(sums, str) and sums == _PADDING and (byte := _byte_of(node, zero, target)):
            _pad(r, node, byte)
            sums = _sums_of_weights(graph, node, zero)
        if isinstance(sums, str):
            remarks.miss(what, sums)
            continue
        _rewrite(r, node, whole, zero, sums)
        remarks.hit(what)
        changes += 1
    r.finish()
    return changes


def _zero_of(graph: Graph, node: Node) -> tuple[ex.Expr, ex.Expr] | None:
    """What a product makes of an integer of its first operand, and what it subtracts, if that is no constant."""
    body = node.pre.get(0)
    if len(node.op.multilinear) != 2 or not isinstance(body, ex.Apply) or body.fn != "sub" or body.dtype != I32:
        return None
    whole, zero = body.operands
    read = ex.variables(zero)
    plain = isinstance(whole, ex.Convert) and isinstance(whole.operand, ex.Var) and whole.operand.index == ex.ACC
    if not plain or not read or ex.ACC in read or all(node.extras[i] in graph.constants for i in read):
        return None
    return whole, zero


def _sums_of_weights(graph: Graph, node: Node, zero: ex.Expr) -> Array | str:
    """The sum of the weights of each channel, of one extent along all other axes of the result; or why the zero point
    is not multiplied by that alone."""
    x = node.operands[0]
    assert x is not None
    if any(node.extras[i].type.count != 1 for i in ex.variables(zero)):
        return "there are several zero points"
    weights = known_weights(graph, node)
    if weights is None:
        return "the weights are known at run time only"
    nests = node.op.structure(node.operand_types())
    if len(nests) != 1 or (rows := by_channel(nests[0], weights)) is None or not _are_summed(nests[0], *rows):
        return "its weights are not those of channels"
    if not _stays_inside(nests[0], x):
        return _PADDING
    sums: Array = rows[0].sum(1).astype(np.int32)
    return sums.reshape([-1 if a == rows[1] else 1 for a in range(node.result.type.rank)])


def _are_summed(nest: Nest, rows: Array, axis: int) -> bool:
    """Whether each element of a result sums all weights of its row of several along an axis, or all there are: not
    those of one group of several, nor some of the taps, as of a transposed convolution."""
    places = [k for k, e in enumerate(nest.loops) if e != 1 and any(at.coefs[k] for at in nest.writes)]
    apart = [k for k in places if len(rows) == 1 or not nest.writes[axis].coefs[k]]
    return not any(at is None or at.coefs[k] for at in nest.reads[1] or () for k in apart)


def _stays_inside(nest: Nest, x: Value) -> bool:
    """Whether the elements of operand 0 that a product reads are all within it."""
    reads = nest.reads[0] or ()
    for at, extent in zip(reads, x.shape, strict=True):
        if at is None:
            return False
        loops = [k for k, coef in enumerate(at.coefs) if coef]
        if len(loops) == 1 and at.coefs[loops[0]] == 1 and not at.const and nest.loops[loops[0]] is extent:
            continue
        low, high = bounds(at, nest.loops)
        if span(low)[0] < 0 or may_reach(high, extent):
            return False
    return True


def _byte_of(node: Node, zero: ex.Expr, target: Target) -> Value | None:
    """The zero point as an element of operand 0, where this may be padded for kernels of bytes; else None."""
    x, w = node.operands
    assert x is not None
    assert w is not None
    match zero:
        case ex.Convert(operand=ex.Var(index=i)):
            byte = node.extras[i]
        case _:
            return None
    bytes_ = x.dtype in (I8, U8) and byte.dtype == x.dtype and w.dtype in (I8, U8)
    return byte if bytes_ and _around(node) and multiplies_bytes(target, w.dtype, lowest(w.dtype) + 128) else None


def _around(node: Node) -> list[tuple[int, int]]:
    """How far the elements that a product reads reach beyond operand 0, before and behind each axis; empty if it has
    no form on an operand that is padded by as much."""
    x, (nest,) = node.operands[0], node.op.structure(node.operand_types())
    assert x is not None
    reads = nest.reads[0] or ()
    if varies((*x.shape[2:], *nest.loops[1:])) or any(at is None for at in reads):
        return []
    around = [(0, 0)]
    for at, extent in zip(reads[1:], x.shape[1:], strict=True):
        assert at is not None
        low, high = bounds(at, nest.loops)
        around.append((max(-low, 0), max(high - extent + 1, 0)))
    return around if any(map(any, around)) and _unpadded(node.op, around) is not None else []


def _unpadded(op: Op, around: Sequence[tuple[int, int]]) -> Op | None:
    """The operator on an operand that is padded beforehand."""
    for a, pads in enumerate(around):
        if any(pads) and (found := op.with_pads(a - 2, 0, 0) if a >= 2 else None) is not None:
            op = found
        elif any(pads):
            return None
    return op


def _pad(r: Rewriter, node: Node, zero: Value) -> None:
    """Let a product read its operand with the zero point around it."""
    x, name, around = node.operands[0], node.result.name, _around(node)
    op = _unpadded(node.op, around)
    assert x is not None
    assert op is not None
    before, behind = (tuple(side) for side in zip(*around, strict=True))
    operands: list[Value | None] = [r.insert(node, Pad((*before, *behind)), [x], f"{name}.padded")]
    inside: list[ex.Expr] = []
    for a, pads in enumerate(around):
        if any(pads):
            mask = np.pad(np.ones(x.shape[a], np.bool_), pads)
            shape = [-1 if i == a else 1 for i in range(x.type.rank)]
            inside.append(ex.var(len(operands), BOOL))
            operands.append(r.graph.constant(f"{name}.inside{a}", mask.reshape(shape)))
    whole = functools.reduce(lambda one, other: ex.apply("and", one, other), inside)
    body = ex.apply("select", whole, ex.var(0, x.dtype), ex.var(len(operands), x.dtype))
    filled = r.insert(node, Map(body), [*operands, zero], f"{name}.filled")
    node.op = op
    r.rewire(node, [filled, *node.operands[1:]])


def _rewrite(r: Rewriter, node: Node, whole: ex.Expr, zero: ex.Expr, sums: Array) -> None:
    """Let a product read integers as they are; its sum is less the zero point times the sums of the weights."""
    extras = [*node.extras, r.graph.constant(f"{node.result.name}.sums", sums)]
    less = ex.apply("mul", zero, ex.var(len(extras) - 1, I32))
    exact = ex.apply("sub", ex.acc(I32), less)
    post = node.post.get(0, ex.acc(I32))
    node.post = {0: ex.substitute(post, lambda v: exact if v.index == ex.ACC else v)}
    node.pre[0] = whole
    r.rewire(node, extras=extras)
