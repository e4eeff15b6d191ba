"""What values are as far as their last digits are concerned: differences and their inverses, negated numbers, sums.

Worked example: where b is the rounded square of a, b - a * a is 0. It stays the difference of two numbers that may
cancel when it is moved, multiplied, or made positive; exp of it is about 1, and no more a difference::

    %n = map(%a) {expr={neg((x0 * x0))}}           negated
    %d = map(%b, %n) {expr={(x0 + x1)}}            a difference: something negated is added
    %e = map(%d) {expr={(relu(x0) + 1e-12)}}       a difference, next to 0 or a little more
    %f = map(%d) {expr={(exp(x0) + 1.0)}}          none

>>> from mccompile.ir.graph_text import parse_graph
>>> from mccompile.ops.registry import lookup
>>> graph = parse_graph('''graph @g(%a: f32[2], %b: f32[2]) {
...   %n = map(%a) {expr={neg((x0 * x0))}} : f32[2]
...   %d = map(%b, %n) {expr={(x0 + x1)}} : f32[2]
...   %e = map(%d) {expr={(relu(x0) + 1e-12)}} : f32[2]
...   %f = map(%d) {expr={(exp(x0) + 1.0)}} : f32[2]
...   return %e, %f
... }''', lookup)
>>> {v.name: trait for v, trait in Traits.within(graph).known.items()}
{'n': 2, 'd': 1, 'e': 1}
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.graph import Digest, Graph, Node, Value
from mccompile.ir.op import Kind
from mccompile.ir.scalar import FUNCTIONS, Array
from mccompile.passes.analysis.movement import moves

DIFFERENCE = 1
"""Of numbers that may cancel, so that it is 0, or next to it."""

NEGATED = 2
"""Below 0 where what it was made of is above."""

SUM = 4
"""Of elements, as reductions make it, or a power of two times that, which is as exact."""

INVERSE = 8
"""Of a difference, so that it may be as large as that is small."""

_NONE = 0


@dataclass
class Traits:
    """What is ``known`` of values; of those that are not in it, nothing is but that constants are ``negative``."""

    known: dict[Value, int] = field(default_factory=dict)
    negative: set[Value] = field(default_factory=set)
    constants: dict[Value, Array | Digest] = field(default_factory=dict)
    found: dict[tuple[ex.Expr, tuple[int, ...]], dict[ex.Expr, int]] = field(default_factory=dict)
    """Those of expressions whose variables have given ones: networks repeat their layers."""

    @staticmethod
    def within(graph: Graph) -> Traits:
        """Those of a graph and of the graphs inside of its nodes."""
        found = Traits()
        found._walk(graph)
        return found

    def before(self, node: Node, operand: int) -> dict[ex.Expr, int]:
        """Those of the parts of a prologue; none without one."""
        body = node.pre.get(operand)
        return {} if body is None else self._of_parts(body, self._reader(node, self.of(node.operands[operand])))

    def own(self, node: Node) -> dict[ex.Expr, int]:
        """Those of the parts of a map's expression."""
        body = node.op.elementwise
        return {} if body is None else self._of_parts(body, lambda i: self._read(node, i))

    def behind(self, node: Node, result: int) -> dict[ex.Expr, int]:
        """Those of the parts of an epilogue; none without one."""
        body = node.post.get(result)
        return {} if body is None else self._of_parts(body, self._reader(node, self._made(node)))

    def of(self, value: Value | None) -> int:
        if value is None:
            return _NONE
        return NEGATED if value in self.negative else self.known.get(value, _NONE)

    def adds_differences(self, node: Node) -> bool:
        """Whether an operator adds up differences, or products of such, or with weights of which none is negative, so
        that nothing else cancels: the square of a norm, say, by elements that are 1."""
        linear = node.op.multilinear
        differences = [i for i in linear if self._read(node, i) & DIFFERENCE]
        others = [node.operands[i] for i in linear if i not in differences]
        return bool(differences) and not any(v is None or self._may_be_negative(v) for v in others)

    def _may_be_negative(self, value: Value) -> bool:
        array = self.constants.get(value)
        return not isinstance(array, np.ndarray) or bool((array < 0).any())

    def reads_difference(self, node: Node) -> bool:
        """Whether operand 0, behind its prologue, is a difference."""
        return bool(self._read(node, 0) & DIFFERENCE)

    def _reader(self, node: Node, itself: int) -> Callable[[int], int]:
        return lambda i: itself if i == ex.ACC else self.of(node.extras[i])

    def _read(self, node: Node, operand: int) -> int:
        """What an operator reads of an operand."""
        if operand in node.pre:
            return self.before(node, operand)[node.pre[operand]]
        return self.of(node.operands[operand])

    def _made(self, node: Node) -> int:
        """What an operator makes."""
        body = node.op.elementwise
        if body is not None:
            return self.own(node)[body]
        if moves(node.op) or node.op.hands_on:
            return _any(self._read(node, i) for i in range(len(node.operands)))
        return (SUM if _adds_up(node) else _NONE) | (DIFFERENCE if self.adds_differences(node) else _NONE)

    def _walk(self, graph: Graph) -> None:
        self.constants.update(graph.constants)
        for value, array in graph.constants.items():
            if isinstance(array, np.ndarray) and _is_negative(array):
                self.negative.add(value)
        for node in graph.nodes:
            if node.regions:
                self._enter(node)
                continue
            for i, result in enumerate(node.results):
                self._note(result, self.behind(node, i)[node.post[i]] if i in node.post else self._made(node))

    def _enter(self, node: Node) -> None:
        """The graphs inside: they read what the node reads, and in its next turn what they have made."""
        read = _any(map(self.of, node.inputs))
        for region in node.regions:
            for again in (False, True):
                for v in region.inputs:
                    self._note(v, read)
                self._walk(region)
                made = _any(map(self.of, region.outputs))
                if again or node.op.turns_inside() == 1 or not made & ~read:
                    break
                read |= made
            for v in node.results:
                self._note(v, made | self.of(v))

    def _of_parts(self, body: ex.Expr, read: Callable[[int], int]) -> dict[ex.Expr, int]:
        at = {i: read(i) for i in sorted(ex.variables(body))}
        known = body, tuple(at.values())
        if known not in self.found:

            def trait(e: ex.Expr, of: Callable[[ex.Expr], int]) -> int:
                args = [of(a) for a in e.args]
                return _of(e, args, at) if e.dtype.is_float else _of_integer(e, args, at)

            of = ex.OfParts(trait)
            of(body)
            self.found[known] = of.made
        return self.found[known]

    def _note(self, value: Value, trait: int) -> None:
        kept = trait if value.dtype.is_float else trait & SUM
        if kept:
            self.known[value] = kept


def _adds_up(node: Node) -> bool:
    return node.op.kind is Kind.REDUCTION and bool(node.op.multilinear)


def _is_negative(a: Array) -> bool:
    """Whether all are; weights, which are many, show by the first few that they are not."""
    return a.dtype.kind == "f" and a.size > 0 and bool((a.flat[:32] < 0).all()) and bool((a < 0).all())


def _any(traits: Iterable[int]) -> int:
    return functools.reduce(operator.or_, traits, _NONE)


def _of(e: ex.Expr, args: list[int], variables: Mapping[int, int]) -> int:
    """The trait of an expression whose operands have those of ``args``."""
    match e:
        case ex.Var(index=index):
            return variables[index]
        case ex.Num():
            return NEGATED if e.value < 0 else _NONE
        case ex.Convert():
            return args[0]
        case ex.Apply(fn="sub", operands=(a, _)):
            return DIFFERENCE | (NEGATED if isinstance(a, ex.Num) and a.value == 0 else _NONE)
        case ex.Apply(fn="add"):
            either = args[0] | args[1]
            if args[0] & args[1] & NEGATED:
                return either & (DIFFERENCE | NEGATED)
            return DIFFERENCE if either & (DIFFERENCE | NEGATED) else _NONE
        case ex.Apply(fn="neg"):
            return args[0] ^ NEGATED
        case ex.Apply(fn="mul", operands=(_, factor)):
            kept = args[0] & SUM if isinstance(factor, ex.Num) and math.frexp(factor.value)[0] == 0.5 else _NONE
            return ((args[0] | args[1]) & (DIFFERENCE | INVERSE)) | ((args[0] ^ args[1]) & NEGATED) | kept
        case ex.Apply(fn="div"):
            inverse = args[0] & INVERSE | (INVERSE if args[1] & DIFFERENCE else _NONE)
            return (args[0] & DIFFERENCE) | inverse | ((args[0] ^ args[1]) & NEGATED)
        case ex.Apply(fn=("max" | "min")):
            return (args[0] | args[1]) & ~SUM
        case ex.Apply(fn="select"):
            return (args[1] | args[2]) & ~SUM
        case ex.Apply(fn=fn, operands=(_,)):
            return args[0] & _kept(fn) if args[0] else _NONE
        case ex.Apply(fn="pow", operands=(_, ex.Num(value=exponent))) if exponent < 0:
            return INVERSE if args[0] & DIFFERENCE else _NONE
        case ex.Apply(fn=("pow" | "gate" | "mod" | "fmod")):
            return args[0] & DIFFERENCE
    return _NONE


def _of_integer(e: ex.Expr, args: list[int], variables: Mapping[int, int]) -> int:
    """The same of whole numbers, of which sums are known only: of bytes, or of what these are above a zero point."""
    match e:
        case ex.Var(index=index):
            return variables[index] & SUM
        case ex.Convert() | ex.Apply(fn=("add" | "sub"), operands=(_, ex.Num())):
            return args[0] & SUM
    return _NONE


@functools.cache
def _kept(fn: str) -> int:
    """What a function of one number keeps: a difference, or its inverse, where it makes 0 of 0, a sign where it keeps
    that of -1."""
    with np.errstate(all="ignore"):
        at_0, below = (float(FUNCTIONS[fn].numpy(np.array(x, np.float32))) for x in (0, -1))
    kept = (DIFFERENCE | INVERSE if at_0 == 0 else _NONE) | (NEGATED if below < 0 else _NONE)
    return kept | (SUM if fn == "rounded" else _NONE)


def is_mean(e: ex.Expr, traits: Mapping[ex.Expr, int]) -> bool:
    """Whether an expression is a sum over a whole number, the mean of elements that the sum has, or may have."""
    match e:
        case ex.Apply(fn="div", operands=(total, ex.Num() as count)) if e.dtype.is_float:
            terms = _terms(total)
            return float(count.value).is_integer() and (bool(traits[total] & SUM) or count.value == terms > 1)
    return False


def _terms(e: ex.Expr) -> int:
    return sum(map(_terms, e.args)) if isinstance(e, ex.Apply) and e.fn == "add" else 1
