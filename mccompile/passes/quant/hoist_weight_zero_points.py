"""Takes zero points of weights out of sums of integers where the kernels of a target multiply bytes.

Worked example: weights of u8 with the zero point 113 are numbers of -113 to 142, which are no bytes. Less 128 they
are, and 128 - 113 times the sum of what they multiply makes up for it::

    %y = conv(%q, %w) {pads=(1, 1), ..} pre0{ (i32(acc) - i32(3)) } pre1{ (i32(acc) - i32(113)) } post0{ f(acc) }

    %r = reduce(%q) {mode='sum', axes=(1,)} pre0{ (i32(acc) - i32(3)) } : i32[1,1,28]
    %s = pool(%r) {mode='sum', pads=(1, 1), ..} : i32[1,1,28]
    %y = conv(%q, %w) {pads=(1, 1), ..} with(%s)
           pre0{ (i32(acc) - i32(3)) } pre1{ (i32(acc) - i32(128)) } post0{ f((acc + (x0 * i32(15)))) }

Where all weights less their zero points are bytes, they are stored as those, and nothing needs making up.
"""

from __future__ import annotations

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.dims import bound
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.scalar import Array, uniform
from mccompile.ir.types import I8, I32, U8
from mccompile.kernels.integers import lowest, multiplies_bytes
from mccompile.passes.analysis.sums import by_channel, known_weights, terms
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.rewriter import Rewriter
from mccompile.targets.target import Target


@dataclass(frozen=True)
class _Weights:
    """Weights of 8 bits, and the zero points that a prologue subtracts: one, or one for each channel."""

    stored: Value
    zeros: Array
    axis: int
    """The axis of the result that the zero points are of."""

    @property
    def middle(self) -> int:
        """The zero point with which all numbers of the type are -128 to 127."""
        return lowest(self.stored.dtype) + 128


def run(graph: Graph, remarks: Remarks, target: Target) -> int:
    """Subtract zero points of weights from sums of bytes, times the sums of what they multiply, where kernels take
    bytes alone. Exact."""
    r = Rewriter(graph)
    changes = 0
    for node in list(r.nodes()):
        found = _weights_of(graph, node)
        if found is None or not _needed(found, target):
            continue
        what = f"took the zero points of weights out of the sums of {node.where}"
        if _store_bytes(r, node, found):
            remarks.hit(f"stored the weights of {node.where} less their zero points")
        elif reason := _obstacle(node):
            remarks.miss(what, reason)
            continue
        else:
            _rewrite(r, node, found)
            remarks.hit(what)
        changes += 1
    r.finish()
    return changes


def _weights_of(graph: Graph, node: Node) -> _Weights | None:
    """The constant bytes, less constant zero points, that a product multiplies bytes by; None if there are none."""
    body = node.pre.get(1)
    if node.op.multilinear != (0, 1) or body is None:
        return None
    x, w = node.operands
    assert x is not None
    assert w is not None
    match body:
        case ex.Apply(fn="sub", operands=(whole, zero)):
            pass
        case _:
            whole, zero = body, ex.num(0, I32)
    plain = isinstance(whole, ex.Convert) and isinstance(whole.operand, ex.Var) and whole.operand.index == ex.ACC
    read = [node.extras[i] for i in ex.variables(zero) if i != ex.ACC]
    bytes_ = x.dtype in (I8, U8) and w.dtype in (I8, U8) and body.dtype == I32
    if not plain or not bytes_ or ex.ACC in ex.variables(zero):
        return None
    if any(not isinstance(graph.constants.get(v), np.ndarray) for v in (w, *read)):
        return None
    zeros = ex.evaluate(zero, lambda i: graph.array(node.extras[i]))
    nests = node.op.structure(node.operand_types())
    rows = by_channel(nests[0], np.broadcast_to(zeros, w.shape)) if len(nests) == 1 and w.type.count else None
    if rows is None or (rows[0] != rows[0][:, :1]).any():
        return None
    return _Weights(w, rows[0][:, 0].astype(np.int64), rows[1])


def _needed(weights: _Weights, target: Target) -> bool:
    """Whether kernels of bytes are there, and do not take the weights as they are."""
    dtype, zeros = weights.stored.dtype, weights.zeros
    zero = int(zeros.flat[0]) if uniform(zeros) else None
    return multiplies_bytes(target, dtype, weights.middle) and not multiplies_bytes(target, dtype, zero)


def _store_bytes(r: Rewriter, node: Node, weights: _Weights) -> bool:
    """Store weights less their zero points, if these are numbers of 8 bits."""
    graph, w = r.graph, weights.stored
    whole = known_weights(graph, node)
    assert whole is not None
    numbers = whole.astype(np.int64)
    if numbers.min() < -128 or numbers.max() > 127:
        return False
    node.pre[1] = ex.convert(ex.acc(I8), I32)
    r.rewire(node, [node.operands[0], graph.constant(f"{w.name}.bytes", numbers.astype(np.int8))])
    r.give_extras(node, node.extras)
    return True


def _obstacle(node: Node) -> str:
    """Why the sums of what weights multiply are not to be had; empty if they are."""
    if 0 not in node.pre or node.pre[0].dtype != I32:
        return "what they multiply is no integer of 32 bits"
    if node.op.added_up(node.operand_types()) is None:
        return f"the sums of what {node.op.name} multiplies have no operator"
    if bound(terms(node)) * 255 * 255 >= 2**31:
        return "the sum might overflow"
    return ""


def _rewrite(r: Rewriter, node: Node, weights: _Weights) -> None:
    """Let a product multiply bytes, and make up for it by the sums of what they multiply."""
    less = weights.middle - weights.zeros
    sums = _sums(r, node)
    rank = node.result.type.rank
    extras = [*node.extras, sums]
    factor: ex.Expr
    if uniform(less):
        factor = ex.num(int(less[0]), I32)
    else:
        shape = [-1 if a == weights.axis else 1 for a in range(rank)]
        extras.append(r.graph.constant(f"{node.result.name}.zeros", less.astype(np.int32).reshape(shape)))
        factor = ex.var(len(extras) - 1, I32)
    missing = ex.apply("mul", ex.var(len(node.extras), I32), factor)
    post = node.post.get(0, ex.acc(I32))
    begun = _begun(r.graph, node, post)
    node.post = {0: ex.replaced(post, begun, ex.apply("add", begun, missing))}
    byte = ex.convert(ex.acc(weights.stored.dtype), I32)
    node.pre[1] = ex.apply("sub", byte, ex.num(weights.middle, I32)) if weights.middle else byte
    r.give_extras(node, extras)


def _begun(graph: Graph, node: Node, body: ex.Expr) -> ex.Expr:
    """The sum with the constants that it begins with, which kernels know beside it, or the sum alone."""
    for part in ex.distinct(body):
        match part:
            case ex.Apply(fn="add", operands=(ex.Var(index=ex.ACC), ex.Var(index=i))) if (
                i != ex.ACC and node.extras[i] in graph.constants
            ):
                if ex.ACC not in ex.variables(ex.replaced(body, part, ex.num(0, part.dtype))):
                    return part
    return ex.acc(I32)


def _sums(r: Rewriter, node: Node) -> Value:
    """The sums of what each place of the result multiplies its weights by."""
    source, name = node.operands[0], node.result.name
    read = sorted(ex.variables(node.pre[0]) - {ex.ACC})
    place = {i: k for k, i in enumerate(read)}
    extras = [node.extras[i] for i in read]
    pre = {0: ex.substitute(node.pre[0], lambda v: v if v.index == ex.ACC else ex.var(place[v.index], v.dtype))}
    for op in node.op.added_up(node.operand_types()) or ():
        made = Node(op, [source], [], extras, pre, origins=node.origins)
        (source,) = r.insert_node(node, made, [f"{name}.sums"])
        extras, pre = [], {}
    assert source is not None
    return source
