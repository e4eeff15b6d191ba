"""Loops that count for themselves: carried numbers that grow by a constant, and conditions that compare them.

Worked example: what tf2onnx writes for ``while i < 40 and n < 40`` (layers of Keras) carries i and n, at first 0:

    body(turn, going, i, n, h):  i' = i + 1   n' = n + 1   going' = (i' < 40) and (n' < 40)   h' = ...

In turn t, i is t and i' is t + 1, so that the loop makes 40 turns, and neither of the two is carried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mccompile.importer.sequences import Known
from mccompile.ir.dims import Dim, maximum, minimum
from mccompile.ir.graph import Value
from mccompile.onnxio import OnnxGraph, OnnxNode

_AS_IT_IS = frozenset({"Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze"})
"""A number stays the same number."""

NumberOf = Callable[[Known], int | None]
"""The number that a value of the graph around is, if that is known: one of extents, or a constant."""


@dataclass(frozen=True)
class Counter:
    """In turn t, counted from 0, it is ``start + t * step``."""

    start: int
    step: int


@dataclass(frozen=True)
class Counting:
    """The body of a loop, and the numbers of the graph around that it reads."""

    body: OnnxGraph
    outer: Mapping[str, Known]
    number: NumberOf

    def counters(self, carried: Sequence[tuple[str, Known, str]]) -> dict[str, Counter]:
        """The carried values that count, by their names in the body."""
        found: dict[str, Counter] = {}
        for name, first, made in carried:
            start, step = self.number(first), self._growth(made, name)
            whole = isinstance(first, Value) and first.dtype.name in ("i32", "i64")
            if whole and start is not None and step:
                found[name] = Counter(start, step)
        return found

    def turns(self, going: str, counters: Mapping[str, Counter]) -> int | None:
        """After how many turns a condition is false first, if only counters decide that and they grow."""
        node = self._producer(going)
        if node is None:
            return None
        if node.op_type == "And":
            parts = [self.turns(name, counters) for name in node.inputs]
            known = [p for p in parts if p is not None]
            return minimum(known[0], known[1]) if len(known) == 2 else None
        names = node.inputs[::-1] if node.op_type in ("Greater", "GreaterOrEqual") else node.inputs
        if node.op_type not in ("Less", "LessOrEqual", "Greater", "GreaterOrEqual"):
            return None
        counted, end = self._counter(names[0], counters), self._number(names[1])
        if counted is None or end is None or counted.step < 0:
            return None
        beyond = end + (1 if node.op_type.endswith("OrEqual") else 0) - counted.start
        return maximum(-(-beyond // counted.step) + 1, 1)  # the condition is that of the next turn

    # -- the body ------------------------------------------------------------------------------------------------
    def _producer(self, name: str) -> OnnxNode | None:
        """The node that makes a value, past those that leave a number as it is."""
        by_output = {o: node for node in self.body.nodes for o in node.outputs}
        node = by_output.get(name)
        while node is not None and node.op_type in _AS_IT_IS:
            node = by_output.get(node.inputs[0])
        return node

    def _source(self, name: str) -> str:
        """The value that another one is, as a number."""
        by_output = {o: node for node in self.body.nodes for o in node.outputs}
        while name in by_output and by_output[name].op_type in _AS_IT_IS:
            name = by_output[name].inputs[0]
        return name

    def _number(self, name: str) -> int | None:
        name = self._source(name)
        array = self.body.initializers.get(name)
        if array is not None:
            return int(array.reshape(-1)[0]) if array.size == 1 and array.dtype.kind in "iu" else None
        inside = {v.name for v in self.body.inputs} | {o for node in self.body.nodes for o in node.outputs}
        known = None if name in inside or name not in self.outer else self.outer[name]
        return None if known is None else self.number(known)

    def _sum(self, name: str) -> tuple[str, int] | None:
        """Another value and a number that a value is the sum of."""
        node = self._producer(name)
        if node is None or node.op_type not in ("Add", "Sub"):
            return None
        left, right = node.inputs
        second = self._number(right)
        if second is not None:
            return self._source(left), second if node.op_type == "Add" else -second
        first = self._number(left) if node.op_type == "Add" else None
        return None if first is None else (self._source(right), first)

    def _growth(self, made: str, name: str) -> int | None:
        """By how much a carried value grows in each turn."""
        total = 0
        while (parts := self._sum(made)) is not None:
            made, total = parts[0], total + parts[1]
            if made == name:
                return None if isinstance(total, Dim) else total
        return None

    def _counter(self, name: str, counters: Mapping[str, Counter]) -> Counter | None:
        """What counts, as seen from the end of a turn."""
        source, total = self._source(name), 0
        while source not in counters:
            parts = self._sum(source)
            if parts is None:
                number = self.body.inputs[0].name
                return Counter(total, 1) if source == number else None
            source, total = parts[0], total + parts[1]
        own = counters[source]
        return Counter(own.start + total, own.step)
