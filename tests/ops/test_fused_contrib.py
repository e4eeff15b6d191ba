"""Operators of com.microsoft that onnxruntime has on no CPU, drawn: the graph against what they stand for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mccompile.driver import Options, import_graph
from mccompile.ops.registry import front_ends
from tests.support.compose.definite import Refused
from tests.support.fuzz.family import Family, FamilyComposer
from tests.support.fuzz.forms.fused import CONTRIB, FORMS, Means

SEEDS = 24


def _drawn(form: Means, seed: int) -> Family | None:
    """A network of one of them; None where what was drawn is none."""
    c = FamilyComposer(seed, ())
    try:
        c.net.outputs = form(c)
    except Refused:
        return None
    c.net.prune()
    return c.net


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_what_they_stand_for(form: Means, tmp_path: Path) -> None:
    """Their C is that of the operators they become, which is drawn by `make fuzz` (newest)."""
    found = [net for seed in range(SEEDS) if (net := _drawn(form, seed)) is not None]
    assert len(found) > SEEDS / 2
    for net in found:
        assert {node.op_type for node in net.model().graph.node} >= {n.op_type for n in net.told.values()}
        path = tmp_path / "m.onnx"
        path.write_bytes(net.model().SerializeToString())
        graph = import_graph(path, Options(target="generic")).graph
        made = graph.evaluate({v.name: net.inputs[v.name] for v in graph.inputs})
        for name, got in made.items():
            want = net.values[name]
            assert got.shape == want.shape
            step = 0.0214 if form.__name__ == "quantised_mean" else 0.0  # a tie may fall to either side
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5 + step, err_msg=net.text())


def test_all_without_a_sample_are_drawn() -> None:
    without = {op for (domain, op), f in front_ends().items() if domain == CONTRIB and f.sample is None}
    nets = [net for form in FORMS for seed in range(SEEDS) if (net := _drawn(form, seed)) is not None]
    assert {node.op_type for net in nets for node in net.told.values()} == without
