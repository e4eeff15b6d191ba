"""Moves a `map` into the epilogue of the kernel whose result it reads."""

from __future__ import annotations

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.op import Kind
from mccompile.ops.map import Map
from mccompile.passes.fuse_maps import MAX_OPERANDS, MAX_SIZE, reads, size
from mccompile.passes.manager import Remarks
from mccompile.passes.rewriter import Rewriter


def run(graph: Graph, remarks: Remarks) -> int:
    """Fuse bias, activation, residual and any other map into the convolution, product or reduction before it.

    Exact for f32 and integers; a result stored as f16 is rounded once instead of after each operator.
    """
    r = Rewriter(graph)
    position = {n: i for i, n in enumerate(graph.nodes)}
    changes = 0
    for node in r.nodes():
        if isinstance(node.op, Map) and not node.pre and not node.post:
            changes += _fuse_into_producer(r, node, position, remarks)
    r.finish()
    return changes


def _fuse_into_producer(r: Rewriter, node: Node, position: dict[Node, int], remarks: Remarks) -> int:
    """Fuse into a product rather than a reduction, and into the latest: then the others come before it anyway."""
    candidates = []
    for value in dict.fromkeys(node.operands):
        producer = r.producer(value)
        if value is not None and producer is not None and producer.op.kind in (Kind.COMPLEX, Kind.REDUCTION):
            candidates.append((producer.op.kind == Kind.COMPLEX, position[producer], producer, value))
    candidates.sort(key=lambda c: c[:2], reverse=True)
    for _, _, producer, value in candidates:
        what = f"fused {node.where} into {producer.where}"
        reason = _obstacle(r, node, producer, value)
        if not reason:
            _fuse(r, producer, node, value)
            remarks.hit(what)
            return 1
        remarks.miss(what, reason)
    return 0


def _obstacle(r: Rewriter, node: Node, producer: Node, value: Value) -> str:
    assert isinstance(node.op, Map)
    if len(producer.results) != 1:
        return "it has several results"
    if not r.is_private(value):
        return "its result is needed elsewhere"
    if value.shape != node.result.shape or value.type.layout != node.result.type.layout:
        return "the map has another shape"
    if value.dtype != node.result.dtype:
        return f"the map turns {value.dtype} into {node.result.dtype}"
    times = sum(reads(node.op.expr, i) for i, v in enumerate(node.operands) if v is value)
    if size(node.op.expr) + times * sum(map(size, producer.post.values())) > MAX_SIZE:
        return f"the epilogue would exceed {MAX_SIZE} functions"
    if len({*producer.extras, *node.operands}) > MAX_OPERANDS + 1:
        return f"it would read more than {MAX_OPERANDS} extra operands"
    if producer.pre and any(v in producer.extras for v in node.operands):
        return "an operand of the prologue would be read under two shapes"
    return ""


def _fuse(r: Rewriter, producer: Node, node: Node, value: Value) -> None:
    assert isinstance(node.op, Map)
    body = producer.post.get(0, ex.acc(value.dtype))
    extras = list(producer.extras)

    def replace(v: ex.Var) -> ex.Expr:
        operand = node.operands[v.index]
        if operand is value:
            return body
        assert operand is not None
        if operand not in extras:
            extras.append(operand)
        return ex.var(extras.index(operand), v.dtype)

    producer.post[0] = ex.substitute(node.op.expr, replace)
    r.rewire(producer, extras=extras)
    r.take_over(producer, node)
