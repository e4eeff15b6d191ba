"""Pattern rules as data: what a rule looks for, what it checks before it fires, what it puts in its place.

Patterns see through the boundaries of nodes: a function is found whether it is a `map` of its own, a part of a
larger expression, or the prologue or epilogue of a reduction; reshapes between them are passed. Commutative
functions match in either order. A value that is read elsewhere or is an output is no obstacle to a match: rules
change the root alone, and what nothing reads any more goes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TypeVar

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.dims import UndecidedError
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.op import Op
from mccompile.ir.types import F32
from mccompile.ops.reduce import Reduce
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.bodies import is_cast_to_f16
from mccompile.passes.rewrite.rewriter import Rewriter

AnyOp = TypeVar("AnyOp", bound=Op)

COMMUTATIVE = frozenset({"add", "mul", "max", "min", "eq", "and", "or", "xor"})


MAX_FIRED = 16
"""Rules that may fire on one node: rules that undo each other would never end."""


@dataclass(frozen=True)
class Pattern:
    """Base of the patterns."""


@dataclass(frozen=True)
class Any(Pattern):
    """Any value; under one name it is one value wherever the name stands."""

    name: str


@dataclass(frozen=True)
class Number(Pattern):
    """A number, or a constant whose elements are all equal: ``value`` where it is given, else bound to ``name``."""

    name: str = ""
    value: float | None = None


@dataclass(frozen=True)
class Fn(Pattern):
    """A scalar function of patterns; `fn` makes one."""

    fn: str
    args: tuple[Pattern, ...]


@dataclass(frozen=True)
class Reduced(Pattern):
    """A `reduce` by ``mode``; the node is bound to ``name``."""

    mode: str
    arg: Pattern
    name: str


@dataclass(frozen=True)
class Is(Pattern):
    """A node of an operator, bound to ``name``; ``args`` None: whatever its operands are.

    ``plain``: without prologues and epilogues, on row-major tensors.
    """

    op: type[Op]
    args: tuple[Pattern, ...] | None
    name: str
    plain: bool = True


@dataclass(frozen=True)
class OneOf(Pattern):
    """The first of several patterns that lets the whole match."""

    choices: tuple[Pattern, ...]


def fn(name: str, *args: Pattern) -> Fn:
    return Fn(name, args)


def one_of(*choices: Pattern) -> OneOf:
    return OneOf(choices)


def mean(arg: Pattern, name: str) -> Pattern:
    """A sum divided by a number; `mean_counts` tells whether that is the count."""
    total = Reduced("sum", arg, name)
    return one_of(fn("div", total, Number(f"{name}.count")), fn("mul", total, Number(f"{name}.inverse")))


@dataclass(frozen=True)
class Fail:
    """Why a rule that matches does not fire; without a reason it is as if it did not match."""

    reason: str


def not_floats_in_rows(node: Node, *floats: Value) -> Fail | None:
    """Why a node is not one that reads and gives rows: ``floats`` are those of its values that are to be of f32."""
    rows = (*floats, *node.results)
    if node.varies or node.pre or any(v.dtype != F32 for v in floats) or any(v.type.layout is not None for v in rows):
        return Fail("it has a prologue, extents of the run, or is not row-major in f32")
    return None


@dataclass(frozen=True)
class Match:
    """What the names of a pattern stand for, and the nodes between, the root among them.

    ``reshaped`` are the names of values that are read through a reshape of what they were computed into.
    """

    r: Rewriter
    root: Node
    values: Mapping[str, Value] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)
    nodes: Mapping[str, Node] = field(default_factory=dict)
    walked: tuple[Node, ...] = ()
    reshaped: frozenset[str] = frozenset()

    def op(self, kind: type[AnyOp], name: str = "") -> AnyOp:
        """The operator of a node that the pattern says is of a kind, of the root without a name."""
        found = (self.nodes[name] if name else self.root).op
        assert isinstance(found, kind)
        return found

    def dying(self) -> set[Node]:
        """The nodes between that nothing needs once the root does not read them."""
        gone: set[Node] = set()
        waiting = set(self.walked) - {self.root}
        while True:
            found = {n for n in waiting if self._is_needed_by(n, gone | {self.root})}
            if not found:
                return gone
            gone |= found
            waiting -= found

    def _is_needed_by(self, node: Node, readers: set[Node]) -> bool:
        outputs = any(self.r.is_output(v) for v in node.results)
        return not outputs and all(u in readers for v in node.results for u in self.r.users(v))


@dataclass(frozen=True)
class Rule:
    """``check`` answers why not; ``rewrite`` changes the root. ``title`` is the remark, said of the root."""

    title: str
    pattern: Pattern
    check: Callable[[Match], Fail | None]
    rewrite: Callable[[Match], None]


def apply_rules(graph: Graph, remarks: Remarks, rules: Sequence[Rule], kernels: Collection[str] = ()) -> int:
    """Try the rules on every node, in order, again where one fired. A remark for each hit and each refused match.

    Nodes of operators for which users want one of their ``kernels`` stay as they are.
    """
    r = Rewriter(graph)
    changes = 0
    for node in r.nodes():
        if node.op.name in kernels:
            continue
        fired = 0
        while fired < MAX_FIRED and not r.is_erased(node) and any(_try(rule, r, node, remarks) for rule in rules):
            fired += 1
        changes += fired
    r.finish()
    return changes


def _try(rule: Rule, r: Rewriter, node: Node, remarks: Remarks) -> bool:
    refused: Fail | None = None
    where = node.where if may_begin(rule.pattern, node) else ""
    for found in matches(rule.pattern, r, node):
        failed = _checked(rule, found)
        if failed is None:
            rule.rewrite(found)
            remarks.hit(f"{rule.title}: {where}")
            return True
        refused = refused if refused is not None and refused.reason else failed
    if refused is not None and refused.reason:
        remarks.miss(f"{rule.title}: {where}", refused.reason)
    return False


def _checked(rule: Rule, m: Match) -> Fail | None:
    """What `Rule.check` says; what depends on extents that are known at run time only does not hold."""
    try:
        return rule.check(m)
    except UndecidedError as e:
        return Fail(str(e))


def matches(pattern: Pattern, r: Rewriter, root: Node) -> Iterator[Match]:
    """Every way in which the first result of ``root`` matches; but for `Is`, it must be plain and the only one."""
    if may_begin(pattern, root) and (isinstance(pattern, Is) or (len(root.results) == 1 and is_plain(root))):
        yield from _match(pattern, _Place(root.results[0]), Match(r, root))


def may_begin(pattern: Pattern, root: Node) -> bool:
    """Whether the operator of a node may be the outermost one of a pattern: most are not, of most patterns."""
    match pattern:
        case OneOf(choices=choices):
            return any(may_begin(choice, root) for choice in choices)
        case Is(op=op):
            return isinstance(root.op, op)
        case Fn(fn=name):
            body = root.op.elementwise
            if body is None:
                return root.op.keeps_order  # what is behind it may be
            return isinstance(body, ex.Var) or (isinstance(body, ex.Apply) and body.fn == name)
    return True


def is_plain(node: Node) -> bool:
    """True if a node is what its operator says, on row-major tensors."""
    return not node.pre and not node.post and all(v.type.layout is None for v in (*node.inputs, *node.results))


# -- where a pattern is held against the graph --------------------------------------------------------------
@dataclass(frozen=True)
class _Place:
    """A value, or an expression over ``leaves``; ``raw`` means the sum of a reduction before its epilogue."""

    value: Value | None
    expr: ex.Expr | None = None
    leaves: Mapping[int, _Place] = field(default_factory=dict)
    raw: bool = False
    reshaped: bool = False


def _leaf(place: _Place) -> _Place:
    """The place a variable stands for."""
    while isinstance(place.expr, ex.Var):
        inner = place.leaves[place.expr.index]
        place = replace(inner, reshaped=inner.reshaped or place.reshaped)
    return place


def _places(values: Sequence[Value | None]) -> dict[int, _Place]:
    return {i: _Place(v) for i, v in enumerate(values) if v is not None}


def _opened(place: _Place, m: Match) -> tuple[_Place, Match]:
    """The expression that makes the value of a place, reshapes passed; the place itself where there is none, or where
    it is rounded to f16 on the way to the root."""
    place = _leaf(place)
    while place.expr is None and not place.raw:
        node = m.r.producer(place.value)
        if node is None or any(v.type.layout is not None for v in (*node.inputs, *node.results)):
            break
        if node.op.keeps_order and not node.pre and not node.post:
            place = _Place(node.operands[0], reshaped=True)
        elif node.op.elementwise is not None and not node.pre and not node.post:
            if node is not m.root and is_cast_to_f16(node):
                break
            place = _leaf(_Place(None, node.op.elementwise, _places(node.operands), reshaped=place.reshaped))
        elif isinstance(node.op, Reduce) and 0 in node.post:
            leaves = {ex.ACC: _Place(place.value, raw=True), **_places(node.extras)}
            place = _leaf(_Place(None, node.post[0], leaves, reshaped=place.reshaped))
        else:
            break
        m = replace(m, walked=(*m.walked, node))
    return place, m


def _match(p: Pattern, place: _Place, m: Match) -> Iterator[Match]:
    match p:
        case OneOf(choices=choices):
            for choice in choices:
                yield from _match(choice, place, m)
        case Any(name=name):
            yield from _bind_value(name, _leaf(place), m)
        case Number():
            yield from _bind_number(p, _leaf(place), m)
        case Fn(fn=name, args=args):
            opened, m = _opened(place, m)
            if isinstance(opened.expr, ex.Apply) and opened.expr.fn == name:
                parts = [replace(opened, expr=e) for e in opened.expr.operands]
                yield from _match_all(args, parts, m)
                if name in COMMUTATIVE:
                    yield from _match_all(args, parts[::-1], m)
        case Reduced():
            yield from _match_reduced(p, place, m)
        case Is():
            node = m.r.producer(_leaf(place).value)
            if node is None or not isinstance(node.op, p.op) or (p.plain and not is_plain(node)):
                return
            m = replace(m, nodes={**m.nodes, p.name: node}, walked=(*m.walked, node))
            if p.args is None or len(p.args) == len(node.operands):
                yield from _match_all(p.args or (), [_Place(v) for v in node.operands], m)


def _match_all(patterns: Sequence[Pattern], places: Sequence[_Place], m: Match) -> Iterator[Match]:
    if not patterns:
        yield m
        return
    for found in _match(patterns[0], places[0], m):
        yield from _match_all(patterns[1:], places[1:], found)


def _match_reduced(p: Reduced, place: _Place, m: Match) -> Iterator[Match]:
    opened, m = _opened(place, m)
    node = m.r.producer(opened.value)
    if node is None or not isinstance(node.op, Reduce) or node.op.mode != p.mode or (node.post and not opened.raw):
        return
    if m.nodes.get(p.name, node) is not node:
        return
    m = replace(m, nodes={**m.nodes, p.name: node}, walked=(*m.walked, node))
    inner = _Place(node.operands[0])
    if 0 in node.pre:
        inner = _Place(None, node.pre[0], {ex.ACC: inner, **_places(node.extras)})
    yield from _match(p.arg, inner, m)


def _bind_value(name: str, place: _Place, m: Match) -> Iterator[Match]:
    if place.value is None or place.raw or m.values.get(name, place.value) is not place.value:
        return
    through = m.reshaped | {name} if place.reshaped else m.reshaped
    yield replace(m, values={**m.values, name: place.value}, reshaped=through)


def _bind_number(p: Number, place: _Place, m: Match) -> Iterator[Match]:
    number = _number(place, m.r.graph)
    if number is None or (p.value is not None and number != p.value):
        return
    if not p.name:
        yield m
    elif m.numbers.get(p.name, number) == number:
        yield replace(m, numbers={**m.numbers, p.name: number})


def _number(place: _Place, graph: Graph) -> float | None:
    if isinstance(place.expr, ex.Num):
        return float(np.asarray(place.expr.value, dtype=place.expr.dtype.numpy))
    return None if place.value is None else number_of(graph, place.value)


def number_of(graph: Graph, value: Value) -> float | None:
    """The element that all elements of a constant are equal to; None if there is no such."""
    if value not in graph.constants or value.type.count == 0 or not isinstance(graph.constants[value], np.ndarray):
        return None
    flat = graph.array(value).reshape(-1)
    return float(flat[0]) if bool((flat == flat[0]).all()) else None


# -- expressions alone ---------------------------------------------------------------------------------------
Bindings = Mapping[str, ex.Expr]


def match_expression(p: Pattern, e: ex.Expr, bound: Bindings) -> Iterator[Bindings]:
    """Every way in which an expression matches; `Any` and a named `Number` bind parts of it."""
    match p:
        case OneOf(choices=choices):
            for choice in choices:
                yield from match_expression(choice, e, bound)
        case Any(name=name):
            if bound.get(name, e) == e:
                yield {**bound, name: e}
        case Number(name=name, value=value):
            if isinstance(e, ex.Num) and e.dtype.is_float and value in (None, e.value):
                yield {**bound, name: e} if name else bound
        case Fn(fn=name, args=args) if isinstance(e, ex.Apply) and e.fn == name:
            for parts in (e.operands, e.operands[::-1]) if name in COMMUTATIVE else (e.operands,):
                yield from _match_expressions(args, parts, bound)


def _match_expressions(patterns: Sequence[Pattern], parts: Sequence[ex.Expr], bound: Bindings) -> Iterator[Bindings]:
    if not patterns:
        yield bound
        return
    for found in match_expression(patterns[0], parts[0], bound):
        yield from _match_expressions(patterns[1:], parts[1:], found)


@dataclass(frozen=True)
class ExpressionRule:
    """``rewrite`` gives what stands for a match, or None where it does not fire: ``refusal`` says why."""

    title: str
    pattern: Pattern
    rewrite: Callable[[Bindings], ex.Expr | None]
    refusal: str = "a number would be no normal one"
