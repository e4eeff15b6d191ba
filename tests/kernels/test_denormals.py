"""Numbers below 2^-126 where some comparisons, or all of a thread, take them for zero: what is searched is found, and
as much is stored as was counted. Memory is full of 0xFF before."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from mccompile.ir.scalar import Array
from mccompile.run.network import Network
from mccompile.targets.target import runs_here
from tests.support.flushing import flushed_denormals
from tests.support.targets import needs_target

TINY = 2.0**-126
"""The least normal number."""
SHAPE = (36, 200)
RANKED = [(k, axis, largest) for k, axis in ((5, 1), (7, 0), (150, 1)) for largest in (0, 1)]
"""The k best along an axis: by few ranks in a row and in a column, and by bits."""
ELEMENTS = {
    "zeros": [0.0],
    "as Relu leaves them": [0.0] * 99 + [2.0],
    "denormals": [0.0, -0.0, 1e-40, -1e-40, 2e-40, -2e-40],
    "small": [TINY, -TINY, 1e-40, -1e-40, 0.0, 3 * TINY],
    "few are positive": [-1e-40, -2e-40, -0.0, -1.0],
}


def _build(target: str, folder: Path) -> Network:
    """TopK, Hardmax, ArgMax, ArgMin and NonZero of one operand."""
    nodes = [
        helper.make_node("TopK", ["x", f"k{k}"], [f"y{i}", f"i{i}"], axis=axis, largest=largest)
        for i, (k, axis, largest) in enumerate(RANKED)
    ]
    nodes += [helper.make_node(op, ["x"], [op], axis=1) for op in ("Hardmax", "ArgMax", "ArgMin")]
    nodes.append(helper.make_node("NonZero", ["x"], ["NonZero"]))
    outputs = [helper.make_empty_tensor_value_info(name) for node in nodes for name in node.output]
    constants = [numpy_helper.from_array(np.array([k]), f"k{k}") for k in sorted({k for k, _, _ in RANKED})]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)]
    graph = helper.make_graph(nodes, "g", given, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    mccompile.compile(model, folder, target=target)
    return Network(folder, ("-Wall",), emulate=True)


def _flushed(x: Array) -> Array:
    return np.where(np.abs(x) < TINY, 0, x)


def _at(x: Array, places: Array, axis: int) -> Array:
    assert places.min() >= 0
    assert places.max() < x.shape[axis]
    return np.take_along_axis(x, places, axis)


@pytest.mark.parametrize(("target", "flushes"), [("armv7-neon", False), ("x86-64-v2", True), ("aarch64", True)])
def test_places_are_those_of_elements(target: str, flushes: bool, tmp_path: Path) -> None:
    """Each is the place of one that is among the best where denormals are zero, and none is there twice."""
    if flushes and not runs_here(needs_target(target)):
        pytest.skip("an emulator has threads of its own")
    network = _build(needs_target(target), tmp_path / "out")
    rng = np.random.default_rng(0)
    for kind, elements in ELEMENTS.items():
        x = rng.choice(np.array(elements, np.float32), SHAPE)
        network.fill_arenas(0xFF)
        with flushed_denormals(tmp_path) if flushes else nullcontext():
            got = network.run({"x": x})
        known = _flushed(x)
        for i, (k, axis, largest) in enumerate(RANKED):
            places = got[f"i{i}"]
            np.testing.assert_array_equal(got[f"y{i}"], _at(x, places, axis), kind)
            in_order = np.sort(known, axis)
            best = np.flip(in_order, axis) if largest else in_order
            np.testing.assert_array_equal(_at(known, places, axis), best.take(range(k), axis), kind)
            assert np.diff(np.sort(places, axis), axis=axis).all(), kind
        np.testing.assert_array_equal(_at(known, got["ArgMin"], 1), known.min(1, keepdims=True), kind)
        for places in (got["ArgMax"], got["Hardmax"].argmax(1)[:, None]):
            np.testing.assert_array_equal(_at(known, places, 1), known.max(1, keepdims=True), kind)
        assert (got["Hardmax"].sum(1) == 1).all(), kind
        np.testing.assert_array_equal(got["NonZero"], np.nonzero(x), kind)
