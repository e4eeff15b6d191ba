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
>>> sorted(v.name for v in stepped(graph).values)
['a', 'b', 'x']

It may also stand behind a branch or a loop that the division is in, or in its next turn::

    %y = if(%c, %x) regions { graph @a(%u: f32[2]) { %d = map(%u) {expr={(x0 / 41.0)}} ... } ... }
    %z = map(%y) {expr={floor(x0)}}

A difference may be 0 because two numbers were rounded alike, wherever it is taken (`traits`): the root of b - a * a,
and what is divided by it, depend on the digits of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.jumps import at_jumps, decided_by
from mccompile.passes.analysis.movement import moves
from mccompile.passes.analysis.quotients import is_summed, quantises, summed, values_read
from mccompile.passes.analysis.traits import DIFFERENCE, INVERSE, NEGATED, Traits, is_mean


@dataclass
class Steps:
    """The ``values`` on whose last digit a step depends, those that are ``summed`` before one, and the ``traits`` of
    all."""

    traits: Traits
    summed: set[Value]
    values: set[Value] = field(default_factory=set)


def stepped(graph: Graph) -> Steps:
    """The values on whose last digit a step depends, those of the graphs inside of nodes too: through maps, and
    through what moves elements or chooses among them. A sum has other last digits in each order, so that none is
    asked for behind one, but of differences: the norm of equal vectors' difference is 0 in any order."""
    found = Steps(Traits.within(graph), summed(graph))
    _walk(graph, found)
    return found


def _walk(graph: Graph, found: Steps) -> None:
    for node in reversed(graph.nodes):
        found.values.update(_of_regions(node, found) if node.regions else _needed(node, found))


def under_steps(body: ex.Expr, traits: Mapping[ex.Expr, int]) -> set[ex.Expr]:
    """The parts of an expression on whose last digit a step in it depends, given the traits of all its parts.

    What is quantised is none: its scale was measured, and no number of it is at a step for a reason.
    """
    rounds = not quantises(body)
    found: set[ex.Expr] = set()
    for e in ex.distinct(body):
        found.update(p for a in _at_steps(e, rounds, traits) if a.dtype.is_float for p in ex.distinct(a))
    return found


def means(body: ex.Expr, traits: Mapping[ex.Expr, int]) -> set[ex.Expr]:
    """The means in an expression. That of equal elements is such an element, so that nothing is left when it is taken
    away from one: 41 * 7 times the inverse of 41 is more than 7. What is quantised is rounded anyway."""
    return set() if quantises(body) else {e for e in ex.distinct(body) if is_mean(e, traits)}


def divided(body: ex.Expr, traits: Mapping[ex.Expr, int]) -> set[ex.Expr]:
    """The parts of differences that are divided by differences, their own size say: of equal numbers both are 0, also
    where the kernel of the quotient computes again what that of the size has computed. What another kernel has stored
    is the same to both."""
    found: set[ex.Expr] = set()
    for e in ex.distinct(body):
        pairs: list[tuple[ex.Expr, int]] = []
        match e:
            case ex.Apply(fn="div", operands=(a, b)):
                pairs = [(a, traits[b] & DIFFERENCE)]
            case ex.Apply(fn="mul", operands=(a, b)):
                pairs = [(a, traits[b] & INVERSE), (b, traits[a] & INVERSE)]
        for a, by_difference in pairs:
            if by_difference and traits[a] & DIFFERENCE:
                found.update(ex.distinct(a))
    return found


def _at_steps(e: ex.Expr, rounds: bool, traits: Mapping[ex.Expr, int]) -> tuple[ex.Expr, ...]:
    """The operands of an expression that are at steps of it, or at ends; ``rounds``: what rounds is a step.

    A difference may well be at an end: the root of x / 41 - 1 is 0 for 41, or no number.
    """
    match e:
        case ex.Apply(fn="rne") if not rounds:
            return ()
        case ex.Apply(fn=("sqrt" | "log"), operands=(a,)) if traits[a] & DIFFERENCE:
            return e.args
        case ex.Apply(fn="log1p", operands=(a,)) if traits[a] & (DIFFERENCE | NEGATED):
            return e.args
        case ex.Apply(fn="div", operands=(_, a)) if traits[a] & DIFFERENCE:
            return (a,)
        case ex.Apply(fn="pow", operands=(a, exponent)) if traits[a] & DIFFERENCE and not _is_count(exponent):
            return (a, *at_jumps(e))
    return () if not e.dtype.is_float and "rne" in ex.functions(e) else at_jumps(e)


def _is_count(e: ex.Expr) -> bool:
    """Whether a number is one of factors: there is a power of any number, however small, and a small one."""
    return isinstance(e, ex.Num) and float(e.value).is_integer() and e.value >= 0


def asks_for_digits(node: Node, found: Steps) -> bool:
    """Whether a step depends on what the operator of a node computes, given the values that steps depend on."""
    return any(ex.ACC in read for read in _behind(node, found))


def has_to_be_exact(node: Node, found: Steps) -> bool:
    """Whether a step depends on what the operator of a node computes, itself or after it has been summed up."""
    return asks_for_digits(node, found) or is_summed(node, found.summed)


def digits_read(node: Node, found: Steps) -> set[int]:
    """The operands of an operator, no map, of which the last digits matter: it is a step, or hands them on to one.
    Sums do so with differences."""
    op, every = node.op, set(range(len(node.operands)))
    if op.divides_by_size and found.traits.reads_difference(node):
        return every
    hands_on = moves(op) or op.hands_on or found.traits.adds_differences(node)
    return every if hands_on and asks_for_digits(node, found) else decided_by(node)


def _behind(node: Node, found: Steps) -> list[set[int]]:
    """What the epilogue of each result reads that a step depends on."""
    read: list[set[int]] = []
    for i, v in enumerate(node.results):
        body, asked = node.post.get(i, ex.acc(v.dtype)), v in found.values
        read.append(_read(body, asked, found.traits.behind(node, i)))
    return read


def _of_regions(node: Node, found: Steps) -> Sequence[Value]:
    """As `_needed`, of a node with graphs inside: all that it reads or none of it. What these make is asked for where
    a step behind the node depends on it, and where there is one inside, which may read it in the next turn."""
    inside = [n for g in node.regions for n, _ in g.everywhere()] if node.op.turns_inside() > 1 else []
    again = any(_has_steps(n, found.traits) for n in inside)
    for region in node.regions:
        if again or not found.values.isdisjoint(node.results):
            found.values.update(region.outputs)
        _walk(region, found)
    return () if all(found.values.isdisjoint(region.inputs) for region in node.regions) else node.inputs


def _has_steps(node: Node, traits: Traits) -> bool:
    body = node.op.elementwise
    return (
        node.op.decides
        or node.op.divides_by_size
        or any(under_steps(b, traits.before(node, i)) for i, b in node.pre.items())
        or any(under_steps(b, traits.behind(node, i)) for i, b in node.post.items())
        or (body is not None and bool(under_steps(body, traits.own(node))))
    )


def _needed(node: Node, found: Steps) -> Iterator[Value]:
    """The values that a node reads and a step in it or behind it depends on."""
    behind = _behind(node, found)
    extras = set().union(*behind)
    body = node.op.elementwise
    if body is not None:
        asked = _read(body, ex.ACC in extras, found.traits.own(node))
    else:
        asked = digits_read(node, found)
    return values_read(node, extras, lambda i, body: _read(body, i in asked, found.traits.before(node, i)))


def _read(body: ex.Expr, asked: bool, traits: Mapping[ex.Expr, int]) -> set[int]:
    """The variables of a body that a step in it depends on; all of them where one behind it does."""
    parts = ex.distinct(body) if asked else under_steps(body, traits)
    return {e.index for e in parts if isinstance(e, ex.Var)}
