"""Quantised networks are judged layer by layer: ties are told from what is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mccompile import driver
from mccompile.check.check import check
from mccompile.check.reference import open_judge, random_inputs
from mccompile.check.ties import Ties, judge_layers, rounded_names
from mccompile.driver import Options
from mccompile.onnxio import tensor_names
from tests.support.quantised import residual


def _judged(path: Path, spoil: float = 0) -> Ties:
    options = Options(target="generic")
    compilation = driver.open_model(path, options)
    driver.optimize(compilation)
    graph = compilation.graph
    if spoil:
        value = next(v for v in graph.constants if v.name.endswith(".multiplier"))
        graph.constants[value] = (graph.array(value) * (1 - spoil)).astype(np.int32)
    imported = driver.import_graph(path, options).graph
    names = [n for n in rounded_names(imported) if n in set(tensor_names(path))]
    judge = open_judge(path, [v.name for v in graph.outputs], names)
    inputs = random_inputs({v.name: v.type for v in graph.inputs}, 1)
    return judge_layers(imported, graph, judge, inputs)


@pytest.mark.parametrize("seed", range(3))
def test_layers_of_a_quantised_network_round_right(tmp_path: Path, seed: int) -> None:
    found = _judged(residual(tmp_path / "m.onnx", seed))
    assert found.ok, found.text()
    assert found.layers >= 6
    assert found.differing <= found.elements * 1e-3


def test_a_factor_that_is_off_by_a_thousandth_is_found(tmp_path: Path) -> None:
    found = _judged(residual(tmp_path / "m.onnx"), spoil=2**-9)
    assert not found.ok
    assert "is real" in found.text()


@pytest.mark.parametrize("target", ["generic", "native"])
@pytest.mark.parametrize("level", ["O0", "O1", "O2", "Os"])
def test_check_takes_ties_and_says_how_many(tmp_path: Path, target: str, level: str) -> None:
    result = check(residual(tmp_path / "m.onnx", 4), Options(target=target, opt_level=level), per_layer=True)
    assert result.ok, "\n".join(result.lines())
    assert any("elements fall to the other side of a tie" in line for line in result.lines())
