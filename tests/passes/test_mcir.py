"""Passes on graphs written as text: every part of the .mcir files beside this one is a test.

A file begins with ``// passes: name, name``, then perhaps ``// target: name``; its parts are separated by
``// -----`` and begin with a comment that names them (`KINDS`). Constants without elements get random ones. The
graph after the passes and their remarks are checked against the part's CHECK lines (syntax of LLVM's FileCheck), and
the graph must mean the same as before.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser, pattern_for_opts

from mccompile.ir.graph_text import parse_graph, print_graph
from mccompile.ops.registry import lookup
from mccompile.passes.manager import passes, run_passes
from mccompile.targets.target import resolve
from tests.support.graphs import difference, fill_constants, random_inputs

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Part:
    path: Path
    title: str
    names: tuple[str, ...]
    target: str
    text: str


def _parts() -> list[Part]:
    found = []
    for path in sorted(FOLDER.glob("*.mcir")):
        header, _, body = path.read_text().partition("\n")
        assert header.startswith("// passes: "), f"{path.name} does not begin with its passes"
        names = tuple(header.removeprefix("// passes: ").split(", "))
        target = re.match(r"// target: (\S+)\n", body)
        body = body[target.end() :] if target else body
        for text in body.split("// -----\n"):
            title = re.search(r"// (.*)", text)
            assert title is not None, f"a part of {path.name} has no title"
            found.append(Part(path, title[1], names, target[1] if target else "generic", text))
    return found


def _run(part: Part) -> tuple[str, float]:
    """The graph and the remarks after the passes as text, and how far it is from what it was before."""
    graph = parse_graph(part.text, lookup, path=str(part.path))
    fill_constants(graph, seed=2)
    inputs = random_inputs(graph, seed=1)
    before = graph.evaluate(inputs, wide=True)
    records = run_passes(graph, part.names, target=resolve(part.target))
    text = print_graph(graph) + "".join(f"// remark: {line}\n" for r in records for line in r.remarks)
    return text, difference(before, graph.evaluate(inputs, wide=True))


@pytest.mark.parametrize("part", _parts(), ids=lambda p: f"{p.path.stem}:{p.title}")
def test_passes_do_what_the_text_says(part: Part) -> None:
    text, error = _run(part)
    options = Options(match_filename=str(part.path))
    checks = Parser(options, io.StringIO(part.text), *pattern_for_opts(options))
    matcher = Matcher(options, FInput("<passes>", text), checks)
    matcher.stderr = io.StringIO()
    code = matcher.run()
    assert code == 0, f"{matcher.stderr.getvalue()}\n{text}"
    assert error < 1e-6


KINDS = ("hit", "miss", "trap")
"""How titles begin: what a pass does; what it leaves, with the reason; what looks like a hit or like a miss."""

NOTHING_TO_REFUSE = ("canonicalize", "eliminate-dead-code", "widen-f16")
"""What these do they do everywhere: a miss is a graph that stays as it is."""


def _kind(part: Part) -> str:
    return part.title.partition(": ")[0]


def _own(name: str) -> list[Part]:
    """The parts of the file named after a pass."""
    return [p for p in _parts() if p.path.stem == name.replace("-", "_")]


@pytest.mark.parametrize("name", sorted(passes()))
def test_a_pass_has_a_hit_a_miss_with_its_reason_and_a_trap(name: str) -> None:
    parts = _own(name)
    assert {_kind(p) for p in parts} == set(KINDS)
    assert all(name in p.names for p in parts)
    reasons = [re.search(r"// CHECK.*: remark: not .*: \S+ \S+ \S+", p.text) for p in parts if _kind(p) == "miss"]
    assert all(reasons) or name in NOTHING_TO_REFUSE


@pytest.mark.parametrize("name", sorted(passes()))
def test_hits_change_the_graph(name: str) -> None:
    """A hit is one of the pass itself; where nothing can be refused, a miss leaves the graph as it is."""
    for part in _own(name):
        graph = parse_graph(part.text, lookup, path=str(part.path))
        fill_constants(graph, seed=2)
        records = run_passes(graph, part.names, target=resolve(part.target))
        changes = sum(r.changes for r in records if r.name == name)
        assert changes or _kind(part) != "hit", part.title
        assert not changes or _kind(part) != "miss" or name not in NOTHING_TO_REFUSE, part.title


def test_the_runner_catches_a_wrong_check(tmp_path: Path) -> None:
    part = _parts()[0]
    text, _ = _run(part)
    options = Options(match_filename="planted")
    planted = io.StringIO("// CHECK: no such line in any graph\n")
    matcher = Matcher(options, FInput("<passes>", text), Parser(options, planted, *pattern_for_opts(options)))
    matcher.stderr = io.StringIO()
    assert matcher.run() == 1


def test_difference_sees_a_changed_value() -> None:
    a = {"y": np.array([1.0, 2.0])}
    assert difference(a, a) == 0
    assert difference(a, {"y": np.array([1.0, 2.1])}) > 0.01
    assert difference({"y": np.array([1, 2])}, {"y": np.array([1, 3])}) == np.inf
    assert difference({"y": np.array([np.nan, 2.0])}, {"y": np.array([0.0, 2.0])}) == np.inf
