"""What variants answer is asked for once for each form of a node, and anew for any other."""

from __future__ import annotations

from collections.abc import Container

import pytest

from mccompile.ir.graph import Node, Value
from mccompile.ir.graph_text import parse_graph
from mccompile.kernels.model.costs import answers
from mccompile.kernels.variant import Offer, Variant
from mccompile.ops.registry import lookup
from mccompile.targets.target import resolve

GENERIC = resolve("generic")

TEXT = """graph @g(%x: f32[2,2], %y: f32[2,2]) {
  %w = const [1, 2, 3, 4] : f32[2,2]
  %v = const [4, 3, 2, 1] : f32[2,2]
  %a = matmul(%x, %w) : f32[2,2]
  %alike = matmul(%a, %v) : f32[2,2]
  %computed = matmul(%x, %y) : f32[2,2]
  %once = matmul(%x, %x) : f32[2,2]
  %turned = matmul(%x, %w) {trans_b=True} : f32[2,2]
  %more = matmul(%x, %w) with(%y) post0{ (acc + x0) } : f32[2,2]
  %less = matmul(%x, %w) with(%y) post0{ (acc - x0) } : f32[2,2]
  return %alike, %computed, %once, %turned, %more, %less
}
"""


class Counting(Variant):
    """Remembers what it was asked for."""

    ops = ("matmul",)
    kernel = "matmul.generic"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def offer(self, node: Node, target: object, constants: Container[Value]) -> Offer | str:
        self.asked.append(node.result.name)
        return Offer(self.label, 1.0)


@pytest.fixture
def counting() -> Counting:
    return Counting()


def test_a_form_is_asked_for_once(counting: Counting) -> None:
    graph = parse_graph(TEXT, lookup)
    for node in (*graph.nodes, *graph.nodes):
        ((variant, offer),) = answers((counting,), node, GENERIC, graph.constants)
        assert variant is counting
        assert isinstance(offer, Offer)
    assert counting.asked == ["a", "computed", "once", "turned", "more", "less"]


def test_another_target_or_type_is_another_form(counting: Counting) -> None:
    graph = parse_graph(TEXT, lookup)
    node = graph.nodes[0]
    other = parse_graph(TEXT.replace("f32", "f16"), lookup)
    answers((counting,), node, GENERIC, graph.constants)
    answers((counting,), node, resolve("x86-64-v3"), graph.constants)
    answers((counting,), node, GENERIC, ())
    answers((counting,), other.nodes[0], GENERIC, other.constants)
    assert counting.asked == ["a"] * 4
