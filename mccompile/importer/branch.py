"""If whose condition is computed at run time: its branches become graphs of their own, closed over what they read.

Worked example: of ``If(c) { y = x + a } else { y = x }`` both graphs have the inputs that either of them reads of the
graph around, x and a; each names its own nodes and constants::

    %y = if(%c, %x, %a) regions {
      graph @then(%x: f32[3], %a: f32[3]) { %y = map(%x, %a) {expr={(x0 + x1)}} : f32[3]  return %y }
      graph @else(%x: f32[3], %a: f32[3]) { %y = map(%x) {expr={x0}} : f32[3]  return %y }
    } : f32[3]
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from mccompile.importer.extents import Numbers
from mccompile.importer.sequences import Known
from mccompile.ir.graph import Graph, Value
from mccompile.ops.branch import If, Refuse
from mccompile.ops.extents import Extents
from mccompile.ops.frontend import Import

Begin = Callable[[Graph, "Captures"], None]
"""Gives a nested graph inputs of its own, before it is walked."""


class Captures(dict[str, Known]):
    """The names of a nested graph. What the graph around knows becomes an input on sight, or a constant in here."""

    def __init__(self, graph: Graph, outer: dict[str, Known], around: Graph, varying: dict[Value, Numbers]) -> None:
        super().__init__()
        self.graph = graph
        self.outer = outer
        self.around = around
        self.varying = varying
        """The numbers of the graph around that are known at run time only; those of this graph are added."""
        self.taken: dict[Value, Value] = {}
        """The values of the graph around, and what they are in here."""

    def __missing__(self, name: str) -> Known:
        self[name] = self.own(self.outer[name])
        return self[name]

    def own(self, known: Known) -> Known:
        """What something that the graph around knows is in here."""
        return tuple(map(self._take, known)) if isinstance(known, tuple) else self._take(known)

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self.outer

    def _take(self, value: Value) -> Value:
        if value not in self.taken:
            self.taken[value] = self._own(value)
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


def refused(name: str, other: Graph) -> tuple[Graph, Captures]:
    """A branch that ends the program, with the outputs of the other one."""
    graph = Graph(name)
    types = [v.type for v in other.outputs]
    op = Refuse(tuple(t.dtype.name for t in types), tuple(t.shape for t in types))
    graph.outputs = graph.emit(op, [], [v.name for v in other.outputs])
    return graph, Captures(graph, {}, graph, {})


def emit_if(
    n: Import, condition: Value, branches: Sequence[tuple[Graph, Captures]], names: Sequence[str],
    widths: Sequence[int | None],
) -> list[Known]:  # fmt: skip
    """Emit the node of two closed graphs, whose inputs become the same: all that either of them captured. Its results
    are tensors (width None), and sequences of so many: one value for each tensor."""
    (yes, _), (no, _) = branches
    for a, b in zip(yes.outputs, no.outputs, strict=True):
        if a.type != b.type:
            raise n.error(
                f"the branches give {a.type} and {b.type} for one output, which is known at run time only",
                "fix what the condition depends on with --constant",
            )
    outer = list(dict.fromkeys(v for g, c in branches for v in c.taken if c.taken[v] in g.inputs))
    for graph, captured in branches:
        inside = {v: own for v, own in captured.taken.items() if own in graph.inputs}
        graph.inputs = [inside[v] if v in inside else graph.value(v.name, v.type) for v in outer]
        graph.remove_dead()
    origin = (n.node.name,)
    counted = zip(names, widths, strict=True)
    flat = [part for name, w in counted for part in ([name] if w is None else [f"{name}_{i}" for i in range(w)])]
    regions = [g for g, _ in branches]
    made = iter(n.graph.emit(If(), [condition, *outer], flat, origins=origin, regions=regions))
    return [next(made) if w is None else tuple(itertools.islice(made, w)) for w in widths]

