"""Stores bytes between layers with the sign that the target multiplies them with: 128 more, or 128 less.

Worked example: VPDPBUSD and PMADDUBSW multiply u8 by i8. An i8 operand has its top bit flipped each time it is read,
or is copied; as u8 it is read as it lies::

    %a = conv(...) post0{ i8((rne((f32(acc) * 0.02)) + 4.0)) } : i8
    %y = conv(%a, %w) pre0{ (i32(acc) - i32(4)) } ..

    %a = conv(...) post0{ u8((rne((f32(acc) * 0.02)) + 132.0)) } : u8
    %y = conv(%a, %w) pre0{ (i32(acc) - i32(132)) } ..
"""

from __future__ import annotations

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.types import F32, I8, I32, U8, DType
from mccompile.kernels.integers import zero_of
from mccompile.kernels.model.arithmetic import arithmetics_of
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.rewriter import Rewriter
from mccompile.targets.target import Target


def run(graph: Graph, remarks: Remarks, target: Target) -> int:
    """Store bytes that products read as the arithmetic of the target multiplies them. Exact."""
    multiplied = next((a.staged for a in arithmetics_of(target) if a.staged in (I8, U8)), None)
    if multiplied is None:
        return 0
    r = Rewriter(graph)
    changes = 0
    for node in r.nodes():
        if len(node.results) != 1 or node.result.dtype != (I8 if multiplied == U8 else U8):
            continue
        users = r.users(node.result)
        if not any(_multiplies(u, node.result) for u in users):
            continue
        what = f"stored the result of {node.where} as {multiplied}"
        if reason := _obstacle(r, node, users):
            remarks.miss(what, reason)
            continue
        _flip(r, node, users, multiplied)
        remarks.hit(what)
        changes += 1
    r.finish()
    return changes


def _multiplies(user: Node, value: Value) -> bool:
    """Whether a node multiplies the bytes of a value by others."""
    return user.op.multilinear == (0, 1) and user.operands[0] is value


def _body(node: Node) -> ex.Expr | None:
    """What the elements of a node's only result are."""
    return node.op.elementwise if not node.post else node.post.get(0)


def _obstacle(r: Rewriter, node: Node, users: list[Node]) -> str:
    """Why the result of a node cannot have another sign; empty if it can."""
    body = _body(node)
    if r.is_output(node.result):
        return "it is an output"
    if not isinstance(body, ex.Convert) or body.operand.dtype != F32 or (node.pre and not node.post):
        return "it is not made of f32"
    if not _is_rounded(body.operand):
        return "its floats are not rounded"
    for user in users:
        for i, v in enumerate(user.operands):
            if v is not node.result or user.op.elementwise is not None:
                continue
            if zero_of(user.pre.get(i), v.dtype) is None:
                return f"{user.where} reads the bytes themselves"
    return ""


def _is_rounded(e: ex.Expr) -> bool:
    """Whether floats are whole numbers: a conversion drops what -0.5 has behind the point, of which it makes 0, but
    127 of 127.5."""
    match e:
        case ex.Num():
            return float(e.value).is_integer()
        case ex.Convert(operand=inner):
            return not inner.dtype.is_float or _is_rounded(inner)
        case ex.Apply(fn="rne" | "floor" | "ceil"):
            return True
        case ex.Apply(fn="add" | "sub" | "max" | "min", operands=parts):
            return all(map(_is_rounded, parts))
    return False


def _flip(r: Rewriter, node: Node, users: list[Node], dtype: DType) -> None:
    """Give the result of a node another type, and its readers what they read before."""
    old, more = node.result, 128 if dtype == U8 else -128
    body = _body(node)
    assert isinstance(body, ex.Convert)
    flipped = ex.convert(_increased(body.operand, more), dtype)
    new = r.graph.value(f"{old.name}.{dtype}", old.type.with_dtype(dtype))
    if node.post:
        node.post = {0: flipped}
    else:
        node.op = node.op.with_elementwise(flipped)
    r.set_results(node, [new])
    for user in users:
        _read(r, user, old, new, more)


def _increased(e: ex.Expr, more: int) -> ex.Expr:
    """A float expression plus a number, which joins the numbers that are there."""
    match e:
        case ex.Num():
            return ex.num(float(e.value) + more, F32)
        case ex.Apply(fn="add", operands=(inner, ex.Num() as zero)):
            total = float(zero.value) + more
            return ex.apply("add", inner, ex.num(total, F32)) if total else inner
        case ex.Apply(fn="max" | "min" as fn, operands=(inner, ex.Num() as end)):
            return ex.apply(fn, _increased(inner, more), _increased(end, more))
    return ex.apply("add", e, ex.num(float(more), F32))


def _read(r: Rewriter, user: Node, old: Value, new: Value, more: int) -> None:
    """Let a node read the new bytes, and take off what they have more."""

    def over(body: ex.Expr, values: list[Value]) -> ex.Expr:
        places = {i for i, v in enumerate(values) if v is old}

        def read(i: int) -> ex.Expr:
            return ex.apply("sub", ex.convert(ex.var(i, new.dtype), I32), ex.num(more, I32))

        def before(e: ex.Expr) -> ex.Expr | None:
            match e:
                case ex.Convert(operand=ex.Var(index=i)) if i in places:
                    return ex.convert(read(i), e.dtype)
                case ex.Var(index=i) if i in places:
                    return ex.convert(read(i), old.dtype)
            return None

        return ex.rewritten(body, before) if places else body

    if user.op.elementwise is not None:
        user.op = user.op.with_elementwise(over(user.op.elementwise, [v for v in user.operands if v is not None]))
    else:
        for i, v in enumerate(user.operands):
            if v is old:
                zero = zero_of(user.pre.get(i), old.dtype)
                assert zero is not None
                byte = ex.convert(ex.acc(new.dtype), I32)
                user.pre[i] = ex.apply("sub", byte, ex.num(zero + more, I32)) if zero + more else byte
    user.pre = {i: over(b, user.extras) for i, b in user.pre.items()}
    user.post = {i: over(b, user.extras) for i, b in user.post.items()}
    r.rewire(user, [new if v is old else v for v in user.operands], [new if v is old else v for v in user.extras])
