"""Decides which values share one buffer (reshapes) and which buffers carry a halo for their readers.

Worked example: y is x reshaped, and z a map of y. x is an input and y a value between: y lies in the buffer of x.
Were y an output, both would have a place of their own, and the reshape be a copy.

>>> from mccompile.ir.graph_text import parse_graph
>>> from mccompile.ops.registry import lookup
>>> graph = parse_graph('''graph @g(%x: f32[2,3]) {
...   %y = reshape(%x) {shape=(6,)} : f32[6]
...   %z = map(%y) {expr={neg(x0)}} : f32[6]
...   return %z
... }''', lookup)
>>> {v.name: root.name for v, root in assign_storage(graph, {}).root.items()}
{'x': 'x', 'y': 'x'}
>>> graph.outputs = [graph.nodes[0].result]
>>> assign_storage(graph, {}).root
{}
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import field

from mccompile._dataclass import dataclass
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.state import room
from mccompile.ir.views import stored_alike
from mccompile.kernels.variant import Demand


@dataclass
class Storage:
    """``root`` maps every value that shares a buffer to the one the buffer is named after: an input or output if
    there is one among them (there is at most one), else the first.

    ``halo`` gives the demand a value's buffer satisfies.
    """

    root: dict[Value, Value] = field(default_factory=dict)
    halo: dict[Value, Demand] = field(default_factory=dict)

    def of(self, value: Value) -> Value:
        """The value that the buffer of ``value`` is named after."""
        return self.root.get(value, value)


def assign_storage(
    graph: Graph, demands: Mapping[Node, tuple[Demand, ...]], gaps: Set[Value] = frozenset()
) -> Storage:
    """Reshapes share their operand's buffer unless both ends are fixed (inputs, outputs, constants), or one is among
    ``gaps``: values of a graph inside of a node that lie in a buffer of the graph around, with gaps between rows.

    Halos are granted to values that are neither fixed nor seen through a reshape, nor wanted row by row; where two
    readers want different fills, the first one gets its way and the others copy.
    """
    storage = Storage()
    fixed = set(graph.inputs) | set(graph.outputs)
    apart = {v for pair in graph.state_values() if room(pair[0].type, pair[1].type) for v in pair} | gaps
    group: dict[Value, list[Value]] = {}
    for node in graph.nodes:
        if node.op.name != "reshape" or node.operands[0] is None or node.operands[0] in graph.constants:
            continue
        source, result = node.operands[0], node.result
        members = group.setdefault(source, [source])
        if result in fixed and any(m in fixed for m in members):
            continue
        if source in apart or result in apart or not stored_alike(source.type, result.type):
            continue
        members.append(result)
        group[result] = members
    for members in group.values():
        if len(members) > 1:
            root = next((m for m in members if m in fixed), members[0])
            storage.root.update(dict.fromkeys(members, root))
    rows = {v for n in graph.nodes if _wants_rows(n) for v in (*n.operands, *n.results)}
    for node, wanted in demands.items():
        for demand in wanted:
            value = node.operands[demand.operand]
            if value is None or value in fixed or value in rows:
                continue
            if value in storage.root or value in graph.constants:
                continue
            if not any(lo or hi for lo, hi in demand.halo):
                continue
            have = storage.halo.get(value)
            if have is None or have.fill == demand.fill:
                storage.halo[value] = demand if have is None else _join(have, demand)
    return storage


def _wants_rows(node: Node) -> bool:
    """Whether a node, or one in the graphs inside of it, wants what it reads and writes row by row."""
    return node.op.wants_rows or any(_wants_rows(inner) for region in node.regions for inner in region.nodes)


def _join(a: Demand, b: Demand) -> Demand:
    halo = tuple((max(x[0], y[0]), max(x[1], y[1])) for x, y in zip(a.halo, b.halo, strict=True))
    return Demand(a.operand, halo, a.fill)
