"""Layouts where values could get several: the graph alone decides, not where Python puts its objects."""

from __future__ import annotations

import json

import pytest

from mccompile.driver import Options, import_graph
from mccompile.ir.graph_text import print_graph
from mccompile.passes.manager import run_passes
from mccompile.passes.pipeline import PIPELINES
from tests._skips import needs_shared


@pytest.mark.thorough
def test_layouts_do_not_depend_on_addresses() -> None:
    path = needs_shared("models/gtcrn_stream/model.onnx")
    ports = json.loads((path.parent / "io.json").read_text())
    shapes = {p["name"]: p["shape"] for p in ports["inputs"]}
    found = set()
    held = []
    for count in (1, 777, 40_000, 5):
        held.append([object() for _ in range(count)])  # moves what is made after it
        c = import_graph(path, Options(target="x86-64-v4", input_shapes=shapes))
        run_passes(c.graph, PIPELINES["O2"], target=c.target)
        found.add(print_graph(c.graph))
    assert len(found) == 1
