"""Moves quantisation in front of what only moves elements or keeps their order: bytes are moved instead of floats.

Worked example: parts of a join are quantised where they are made, each in the epilogue of its own kernel::

    %j = concat(%a, %b) {axis=1}                       %qa = map(%a) {expr={i8(rne((x0 / 0.5)))}}, %qb likewise
    %q = map(%j) {expr={i8(rne((x0 / 0.5)))}}          %q = concat(%qa, %qb) {axis=1}
"""

from __future__ import annotations

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.types import BOOL, I32
from mccompile.passes.analysis.forms import quantising_form
from mccompile.passes.analysis.movement import moves
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.patterns import is_plain
from mccompile.passes.rewrite.rewriter import Rewriter


def run(graph: Graph, remarks: Remarks) -> int:
    """Quantise before elements are moved, and before the largest of them are taken. Exact."""
    changes = 0
    while True:
        r = Rewriter(graph)
        moved = 0
        for node in r.nodes():
            value = _quantises(graph, node)
            movement = r.producer(value)
            if value is None or movement is None or not (moves(movement.op) or movement.op.picks):
                continue
            what = f"moved {node.where} before {movement.where}"
            reason = _obstacle(r, node, movement, value)
            if reason:
                if not changes:
                    remarks.miss(what, reason)
                continue
            _raise(r, node, movement, value)
            remarks.hit(what)
            moved += 1
        r.finish()
        changes += moved
        if not moved:
            return changes


def _quantises(graph: Graph, node: Node) -> Value | None:
    """The operand of a map that makes smaller elements of it alone, with numbers; None if the node is no such map."""
    if node.op.elementwise is None or not is_plain(node):
        return None
    varying = [v for v in node.operands if v is not None and v not in graph.constants]
    others = [v for v in node.operands if v is not None and v in graph.constants]
    if len(varying) != 1 or any(v.type.count != 1 for v in others) or varying[0].shape != node.result.shape:
        return None
    narrows = varying[0].dtype.is_float and node.result.dtype.nbytes < varying[0].dtype.nbytes
    return varying[0] if narrows and not node.result.dtype.is_float else None


def _obstacle(r: Rewriter, node: Node, movement: Node, value: Value) -> str:
    if not is_plain(movement) or len(movement.results) != 1:
        return "the movement does more than that"
    if not r.is_private(value):
        return "its operand is needed elsewhere"
    if movement.op.may_pick_none(movement.operand_types()):
        return "the largest of no element may be quantised to another end than its type's"
    if movement.op.picks:
        return "" if _never_falls(r.graph, node) else "it may make less of what is more"
    return ""


def _never_falls(graph: Graph, node: Node) -> bool:
    body = node.op.elementwise
    assert body is not None
    if not isinstance(body, ex.Convert) or body.dtype == BOOL:  # of -1 and 0 the first is true
        return False

    def constant(i: int) -> np.ndarray | None:
        operand = node.operands[i]
        return np.asarray(graph.constants[operand]) if operand in graph.constants else None

    (main,) = (i for i, v in enumerate(node.operands) if v not in graph.constants)
    form = quantising_form(body, main, constant)
    if isinstance(form, str) or form.apart or not form.terms.keys() <= {ex.var(main, I32)}:  # a square falls, too
        return False
    return all((s >= 0).all() for s in form.terms.values())


def _raise(r: Rewriter, node: Node, movement: Node, value: Value) -> None:
    op = movement.op
    if op.background is not None:
        body, given = node.op.elementwise, np.asarray(op.background, np.float32)
        assert body is not None
        known = [given if v is value else r.graph.array(v) for v in node.operands if v]
        op = op.with_background(float(ex.evaluate(body, lambda i: known[i]).reshape(-1)[0]))
    data = [v for v in movement.operands if v is not None and v.dtype == value.dtype]
    early = {
        v: r.insert(node, node.op, [v if o is value else o for o in node.operands], f"{node.result.name}.early")
        for v in dict.fromkeys(data)
    }
    operands = [v if v is None else early.get(v, v) for v in movement.operands]
    node.op = op
    node.origins = tuple(dict.fromkeys(movement.origins + node.origins))
    r.rewire(node, operands)
    r.erase(movement)
