"""What exporters write in several operators is recognised in every form, and means the same afterwards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from mccompile.driver import Options, import_graph
from mccompile.ir.graph import Graph
from mccompile.ir.graph_text import print_graph
from mccompile.passes.manager import run_passes
from mccompile.passes.pipeline import PIPELINES
from mccompile.targets.target import STRICT_WARNINGS, resolve, runs_here
from tests.passes.forms import FORMS, Form
from tests.support.compiled import compiled_graph
from tests.support.graphs import difference, random_inputs
from tests.support.opcases import CaseLibrary


def _graph(form: Form, folder: Path) -> Graph:
    path = folder / "form.onnx"
    onnx.save(form.model(), path)
    return import_graph(path, Options(target="generic")).graph


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.title)
def test_a_form_is_recognised(form: Form, tmp_path: Path) -> None:
    graph = _graph(form, tmp_path)
    inputs = random_inputs(graph, seed=1)
    before = graph.evaluate(inputs, wide=True)
    run_passes(graph, PIPELINES["O2"])
    text = print_graph(graph)
    assert " ".join(n.op.name for n in graph.nodes) == form.left, text
    assert form.expr in text
    assert difference(before, graph.evaluate(inputs, wide=True)) < 1e-6


@pytest.mark.thorough
@pytest.mark.parametrize("target", ["generic", "x86-64-v3"])
def test_forms_in_c(target: str, tmp_path: Path) -> None:
    """Also on rows of zeros and of very small numbers, where epsilon is all that counts."""
    if not runs_here(target):
        pytest.skip(f"this machine is no {target}")
    graphs = [_graph(form, tmp_path) for form in FORMS]
    built = [compiled_graph(_graph(form, tmp_path), "O2", f"form{i}", target=target) for i, form in enumerate(FORMS)]
    library = CaseLibrary(tmp_path, built, [*resolve(target).c_flags, *STRICT_WARNINGS]).build()
    for form, graph, b in zip(FORMS, graphs, built, strict=True):
        drawn = random_inputs(graph, seed=3)
        for scale in (1.0, 1e-9, 0.0):
            inputs = {name: (a * scale).astype(np.float32) for name, a in drawn.items()}
            want = graph.evaluate(inputs, wide=True)
            if not all(np.isfinite(a).all() for a in want.values()):
                continue  # the norm of nothing
            got = dict(zip(want, library.run(b, inputs), strict=True))
            error = difference({n: a.astype(np.float32) for n, a in want.items()}, got)
            assert error < 2e-5, (form.title, scale)
