"""Stores floats in 16 bits where all that read them round them to as many: bfloat16 between convolutions.

Worked example: a convolution whose result two others multiply in bfloat16. It is rounded once, where it is made; half
of the bytes are moved, and readers of 1x1 take it as it lies::

    %a = conv(..) post0{ relu(acc) } : f32              %a.bf16 = conv(..) post0{ bf16_bits(relu(acc)) } : u16
    %y = conv(%a, ..) pre0{ round_bf16(acc) } ..        %y = conv(%a.bf16, ..) pre0{ bf16(acc) } ..

A concat moves halves as it moves floats: what it joins is stored so with its result, or none of them is.
"""

from __future__ import annotations

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.types import F32, U16
from mccompile.kernels.model.arithmetic import float_arithmetic
from mccompile.kernels.model.costs import cheapest
from mccompile.kernels.model.widening import ROUNDED, WIDENED
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.rewriter import Rewriter
from mccompile.targets.target import Target

FORM = "bf16"


def run(graph: Graph, remarks: Remarks, target: Target) -> int:
    """Store what all readers round to bfloat16 as that, where kernels gain by it. Exact."""
    own = float_arithmetic(target, FORM)
    if own is None or own.rows > 1:  # by BFMMLA, of two rows, mobilenet_v1 would take 1.1 times the instructions
        return 0
    r = Rewriter(graph)
    able = _able(r)
    changes = 0
    for group in _groups(r, able):
        what = ", ".join(f"%{v.name}" for v in group)
        nodes = list(dict.fromkeys(n for v in group for n in (r.producer(v), *r.users(v)) if n is not None))
        costly = [n for n in nodes if not _joins(n)]
        before = sum(cheapest(n, target, graph.constants) for n in costly)
        kept = [(n, n.op, dict(n.pre), dict(n.post)) for n in nodes]
        types = [v.type for v in group]
        for v in group:
            _store(r, v)
        if sum(cheapest(n, target, graph.constants) for n in costly) < before:
            remarks.hit(f"stored in 16 bits: {what}")
            for v in group:  # what has the name of a tensor of the model has its numbers
                v.name = graph.value(f"{v.name}.{FORM}", v.type).name
            changes += len(group)
            continue
        remarks.miss("stored in 16 bits:", "kernels would gain nothing", what)
        for v, type_ in zip(group, types, strict=True):
            v.type = type_
        for n, op, pre, post in kept:
            n.op, n.pre, n.post = op, pre, post
    return changes


def _able(r: Rewriter) -> list[Value]:
    """The values that all readers round, and that can be rounded where they are made."""
    made = [v for n in r.nodes() for v in n.results if len(n.results) == 1 and v.dtype == F32 and not r.is_output(v)]
    able = dict.fromkeys(v for v in made if r.users(v))
    while True:
        refused = [v for v in able if not (_rounds_at_last(r, v, able) and _is_rounded(r, v, able))]
        for v in refused:
            del able[v]
        if not refused:
            return list(able)


def _joins(node: Node) -> bool:
    """Whether a node is a plain concat."""
    return node.op.name == "concat" and not node.pre and not node.post


def _rounds_at_last(r: Rewriter, v: Value, able: dict[Value, None]) -> bool:
    """Whether what makes a value could round it: computes it, or moves what is stored in 16 bits, too."""
    node = r.producer(v)
    assert node is not None
    if _joins(node):
        return all(x in able for x in node.operands)
    return node.op.weights is not None or (node.op.elementwise is not None and not node.post)


def _is_rounded(r: Rewriter, v: Value, able: dict[Value, None]) -> bool:
    """Whether all that read a value round it, or move it to where that is done."""
    for node in r.users(v):
        if _joins(node):
            if node.result not in able:
                return False
        elif node.pre.get(0) != ROUNDED[FORM] or v in (*node.operands[1:], *node.extras):
            return False
    return True


def _groups(r: Rewriter, able: list[Value]) -> list[list[Value]]:
    """Values that are stored alike: the result of a concat with its operands."""
    root: dict[Value, Value] = {v: v for v in able}

    def found(v: Value) -> Value:
        while root[v] is not v:
            v = root[v]
        return v

    for v in able:
        node = r.producer(v)
        if node is not None and _joins(node):
            for x in node.operands:
                assert x is not None
                root[found(x)] = found(v)
    groups: dict[Value, list[Value]] = {}
    for v in able:
        groups.setdefault(found(v), []).append(v)
    return list(groups.values())


def _store(r: Rewriter, v: Value) -> None:
    """Round a value where it is made, and let who reads it take it as it is."""
    node = r.producer(v)
    assert node is not None
    v.type = v.type.with_dtype(U16)
    if node.op.elementwise is not None:
        node.op = node.op.with_elementwise(ex.apply("bf16_bits", node.op.elementwise))
    elif not _joins(node):
        node.post[0] = ex.apply("bf16_bits", node.post.get(0, ex.acc(F32)))
    for reader in r.users(v):
        if not _joins(reader):
            reader.pre[0] = WIDENED[FORM][1]
