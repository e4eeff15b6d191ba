"""Quotients that are rounded to whole numbers, or compared, once they have been summed up.

Worked example: of whole quotients, sums are whole in any order. The product with a matrix of one-hot rows picks some;
the inverse of 41, or the 41st parts of weights, would make 0 of 41::

    %q = map(%x) {expr={(x0 / 41.0)}}
    %p = matmul(%q, %rows)
    %i = map(%p) {expr={i32(x0)}}

>>> from mccompile.ir.graph_text import parse_graph
>>> from mccompile.ops.registry import lookup
>>> graph = parse_graph('''graph @g(%x: f32[2,3], %rows: f32[3,3]) {
...   %q = map(%x) {expr={(x0 / 41.0)}} : f32[2,3]
...   %p = matmul(%q, %rows) : f32[2,3]
...   %i = map(%p) {expr={i32(x0)}} : i32[2,3]
...   return %i
... }''', lookup)
>>> sorted(v.name for v in summed(graph))
['p', 'q', 'rows', 'x']

Other steps (`steps`) ask for more, the last digit of any number, and for none behind a sum. What compares and is no
expression (ArgMax) stands behind nearly all that a network computes: it asks for nothing here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.passes.analysis.movement import moves

_LINEAR = ("add", "sub", "mul", "neg", "max", "min", "relu", "abs", "rounded")
"""Functions of which the result is a sum, a product or a choice of their operands."""

_ROUNDING = ("floor", "ceil", "rne", "mod", "fmod")
_COMPARING = ("eq", "lt", "le", "gt", "ge")


def summed(graph: Graph) -> set[Value]:
    """The values of which sums are rounded or compared, those of the graphs inside of nodes too."""
    found: set[Value] = set()
    _walk(graph, found)
    return found


@functools.lru_cache(maxsize=4096)
def parts(body: ex.Expr, asked: bool) -> frozenset[ex.Expr]:
    """The parts of an expression that are terms or factors of what is rounded in it; with ``asked``, of its value."""
    found: dict[ex.Expr, None] = {}
    pending = [body] if asked else []
    if not quantises(body):
        pending += [a for e in ex.distinct(body) for a in _rounded(e)]
    while pending:
        e = pending.pop()
        if e.dtype.is_float and e not in found:
            found[e] = None
            pending += _terms(e)
    return frozenset(found)


@functools.lru_cache(maxsize=4096)
def quantises(body: ex.Expr) -> bool:
    """Whether an expression makes bytes: its scale was measured, and no number is at a step of it for a reason."""
    return any(isinstance(e, ex.Convert) and e.dtype.name in ("i8", "u8") for e in ex.distinct(body))


def factors(body: ex.Expr, asked: bool) -> set[ex.Expr]:
    """The quotients and products among the `parts`."""
    return {e for e in parts(body, asked) if isinstance(e, ex.Apply) and e.fn in ("div", "mul")}


def is_summed(node: Node, found: set[Value]) -> bool:
    """Whether what the operator of a node computes is rounded later, given the values that are."""
    return any(ex.ACC in _behind(node, i, found) for i in range(len(node.results)))


def operands(node: Node, found: set[Value]) -> Iterable[int]:
    """The operands of an operator that are rounded later, behind their prologues."""
    body = node.op.elementwise
    if body is not None:
        return _variables(body, is_summed(node, found))
    if not is_summed(node, found):
        return ()
    return range(len(node.operands)) if moves(node.op) or node.op.hands_on else node.op.terms


def _walk(graph: Graph, found: set[Value]) -> None:
    for node in reversed(graph.nodes):
        found.update(_of_regions(node, found) if node.regions else _needed(node, found))


def _of_regions(node: Node, found: set[Value]) -> Iterable[Value]:
    asked = not found.isdisjoint(node.results)
    for region in node.regions:
        if asked:
            found.update(region.outputs)
        _walk(region, found)
        if node.op.turns_inside() > 1 and not found.isdisjoint(region.inputs):
            found.update(region.outputs)
            _walk(region, found)
    return () if all(found.isdisjoint(region.inputs) for region in node.regions) else node.inputs


def _needed(node: Node, found: set[Value]) -> Iterator[Value]:
    asked = set(operands(node, found))
    extras = set().union(*(_behind(node, i, found) for i in range(len(node.results))))
    return values_read(node, extras, lambda i, body: _variables(body, i in asked))


def values_read(
    node: Node, extras: set[int], variables: Callable[[int, ex.Expr], set[int]]
) -> Iterator[Value]:
    """The operands of which a node needs something, and the extras: those that epilogues need, and prologues.
    ``variables``: which ones of an operand's prologue, which is `ex.acc` where it has none, are needed."""
    for i, v in enumerate(node.operands):
        if v is not None:
            before = variables(i, node.pre.get(i, ex.acc(v.dtype)))
            extras = extras | before
            if ex.ACC in before:
                yield v
    yield from (node.extras[i] for i in extras - {ex.ACC})


def _behind(node: Node, result: int, found: set[Value]) -> set[int]:
    v = node.results[result]
    return _variables(node.post.get(result, ex.acc(v.dtype)), v in found)


def _variables(body: ex.Expr, asked: bool) -> set[int]:
    return {e.index for e in parts(body, asked) if isinstance(e, ex.Var)}


def _rounded(e: ex.Expr) -> tuple[ex.Expr, ...]:
    """What an expression rounds, or compares with something else than 0."""
    match e:
        case ex.Convert(operand=a) if not e.dtype.is_float:
            return (a,)
        case ex.Apply(fn=fn, operands=operands) if fn in _ROUNDING:
            return operands
        case ex.Apply(fn=fn, operands=operands) if fn in _COMPARING:
            return () if any(isinstance(a, ex.Num) and a.value == 0 for a in operands) else operands
    return ()


def _terms(e: ex.Expr) -> tuple[ex.Expr, ...]:
    """The operands of which an expression is a sum, a product or a choice."""
    match e:
        case ex.Convert():
            return e.args
        case ex.Apply(fn="div", operands=(a, _)):
            return (a,)
        case ex.Apply(fn="select", operands=(_, a, b)):
            return (a, b)
        case ex.Apply(fn=fn, operands=operands) if fn in _LINEAR:
            return operands
    return ()
