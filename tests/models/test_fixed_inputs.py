"""Real networks whose control flow hangs on an input of one number: compiled with that input fixed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import mccompile
from mccompile.check.compare import compare
from mccompile.ir.errors import CompileError
from mccompile.run.network import Network
from mccompile.targets.target import strict_warnings
from tests._skips import needs_tool
from tests.support.real_models import RealModel, deciding_inputs, real_models

MODELS = [m for m in real_models() if deciding_inputs(m.path)]

pytestmark = pytest.mark.skipif(not MODELS, reason="needs models/manifest.json under MCC_SHARED")


def _nested(graph: onnx.GraphProto) -> set[str]:
    found = {node.op_type for node in graph.node}
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found |= _nested(attribute.g)
    return found


def test_branches_and_loops_are_among_them() -> None:
    operators = set().union(*(_nested(onnx.load(m.path).graph) for m in MODELS))
    assert {"If", "Loop"} <= operators


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.name)
@pytest.mark.parametrize("level", ["O0", "O2", "Os"])
def test_outputs_are_those_that_are_stored(
    model: RealModel, level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", needs_tool("gcc"))
    inputs = model.inputs()
    constants = {name: inputs.pop(name) for name in deciding_inputs(model.path)}
    shapes = {name: list(a.shape) for name, a in inputs.items()}
    mccompile.compile(
        model.path, tmp_path / "out", target="native", opt_level=level, input_shapes=shapes, constants=constants
    )
    network = Network(tmp_path / "out", tuple(strict_warnings("gcc")))
    assert set(network.inputs) == set(inputs), "what is fixed is no input"
    network.arena[:] = 0xFF
    got, noise = network.run(inputs), model.noise()
    for name, want in model.outputs().items():
        verdict = compare(name, got[name].reshape(want.shape), want, np.full(want.shape, noise[name]))
        assert verdict.ok, f"{name}: {verdict.text()}"


@pytest.mark.parametrize("model", [m for m in MODELS if m.later], ids=lambda m: m.name)
def test_without_the_value_the_error_names_the_option(model: RealModel, tmp_path: Path) -> None:
    with pytest.raises(CompileError) as caught:
        mccompile.compile(model.path, tmp_path / "out", input_shapes=model.shapes)
    for name in deciding_inputs(model.path):
        assert f"{name!r}: VALUE" in caught.value.hint
