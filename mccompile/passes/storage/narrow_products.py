"""Rounds the operands of products as ``--precision`` asks for it: to floats of 16 bits, with sums of f32.

Worked example: a product in bfloat16, whose weights are stored so, too::

    %y = matmul(%x, %w) post0{ (acc + x0) }                                              %w : f32[64,8]
    %y = matmul(%x, %w.bf16) pre0{ round_bf16(acc) } pre1{ bf16(acc) } post0{ (acc + x0) }

Of a recurrent cell it is the state that is rounded, at each step, which an attribute says::

    %h = lstm(%gates, %r.bf16) pre1{ bf16(acc) } {.., rounded=bf16}

Kernels of a target that has instructions for them take both operands in 16 bits (`mccompile/kernels/conv/narrow.py`),
those of `generic` compute the same numbers as this says it. On a target with such kernels a product stays f32 where
that is faster, which is more exact, too: a window of 3x3 by Winograd, 4 times fewer products, against 2 times as many
in an instruction. Weights grow by that, so that layers that gain the most for a byte come first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.scalar import Array
from mccompile.ir.small_floats import bf16_values
from mccompile.ir.types import F32
from mccompile.kernels.conv.narrow import obstacle
from mccompile.kernels.model.arithmetic import float_arithmetic
from mccompile.kernels.model.costs import cheapest, offers
from mccompile.kernels.model.widening import ROUNDED, WIDENED, widened_operand
from mccompile.passes.analysis.weight_forms import as_halves, wanted
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.rewriter import Rewriter
from mccompile.targets.target import Target

ROUNDS = True
FASTER = 0.75
"""Part of the cycles of rounded operands that f32 may take, by estimates, to be preferred: its weights take twice the
bytes or more, and Winograd convolutions take 1.2 to 1.4 times their estimate (Zen 4)."""


def run(graph: Graph, remarks: Remarks, target: Target, precision: Mapping[str, str], growth: float) -> int:
    """Round the operands of convolutions and products to the floats of 16 bits that ``--precision`` says, but where a
    kernel of f32 is faster."""
    if set(precision.values()) <= {"f32"}:
        return 0
    r = Rewriter(graph)
    asked: dict[Node, str] = {}
    for node in [n for n in r.nodes() if n.op.weights is not None and n.operands[0] is not None]:
        form = wanted(precision, node.origins, node.op.name).name
        if form == "f32":
            continue
        if reason := obstacle_of(graph, node, form):
            remarks.miss(f"computed in {form}:", reason, node.where)
        else:
            asked[node] = form
    kept = _faster(graph, asked, target, growth)
    changes = 0
    for node, form in asked.items():
        if node in kept:
            remarks.miss(f"computed in {form}:", f"{kept[node]} of f32 is faster", node.where)
            continue
        _narrow(r, node, form)
        remarks.hit(f"computed in {form}: {node.where}", form)
        changes += 1
    r.finish()
    return changes


def obstacle_of(graph: Graph, node: Node, form: str = "") -> str:
    """Why a product is not computed in a form, or in none at all; empty if it is."""
    if form and node.op.rounding(form) is not None:
        reason = "" if node.operands[1] in graph.constants else "its weights are no constant"
    else:
        reason = "its operand has a prologue" if 0 in node.pre else obstacle(node, graph.constants)
    if reason:
        return reason
    w, stored = node.operands[1], widened_operand(node, 1)
    assert w is not None
    if 1 in node.pre and (not stored or stored != (form or stored)):
        return f"its weights are stored as {stored or 'something else'}"
    if not stored and (w.dtype != F32 or (form and as_halves(graph.array(w), form) is None)):
        return f"its weights have no room in {form or '16 bits'}"
    return ""


def _faster(graph: Graph, asked: Mapping[Node, str], target: Target, growth: float) -> dict[Node, str]:
    """The products that a kernel of f32 computes faster, with its name, where all weights together grow by no more
    than a factor."""
    kept: dict[Node, str] = {}
    grown: list[tuple[float, int, Node, str]] = []
    room = (growth - 1) * sum(v.type.nbytes for v in graph.constants) / 2  # as if all of them were in 16 bits
    for node, form in asked.items():
        own = float_arithmetic(target, form)
        # BFMMLA makes 4 times as many products: resnet8 would take more instructions. Cells gain always.
        if own is None or own.rows > 1 or node.op.rounding(form) is not None:
            continue
        narrow, constants = _rounded(node, form)
        most = FASTER * cheapest(narrow, target, constants | graph.constants.keys())
        able = [o for o in offers(node, target, graph.constants) if o.cycles < most]
        if not able:
            continue
        best = min(able, key=lambda o: o.cycles)
        label = best.label.partition(" ")[0]
        if any(o.growth_bytes <= 0 for o in able):
            kept[node] = label
        else:
            grown.append(((most - best.cycles) / best.growth_bytes, best.growth_bytes, node, label))
    for _, more, node, label in sorted(grown, key=lambda g: -g[0]):  # stable: of equals the first
        if more <= room:
            room -= more
            kept[node] = label
    return kept


def _rounded(node: Node, form: str) -> tuple[Node, set[Value]]:
    """A node as it would be with its operands rounded, and its weights, whose elements do not matter."""
    x, w = node.operands
    assert w is not None
    stored, body = WIDENED[form]
    halves = Value(w.name, w.type.with_dtype(stored))
    pre = {**node.pre, 0: ROUNDED[form], 1: body}
    return replace(node, operands=[x, halves], pre=pre), {halves}


def rounded_weights(weights: Array, form: str) -> Array:
    """The floats that weights are multiplied as."""
    halves = as_halves(weights, form)
    assert halves is not None
    return bf16_values(halves) if form == "bf16" else halves.astype(np.float32)


def _narrow(r: Rewriter, node: Node, form: str) -> None:
    x, w, *rest = node.operands
    assert w is not None
    if own := node.op.rounding(form):
        node.op = own
    else:
        node.pre[0] = ROUNDED[form]
    if 1 not in node.pre:
        halves = as_halves(r.graph.array(w), form)
        assert halves is not None
        node.pre[1] = WIDENED[form][1]
        r.rewire(node, [x, r.graph.constant(f"{w.name}.{form}", halves), *rest], list(node.extras))
