"""Elements of small inputs as whole numbers that are known when the program runs, and what is made of them.

Worked example: an axis of a tensor of rank 3 may be given as -3 to 2.

>>> axis = Whole(ex.var(0, I64))
>>> print(ex.text(wrapped(axis, 3).expr))
select(lt(x0, i64(0)), (x0 + i64(3)), x0)
>>> print(ex.text((Whole.of(2) + 3).expr))
i64(5)
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.dims import Dim, bound, span, symbols, varies
from mccompile.ir.graph import Node, Value
from mccompile.ir.ranges import of_expression
from mccompile.ir.types import BOOL, I64
from mccompile.ops.extents import Extents
from mccompile.ops.frontend import Import
from mccompile.ops.gather import Gather
from mccompile.ops.map import Map
from mccompile.ops.movement import Movement
from mccompile.ops.number import MAX_ELEMENTS, ReadNumber
from mccompile.ops.reach import reach_of
from mccompile.ops.reshape import Reshape

FAR = 2**31
"""Elements count as no larger than this, nor less than minus this: so sums and differences of them are exact."""

TELLING = 2**22
"""What follows from how an extent is computed is taken for its bound up to here. More than that says no more than the
type does, and would be memory that nobody asked for."""


@dataclass(frozen=True)
class Whole:
    """A whole number; where all that it is made of is known, a constant. Comparisons give `Test`."""

    expr: ex.Expr

    @property
    def known(self) -> int | None:
        """The number, if nothing of it is found out at run time."""
        return int(self.expr.value) if isinstance(self.expr, ex.Num) else None

    @staticmethod
    def of(value: int | Whole) -> Whole:
        return value if isinstance(value, Whole) else Whole(ex.num(value, I64))

    def __add__(self, other: int | Whole) -> Whole:
        return self._with("add", other)

    def __sub__(self, other: int | Whole) -> Whole:
        return self._with("sub", other)

    def __mul__(self, other: int | Whole) -> Whole:
        return self._with("mul", other)

    def __floordiv__(self, other: int | Whole) -> Whole:
        """Rounded towards zero; of numbers that are not negative."""
        return self._with("div", other)

    def least(self, other: int | Whole) -> Whole:
        return self._with("min", other)

    def most(self, other: int | Whole) -> Whole:
        return self._with("max", other)

    def equals(self, other: int | Whole) -> Test:
        return Test(_folded("eq", self.expr, Whole.of(other).expr))

    def below(self, other: int | Whole) -> Test:
        return Test(_folded("lt", self.expr, Whole.of(other).expr))

    def _with(self, fn: str, other: int | Whole) -> Whole:
        return Whole(_folded(fn, self.expr, Whole.of(other).expr))


@dataclass(frozen=True)
class Test:
    """Whether something holds."""

    expr: ex.Expr

    @property
    def known(self) -> bool | None:
        """Whether it does, if nothing of it is found out at run time."""
        return bool(self.expr.value) if isinstance(self.expr, ex.Num) else None

    def __and__(self, other: Test) -> Test:
        return Test(_folded("and", self.expr, other.expr))

    def __or__(self, other: Test) -> Test:
        return Test(_folded("or", self.expr, other.expr))

    def negated(self) -> Test:
        return Test(_folded("not", self.expr))

    def otherwise(self, yes: int | Whole, no: int | Whole) -> Whole:
        """One of two numbers."""
        return Whole(_folded("select", self.expr, Whole.of(yes).expr, Whole.of(no).expr))


_NEUTRAL = {"add": 0, "sub": 0, "mul": 1, "div": 1}
"""Right operands that leave the left one as it is."""


def _folded(fn: str, *operands: ex.Expr) -> ex.Expr:
    """A function of expressions, computed as far as what it depends on is known."""
    known = [o for o in operands if isinstance(o, ex.Num)]
    if fn in _NEUTRAL and isinstance(operands[1], ex.Num) and operands[1].value == _NEUTRAL[fn]:
        return operands[0]
    made = ex.apply(fn, *operands)
    if len(known) == len(operands):
        return ex.num(ex.evaluate(made, lambda i: np.zeros(())).item(), made.dtype)
    if fn == "select" and isinstance(operands[0], ex.Num):
        return operands[1 if operands[0].value else 2]
    if fn in ("and", "or") and known:
        other = next(o for o in operands if o is not known[0])
        return other if known[0].value == (fn == "and") else known[0]
    return made


def all_of(tests: Iterable[Test]) -> Test:
    return functools.reduce(lambda a, b: a & b, tests, Test(ex.num(True, BOOL)))


def any_of(tests: Iterable[Test]) -> Test:
    return functools.reduce(lambda a, b: a | b, tests, Test(ex.num(False, BOOL)))


def total(numbers: Iterable[Whole]) -> Whole:
    return functools.reduce(lambda a, b: a + b, numbers, Whole.of(0))


def wrapped(index: Whole, extent: int) -> Whole:
    """An index that may count from the end, counted from the beginning."""
    return index.below(0).otherwise(index + extent, index)


def _only_moves(node: Node) -> bool:
    """Whether each element of the results is one of few operands', unchanged."""
    moves = isinstance(node.op, Reshape) or (isinstance(node.op, Movement) and node.op.background is None)
    changed = node.pre or node.post or node.varies
    return moves and not changed and all(v.type.count <= MAX_ELEMENTS for v in (*node.inputs, *node.results))


class Elements:
    """The elements of inputs of a node: constants where they are known."""

    def __init__(self, n: Import) -> None:
        self.node = n
        self.operands: list[Value] = []
        self._known: dict[Value, tuple[Whole, ...]] = {}
        self._raw: dict[Value, tuple[ex.Expr, ...]] = {}
        self._constant: dict[Value, list[int | None]] = {}
        self._extents: dict[int, Value] = {}
        self._told: dict[ex.Expr, int] = {}
        self._alone: dict[ex.Expr, Value] = {}
        self._producers: dict[Value, Node] | None = None

    def of(self, i: int, what: str) -> tuple[Whole, ...]:
        """The elements of input ``i``, which ``what`` names; CompileError where they are too many."""
        return self.of_value(self.node.input(i), f"input {i} ({what})")

    def of_value(self, value: Value, what: str = "") -> tuple[Whole, ...]:
        if value not in self._known:
            self._known[value] = self._read(value, what)
        return self._known[value]

    def extent(self, extent: int) -> Whole:
        """An extent of a tensor, which may itself be one that is known at run time only."""
        if not isinstance(extent, Dim):
            return Whole.of(extent)
        if extent not in self._extents:
            self._extents[extent] = self.node.inner(Extents((extent,), (1,)), [], "extent")
        found = self.of_value(self._extents[extent])[0]
        self._told[found.expr] = extent
        return found

    def told(self, found: Whole) -> int | None:
        """What a number is, if it is known or an extent; None where the run finds it out."""
        return self._told.get(found.expr) if found.known is None else found.known

    def _read(self, value: Value, what: str) -> tuple[Whole, ...]:
        """Elements that are known or extents are so too where others beside them are not (Concat)."""
        n = self.node
        if value in n.graph.constants:
            return tuple(Whole.of(int(e)) for e in n.graph.array(value).reshape(-1))
        sources = self._sources(value)
        if any(n.numbers(v) for v, _ in sources):
            return tuple(self._element(v, i, what) for v, i in sources)
        constants = self._constants(value)
        if all(c is not None for c in constants):
            return tuple(Whole.of(c) for c in constants if c is not None)
        read = [Whole(ex.convert(e, I64)).most(-FAR).least(FAR) for e in self.raw(value, what)]
        self._alone.update({e.expr: v for e, (v, _) in zip(read, sources, strict=True) if v.type.count == 1})
        return tuple(e if c is None else Whole.of(c) for e, c in zip(read, constants, strict=True))

    def _constants(self, value: Value) -> list[int | None]:
        """The elements that are known though others beside them are not, of what is computed of each element alone:
        Where(shape == -1, 1, shape) of a shape [1, n, 16] is 1, unknown, 16."""
        if value not in self._constant:
            self._constant[value] = self._constants_of(value)
        return self._constant[value]

    def _constants_of(self, value: Value) -> list[int | None]:
        if value in self.node.graph.constants and not value.dtype.is_float:
            return [int(e) for e in self.node.graph.array(value).reshape(-1)]
        found: list[int | None] = [None] * (1 if value.type.varies else value.type.count)
        for k, (v, i) in enumerate(self._sources(value)):
            numbers = self.node.numbers(v)
            if v is not value:
                found[k] = self._constants(v)[i]
            elif numbers:
                found[k] = None if isinstance(numbers[i], Dim) else int(numbers[i])
        node = None if self._producers is None else self._producers.get(value)
        if node is None or not isinstance(node.op, Map) or node.pre or node.post or node.varies:
            return found
        if any(v.dtype.is_float or v.type.count not in (1, len(found)) for v in (*node.inputs, value)):
            return found
        given = [self._constants(v) for v in node.inputs]
        for k in range(len(found)):
            own = [g[k if len(g) > 1 else 0] for g in given]
            if None not in own:
                arrays = [np.asarray(o, v.dtype.numpy) for o, v in zip(own, node.inputs, strict=True)]
                found[k] = int(node.op.evaluate(*arrays)[0])
        return found

    def _element(self, value: Value, i: int, what: str) -> Whole:
        numbers = self.node.numbers(value)
        return self.extent(numbers[i]) if numbers else self.of_value(value, what)[i]

    def _sources(self, value: Value) -> list[tuple[Value, int]]:
        """Where elements come from that were only moved: values, and places in them."""
        if self._producers is None:
            self._producers = self.node.graph.producers()
        node = self._producers.get(value)
        if node is None or self.node.numbers(value) or not _only_moves(node):
            return [(value, i) for i in range(1 if value.type.varies else value.type.count)]
        given = [p for v in node.inputs for p in self._sources(v)]
        types = [v.type for v in node.inputs]
        ends = itertools.accumulate(t.count for t in types)
        places = [np.arange(end - t.count, end).reshape(t.shape) for t, end in zip(types, ends, strict=True)]
        moved = node.op.evaluate(*places)[node.results.index(value)]
        return [given[i] for i in moved.reshape(-1)]

    def raw(self, value: Value, what: str = "") -> tuple[ex.Expr, ...]:
        """The elements of a value that is not known, as they are."""
        n = self.node
        if value not in self._raw:
            told = one_element(n, value)
            count, first = told.type.count, sum(v.shape[0] for v in self.operands)
            if varies(told.shape) or first + count > MAX_ELEMENTS:
                raise n.error(f"{what or value.name} has too many elements to be arguments", "fix it with --constant")
            self.operands.append(n.reshape(told, (count,), "arguments"))
            self._raw[value] = tuple(ex.var(first + j, value.dtype) for j in range(count))
        return self._raw[value]

    def number(self, suffix: str, found: Whole, low: int, high: int) -> int:
        """A number as attributes take it: an extent of ``low`` to ``high``, or where nothing is left to find out just
        that. The program ends where it is another one."""
        known = self.told(found)
        if known is None or (isinstance(known, Dim) and not low <= span(known)[0] <= span(known)[1] <= high):
            number = self.node.counts(suffix, self.held(suffix, found, low, high), low, high)
            if found.expr in self._alone:  # who reads it again, moved to other places or not, means this very number
                self.node.learn(self._alone[found.expr], number)
            return number
        if not low <= known <= high:
            raise self.node.error(f"{suffix} is {known}, not in {low} to {high}")
        return known

    def held(self, suffix: str, found: Whole, low: int, high: int) -> Value:
        """A number that is not known, as a value, i32[]; the program ends where it is not in ``low`` to ``high``."""
        operands, expr = self._read_by(found.expr)
        return self.node.inners(ReadNumber(expr, low, high), operands, [suffix])[0]

    def result(self, axis: int, found: Whole) -> int:
        """An extent of output 0: the one that the model states, or a number of the run up to its bound."""
        stated = self.node.declared_extent(axis)
        if stated is not None:
            return self.number(f"extent{axis}", found, stated, stated)
        known = self.told(found)
        most = self.node.largest(axis, lambda: self.most(found)) if known is None else bound(known)
        return self.number(f"extent{axis}", found, 0, most)

    def most(self, found: Whole) -> int | None:
        """The most that a number may be by what it is computed of, if that tells something: how many of 20 bools are
        true, a length that is clipped."""
        producers = self.node.graph.producers()
        values = [v for v in self.operands for _ in range(v.shape[0])]
        reach = of_expression(found.expr, lambda i: reach_of(self.node.graph, values[i], producers))
        high = float(reach.high.max())
        return int(high) if high <= TELLING else None

    def require(self, holds: Test) -> None:
        """Let the program end where a test does not hold."""
        self.number("fits", holds.otherwise(1, 0), 1, 1)

    def _read_by(self, expr: ex.Expr) -> tuple[list[Value], ex.Expr]:
        """The operands that an expression reads, and the expression over their elements alone."""
        wanted, moved, first, kept = ex.variables(expr), dict[int, int](), 0, list[Value]()
        for v in self.operands:
            own = range(first, first + v.shape[0])
            if not wanted.isdisjoint(own):
                start = sum(k.shape[0] for k in kept)
                moved.update({i: start + i - first for i in own})
                kept.append(v)
            first = own.stop
        return kept, ex.substitute(expr, lambda x: ex.Var(x.dtype, moved[x.index]))


def single(n: Import, x: Value, axes: Iterable[int]) -> Value:
    """``x`` where an operator takes nothing but an extent of 1 along axes: that of those that the run finds out is
    required to be 1. Axes whose extent the caller gives stay as they are: a range of more was asked for.

    Of offsets[i:i+1] in the turns of a loop that is so unless i is behind the end.
    """
    for axis in axes:
        x = of_extent(n, x, axis, 1, "single")
    return x


def of_extent(n: Import, x: Value, axis: int, wanted: int, suffix: str) -> Value:
    """``x`` where an operator takes nothing but ``wanted`` elements along an axis: what the run finds out is required
    to be as many. What the caller gives stays as it is."""
    extent = x.shape[axis]
    low, high = span(extent)
    found = isinstance(extent, Dim) and any(s.name in n.stated.taken for s in symbols(extent))
    if not found or not low <= wanted <= high:
        return x
    e = Elements(n)
    e.require(e.extent(extent).equals(wanted))
    return n.inner(Gather(axis), [x, n.constant(f"{suffix}.places", np.arange(wanted))], suffix)


def one_element(n: Import, x: Value) -> Value:
    """A vector that may only have one element, as `single`."""
    return single(n, x, (0,)) if x.type.rank == 1 else x
