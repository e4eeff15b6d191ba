"""Writes constants of one value into the expressions that read them.

Where code is to be small they stay operands, so that kernels which differ in a number are one; but not those of nodes
that read or write bytes, for their scales and zero points decide what is computed in integers.
"""

from __future__ import annotations

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.types import BOOL, I8, I32, I64, U8, broadcast_shapes
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.rewriter import Rewriter
from mccompile.targets.target import Target


def run(graph: Graph, remarks: Remarks, target: Target) -> int:
    """Turn a constant whose elements are all equal into a number of the expressions that read it. Exact."""
    r = Rewriter(graph)
    numbers: dict[Value, ex.Num | None] = {}

    def number(v: Value | None) -> ex.Num | None:
        if v is None or v not in graph.constants:
            return None
        if v not in numbers:
            numbers[v] = _number(graph, v)
        return numbers[v]

    changes = 0
    for node in r.nodes():
        if target.compact and not any(v.dtype in (I8, U8) for v in (*node.inputs, *node.results)):
            continue
        given = {i: n for i, v in enumerate(node.extras) if (n := number(v)) is not None}
        changes += _inline_extras(r, node, given) if given else 0
        if node.op.elementwise is not None:
            given = {i: n for i, v in enumerate(node.operands) if (n := number(v)) is not None}
            changes += _inline_operands(r, node, given, remarks) if given else 0
    r.finish()
    return changes


def _number(graph: Graph, value: Value) -> ex.Num | None:
    """The element all elements of a constant are equal to, bit for bit.

    Unsigned and narrow integers and the extremes stay operands: compilers warn of comparisons with literals
    that a type can never be below or above.
    """
    flat = graph.array(value).reshape(-1)
    if flat.size == 0 or not (value.dtype.is_float or value.dtype in (BOOL, I32, I64)):
        return None
    if flat.size > 1 and flat.tobytes() != np.full_like(flat, flat[0]).tobytes():
        return None
    if value.dtype in (I32, I64) and flat[0] in (np.iinfo(flat.dtype).min, np.iinfo(flat.dtype).max):
        return None
    return ex.num(flat[0], value.dtype)


def _renumbered(count: int, given: dict[int, ex.Num]) -> dict[int, int]:
    kept = [i for i in range(count) if i not in given]
    return {old: new for new, old in enumerate(kept)}


def _written(body: ex.Expr, given: dict[int, ex.Num], place: dict[int, int]) -> ex.Expr:
    def replace(v: ex.Var) -> ex.Expr:
        if v.index == ex.ACC:
            return v
        return given[v.index] if v.index in given else ex.var(place[v.index], v.dtype)

    return ex.substitute(body, replace)


def _inline_extras(r: Rewriter, node: Node, given: dict[int, ex.Num]) -> int:
    place = _renumbered(len(node.extras), given)
    node.pre = {i: _written(b, given, place) for i, b in node.pre.items()}
    node.post = {i: _written(b, given, place) for i, b in node.post.items()}
    r.rewire(node, extras=[node.extras[i] for i in place])
    return len(given)


def _inline_operands(r: Rewriter, node: Node, given: dict[int, ex.Num], remarks: Remarks) -> int:
    assert node.op.elementwise is not None
    place = _renumbered(len(node.operands), given)
    kept = [v for i in place if (v := node.operands[i]) is not None]
    if not kept or broadcast_shapes(*(v.shape for v in kept)) != node.result.shape or node.pre:
        remarks.miss(f"wrote constants into {node.where}", "they give the result its shape")
        return 0
    node.op = node.op.with_elementwise(_written(node.op.elementwise, given, place))
    r.rewire(node, kept)
    return len(given)
