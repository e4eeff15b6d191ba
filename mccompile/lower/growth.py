"""Chooses the kernels of a whole graph, so that what they add to the weights stays within a limit.

Worked example: kernels of a and b would be faster on weights in another form, of which a's take 100 bytes more and
save 500 cycles, b's 40 and save 400. There is room for 120: b saves 10 cycles for a byte and comes first, and then
a has 80 left, which are not enough for it. It takes the kernel it can have for that.
"""

from __future__ import annotations

from collections.abc import Callable

from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Graph, Node
from mccompile.lower.select import Choice

Choose = Callable[[Node, int], Choice]
"""The choice for a node whose kernel may add so many bytes to the weights."""


def choose_all(graph: Graph, choose: Choose, room: int) -> dict[Node, Choice]:
    """The kernels of all nodes, which together add at most ``room`` bytes. Where that is too little for all that
    would have more, those come first that save the most cycles for a byte.

    Raises CompileError naming every node no kernel supports.
    """
    choices: dict[Node, Choice] = {}
    errors: list[CompileError] = []
    for node in graph.nodes:
        if node.op.name == "reshape" or node.regions or is_empty(node):
            continue
        try:
            choices[node] = choose(node, room)
        except CompileError as e:
            errors.append(e)
    if errors:
        raise errors[0] if len(errors) == 1 else CompileError("\n".join(map(str, errors)))
    grown = {n: c.offer.growth_bytes for n, c in choices.items() if c.offer.growth_bytes}
    if sum(grown.values()) > room:
        plain = {n: choose(n, 0).best.cycles for n in grown}
        for node in sorted(grown, key=lambda n: (choices[n].best.cycles - plain[n]) / grown[n]):
            choices[node] = choose(node, room)
            room -= choices[node].offer.growth_bytes
    return choices


def is_empty(node: Node) -> bool:
    """Whether no result of a node has elements, so that nothing computes it."""
    return all(r.type.count == 0 for r in node.results)


def weight_bytes(graph: Graph) -> int:
    """What the constants of a graph take as they are."""
    return sum(v.type.nbytes for v in graph.constants)
