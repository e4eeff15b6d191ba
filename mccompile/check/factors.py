"""By how much the tolerance of a value is multiplied: that of what is made of numbers of 16 bits is wider.

    %h = round_f16(%x), %y = exp(%h), %z = exp(%x)          y may be off 50 times as far as z

onnxruntime leaves casts to 16 bits and back out, even without optimisations, and computes f16 in steps of its own.
"""

from __future__ import annotations

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value

F16_FACTOR = 50.0
"""What a value that is made of f16 may be off beside noise, compared with one of f32."""

BF16_FACTOR = 16 * F16_FACTOR
"""The same of bfloat16, which has three bits less behind the point. The judge computes it in f32, and rounds nothing
on the way where we round once and more."""

_BF16 = frozenset({"round_bf16"})
ROUNDING = _BF16 | {"round_f16"}
"""Functions of what goes through 16 bits without being stored."""


@dataclass(frozen=True)
class Factors:
    """``wider`` are the names of values that are made of 16 bits, ``widest`` those that are made of bfloat16; of one
    that is not ``known`` nothing better is known than of all."""

    wider: frozenset[str] = frozenset()
    known: frozenset[str] = frozenset()
    widest: frozenset[str] = frozenset()

    @classmethod
    def of(cls, graph: Graph) -> Factors:
        """What the values of a graph are made of."""
        values = (*graph.inputs, *(r for n in graph.nodes for r in n.results))
        halves = _made_of({v for v in (*graph.inputs, *graph.constants) if _is_half(v)}, graph, ROUNDING)
        return cls(
            frozenset(v.name for v in halves),
            frozenset(v.name for v in values),
            frozenset(v.name for v in _made_of(set(), graph, _BF16)),
        )

    def __call__(self, name: str) -> float:
        """The factor of the value of that name."""
        for names, factor in ((self.widest, BF16_FACTOR), (self.wider, F16_FACTOR)):
            if name in names if name in self.known else bool(names):
                return factor
        return 1.0


def _made_of(halves: set[Value], graph: Graph, rounding: frozenset[str]) -> set[Value]:
    """``halves`` with what is made of them, and of what is rounded by such functions."""
    count = -1
    while count != len(halves):  # what is kept is an input of the next run
        count = len(halves)
        _follow(graph, halves, rounding)
    return halves


def _follow(graph: Graph, halves: set[Value], rounding: frozenset[str]) -> None:
    """Adds what is made of ``halves``, and what rounds to them."""
    given = {v.name: v for v in graph.inputs}
    f16 = "round_f16" in rounding
    for node in graph.nodes:
        inside = [n for g in node.regions for n, _ in g.everywhere()]
        rounds = any(_rounds(n, rounding) or (f16 and _any_half(n)) for n in (node, *inside))
        if rounds or not halves.isdisjoint(node.inputs):
            halves.update(node.results)
    halves.update(given[state] for v in graph.outputs if v in halves and (state := graph.state.get(v.name)))


def _any_half(node: Node) -> bool:
    return any(_is_half(v) for v in (*node.inputs, *node.results))


def _is_half(v: Value) -> bool:
    return v.dtype.name == "f16"


def _rounds(node: Node, rounding: frozenset[str]) -> bool:
    return any(rounding & ex.functions(e) for e in node.expressions)
