"""What a rewriter costs: tables of producers and users are made where a pass asks for them, and kept up to date."""

from __future__ import annotations

import pytest

from mccompile.ir.errors import InternalError
from mccompile.ir.graph import Graph
from mccompile.ir.graph_text import parse_graph
from mccompile.ops.registry import lookup
from mccompile.passes.rewrite.rewriter import Rewriter

TEXT = """graph @g (%x: f32[3]) {
  %a = map(%x) {expr={neg(x0)}} : f32[3]
  %b = map(%x) {expr={abs(x0)}} : f32[3]
  %y = map(%b) {expr={neg(x0)}} : f32[3]
  return %a, %y
}
"""


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables that were made of whole graphs."""
    found: list[str] = []
    for name in ("user_sets", "producers"):
        whole = getattr(Graph, name)

        def counted(graph: Graph, name: str = name, whole=whole) -> object:  # type: ignore[no-untyped-def]
            found.append(name)
            return whole(graph)

        monkeypatch.setattr(Graph, name, counted)
    return found


def test_a_pass_that_asks_nothing_makes_no_table(made: list[str]) -> None:
    r = Rewriter(parse_graph(TEXT, lookup))
    assert not [n for n in r.nodes() if r.is_erased(n)]
    r.finish()
    assert made == []


def test_tables_are_made_once(made: list[str]) -> None:
    graph = parse_graph(TEXT, lookup)
    r = Rewriter(graph)
    for node in r.nodes():
        assert r.producer(node.result) is node
        assert not r.users(graph.outputs[0])
    assert sorted(made) == ["producers", "user_sets"]


def test_users_before_the_first_change_are_those_of_the_whole_graph(made: list[str]) -> None:
    """Nothing was asked for before: the tables still know of what the change took away."""
    graph = parse_graph(TEXT, lookup)
    (x,) = graph.inputs
    a, b, y = graph.nodes
    r = Rewriter(graph)
    r.rewire(y, [x])
    assert r.users(x) == [a, b, y]
    assert r.users(b.result) == []
    r.erase(b)
    r.finish()
    assert graph.nodes == [a, y]
    assert made.count("user_sets") == 1


def test_a_cycle_has_no_order() -> None:
    graph = parse_graph(TEXT, lookup)
    _, b, y = graph.nodes
    r = Rewriter(graph)
    r.rewire(b, [y.result])
    with pytest.raises(InternalError, match=r"map \(b\) reads what is made of its own result"):
        r.finish()
