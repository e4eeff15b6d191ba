"""If whose condition is computed at run time: its branches become graphs of their own, closed over what they read.

Worked example: of ``If(c) { y = x + a } else { y = x }`` both graphs have the inputs that either of them reads of the
graph around, x and a; each names its own nodes and constants::

    %y = if(%c, %x, %a) regions {
      graph @then(%x: f32[3], %a: f32[3]) { %y = map(%x, %a) {expr={(x0 + x1)}} : f32[3]  return %y }
      graph @else(%x: f32[3], %a: f32[3]) { %y = map(%x) {expr={x0}} : f32[3]  return %y }
    } : f32[3]

Where they give other extents of one output, as the rows that a detector keeps, or none, both fill it up to the most
that it may have and say how many rows there are: behind the node, these are an extent that is counted::

    %y.filled, %y.extent0 = if(%c, %x) regions {
      graph @then(%x: f32[3]) { %y = const [...] : f32[3]  %n = extents() {values=(0,)} : i32[]  return %y, %n }
      graph @else(%x: f32[3]) { %y = pad(%kept) : f32[3]  %n = extents() {values=(count,)} : i32[]  return %y, %n }
    }
    %y = slice(%y.filled) {starts=(0,), steps=(1,), extents=(y_extent0,)}
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from mccompile.importer.extent_rules import Numbers
from mccompile.importer.sequences import Known, Rows
from mccompile.ir.dims import bound, span, symbols
from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Graph, Value
from mccompile.ir.types import TensorType
from mccompile.ops.branch import If, Refuse
from mccompile.ops.extents import Extents
from mccompile.ops.frontend import Import
from mccompile.ops.pad import Pad
from mccompile.ops.reshape import Reshape
from mccompile.ops.slice import Slice

Begin = Callable[[Graph, "Captures"], None]
"""Gives a nested graph inputs of its own, before it is walked."""
Branch = tuple[Graph, "Captures"] | list[CompileError]
"""A nested graph that is closed, or why it cannot be converted."""


class Captures(dict[str, Known]):
    """The names of a nested graph. What the graph around knows becomes an input on sight, or a constant in here."""

    def __init__(
        self, graph: Graph, outer: dict[str, Known], around: Graph, varying: dict[Value, Numbers],
        narrow: dict[Value, str],
    ) -> None:  # fmt: skip
        super().__init__()
        self.graph = graph
        self.outer = outer
        self.around = around
        self.varying = varying
        """The numbers of the graph around that are known at run time only; those of this graph are added."""
        self.narrow = narrow
        """The narrow types of values, to which those in here are added."""
        self.taken: dict[Value, Value] = {}
        """The values of the graph around, and what they are in here."""

    def __missing__(self, name: str) -> Known:
        self[name] = self.own(self.outer[name])
        return self[name]

    def own(self, known: Known) -> Known:
        """What something that the graph around knows is in here."""
        if isinstance(known, Rows):
            return Rows(self._take(known.value))
        return tuple(map(self._take, known)) if isinstance(known, tuple) else self._take(known)

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self.outer

    def _take(self, value: Value) -> Value:
        if value not in self.taken:
            self.taken[value] = own = self._own(value)
            if value in self.narrow:
                self.narrow[own] = self.narrow[value]
        return self.taken[value]

    def _own(self, value: Value) -> Value:
        if value in self.around.constants:
            return self.graph.constant(value.name, self.around.array(value))
        numbers = self.varying.get(value)
        if numbers is not None:
            op = Extents(tuple(numbers.reshape(-1)), numbers.shape, value.dtype.name)
            (own,) = self.graph.emit(op, [], [value.name])
            self.varying[own] = numbers
            return own
        own = self.graph.value(value.name, value.type)
        self.graph.inputs.append(own)
        return own


def take_back(graph: Graph, names: Mapping[str, Known], begin: int) -> None:
    """Drop the nodes of a graph from the one at ``begin`` on, but for numbers of the graph around: ``names`` have
    them since they were first read, and what is walked next reads them, too."""
    held = set(names.taken.values()) if isinstance(names, Captures) else set()
    graph.nodes[begin:] = [node for node in graph.nodes[begin:] if not held.isdisjoint(node.results)]


def alike(branches: Sequence[Branch]) -> bool:
    """Whether both can be computed, and give outputs of the same element types and numbers of axes."""
    closed = [b for b in branches if not isinstance(b, list)]
    types = [[(v.dtype, v.type.rank) for v in graph.outputs] for graph, _ in closed]
    return len(closed) == len(branches) and types[0] == types[1]


def is_one(type_: TensorType) -> bool:
    """Whether a tensor has one element in every run."""
    return not type_.varies and type_.count == 1


def settled(condition: Value, holds: bool) -> Begin:
    """Tells a branch what its condition is in there: an If in it on the same one has one branch."""

    def begin(graph: Graph, names: Captures) -> None:
        names.taken[condition] = graph.constant(condition.name, np.full(condition.shape, holds))

    return begin


def refused(name: str, other: Graph) -> tuple[Graph, Captures]:
    """A branch that ends the program, with the outputs of the other one; where that counts an extent, the most."""
    graph = Graph(name)
    types = [v.type for v in other.outputs]
    shapes = [[bound(e) if any(s.name in other.counts for s in symbols(e)) else e for e in t.shape] for t in types]
    op = Refuse(tuple(t.dtype.name for t in types), tuple(map(tuple, shapes)))
    graph.outputs = list(graph.emit(op, [], [v.name for v in other.outputs]))
    return graph, Captures(graph, {}, graph, {}, {})


def emit_if(
    n: Import, condition: Value, branches: Sequence[tuple[Graph, Captures]], names: Sequence[str],
    widths: Sequence[int | None],
) -> list[Known]:  # fmt: skip
    """Emit the node of two closed graphs, whose inputs become the same: all that either of them captured. Its results
    are tensors (width None), and sequences of so many: one value for each tensor."""
    (yes, _), (no, _) = branches
    differing: list[tuple[int, dict[int, tuple[int, int]]]] = []
    for i in range(len(yes.outputs)):
        _give_one_shape(i, yes, no)
        a, b = yes.outputs[i], no.outputs[i]
        if a.dtype != b.dtype or a.type.rank != b.type.rank:
            raise n.error(
                f"an output that is {a.type} or {b.type}, as is known at run time only, is not supported",
                "fix what the condition depends on with --constant",
            )
        if axes := _filled(n, i, yes, no):
            differing.append((i, axes))
    outer = list(dict.fromkeys(v for g, c in branches for v in c.taken if c.taken[v] in g.inputs))
    for graph, captured in branches:
        inside = {v: own for v, own in captured.taken.items() if own in graph.inputs}
        graph.inputs = [inside[v] if v in inside else graph.value(v.name, v.type) for v in outer]
        graph.remove_dead()
    origin = (n.node.name,)
    counted = zip(names, widths, strict=True)
    flat = [part for name, w in counted for part in ([name] if w is None else [f"{name}_{i}" for i in range(w)])]
    many = len(flat)
    names_of = list(flat)
    for i, axes in differing:
        names_of[i] = f"{flat[i]}.filled"
        names_of += [f"{flat[i]}.extent{a}" for a in axes]
    made = n.graph.emit(If(), [condition, *outer], names_of, origins=origin, regions=[g for g, _ in branches])
    results, numbers = made[:many], iter(made[many:])
    for i, axes in differing:
        results[i] = _part(n, results[i], flat[i], axes, numbers)
    taken = iter(results)
    return [next(taken) if w is None else tuple(itertools.islice(taken, w)) for w in widths]


def _give_one_shape(i: int, yes: Graph, no: Graph) -> None:
    """Give output ``i`` of both graphs the more axes of the two, where it is one element: what reads it takes either,
    as bool[] and bool[1] of a condition."""
    a, b = yes.outputs[i].type, no.outputs[i].type
    if a.rank == b.rank or not (is_one(a) and is_one(b)):
        return
    graph, shape = (yes, b.shape) if a.rank < b.rank else (no, a.shape)
    value = graph.outputs[i]
    (graph.outputs[i],) = graph.emit(Reshape(shape), [value], [f"{value.name}.one"])


def _filled(n: Import, i: int, yes: Graph, no: Graph) -> dict[int, tuple[int, int]]:
    """Fill output ``i`` of both graphs up to one type, where they give other extents or such that are counted inside,
    and give these numbers as further outputs. The least and the most of them, by axis."""
    own = yes.counts.keys() | no.counts.keys()
    pairs = list(zip(yes.outputs[i].shape, no.outputs[i].shape, strict=True))
    axes = [a for a, (x, y) in enumerate(pairs) if x != y or any(s.name in own for s in symbols(x, y))]
    ranges = {a: (min(span(e)[0] for e in pairs[a]), max(bound(e) for e in pairs[a])) for a in axes}
    for graph in (yes, no) if axes else ():
        value = graph.outputs[i]
        shape = value.shape
        after = tuple(ranges[a][1] - e if a in ranges else 0 for a, e in enumerate(shape))
        if any(after):
            full = tuple(e + more for e, more in zip(shape, after, strict=True))
            if value.type.count == 0 and not value.type.varies:
                graph.outputs[i] = graph.constant(f"{value.name}.filled", np.zeros(full, value.dtype.numpy))
            else:
                pad = Pad((*(0,) * len(shape), *after))
                (graph.outputs[i],) = graph.emit(pad, [value], [f"{value.name}.filled"])
        for a in axes:
            graph.outputs += graph.emit(Extents((shape[a],), (), "i32"), [], [f"{value.name}.extent{a}"])
    return ranges


def _part(
    n: Import, filled: Value, name: str, axes: Mapping[int, tuple[int, int]], numbers: Iterator[Value]
) -> Value:
    """What there is of a result that is filled up: its extents are counted."""
    shape = list(filled.shape)
    for a, (low, high) in axes.items():
        shape[a] = n.counts(f"extent{a}", next(numbers), low, high)
    rank = len(shape)
    (part,) = n.graph.emit(Slice((0,) * rank, (1,) * rank, tuple(shape)), [filled], [name], origins=(n.node.name,))
    return part
