"""Stores i64 as i32 inside a graph where ranges prove that every element fits."""

from __future__ import annotations

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir import ranges
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.op import Kind, TypeRuleError
from mccompile.ir.ranges import Range
from mccompile.ir.types import I32, I64
from mccompile.passes.analysis.movement import moves
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.rewriter import Rewriter

LARGEST = 2**31 - 1


def run(graph: Graph, remarks: Remarks) -> int:
    """Store i64 that fits into i32 as such, never at the border of the graph: half the memory, and no conversion of
    indices. Exact."""
    if not any(v.dtype == I64 for v in (*graph.constants, *(v for n in graph.nodes for v in n.results))):
        return 0
    r = Rewriter(graph)
    known = _ranges(graph)
    wide = [v for v in known if v.dtype == I64 and not r.is_output(v) and v not in graph.inputs]
    chosen = {v for v in wide if _fits(known[v])}
    while left := {v for v in chosen if _obstacle(r, v, chosen)}:
        chosen -= left
    made = [v for n in graph.nodes for v in n.results if v in chosen]
    for v in wide:
        if r.producer(v) is not None and v not in chosen:
            what = f"narrowed %{v.name} to i32"
            remarks.miss(what, _obstacle(r, v, set(wide)) if _fits(known[v]) else "it may not fit")
    if not made:
        return 0
    for node in graph.nodes:
        _rewrite(node, chosen)
    for v in chosen:
        if isinstance(array := graph.constants.get(v), np.ndarray):
            graph.constants[v] = array.astype(np.int32)
        v.type = v.type.with_dtype(I32)
    for v in made:
        remarks.hit(f"narrowed %{v.name} to i32")
    r.finish()
    return len(made)


def _fits(known: Range) -> bool:
    return bool((known.low >= -LARGEST).all() and (known.high <= LARGEST).all())


def _ranges(graph: Graph) -> dict[Value, Range]:
    """The range of all elements of each value."""
    known = {v: ranges.anything(v.dtype) for v in graph.inputs}
    for v, array in graph.constants.items():
        known[v] = ranges.of_array(array, None) if isinstance(array, np.ndarray) else ranges.anything(v.dtype)
    for node in graph.nodes:
        for v in node.results:
            known[v] = _range(node, v, known)
    return known


def _range(node: Node, v: Value, known: dict[Value, Range]) -> Range:
    index = node.results.index(v)
    found = ranges.anything(v.dtype)
    if not node.pre and not node.regions:
        given = [None if o is None else known[o] for o in node.operands]
        found = node.op.value_range(node.operand_types(), given)[index]
    if index not in node.post:
        return found
    extras = [known[e] for e in node.extras]
    return ranges.of_expression(node.post[index], lambda i: found if i == ex.ACC else extras[i])


def _obstacle(r: Rewriter, v: Value, chosen: set[Value]) -> str:
    """Why a value stays as it is, if all of ``chosen`` but that were narrowed; empty if nothing speaks against it."""
    producer = r.producer(v)
    if producer is not None and not _makes(producer, chosen):
        return f"{producer.where} makes nothing else"
    for user in r.users(v):
        if not _reads(user, v, chosen):
            return f"{user.where} reads nothing else"
    return ""


def _makes(node: Node, chosen: set[Value]) -> bool:
    if node.op.elementwise is not None or node.op.kind is Kind.REDUCTION:
        return True
    return moves(node.op) and not node.pre and not node.post and all(v in chosen for v in node.inputs)


def _reads(node: Node, v: Value, chosen: set[Value]) -> bool:
    if v in node.extras or node.pre or node.regions:
        return False
    if node.op.elementwise is not None:
        return True
    if moves(node.op):
        return not node.post and all(w in chosen for w in (*node.inputs, *node.results))
    return _takes_i32(node, v)


def _takes_i32(node: Node, v: Value) -> bool:
    """Whether the results are of the same types where ``v`` is i32: indices, or what only is compared."""
    if node.op.reads_bits:
        return False
    types = node.operand_types()
    narrow = [t.with_dtype(I32) if t is not None and o is v else t for t, o in zip(types, node.operands, strict=True)]
    try:
        return node.op.infer(*narrow) == node.op.infer(*types)
    except (TypeRuleError, ValueError):
        return False


def _rewrite(node: Node, chosen: set[Value]) -> None:
    """Let a node read and make i32 where its values are among ``chosen``, which still say i64."""
    if node.op.elementwise is not None:
        operands = node.operands

        def read(v: ex.Var) -> ex.Expr:
            return ex.convert(ex.var(v.index, I32), I64) if operands[v.index] in chosen else v

        body = ex.substitute(node.op.elementwise, read)
        node.op = node.op.with_elementwise(ex.convert(body, I32) if node.result in chosen else body)
    elif node.op.kind is Kind.REDUCTION:
        for i, v in enumerate(node.results):
            if v in chosen:
                node.post[i] = ex.convert(node.post.get(i, ex.acc(I64)), I32)
