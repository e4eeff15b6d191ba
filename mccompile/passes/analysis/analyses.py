"""What passes have found out of a graph, for others that ask the same while it is as it was.

`remove-dead-channels` mostly finds nothing; `fold-constant-channels`, which runs next, then has the same analysis:

>>> from mccompile.ir.graph_text import parse_graph
>>> from mccompile.ops.registry import lookup
>>> graph = parse_graph("graph @g(%x: f32[2]) { %y = map(%x) {expr={neg(x0)}} : f32[2] return %y }", lookup)
>>> asked = []
>>> count = lambda graph: asked.append("counted") or len(graph.nodes)
>>> analyses = Analyses()
>>> analyses.of(graph, count), analyses.of(graph, count), asked
(1, 1, ['counted'])
>>> graph.nodes[0].extras = list(graph.inputs)
>>> analyses.of(graph, count), asked
(1, ['counted', 'counted'])
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import field
from typing import Any, TypeVar

from mccompile._dataclass import dataclass
from mccompile.ir.graph import Graph
from mccompile.passes.hiding import revealed

T = TypeVar("T")


@dataclass
class Analyses:
    """The last analysis of each kind, of which graph, and what that consisted of then; and those of the whole graph
    that the pass which runs has asked for."""

    last: dict[Callable[[Graph], Any], tuple[Graph, list[object], Any]] = field(default_factory=dict)
    whole: dict[tuple[Graph, Callable[[Graph], Any]], Any] = field(default_factory=dict)

    def begin(self) -> None:
        """Another pass begins."""
        self.whole.clear()

    def of(self, graph: Graph, analyse: Callable[[Graph], T]) -> T:
        """What ``analyse`` says of the graph, which it depends on and on nothing else."""
        parts = _parts(graph)
        if analyse in self.last:
            of, before, found = self.last[analyse]
            if of is graph and len(parts) == len(before) and all(map(operator.is_, parts, before)):
                kept: T = found
                return kept
        made = analyse(graph)
        self.last[analyse] = graph, parts, made
        return made

    def of_whole(self, graph: Graph, analyse: Callable[[Graph], T]) -> T:
        """What an analysis that takes extents which vary says of the whole graph as a pass finds it that asks for it,
        with nodes that are hidden from this: what is done in one of the graphs inside is nothing to the others."""
        asked = graph, analyse
        if asked not in self.whole:
            with revealed(graph):
                self.whole[asked] = self.of(graph, analyse)
        found: T = self.whole[asked]
        return found


def _parts(graph: Graph) -> list[object]:
    """All that a graph consists of, each part immutable but for values, which have nothing but a name and a type, and
    for nodes, of which all parts are listed."""
    parts: list[object] = [*graph.inputs, None, *graph.outputs, None, *graph.constants, *graph.constants.values()]
    for node in graph.nodes:
        parts += (node, *node.operands, None, *node.extras, None, *node.results, *node.typed_parts())
        for region in node.regions:
            parts += _parts(region)
    return parts
