"""One turn of a cell that was written out, and the graph it stands in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from mccompile._dataclass import dataclass
from mccompile.ir.graph import Graph, Node, Value
from mccompile.passes.analysis.cells import Cell, NotACellError, cell_state_in
from mccompile.passes.analysis.polynomials import Poly, TooLargeError
from mccompile.passes.analysis.turn_forms import UnknownFormError, atoms
from mccompile.passes.recognize.cell_inputs import Reads
from mccompile.passes.rewrite.patterns import is_plain

NO_CELL = (NotACellError, UnknownFormError, TooLargeError)
"""Why something is no cell."""


@dataclass(frozen=True)
class WrittenTurn:
    """One turn: the states before it and after it, and the nodes between.

    ``level``: how many products of the chain its result depends on.
    """

    before: tuple[Value | None, ...]
    after: tuple[Value | None, ...]
    cell: Cell
    reads: Reads
    nodes: frozenset[Node] = field(compare=False)
    level: int = 0


class Nodes:
    """Who makes and who reads the values of a graph, and how many products of a chain they depend on."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.order = {n: i for i, n in enumerate(graph.nodes)}
        self.producers = graph.producers()
        self.users = graph.users()
        self.levels: dict[Value, int] = {}

    def count(self, group: set[Node]) -> None:
        """Find for each value how many products of a group it depends on, one behind the other."""
        levels: dict[Value, int] = {}
        for node in self.graph.nodes:
            level = max((levels.get(v, 0) for v in node.inputs), default=0) + (node in group)
            if level:
                levels.update(dict.fromkeys(node.results, level))
        self.levels = levels

    def level(self, value: Value) -> int:
        return self.levels.get(value, 0)

    def reached(self, states: Sequence[Value], level: int) -> list[Node]:
        """The nodes of a turn and those that read what it makes, in their order: what depends on the states."""
        seen: set[Node] = set()
        pending = list(states)
        while pending:
            for node in self.users.get(pending.pop(), ()):
                if node not in seen and all(self.level(v) <= level for v in node.results):
                    seen.add(node)
                    pending += node.results
        return sorted(seen, key=self.order.__getitem__)

    def reshaped_from(self, value: Value) -> Value:
        """What a value is a reshape of."""
        node = self.producers.get(value)
        while node is not None and node.op.keeps_order and is_plain(node) and node.operands[0] is not None:
            value = node.operands[0]
            node = self.producers.get(value)
        return value


def inner_of(h: Poly) -> Poly | None:
    """The new cell state in what may be the new state of an LSTM."""
    found = [cell_state_in(a) for a in atoms(h)] if len(h.terms) == 1 else []
    return next((f for f in found if f is not None), None)
