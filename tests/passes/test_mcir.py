"""Passes on graphs written as text: every part of the .mcir files beside this one is a test.

The form is told in `tests.support.mcir`. Constants without elements get random ones. The graph after the passes and
their remarks are checked against the part's CHECK lines, and the graph must mean the same as before.
"""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from mccompile.ir.dims import symbols
from mccompile.ir.graph import Graph
from mccompile.ir.graph_text import parse_graph, print_graph
from mccompile.ops.registry import lookup
from mccompile.passes.manager import PassRecord, passes, run_passes
from mccompile.search.options import forms_of
from mccompile.targets.target import resolve
from tests.support.graphs import difference, fill_constants, random_inputs
from tests.support.mcir import KINDS, REASON, Part, misfit, read_parts

PARTS = read_parts(Path(__file__).parent)


def _records(graph: Graph, part: Part) -> list[PassRecord]:
    """Run the passes of a part on its graph."""
    said = {"weights": forms_of(part.weights), "precision": forms_of(part.precision)}
    return run_passes(graph, part.names, target=resolve(part.target), **said)


def _run(part: Part) -> tuple[str, float]:
    """The graph and the remarks after the passes as text, and how far it is from what it was before: for all values
    of the symbols that its inputs have."""
    graph = parse_graph(part.text, lookup, path=str(part.path))
    fill_constants(graph, seed=2)
    given = symbols(*(e for v in graph.inputs for e in v.shape))
    cases = [dict(zip((s.name for s in given), at, strict=True)) for at in product(*(s.values for s in given))]
    inputs = [random_inputs(graph, 1, extents) for extents in cases]
    before = [graph.evaluate(i, wide=True, extents=e) for i, e in zip(inputs, cases, strict=True)]
    records = _records(graph, part)
    text = print_graph(graph) + "".join(f"// remark: {line}\n" for r in records for line in r.remarks)
    after = [graph.evaluate(i, wide=True, extents=e) for i, e in zip(inputs, cases, strict=True)]
    return text, max(difference(*both) for both in zip(before, after, strict=True))


@pytest.mark.parametrize("part", PARTS, ids=lambda p: f"{p.path.stem}:{p.title}")
def test_passes_do_what_the_text_says(part: Part) -> None:
    text, error = _run(part)
    why = misfit(part.text, text)
    assert not why, f"{why}\n{text}"
    assert error < (2.0**-7 if part.precision else 1e-6)


NOTHING_TO_REFUSE = ("canonicalize", "eliminate-dead-code", "widen-f16")
"""What these do they do everywhere: a miss is a graph that stays as it is."""


def _own(name: str) -> list[Part]:
    """The parts of the file named after a pass."""
    return [p for p in PARTS if p.path.stem == name.replace("-", "_")]


@pytest.mark.parametrize("name", sorted(passes()))
def test_a_pass_has_a_hit_a_miss_with_its_reason_and_a_trap(name: str) -> None:
    parts = _own(name)
    assert {p.kind for p in parts} == set(KINDS)
    assert all(name in p.names for p in parts)
    reasons = [re.search(REASON, p.text) for p in parts if p.kind == "miss"]
    assert all(reasons) or name in NOTHING_TO_REFUSE


@pytest.mark.parametrize("name", sorted(passes()))
def test_hits_change_the_graph(name: str) -> None:
    """A hit is one of the pass itself; where nothing can be refused, a miss leaves the graph as it is."""
    for part in _own(name):
        graph = parse_graph(part.text, lookup, path=str(part.path))
        fill_constants(graph, seed=2)
        records = _records(graph, part)
        changes = sum(r.changes for r in records if r.name == name)
        assert changes or part.kind != "hit", part.title
        assert not changes or part.kind != "miss" or name not in NOTHING_TO_REFUSE, part.title


def test_changes_are_counted_where_the_graph_changes() -> None:
    """A pass that says of a graph which stays as it is that it changed would be run again and again."""
    alone = [p for p in PARTS if len(p.names) == 1]
    assert len(alone) > 200
    for part in alone:
        graph = parse_graph(part.text, lookup, path=str(part.path))
        fill_constants(graph, seed=2)
        before = print_graph(graph)
        (record,) = _records(graph, part)
        assert bool(record.changes) == (print_graph(graph) != before), (part.path.stem, part.title)


def test_the_runner_catches_a_wrong_check() -> None:
    text, _ = _run(PARTS[0])
    assert misfit("// CHECK: no such line in any graph\n", text)


def test_difference_sees_a_changed_value() -> None:
    a = {"y": np.array([1.0, 2.0])}
    assert difference(a, a) == 0
    assert difference(a, {"y": np.array([1.0, 2.1])}) > 0.01
    assert difference({"y": np.array([1, 2])}, {"y": np.array([1, 3])}) == np.inf
    assert difference({"y": np.array([np.nan, 2.0])}, {"y": np.array([0.0, 2.0])}) == np.inf
