"""Moves a `map` into the prologue of the reduction or normalisation that reads it.

Worked example: masks of i64 become floats, which are added up. Kernels of vectors read i32, but not i64: where there
are such, and memory to spare, the map stays what it is in the second line::

    %s = reduce(%m32) pre0{ f32(acc) }
    %f = map(%m64) {expr={f32(x0)}} ; %s = reduce(%f)
"""

from __future__ import annotations

from dataclasses import replace

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.op import Kind
from mccompile.kernels.model.costs import cheapest
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.bodies import MAX_OPERANDS, is_cheap, size
from mccompile.passes.rewrite.rewriter import Rewriter
from mccompile.targets.target import Target

MAX_SIZE = 8
"""Functions in a prologue: arithmetic that costs less than writing and reading the tensor."""


def run(graph: Graph, remarks: Remarks, target: Target) -> int:
    """Fuse a map into the reduction, softmax or normalisation that is its only reader: a tensor less in memory.
    Exact.

    Convolutions, products and pools read their operands several times and are left alone; and so is, where memory is
    plenty, what no kernel of vectors would take.
    """
    r = Rewriter(graph)
    changes = 0
    for node in r.nodes():
        value = node.operands[0] if node.op.takes_prologue else None
        producer = r.producer(value)
        if value is None or producer is None or producer.op.elementwise is None:
            continue
        what = f"fused {producer.where} into {node.where}"
        main = _main_operand(r, producer, value)
        reason = _obstacle(r, node, producer, value, main)
        if reason or main is None:
            remarks.miss(what, reason)
            continue
        fused = _fused(node, producer, main)
        apart = cheapest(producer, target, graph.constants) + cheapest(node, target, graph.constants)
        if target.spare_memory and cheapest(fused, target, graph.constants) > apart:
            remarks.miss(what, "two kernels are faster")
            continue
        node.pre = fused.pre
        r.rewire(node, fused.operands, fused.extras)
        node.origins = fused.origins
        r.erase(producer)
        remarks.hit(what)
        changes += 1
    r.finish()
    return changes


def _main_operand(r: Rewriter, producer: Node, value: Value) -> Value | None:
    """The operand the reduction is to read instead: one of the map's shape, if possible no constant."""
    alike = [v for v in producer.operands if v is not None and _alike(v, value)]
    return next((v for v in alike if v not in r.graph.constants), alike[0] if alike else None)


def _alike(a: Value, b: Value) -> bool:
    return a.shape == b.shape and a.type.layout == b.type.layout


def _obstacle(r: Rewriter, node: Node, producer: Node, value: Value, main: Value | None) -> str:
    assert producer.op.elementwise is not None
    if not r.is_read_once(value):
        return "its result is needed elsewhere"
    if main is None or producer.pre or producer.post:
        return "no operand has its shape"
    if value.dtype.name == "f16":
        return "its result is rounded to f16"
    if size(producer.op.elementwise) > MAX_SIZE or not is_cheap(producer.op.elementwise):
        return "it is more than a little arithmetic"
    others = [v for v in producer.operands if v is not None and v is not main]
    if node.op.kind is not Kind.REDUCTION and any(v.type.count == value.type.count for v in others):
        return "each row of several tensors would be read several times"
    late = set().union(*map(ex.variables, node.post.values()))
    if any(v in others and i in late for i, v in enumerate(node.extras)):
        return "an operand of the epilogue would be read under two shapes"
    if len({*node.extras, *others}) > MAX_OPERANDS - 1:
        return f"it would read more than {MAX_OPERANDS} operands"
    return ""


def _fused(node: Node, producer: Node, main: Value) -> Node:
    """The node with the map that makes its operand as a prologue."""
    assert producer.op.elementwise is not None
    extras = list(node.extras)

    def read(v: ex.Var) -> ex.Expr:
        operand = producer.operands[v.index]
        assert operand is not None
        if operand is main:
            return ex.acc(v.dtype)
        if operand not in extras:
            extras.append(operand)
        return ex.var(extras.index(operand), v.dtype)

    inner = ex.substitute(producer.op.elementwise, read)
    before = node.pre.get(0)
    body = inner if before is None else ex.substitute(before, lambda v: inner if v.index == ex.ACC else v)
    operands, origins = [main, *node.operands[1:]], tuple(dict.fromkeys(node.origins + producer.origins))
    return replace(node, operands=operands, extras=extras, pre={**node.pre, 0: body}, origins=origins)

