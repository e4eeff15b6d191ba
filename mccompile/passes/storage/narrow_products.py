"""Rounds the operands of products as ``--precision`` asks for it: to floats of 16 bits, with sums of f32.

Worked example: a product in bfloat16, whose weights are stored so, too::

    %y = matmul(%x, %w) post0{ (acc + x0) }                                              %w : f32[64,8]
    %y = matmul(%x, %w.bf16) pre0{ round_bf16(acc) } pre1{ bf16(acc) } post0{ (acc + x0) }

Which products these are does not depend on the target: kernels of a target that has instructions for them take both
operands in 16 bits (`mccompile/kernels/conv/narrow.py`), those of `generic` compute the same numbers as this says it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mccompile.ir.graph import Graph, Node
from mccompile.ir.scalar import Array
from mccompile.ir.small_floats import bf16_values
from mccompile.ir.types import F32
from mccompile.kernels.conv.narrow import obstacle
from mccompile.kernels.model.widening import ROUNDED, WIDENED, widened_operand
from mccompile.passes.analysis.weight_forms import as_halves, wanted
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.rewriter import Rewriter

ROUNDS = True


def run(graph: Graph, remarks: Remarks, precision: Mapping[str, str]) -> int:
    """Round the operands of convolutions and products to the floats of 16 bits that ``--precision`` says."""
    if set(precision.values()) <= {"f32"}:
        return 0
    r = Rewriter(graph)
    changes = 0
    for node in [n for n in r.nodes() if n.op.weights is not None and n.operands[0] is not None]:
        form = wanted(precision, node.origins, node.op.name).name
        if form == "f32":
            continue
        if reason := obstacle_of(graph, node, form):
            remarks.miss(f"computed in {form}:", reason, node.where)
            continue
        _narrow(r, node, form)
        remarks.hit(f"computed in {form}: {node.where}", form)
        changes += 1
    r.finish()
    return changes


def obstacle_of(graph: Graph, node: Node, form: str = "") -> str:
    """Why a product is not computed in a form, or in none at all; empty if it is."""
    if 0 in node.pre:
        return "its operand has a prologue"
    if reason := obstacle(node, graph.constants):
        return reason
    w, stored = node.operands[1], widened_operand(node, 1)
    assert w is not None
    if 1 in node.pre and (not stored or stored != (form or stored)):
        return f"its weights are stored as {stored or 'something else'}"
    if not stored and (w.dtype != F32 or (form and as_halves(graph.array(w), form) is None)):
        return f"its weights have no room in {form or '16 bits'}"
    return ""


def rounded_weights(weights: Array, form: str) -> Array:
    """The floats that weights are multiplied as."""
    halves = as_halves(weights, form)
    assert halves is not None
    return bf16_values(halves) if form == "bf16" else halves.astype(np.float32)


def _narrow(r: Rewriter, node: Node, form: str) -> None:
    x, w = node.operands
    assert w is not None
    node.pre[0] = ROUNDED[form]
    if 1 not in node.pre:
        halves = as_halves(r.graph.array(w), form)
        assert halves is not None
        node.pre[1] = WIDENED[form][1]
        r.rewire(node, [x, r.graph.constant(f"{w.name}.{form}", halves)], list(node.extras))
