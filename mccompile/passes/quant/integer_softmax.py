"""Turns the softmax of dequantised bytes into one of the bytes, where the target had better not touch floats.

Worked example: what is subtracted from all cancels out, and the result is a share in units of 2^-31::

    %x = map(%q) {expr={(f32((i32(x0) - i32(3))) * 0.5)}}
    %y = softmax(%x) {axis=1} : f32

    %y = softmax_bytes(%q) {axis=1, scale=0.5} post0{ (f32(acc) * 4.656612873077393e-10) } : f32
"""

from __future__ import annotations

from collections.abc import Sequence

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.scalar import Array
from mccompile.ir.types import F32, I8, I32, U8
from mccompile.passes.analysis.forms import Form, quantising_form
from mccompile.passes.analysis.movement import moves
from mccompile.passes.analysis.quantised import quantised
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.rewriter import Rewriter
from mccompile.targets.target import Target

ROUNDS = True


def run(graph: Graph, remarks: Remarks, target: Target) -> int:
    """Take the softmax of bytes from a table of powers, by integers, where shares become bytes again or leave the
    network. Changes rounding only."""
    r = Rewriter(graph)
    changes = 0
    for node in r.nodes():
        found = None if node.pre or not node.operands else quantised(graph, r.producer(node.operands[0]))
        if found is None or node.op.on_bytes(1.0) is None or node.result.dtype != F32:
            continue
        what = f"took {node.where} of bytes"
        if target.requant == "float":
            remarks.miss(what, f"floats are fast on {target.name}")
            continue
        if not _is_rounded(r, node):
            remarks.miss(what, "small shares are read as floats")
            continue
        if found.scale.size != 1 or found.integers.dtype.nbytes != 1 or not (found.scale > 0).all():
            remarks.miss(what, "its operand has no bytes of one scale")
            continue
        op = node.op.on_bytes(float(found.scale.reshape(-1)[0]))
        assert op is not None
        node.op = op
        node.post = {0: ex.apply("mul", ex.convert(ex.acc(I32), F32), ex.num(2.0**-31))}
        r.rewire(node, [found.integers])
        remarks.hit(what)
        changes += 1
    r.finish()
    return changes


def _is_rounded(r: Rewriter, node: Node) -> bool:
    """Whether shares become bytes again, or leave the network: to a logarithm, or as divisors, those below 2^-25
    would be nothing."""
    return not node.post and all(_rounds(r, user, node.result) for user in r.users(node.result))


def _rounds(r: Rewriter, user: Node, shares: Value) -> bool:
    if user.op.elementwise is not None and not user.post:
        return _quantises(r.graph, user.op.elementwise, user.operands.index(shares), user.operands)
    moved = moves(user.op) and not user.post
    return moved and all(_rounds(r, reader, y) for y in user.results for reader in r.users(y))


def _quantises(graph: Graph, body: ex.Expr, main: int, operands: Sequence[Value | None]) -> bool:
    """Whether an expression scales variable ``main`` and rounds it to 8 bits."""

    def constant(i: int) -> Array | None:
        v = operands[i]
        return graph.array(v).reshape(-1) if v in graph.constants else None

    if not isinstance(body, ex.Convert) or body.dtype not in (I8, U8):
        return False
    return isinstance(quantising_form(body, main, constant), Form)
