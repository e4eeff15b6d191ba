"""What memory the values of a graph need while it runs, before any of them has a place.

Worked example: a, b and y have 4 numbers of 4 bytes each. The second map reads b element by element, as its last
reader: y lies over it. The concatenation of a and y is both of them, one behind the other:

>>> from mccompile.ir.graph_text import parse_graph
>>> from mccompile.ops.registry import lookup
>>> graph = parse_graph('''graph @g(%a: f32[4]) {
...   %b = map(%a) {expr={(x0 + 1.0)}} : f32[4]
...   %y = map(%b) {expr={(x0 * x0)}} : f32[4]
...   %z = concat(%a, %y) {axis=0} : f32[8]
...   return %z
... }''', lookup)
>>> bytes_alive(graph)
[32, 32, 32]
"""

from __future__ import annotations

import itertools

from mccompile.ir.dims import bound
from mccompile.ir.graph import Graph, Node, Value


def bytes_alive(graph: Graph) -> list[int]:
    """Bytes of what is alive at each node, at the bounds of extents. Constants need none."""
    spans = _spans(graph)
    change = [0] * (len(graph.nodes) + 1)
    for v, (first, last) in spans.items():
        change[0 if v in graph.inputs else first] += bound(v.type.nbytes)
        change[len(graph.nodes) if v in graph.outputs else last + 1] -= bound(v.type.nbytes)
    alive = []
    for i, (node, nbytes) in enumerate(zip(graph.nodes, itertools.accumulate(change), strict=False)):
        dying = [v for v in dict.fromkeys(node.inputs) if v in spans and spans[v][1] == i]
        alive.append(nbytes - _shared(node, dying))
    return alive


def _spans(graph: Graph) -> dict[Value, tuple[int, int]]:
    """The first and the last node of each value that has memory of its own: of what another shape or a view of a
    value is, those of the value."""
    whole: dict[Value, Value] = {}
    for node in graph.nodes:
        if node.op.joins and node.op.is_view:
            whole |= {v: node.result for v in node.inputs if v not in whole}
        elif node.op.keeps_order or node.op.is_view:
            whole[node.result] = node.inputs[0]
    spans: dict[Value, tuple[int, int]] = {}
    for i, node in enumerate(graph.nodes):
        for v in (*node.inputs, *node.results):
            while v in whole:
                v = whole[v]
            if v not in graph.constants:
                spans[v] = (spans.get(v, (i, i))[0], i)
    return spans


def _shared(node: Node, dying: list[Value]) -> int:
    """How many bytes of its result lie over values of which it is the last reader: one of as many bytes that it reads
    element by element, or those that it concatenates."""
    size = bound(node.results[0].type.nbytes)
    if node.op.joins:
        return min(sum(bound(v.type.nbytes) for v in dying), size)
    over = dying if node.op.elementwise is not None else [v for v in dying if v in node.extras]
    return size if any(bound(v.type.nbytes) == size for v in over) else 0
