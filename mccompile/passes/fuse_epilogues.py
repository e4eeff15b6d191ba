"""Moves a `map` into the epilogue of the kernel whose result it reads."""

from __future__ import annotations

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.op import Kind
from mccompile.ops.map import Map
from mccompile.passes.fuse_maps import MAX_OPERANDS, MAX_SIZE, size
from mccompile.passes.manager import Remarks


def run(graph: Graph, remarks: Remarks) -> int:
    """Fuse bias, activation, residual and any other map into the convolution, product or reduction before it."""
    changes = 0
    for node in list(graph.nodes):
        if isinstance(node.op, Map):
            changes += _fuse_into_producer(graph, node, remarks)
    return changes


def _fuse_into_producer(graph: Graph, node: Node, remarks: Remarks) -> int:
    producers, users = graph.producers(), graph.users()
    position = {n: i for i, n in enumerate(graph.nodes)}
    for value in node.operands:
        producer = producers.get(value) if value is not None else None
        if producer is None or value is None or producer.op.kind not in (Kind.COMPLEX, Kind.REDUCTION):
            continue
        what = f"fused {node.where} into {producer.where}"
        reason = _obstacle(graph, node, producer, value, users[value])
        if reason:
            remarks.miss(what, reason)
            continue
        late = [v for v in node.operands if v in producers and position[producers[v]] > position[producer]]
        if late:
            # The other operands come later in the list: the producer moves down to where they are known.
            graph.nodes.remove(producer)
            graph.nodes.insert(graph.nodes.index(node), producer)
        _fuse(graph, producer, node, value)
        remarks.hit(what)
        return 1
    return 0


def _obstacle(graph: Graph, node: Node, producer: Node, value: Value, users: list[Node]) -> str:
    assert isinstance(node.op, Map)
    if len(producer.results) != 1:
        return "it has several results"
    if value in graph.outputs or len(users) != 1:
        return "its result is needed elsewhere"
    if value.shape != node.result.shape or value.type.layout != node.result.type.layout:
        return "the map has another shape"
    if value.dtype != node.result.dtype:
        return f"the map turns {value.dtype} into {node.result.dtype}"
    if size(node.op.expr) + sum(map(size, producer.post.values())) > MAX_SIZE:
        return f"the epilogue would exceed {MAX_SIZE} functions"
    if len({*producer.extras, *node.operands}) > MAX_OPERANDS + 1:
        return f"it would read more than {MAX_OPERANDS} extra operands"
    if set(producer.pre) and any(v in producer.extras for v in node.operands):
        return "an operand of the prologue would be read under two shapes"
    return ""


def _fuse(graph: Graph, producer: Node, node: Node, value: Value) -> None:
    assert isinstance(node.op, Map)
    body = producer.post.get(0, ex.acc(value.dtype))

    def replace(v: ex.Var) -> ex.Expr:
        operand = node.operands[v.index]
        if operand is value:
            return body
        assert operand is not None
        if operand not in producer.extras:
            producer.extras.append(operand)
        return ex.var(producer.extras.index(operand), v.dtype)

    producer.post[0] = ex.substitute(node.op.expr, replace)
    producer.results = node.results
    producer.origins = tuple(dict.fromkeys(producer.origins + node.origins))
    graph.nodes.remove(node)
