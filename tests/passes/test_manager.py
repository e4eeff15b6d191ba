"""Which pass broke the IR is said, also by one that says it changed nothing."""

from __future__ import annotations

import pytest

from mccompile.ir.errors import InternalError
from mccompile.ir.graph import Graph
from mccompile.ir.graph_text import parse_graph
from mccompile.ops.registry import lookup
from mccompile.passes.manager import Remarks, run_listed

TEXT = """graph @g(%x: f32[4]) {
  %a = map(%x) {expr={neg(x0)}} : f32[4]
  return %a
}
"""


def _breaks(graph: Graph, remarks: Remarks) -> int:
    graph.nodes.clear()
    return 1


def _breaks_in_secret(graph: Graph, remarks: Remarks) -> int:
    graph.nodes.clear()
    return 0


def _rests(graph: Graph, remarks: Remarks) -> int:
    return 0


PASSES = {"breaks": _breaks, "breaks-in-secret": _breaks_in_secret, "rests": _rests}


@pytest.mark.parametrize(
    ("names", "always", "blamed"),
    [
        (["rests", "breaks", "rests"], "", "pass rests or breaks broke"),
        (["rests", "breaks", "rests"], "1", "pass breaks broke"),
        (["breaks-in-secret", "rests"], "", "pass breaks-in-secret or rests broke"),
        (["breaks-in-secret", "rests"], "1", "pass breaks-in-secret broke"),
    ],
)
def test_who_broke_it_is_said(
    names: list[str], always: str, blamed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCC_VERIFY", always)
    with pytest.raises(InternalError, match=f"{blamed} the graph: output %a is never defined"):
        run_listed(PASSES, parse_graph(TEXT, lookup), names, {})


def test_what_changes_nothing_is_not_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, verified = parse_graph(TEXT, lookup), []
    monkeypatch.setenv("MCC_VERIFY", "")
    monkeypatch.setattr(Graph, "verify", lambda self: verified.append(len(self.nodes)))
    run_listed(PASSES, graph, ["rests"] * 5 + ["breaks", "rests", "rests"], {})
    assert verified == [0, 0]
