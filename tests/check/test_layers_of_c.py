"""The C of a quantised network is what its graph says on its own tensors, whatever side of ties these are on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mccompile
from mccompile import driver
from mccompile.check import layers_of_c, own_graph
from mccompile.check.compare import compare
from mccompile.check.drawn import random_inputs
from mccompile.check.layers_of_c import outputs_follow
from mccompile.check.reference import Expected
from mccompile.check.trace import TRACE_HOOKS, Kept, capture
from mccompile.driver import Options
from mccompile.ir.graph import Graph
from mccompile.run.network import Network
from tests.support.quantised import Net

Array = np.ndarray
Made = tuple[Graph, Network, Mapping[str, Array], Mapping[str, Array]]


def _net(path: Path) -> Path:
    """Two layers of bytes and a sum of floats of these, as the output."""
    net = Net(3, (1, 3, 9, 7))
    net.conv(8, 3, relu=True)
    last = net.conv(8, 3)
    net._node("ReduceSum", [net._real(last)], "y", keepdims=0)
    net.last = "y"
    model = onnx.load(net.model(path))
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, []))
    onnx.save(model, path)
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("layers")
    path = _net(folder / "m.onnx")
    compilation = driver.open_model(path, Options(target="generic"))
    driver.optimize(compilation)
    graph = compilation.graph
    mccompile.compile(path, folder / "out", target="generic")
    inputs = random_inputs({v.name: v.type for v in graph.inputs}, 1)
    return graph, Network(folder / "out", hooks=TRACE_HOOKS), inputs, Network(folder / "out").run(inputs)


def _changed(step: int) -> Callable[..., dict[str, Kept]]:
    """What the C has, with one byte of its first layer so many steps away."""

    def changed(*given: object) -> dict[str, Kept]:
        kept = capture(*given)  # type: ignore[arg-type]
        first = next(k for k in kept.values() if k.array.dtype == np.int8)
        at = np.unravel_index(np.abs(first.array.astype(np.int32)).argmin(), first.array.shape)
        first.array[at] += step
        return kept

    return changed


def test_the_c_follows_its_graph(made: Made) -> None:
    graph, traced, inputs, got = made
    assert outputs_follow(graph, traced, inputs, got, ["y"], 4.0)


def test_an_output_that_does_not_follow_from_its_layers_is_told(made: Made) -> None:
    graph, traced, inputs, got = made
    assert not outputs_follow(graph, traced, inputs, {"y": got["y"] * np.float32(1.001)}, ["y"], 4.0)


@pytest.mark.parametrize("step", [1, 2, -1, -2])
def test_a_layer_that_rounds_what_it_is_not_given_is_told(
    made: Made, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    graph, traced, inputs, got = made
    monkeypatch.setattr(layers_of_c, "capture", _changed(step))
    assert not outputs_follow(graph, traced, inputs, got, ["y"], 4.0)


def test_extents_of_a_run_are_not_judged(tmp_path: Path, made: Made) -> None:
    _, traced, inputs, got = made
    path = _net(tmp_path / "m.onnx")
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "rows"
    onnx.save(model, path)
    compilation = driver.open_model(path, Options(target="generic", dims={"rows": "4..9"}))
    driver.optimize(compilation)
    assert not outputs_follow(compilation.graph, traced, inputs, got, ["y"], 4.0)


@pytest.mark.parametrize("follows", [True, False])
def test_check_asks_for_layers_where_no_draw_explains_an_output(
    tmp_path: Path, made: Made, monkeypatch: pytest.MonkeyPatch, follows: bool
) -> None:
    _, network, inputs, got = made
    compilation = driver.open_model(_net(tmp_path / "m.onnx"), Options(target="generic"))
    driver.optimize(compilation)
    monkeypatch.setattr(own_graph, "_apart", lambda *_: ([compare("y", got["y"], got["y"] + 9)], []))
    monkeypatch.setattr(own_graph, "outputs_follow", lambda *_: follows)
    case = SimpleNamespace(state={}, everything=inputs, inputs=inputs, expected=Expected({}, {}))
    faults = own_graph.unlike_graph(compilation, network, [case], lambda: network)  # type: ignore[list-item]
    assert [f.split(":")[0] for f in faults] == ([] if follows else ["the C does not compute its graph"])
