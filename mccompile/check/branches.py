"""The nodes that a run computes, one after the other: of an If, and of a choice of extents, those of one branch.

    y = choose(n is 1, x) of two graphs         with n = 3: the nodes of the second graph, then the node itself, whose
                                                result is what that graph gave
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ops.branch import If

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Computed:
    """A node, of the graph that it is in. ``taken``: what the results of its branch are; None if it has none."""

    node: Node
    graph: Graph
    taken: list[Value] | None = None


def computed(
    graph: Graph, values: MutableMapping[Value, Array], constant: Callable[[Graph, Value], Array]
) -> Iterator[Computed]:
    """The nodes in order. Who takes a node puts its results into ``values``, which hold the inputs; ``constant`` says
    what those of a graph are."""
    values.update({v: constant(graph, v) for v in graph.constants})
    for node in graph.nodes:
        if not isinstance(node.op, If) or node.pre or node.post:
            yield Computed(node, graph)
            continue
        condition, *given = (values[v] for v in node.inputs)
        branch = node.regions[0 if condition.any() else 1]
        values.update(zip(branch.inputs, given, strict=True))
        yield from computed(branch, values, constant)
        yield Computed(node, graph, list(branch.outputs))
