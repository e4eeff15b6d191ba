"""Stores bytes where floats that are made of bytes alone would be stored: who reads them dequantises.

Worked example: an epilogue that quantises and dequantises, as the other operand of an addition::

    %a = conv(...) post0{ (f32(i8(rne((acc * 20.0)))) * 0.05) } : f32
    %y = conv(...) with(%a) post0{ (acc + x0) }

    %a = conv(...) post0{ i8(rne((acc * 20.0))) } : i8
    %y = conv(...) with(%a) post0{ (acc + (f32(x0) * 0.05)) }
"""

from __future__ import annotations

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.bodies import MAX_SIZE, parts
from mccompile.passes.rewrite.rewriter import Rewriter

_BYTES = ("i8", "u8")


def run(graph: Graph, remarks: Remarks) -> int:
    """Store the bytes that floats are made of, where all readers can dequantise what they read. Exact."""
    r = Rewriter(graph)
    changes = 0
    for node in r.nodes():
        body = node.op.elementwise if not node.post else node.post.get(0)
        if body is None or len(node.results) != 1 or not node.result.dtype.is_float or r.is_output(node.result):
            continue
        if (node.pre and not node.post) or node.result.dtype != body.dtype:  # f16 rounds what it holds
            continue
        byte = _byte_of(body)
        if byte is None:
            continue
        what = f"stored the bytes of {node.where}"
        reason = next((why for u in r.users(node.result) if (why := _obstacle(u, node.result, body))), "")
        if reason:
            remarks.miss(what, reason)
            continue
        _store(r, node, body, byte)
        remarks.hit(what)
        changes += 1
    r.finish()
    return changes


def _byte_of(body: ex.Expr) -> ex.Expr | None:
    """The part of 8 bits that alone says what a float expression is; None if there is none."""
    found = [e for e in ex.distinct(body) if e.dtype.name in _BYTES and ex.variables(e) and not isinstance(e, ex.Var)]
    for e in found:
        if not ex.variables(ex.replaced(body, e, ex.num(0, e.dtype))):
            return e
    return None


def _obstacle(user: Node, value: Value, body: ex.Expr) -> str:
    """Why a reader cannot dequantise a value."""
    places = [i for i, v in enumerate(user.operands) if v is value]
    if user.op.elementwise is not None:
        expected = user.op.elementwise
        return "a reader's expression would be too large" if parts(expected) + parts(body) > MAX_SIZE else ""
    if any(parts(b) + parts(body) > MAX_SIZE for b in (*user.pre.values(), *user.post.values())):
        return "a reader's expression would be too large"
    for i in places:
        if i not in user.pre and not (user.op.takes_prologue and i == 0):
            return f"{user.where} takes no prologue"
    return ""


def _store(r: Rewriter, node: Node, body: ex.Expr, byte: ex.Expr) -> None:
    old = node.result
    new = r.graph.value(f"{old.name}.bytes", old.type.with_dtype(byte.dtype))
    users = r.users(old)
    if node.post:
        node.post = {0: byte}
    else:
        node.op = node.op.with_elementwise(byte)
    r.set_results(node, [new])
    for user in users:
        _read(r, user, old, new, body, byte)


def _read(r: Rewriter, user: Node, old: Value, new: Value, body: ex.Expr, byte: ex.Expr) -> None:
    """Let a reader of floats read bytes, and dequantise them."""

    def real(at: ex.Expr) -> ex.Expr:
        return ex.replaced(body, byte, at)

    def over(e: ex.Expr, values: list[Value]) -> ex.Expr:
        places = {i for i, v in enumerate(values) if v is old}
        return ex.substitute(e, lambda v: real(ex.var(v.index, new.dtype)) if v.index in places else v)

    if user.op.elementwise is not None:
        user.op = user.op.with_elementwise(over(user.op.elementwise, [v for v in user.operands if v is not None]))
    for i, v in enumerate(user.operands):
        if v is old and user.op.elementwise is None:
            inner = user.pre.get(i, ex.acc(old.dtype))
            user.pre[i] = ex.substitute(inner, lambda a: real(ex.acc(new.dtype)) if a.index == ex.ACC else a)
    user.pre = {i: over(b, user.extras) for i, b in user.pre.items()}
    user.post = {i: over(b, user.extras) for i, b in user.post.items()}
    r.rewire(user, [new if v is old else v for v in user.operands], [new if v is old else v for v in user.extras])
