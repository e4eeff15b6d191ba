"""What exporters write in several operators is recognised in every form, and means the same afterwards."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from mccompile.driver import Options, import_graph
from mccompile.ir.graph_text import print_graph
from mccompile.passes.manager import run_passes
from mccompile.passes.pipeline import PIPELINES
from tests.passes.forms import FORMS, Form
from tests.support.graphs import difference, random_inputs


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.title)
def test_a_form_is_recognised(form: Form, tmp_path: Path) -> None:
    path = tmp_path / "form.onnx"
    onnx.save(form.model(), path)
    graph = import_graph(path, Options(target="generic")).graph
    inputs = random_inputs(graph, seed=1)
    before = graph.evaluate(inputs, wide=True)
    run_passes(graph, PIPELINES["O2"])
    text = print_graph(graph)
    assert " ".join(n.op.name for n in graph.nodes) == form.left, text
    assert form.expr in text
    assert difference(before, graph.evaluate(inputs, wide=True)) < 1e-6
