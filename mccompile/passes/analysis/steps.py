"""Where the last digit of a value may change all of a result: before what is rounded to whole numbers, or compared.

Worked example: floor(x / 41) of 41 is 1, but 41 times the inverse of 41 is less than 1, of which floor makes 0. The
step may stand in another node, behind what moves elements::

    %a = map(%x) {expr={(x0 / 41.0)}}
    %b = transpose(%a) {perm=(1, 0)}
    %c = map(%b) {expr={floor(x0)}}

>>> from mccompile.ir.graph_text import parse_graph
>>> from mccompile.ops.registry import lookup
>>> graph = parse_graph('''graph @g(%x: f32[2,3]) {
...   %a = map(%x) {expr={(x0 / 41.0)}} : f32[2,3]
...   %b = transpose(%a) {perm=(1, 0)} : f32[3,2]
...   %c = map(%b) {expr={floor(x0)}} : f32[3,2]
...   return %a, %c
... }''', lookup)
>>> sorted(v.name for v in stepped(graph))
['a', 'b', 'x']

It may also stand behind a branch or a loop that the division is in, or in its next turn::

    %y = if(%c, %x) regions { graph @a(%u: f32[2]) { %d = map(%u) {expr={(x0 / 41.0)}} ... } ... }
    %z = map(%y) {expr={floor(x0)}}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.jumps import at_jumps
from mccompile.passes.analysis.movement import moves

_ENDING = ("sqrt", "log", "log1p", "acos", "asin", "atanh")
"""Functions of which a difference may well be at an end: the root of x / 41 - 1 is 0 for 41, or no number. So is what
is divided by one."""


def stepped(graph: Graph) -> set[Value]:
    """The values on whose last digit a step depends, those of the graphs inside of nodes too: through maps, and
    through what moves elements or chooses among them. A sum has other last digits in each order, so that none is
    asked for behind one."""
    found: set[Value] = set()
    _walk(graph, found)
    return found


def _walk(graph: Graph, found: set[Value]) -> None:
    for node in reversed(graph.nodes):
        found.update(_of_regions(node, found) if node.regions else _needed(node, found))


def under_steps(body: ex.Expr) -> set[ex.Expr]:
    """The parts of an expression on whose last digit a step in it depends.

    What is quantised is none: its scale was measured, and no number of it is at a step for a reason.
    """
    rounds = not quantises(body)
    found: set[ex.Expr] = set()
    for e in ex.distinct(body):
        found.update(p for a in _at_steps(e, rounds) if a.dtype.is_float for p in ex.distinct(a))
    return found


def _at_steps(e: ex.Expr, rounds: bool) -> tuple[ex.Expr, ...]:
    """The operands of an expression that are at steps of it, or at ends; ``rounds``: what rounds is a step."""
    match e:
        case ex.Apply(fn="rne") if not rounds:
            return ()
        case ex.Apply(fn=fn, operands=(a,)) if fn in _ENDING and "sub" in ex.functions(a):
            return e.args
        case ex.Apply(fn="div", operands=(_, a)) if "sub" in ex.functions(a):
            return (a,)
    return () if not e.dtype.is_float and "rne" in ex.functions(e) else at_jumps(e)


def quantises(body: ex.Expr) -> bool:
    return any(isinstance(e, ex.Convert) and e.dtype.name in ("i8", "u8") for e in ex.distinct(body))


def asks_for_digits(node: Node, found: set[Value]) -> bool:
    """Whether a step depends on what the operator of a node computes, given the values that steps depend on."""
    return any(ex.ACC in read for read in _behind(node, found))


def reads_digits(node: Node, found: set[Value]) -> bool:
    """Whether the operator of a node, no map, is a step, or hands on what it reads to one."""
    return node.op.decides or ((moves(node.op) or node.op.hands_on) and asks_for_digits(node, found))


def _behind(node: Node, found: set[Value]) -> list[set[int]]:
    """What the epilogue of each result reads that a step depends on."""
    return [_read(node.post.get(i, ex.acc(v.dtype)), v in found) for i, v in enumerate(node.results)]


def _of_regions(node: Node, found: set[Value]) -> Sequence[Value]:
    """As `_needed`, of a node with graphs inside: all that it reads or none of it. What these make is asked for where
    a step behind the node depends on it, and where there is one inside, which may read it in the next turn."""
    again = node.op.turns_inside() > 1 and any(_has_steps(n) for g in node.regions for n, _ in g.everywhere())
    for region in node.regions:
        if again or not found.isdisjoint(node.results):
            found.update(region.outputs)
        _walk(region, found)
    return () if all(found.isdisjoint(region.inputs) for region in node.regions) else node.inputs


def _has_steps(node: Node) -> bool:
    body = node.op.elementwise
    bodies = (*node.pre.values(), *node.post.values(), *(() if body is None else (body,)))
    return node.op.decides or any(under_steps(b) for b in bodies)


def _needed(node: Node, found: set[Value]) -> Iterator[Value]:
    """The values that a node reads and a step in it or behind it depends on."""
    behind = _behind(node, found)
    extras = set().union(*behind)
    body = node.op.elementwise
    if body is not None:
        asked = _read(body, ex.ACC in extras)
    else:
        asked = set(range(len(node.operands))) if reads_digits(node, found) else set()
    for i, v in enumerate(node.operands):
        if v is not None:
            before = _read(node.pre.get(i, ex.acc(v.dtype)), i in asked)
            extras |= before - {ex.ACC}
            if ex.ACC in before:
                yield v
    yield from (node.extras[i] for i in extras - {ex.ACC})


def _read(body: ex.Expr, asked: bool) -> set[int]:
    """The variables of a body that a step in it depends on; all of them where one behind it does."""
    return {e.index for e in (ex.distinct(body) if asked else under_steps(body)) if isinstance(e, ex.Var)}
