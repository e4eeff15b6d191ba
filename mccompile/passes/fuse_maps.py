"""Makes one `map` of a chain of them."""

from __future__ import annotations

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.op import Kind
from mccompile.ir.scalar import FUNCTIONS
from mccompile.ops.map import Map
from mccompile.passes.manager import Remarks
from mccompile.passes.rewriter import Rewriter

MAX_SIZE = 64
"""Functions in one expression, counted as a tree: shared parts are printed once but walked often."""

MAX_OPERANDS = 8

MAX_REPEATED = 3
"""Functions of an expression that may be computed once for each of several readers."""


def run(graph: Graph, remarks: Remarks) -> int:
    """Fuse a map into the maps that read it, if they have its shape. Exact."""
    r = Rewriter(graph)
    changes = sum(_absorb_producers(r, node, remarks) for node in r.nodes() if isinstance(node.op, Map))
    r.finish()
    return changes


def _absorb_producers(r: Rewriter, node: Node, remarks: Remarks) -> int:
    changes = 0
    refused: set[Value] = set()
    while True:
        for value in node.operands:
            producer = r.producer(value)
            if value is None or value in refused or producer is None or not isinstance(producer.op, Map):
                continue
            what = f"fused {producer.where} into {node.where}"
            reason = _obstacle(r, producer, node, value)
            if not reason:
                _fuse(r, producer, node)
                remarks.hit(what)
                changes += 1
                break
            remarks.miss(what, reason)
            refused.add(value)
        else:
            return changes


def _obstacle(r: Rewriter, producer: Node, node: Node, value: Value) -> str:
    assert isinstance(producer.op, Map)
    assert isinstance(node.op, Map)
    if producer.post or producer.pre or node.pre:
        return "it has an epilogue or a prologue"
    if not r.is_private(value) and not _repeats_cheaply(r, producer, value):
        return "its result is needed elsewhere"
    if value.shape != node.result.shape or value.type.layout != node.result.type.layout:
        return "it would be computed more than once per element"
    times = sum(reads(node.op.expr, i) for i, v in enumerate(node.operands) if v is value)
    if size(node.op.expr) + times * size(producer.op.expr) > MAX_SIZE:
        return f"the expression would exceed {MAX_SIZE} functions"
    if len({*producer.operands, *node.operands}) > MAX_OPERANDS + 1:
        return f"it would read more than {MAX_OPERANDS} operands"
    return ""


def _repeats_cheaply(r: Rewriter, producer: Node, value: Value) -> bool:
    """True if every reader can compute ``value`` for itself with less traffic: it is a little arithmetic on
    one operand of full size, and all readers are maps of its shape, so that it need not be stored."""
    assert isinstance(producer.op, Map)
    if r.is_output(value) or size(producer.op.expr) > MAX_REPEATED or not is_cheap(producer.op.expr):
        return False
    full = [v for v in producer.operands if v is not None and v.type.count == value.type.count]
    if len(full) > 1 or any(_takes_epilogue(r, v) for v in full):
        return False
    return all(isinstance(u.op, Map) and u.result.shape == value.shape for u in r.users(value))


def _takes_epilogue(r: Rewriter, value: Value) -> bool:
    """True if the map that reads ``value`` can become part of the kernel that makes it, which is better."""
    producer = r.producer(value)
    return producer is not None and producer.op.kind in (Kind.COMPLEX, Kind.REDUCTION) and r.is_private(value)


def size(e: ex.Expr) -> int:
    """The number of functions in an expression, counted as a tree."""
    return (not isinstance(e, ex.Var | ex.Num)) + sum(size(a) for a in e.args)


def reads(e: ex.Expr, index: int) -> int:
    """How often an expression, as a tree, reads a variable."""
    return (isinstance(e, ex.Var) and e.index == index) + sum(reads(a, index) for a in e.args)


def is_cheap(e: ex.Expr) -> bool:
    """True for arithmetic of a few instructions; library functions and divisions are not cheap."""
    if isinstance(e, ex.Apply) and (FUNCTIONS[e.fn].ulp or e.fn in ("div", "mod", "fmod", "sqrt", "round_f16")):
        return False
    return all(is_cheap(a) for a in e.args)


def _fuse(r: Rewriter, producer: Node, node: Node) -> None:
    assert isinstance(producer.op, Map)
    assert isinstance(node.op, Map)
    operands: list[Value] = []

    def index(v: Value | None) -> int:
        assert v is not None
        if v not in operands:
            operands.append(v)
        return operands.index(v)

    inner = ex.substitute(producer.op.expr, lambda v: ex.var(index(producer.operands[v.index]), v.dtype))
    if producer.result.dtype.name == "f16":
        inner = ex.apply("round_f16", inner)

    def replace(v: ex.Var) -> ex.Expr:
        operand = node.operands[v.index]
        return inner if operand is producer.result else ex.var(index(operand), v.dtype)

    node.op = Map(ex.substitute(node.op.expr, replace), node.op.storage)
    r.rewire(node, operands)
    node.origins = tuple(dict.fromkeys(producer.origins + node.origins))
    if not r.users(producer.result):
        r.erase(producer)
