"""Stores i64 as i32 inside a graph where ranges prove that every element fits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir import ranges
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.ranges import Range
from mccompile.ir.types import I32, I64
from mccompile.ops.arg_reduce import ArgReduce
from mccompile.ops.gather import Gather
from mccompile.ops.gather_elements import GatherElements
from mccompile.ops.gather_nd import GatherND
from mccompile.ops.map import Map
from mccompile.ops.movement import Movement
from mccompile.ops.reshape import Reshape
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.rewriter import Rewriter

LARGEST = 2**31 - 1

INDEXED = (Gather, GatherElements, GatherND)
"""They read their second operand as i32 or i64."""


def run(graph: Graph, remarks: Remarks) -> int:
    """Store i64 that fits into i32 as such, never at the border of the graph: half the memory, and no conversion of
    indices. Exact."""
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
    given = [known[o] for o in node.operands if o is not None]
    found = ranges.anything(v.dtype)
    match node.op:
        case Map(expr=body):
            return ranges.of_expression(body, lambda i: given[i])
        case ArgReduce(axis=axis):
            x = node.inputs[0]
            found = Range(np.array([0.0]), np.array([x.shape[axis] - 1.0]))
        case Gather() | GatherElements() | GatherND():
            found = given[0]
        case Movement() | Reshape():
            background = node.op.background if isinstance(node.op, Movement) else None
            ends = [*given, *([] if background is None else [Range(*(np.array([float(background)]),) * 2)])]
            found = Range(np.min([e.low for e in ends], 0), np.max([e.high for e in ends], 0))
    if not node.post:
        return found if not node.pre else ranges.anything(v.dtype)
    extras = [known[e] for e in node.extras]
    body = node.post.get(node.results.index(v), ex.acc(v.dtype))
    return ranges.of_expression(body, lambda i: found if i == ex.ACC and not node.pre else _or(extras, i, v))


def _or(extras: list[Range], index: int, v: Value) -> Range:
    return ranges.anything(v.dtype) if index == ex.ACC else extras[index]


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
    if isinstance(node.op, Map | ArgReduce):
        return True
    moves = isinstance(node.op, Movement | Reshape) and not node.pre and not node.post
    return moves and all(v in chosen for v in node.inputs)


def _reads(node: Node, v: Value, chosen: set[Value]) -> bool:
    if v in node.extras or node.pre:
        return False
    if isinstance(node.op, Map):
        return True
    if isinstance(node.op, Movement | Reshape):
        return not node.post and all(w in chosen for w in (*node.inputs, *node.results))
    return isinstance(node.op, INDEXED) and not node.op.inside and node.operands[0] is not v


def _rewrite(node: Node, chosen: set[Value]) -> None:
    """Let a node read and make i32 where its values are among ``chosen``, which still say i64."""
    if isinstance(node.op, Map):
        operands = node.operands

        def read(v: ex.Var) -> ex.Expr:
            return ex.convert(ex.var(v.index, I32), I64) if operands[v.index] in chosen else v

        body = ex.substitute(node.op.expr, read)
        node.op = replace(node.op, expr=ex.convert(body, I32) if node.result in chosen else body)
    elif isinstance(node.op, ArgReduce) and node.result in chosen:
        node.post = {0: ex.convert(node.post.get(0, ex.acc(I64)), I32)}
