"""Computes at compile time what depends on constants and on extents of the run alone: a table for the bound.

Worked example: positions of n = 1..4, counted down, times a constant. For 4 that is [3, 2, 1, 0] * c, for 2 it is
[1, 0] * c: the last two elements of the first. So the program holds the former, and takes ``slice [4 - n:4]`` of it.

>>> table = np.array([3.0, 2.0, 1.0, 0.0])
>>> [r.name for r in RULES if r.fits(table, np.array([1.0, 0.0]))]
['last']

What a table is cut from is found by trying: each value that the extent may be is evaluated, in float64. A value of
which no cut is right for all of them stays, and what it is computed of is looked at.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.dims import bound, symbols, varies
from mccompile.ir.dims_terms import Symbol
from mccompile.ir.graph import Graph, Node, Value, typed
from mccompile.ir.scalar import Array
from mccompile.ops.expand import Expand
from mccompile.ops.slice import Slice
from mccompile.passes.clean.fold_constants import MAX_GROWTH_BYTES
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.rewriter import Rewriter

MAX_EVALUATED = 1 << 25
"""Elements that are evaluated at most for the values of one extent: a second or two."""
NODE_ELEMENTS = 1 << 11
"""As many elements take as long as it takes to begin with a node."""
ROUNDING = 1e-9
"""Two tables are equal if their elements, in float64, differ by no more, relative to each: beside the -3e38 of a mask
all others would be equal."""
CANCELLED = 1e-12
"""What is left of 0 where elements cancel, relative to the largest element, or to 1 if that is larger."""


@dataclass(frozen=True)
class Rule:
    """Which elements of a table's axis the axis of a value is; ``start`` gets the extents of both."""

    name: str
    start: Callable[[int, int], int]

    def fits(self, table: Array, part: Array) -> bool:
        """Whether a line is that part of a table."""
        first = self.start(len(table), len(part))
        return _equal(table[first : first + len(part)], part)


RULES = (
    Rule("first", lambda of, extent: 0),
    Rule("last", lambda of, extent: of - extent),
    Rule("middle", lambda of, extent: (of - extent) // 2),
)


def run(graph: Graph, remarks: Remarks) -> int:
    """Compute what depends on constants and on one extent of the run alone, for its bound; runs take a part of it.

    Exact but for functions of the C library, as `fold-constants` is.
    """
    known = _known(graph)
    if not known:
        return 0
    tables = {s: _tables(graph, known, s) for s in dict.fromkeys(s for s, _ in known.values() if s is not None)}
    rewriter = Rewriter(graph)
    read = {v for n in graph.nodes if not known.keys() >= set(n.results) for v in n.inputs} | set(graph.outputs)
    changes = grown = 0
    for node in reversed(graph.nodes):
        if read.isdisjoint(node.results) or node.results[0] not in known:
            continue
        reason, growth = "", sum(bound(r.type.nbytes) for r in node.results)
        symbol, computes = known[node.results[0]]
        if symbol is None or not computes:
            reason = "nothing is computed there"
        elif any(r not in tables[symbol] for r in node.results):
            reason = f"it is no part of what it is for the largest {symbol.name}, or too much to be tried"
        elif grown + growth > MAX_GROWTH_BYTES:
            reason = f"the blob would grow by {grown + growth} bytes"
        elif not set(graph.outputs).isdisjoint(node.results):
            reason = "its result is an output"
        if reason:
            if computes:
                remarks.miss(f"tabulated {node.where}", reason)
            read.update(node.inputs)
            continue
        assert symbol is not None
        for r in node.results:
            table, starts = tables[symbol][r]
            rewriter.replace(r, _cut(graph, rewriter, node, r, table, starts))
        rewriter.erase(node)
        remarks.hit(f"tabulated {node.where}")
        grown += growth
        changes += 1
    rewriter.finish()
    graph.remove_dead()
    return changes


def _known(graph: Graph) -> dict[Value, tuple[Symbol | None, bool]]:
    """The values that depend on constants and at most one symbol alone; whether anything but movement made them."""
    found: dict[Value, tuple[Symbol | None, bool]] = {}
    counted = set(graph.counts.values())
    for node in graph.nodes:
        if node.regions or node.op.ends_run or not node.evaluates:
            continue
        if not counted.isdisjoint(node.results) or graph.counted(node):
            continue
        if any(v not in found and v not in graph.constants for v in node.inputs):
            continue
        before = [found[v] for v in node.inputs if v in found]
        inner = {s for s, _ in before if s is not None} | set(symbols(*node.numbers()))
        if len(inner) > 1 or any(s.under for s in inner):
            continue
        computes = any(c for _, c in before) or (bool(node.inputs) and not (node.op.selects and not node.post))
        for r in node.results:
            found[r] = (next(iter(inner), None), computes)
    return found


Found = tuple[Array, tuple[int, ...]]
"""A table, and where what a run reads of it begins."""


def _tables(graph: Graph, known: Mapping[Value, tuple[Symbol | None, bool]], symbol: Symbol) -> dict[Value, Found]:
    """For values of one symbol: the table that they are a part of, and which."""
    nodes = [n for n in graph.nodes if n.results[0] in known and known[n.results[0]][0] in (symbol, None)]
    nodes = [n for n in nodes if all(v in graph.constants or known[v][0] in (symbol, None) for v in n.inputs)]
    work = sum(NODE_ELEMENTS + bound(r.type.count) for n in nodes for r in n.results)
    if work * len(symbol.values) > MAX_EVALUATED:
        return {}
    largest = _values(graph, nodes, {symbol.name: symbol.values[-1]}, wide=True)
    rules = {r: list(_rules(r)) for n in nodes for r in n.results if known[r][0] is symbol}
    for number in symbol.values[:-1]:
        found = _values(graph, nodes, {symbol.name: number}, wide=True)
        for r, left in rules.items():
            left[:] = [chosen for chosen in left if _is_part(largest[r], found[r], chosen)]
        if not any(rules.values()):
            return {}
    tables = _values(graph, nodes, {symbol.name: symbol.values[-1]}, wide=False)
    return {r: (tables[r], _starts(tables[r].shape, r.shape, left[0])) for r, left in rules.items() if left}


def _values(graph: Graph, nodes: Sequence[Node], extents: Mapping[str, int], wide: bool) -> dict[Value, Array]:
    """What nodes compute where extents have values."""
    constants = {v for n in nodes for v in n.inputs if v in graph.constants}
    values = {v: typed(graph.array(v), v.dtype, wide) for v in constants}
    for node in nodes:
        values.update(zip(node.results, node.evaluate(values, wide, extents), strict=True))
    return {r: values[r] for n in nodes for r in n.results}


def _rules(value: Value) -> Iterator[tuple[Rule, ...]]:
    """A rule for each axis, in all ways; axes that do not vary have the first."""
    return itertools.product(*(RULES if varies([e]) else RULES[:1] for e in value.shape))


def _starts(table: Sequence[int], shape: Sequence[int], rules: Sequence[Rule]) -> tuple[int, ...]:
    return tuple(r.start(of, e) if varies([e]) else 0 for r, of, e in zip(rules, table, shape, strict=True))


def _is_part(table: Array, part: Array, rules: Sequence[Rule]) -> bool:
    starts = [r.start(of, e) for r, of, e in zip(rules, table.shape, part.shape, strict=True)]
    place = tuple(slice(s, s + e) for s, e in zip(starts, part.shape, strict=True))
    return _equal(table[place], part)


def _equal(a: Array, b: Array) -> bool:
    if a.shape != b.shape:
        return False
    if a.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return True
    finite = np.isfinite(a) & np.isfinite(b)
    a, b = (np.where(finite, x, 0.0) for x in (a, b))
    size = np.abs(b)
    near = np.abs(a - b) <= ROUNDING * size + CANCELLED * min(size.max(initial=0.0), 1.0)
    return bool((same | (finite & near)).all())


def _cut(
    graph: Graph, rewriter: Rewriter, before: Node, value: Value, table: Array, starts: tuple[int, ...]
) -> Value:
    """The part of a table, a new constant, in place of a value; one element again and again, where all are equal."""
    first = table.reshape(-1)[:1]
    if table.size and table.tobytes() == first.tobytes() * table.size:  # -0 is another element than 0
        one = graph.constant(f"{value.name}.element", first.reshape((1,) * table.ndim))
        return rewriter.insert(before, Expand(value.shape), [one], f"{value.name}.part")
    constant = graph.constant(f"{value.name}.table", np.ascontiguousarray(table))
    if not varies(value.shape):
        return constant
    op = Slice(starts, (1,) * len(starts), value.shape)
    return rewriter.insert(before, op, [constant], f"{value.name}.part")
