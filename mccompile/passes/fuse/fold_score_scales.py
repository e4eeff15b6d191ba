"""Takes factors of queries and keys into the scores of attention: keys are then read as they are, not multiplied.

Worked example: queries and keys are each multiplied by a root of the scale, so that neither grows large in f16. With
sums of f32 one factor of the scores does the same; all the keys of a cache need not be written again at every step::

    %a = map(%q) {expr={(x0 * 0.5)}}
    %b = map(%k) {expr={(x0 * 0.5)}}
    %y = attention(%a, %b, %v) {score={x0}}

    %y = attention(%q, %k, %v) {score={(x0 * 0.25)}}
"""

from __future__ import annotations

from dataclasses import replace

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Value
from mccompile.ir.types import F32
from mccompile.ops.attention import Attention
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.patterns import Is, matches
from mccompile.passes.rewrite.rewriter import Rewriter

ROUNDS = True
_ATTENTION = Is(Attention, None, "attention", plain=False)
LARGE = 2.0**100
"""A factor far below what f32 has no numbers for, or far above what it has no exact ones for."""
PRODUCT = (0, 1)
"""The operands whose product the scores are of."""


def run(graph: Graph, remarks: Remarks) -> int:
    """Multiply scores by what queries and keys are multiplied by. May change rounding."""
    r = Rewriter(graph)
    changes = 0
    for node in r.nodes():
        attention = next(matches(_ATTENTION, r, node), None)
        if attention is None or any(i in node.pre for i in PRODUCT):
            continue
        op = attention.op(Attention)
        operands, factor = list(node.operands), 1.0
        for i in PRODUCT:
            value = operands[i]
            assert value is not None
            operands[i], own = _unscaled(r, value)
            factor *= own
        if operands == node.operands:
            continue
        what = f"scaled the scores of {node.where}, not its queries and keys"
        if not 1 / LARGE < abs(factor) < LARGE:
            remarks.miss(what, "both scales together are no exact f32")
            continue
        scaled = ex.apply("mul", ex.var(0, F32), ex.num(factor, F32))
        score = ex.substitute(op.score, lambda v, s=scaled: s if v.index == 0 else v)  # type: ignore[misc]
        node.op = replace(op, score=score)
        scales = [r.producer(old) for old, new in zip(node.operands, operands, strict=True) if old is not new]
        r.rewire(node, operands)
        for scale in scales:
            assert scale is not None
            r.erase(scale)
        remarks.hit(what)
        changes += 1
    r.finish()
    return changes


def _unscaled(r: Rewriter, value: Value) -> tuple[Value, float]:
    """What a value is a multiple of, and the factor; itself and 1 if it is none, or is needed for something else."""
    node = r.producer(value)
    if node is None or len(node.inputs) != 1 or not r.is_read_once(value):
        return value, 1.0  # keys that are values too, or queries, are needed as they are
    source = node.inputs[0]
    match node.op.elementwise:
        case ex.Apply(fn="mul", operands=(ex.Var(), ex.Num(value=factor))) if (
            source.type == value.type and value.dtype == F32 and not node.pre and not node.post
        ):
            return source, float(factor)
    return value, 1.0
