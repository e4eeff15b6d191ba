"""How large elements may be by what they are computed of, while a graph is imported.

    ReduceSum(Cast(mask)), mask of 20 bools        is at most      20

So much memory does for what is as long as that, and nobody need say a bound.
"""

from __future__ import annotations

from collections.abc import Mapping

from mccompile.ir import expr as ex
from mccompile.ir import ranges
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.ranges import Range

FEW_STEPS = 12
"""So many nodes are looked at, one behind another."""


def reach_of(graph: Graph, value: Value, producers: Mapping[Value, Node], left: int = FEW_STEPS) -> Range:
    """The range of the elements of a value, all of them together."""
    if value in graph.constants:
        return ranges.of_array(graph.array(value), None) if value.type.count else ranges.anything(value.dtype)
    node = producers.get(value)
    if node is None or not left or node.pre or node.regions:
        return ranges.anything(value.dtype)
    given = [None if o is None else reach_of(graph, o, producers, left - 1) for o in node.operands]
    index = node.results.index(value)
    found = node.op.value_range(node.operand_types(), given)[index].whole()
    if index not in node.post:
        return found
    extras = [reach_of(graph, e, producers, left - 1) for e in node.extras]
    return ranges.of_expression(node.post[index], lambda i: found if i == ex.ACC else extras[i])
