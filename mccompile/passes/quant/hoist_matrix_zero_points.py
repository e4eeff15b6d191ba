"""Takes zero points that are known at run time only out of products of two matrices of the run: kernels then
multiply their bytes as they are, less 128 where these are no numbers of -128 to 127.

Worked example: queries q and keys k of attention, both quantised when the network runs (DynamicQuantizeLinear), with
zero points a and b. Of 64 products of (q - a) by (k - b) the sum is that of q by (k - 128), less (b - 128) times the
sum of the numbers q - a, less a times that of the numbers k - 128::

    %y = matmul(%q, %k) with(%a, %b) pre0{ (i32(acc) - i32(x0)) } pre1{ (i32(acc) - i32(x1)) } : i32[12,128,128]

    %r = reduce(%q) {mode='sum', axes=(2,)} pre0{ i32(acc) } : i32[12,128,1]                 of each row
    %c = reduce(%k) {mode='sum', axes=(1,)} pre0{ (i32(acc) - i32(128)) } : i32[12,1,128]    of each column
    %y = matmul(%q, %k) with(%a, %b, %r, %c) pre0{ i32(acc) } pre1{ (i32(acc) - i32(128)) }
           post0{ ((acc - ((i32(x1) - 128) * (x2 - (i32(x0) * 64)))) - (i32(x0) * x3)) }
"""

from __future__ import annotations

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.dims import bound
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.types import I8, I32, U8
from mccompile.kernels.conv.covered import not_covered
from mccompile.kernels.integers import lowest
from mccompile.ops.matmul import MatMul
from mccompile.ops.reduce import Reduce
from mccompile.ops.reshape import Reshape
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.patterns import Any, Fail, Is, Match, Rule, apply_rules
from mccompile.targets.target import Target

LARGEST = 256 * 256
"""More than a product of two bytes, or two products by numbers of 8 bits with a sign, can be."""


@dataclass(frozen=True)
class _Bytes:
    """An operand of bytes: what a product makes of them is ``whole``, less ``zero`` if that is known at run time."""

    whole: ex.Expr
    zero: ex.Expr | None


def run(graph: Graph, remarks: Remarks, target: Target) -> int:
    """Subtract zero points that are known at run time from sums of products of two matrices of the run, times the
    sums of rows and columns, where kernels multiply bytes of such matrices. Exact."""

    def check(m: Match) -> Fail | None:
        return _check(m, target)

    pattern = Is(MatMul, (Any("a"), Any("b")), "product", plain=False)
    return apply_rules(graph, remarks, (Rule("took the zero points out of the sums", pattern, check, _rewrite),))


def _check(m: Match, target: Target) -> Fail | None:
    node, a, b = m.root, m.values["a"], m.values["b"]
    if any(v.dtype not in (I8, U8) or v in m.r.graph.constants for v in (a, b)):
        return Fail("")
    found = [_bytes_of(m.r.graph, node, i) for i in range(2)]
    if any(f is None for f in found) or not any(f.zero for f in found if f is not None):
        return Fail("")
    if target.requant != "float" or (reason := not_covered(node, (a.type, b.type), I32, False, target)):
        return Fail(f"{target.name} multiplies such matrices one by one" if target.requant != "float" else reason)
    if bound(_terms(m)) * LARGEST >= 2**31:
        return Fail("the sum might overflow")
    return None


def _terms(m: Match) -> int:
    """Products of a sum."""
    return m.values["a"].shape[-2 if m.op(MatMul).trans_a else -1]


def _bytes_of(graph: Graph, node: Node, i: int) -> _Bytes | None:
    """An operand whose prologue subtracts one zero point, or none; None if it does anything else."""
    body = node.pre.get(i)
    match body:
        case ex.Apply(fn="sub", operands=(whole, zero)):
            pass
        case ex.Convert():
            return _Bytes(body, None) if _is_whole(body) else None
        case _:
            return None
    read = ex.variables(zero)
    if not _is_whole(whole) or ex.ACC in read:
        return None
    if all(node.extras[k] in graph.constants for k in read):
        return _Bytes(body, None)
    return _Bytes(whole, zero) if all(node.extras[k].type.count == 1 for k in read) else None


def _is_whole(body: ex.Expr) -> bool:
    """Whether it is a byte as a number of 32 bits."""
    plain = isinstance(body, ex.Convert) and isinstance(body.operand, ex.Var) and body.operand.index == ex.ACC
    return plain and body.dtype == I32


def _rewrite(m: Match) -> None:
    r, node, op, a, b = m.r, m.root, m.op(MatMul), m.values["a"], m.values["b"]
    left, right = (_bytes_of(r.graph, node, i) for i in range(2))
    assert left is not None
    assert right is not None
    name, extras, terms = node.result.name, list(node.extras), _terms(m)
    node.pre = {0: left.whole, 1: right.whole}
    exact: ex.Expr = ex.acc(I32)
    if right.zero is not None:
        middle = lowest(b.dtype) + 128
        less = ex.num(middle, I32)
        rows = _added_up(m, a, left.whole, a.type.rank - (2 if op.trans_a else 1))
        (found,) = r.insert_node(node, rows, [f"{name}.rows"])
        if op.trans_a:
            found = r.insert(node, Reshape((*a.shape[:-2], a.shape[-1], 1)), [found], f"{name}.rows.turned")
        extras.append(found)
        each: ex.Expr = ex.var(len(extras) - 1, I32)
        if left.zero is not None:
            each = ex.apply("sub", each, ex.apply("mul", left.zero, ex.num(terms, I32)))
        zero = ex.apply("sub", right.zero, less) if middle else right.zero
        exact = ex.apply("sub", exact, ex.apply("mul", zero, each))
        node.pre[1] = ex.apply("sub", right.whole, less) if middle else right.whole
    if left.zero is not None:
        (found,) = r.insert_node(node, _added_up(m, b, node.pre[1], b.type.rank - (1 if op.trans_b else 2)),
                                 [f"{name}.columns"])  # fmt: skip
        if op.trans_b:
            found = r.insert(node, Reshape((*b.shape[:-2], 1, b.shape[-2])), [found], f"{name}.columns.turned")
        extras.append(found)
        exact = ex.apply("sub", exact, ex.apply("mul", left.zero, ex.var(len(extras) - 1, I32)))
    post = node.post.get(0, ex.acc(I32))
    node.post = {0: ex.substitute(post, lambda v: exact if v.index == ex.ACC else v)}
    r.give_extras(node, extras)


def _added_up(m: Match, x: Value, body: ex.Expr, axis: int) -> Node:
    """The sums of an operand along an axis, as its prologue ``body`` makes numbers of it."""
    read = sorted(ex.variables(body) - {ex.ACC})
    place = {i: k for k, i in enumerate(read)}
    moved = ex.substitute(body, lambda v: v if v.index == ex.ACC else ex.var(place[v.index], v.dtype))
    extras = [m.root.extras[i] for i in read]
    return Node(Reduce("sum", (axis,)), [x], [], extras, {0: moved}, origins=m.root.origins)
