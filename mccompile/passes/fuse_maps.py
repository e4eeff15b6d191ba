"""Makes one `map` of a chain of them."""

from __future__ import annotations

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ops.map import Map
from mccompile.passes.manager import Remarks

MAX_SIZE = 64
"""Functions in one expression, counted as a tree: shared parts are printed once but walked often."""

MAX_OPERANDS = 8


def run(graph: Graph, remarks: Remarks) -> int:
    """Fuse a map into the maps that read it, if they are its only readers and have its shape."""
    changes = 0
    for node in list(graph.nodes):
        if isinstance(node.op, Map) and node in graph.nodes:
            changes += _absorb_producers(graph, node, remarks)
    return changes


def _absorb_producers(graph: Graph, node: Node, remarks: Remarks) -> int:
    changes = 0
    while (producer := _fusable(graph, node, remarks)) is not None:
        _fuse(graph, producer, node)
        changes += 1
    return changes


def _fusable(graph: Graph, node: Node, remarks: Remarks) -> Node | None:
    producers, users = graph.producers(), graph.users()
    assert isinstance(node.op, Map)
    for value in node.operands:
        producer = producers.get(value) if value is not None else None
        if producer is None or value is None or not isinstance(producer.op, Map):
            continue
        what = f"fused {producer.where} into {node.where}"
        if value in graph.outputs or len(users[value]) != 1:
            remarks.miss(what, "its result is needed elsewhere")
        elif value.shape != node.result.shape or value.type.layout != node.result.type.layout:
            remarks.miss(what, "it would be computed more than once per element")
        elif size(producer.op.expr) + size(node.op.expr) > MAX_SIZE:
            remarks.miss(what, f"the expression would exceed {MAX_SIZE} functions")
        elif len({*producer.operands, *node.operands}) > MAX_OPERANDS + 1:
            remarks.miss(what, f"it would read more than {MAX_OPERANDS} operands")
        else:
            remarks.hit(what)
            return producer
    return None


def size(e: ex.Expr) -> int:
    """The number of functions in an expression."""
    return (not isinstance(e, ex.Var | ex.Num)) + sum(size(a) for a in e.args)


def _fuse(graph: Graph, producer: Node, node: Node) -> None:
    assert isinstance(producer.op, Map) and isinstance(node.op, Map)
    operands: list[Value] = []

    def index(v: Value | None) -> int:
        assert v is not None
        if v not in operands:
            operands.append(v)
        return operands.index(v)

    inner = ex.substitute(producer.op.expr, lambda v: ex.var(index(producer.operands[v.index]), v.dtype))
    stored = producer.result.dtype
    if stored.name == "f16":
        inner = ex.apply("round_f16", inner)

    def replace(v: ex.Var) -> ex.Expr:
        operand = node.operands[v.index]
        return inner if operand is producer.result else ex.var(index(operand), v.dtype)

    node.op = Map(ex.substitute(node.op.expr, replace), node.op.storage)
    node.operands = list(operands)
    node.origins = tuple(dict.fromkeys(producer.origins + node.origins))
    graph.nodes.remove(producer)
