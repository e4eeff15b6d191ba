"""Unique against onnxruntime: drawn rows that are alike, NaN and zeros of both signs, with and without an axis."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from mccompile import backend
from tests.support.judge import plain_session

OUTPUTS = ["y", "first", "places", "times"]


@pytest.mark.thorough
@pytest.mark.parametrize(("seed", "target"), [(0, "generic"), (1, "generic"), (2, "native"), (3, "generic")])
def test_what_differs_is_found(seed: int, target: str) -> None:
    rng = np.random.default_rng(seed)
    kind = [(TensorProto.FLOAT, np.float32), (TensorProto.INT64, np.int64)][seed % 2]
    for axis in (None, 0, 1, -1):
        x = rng.integers(-1, 2, (rng.integers(1, 6), 3, 2)).astype(kind[1])
        attrs = {"sorted": int(rng.integers(0, 2))} | ({} if axis is None else {"axis": axis})
        node = helper.make_node("Unique", ["x"], OUTPUTS, **attrs)
        kinds = [kind[0], *[TensorProto.INT64] * 3]
        outputs = [helper.make_tensor_value_info(n, t, None) for n, t in zip(OUTPUTS, kinds, strict=True)]
        info = helper.make_tensor_value_info("x", kind[0], x.shape)
        model = helper.make_model(
            helper.make_graph([node], "g", [info], outputs), opset_imports=[helper.make_opsetid("", 20)], ir_version=9
        )
        got = backend.run_model(model, [x], target=target)
        for mine, wanted in zip(got, plain_session(model.SerializeToString()).run(None, {"x": x}), strict=True):
            np.testing.assert_array_equal(mine, wanted)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_constants_are_folded_as_runs_are(axis: int | None) -> None:
    """In the order that they are met, which onnx.reference does not know."""
    x = np.array([[2, 1, 2, 5], [2, 0, 2, 5]], np.float32)
    attrs = {"sorted": 0} | ({} if axis is None else {"axis": axis})
    node = helper.make_node("Unique", ["x"], OUTPUTS, **attrs)
    kinds = [TensorProto.FLOAT, *[TensorProto.INT64] * 3]
    outputs = [helper.make_tensor_value_info(n, t, None) for n, t in zip(OUTPUTS, kinds, strict=True)]
    graph = helper.make_graph([node], "g", [], outputs, [numpy_helper.from_array(x, "x")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    got = backend.run_model(model, [], target="generic")
    for mine, wanted in zip(got, plain_session(model.SerializeToString()).run(None, {}), strict=True):
        np.testing.assert_array_equal(mine, wanted)


def test_nan_comes_last_and_is_one() -> None:
    x = np.array([np.nan, 1, -0.0, np.nan, 0.0], np.float32)
    y, first, places, times = backend.run_node(helper.make_node("Unique", ["x"], OUTPUTS), [x], target="generic")
    np.testing.assert_array_equal(y, np.array([0, 1, np.nan], np.float32))
    assert (first.tolist(), places.tolist(), times.tolist()) == ([2, 1, 0], [2, 1, 0, 2, 0], [2, 1, 2])


@pytest.mark.parametrize("rising", [0, 1])
def test_a_second_run_counts_anew(rising: int, tmp_path: Path) -> None:
    node = helper.make_node("Unique", ["x"], OUTPUTS, sorted=rising)
    outputs = [helper.make_tensor_value_info(n, TensorProto.INT64, None) for n in OUTPUTS]
    info = helper.make_tensor_value_info("x", TensorProto.INT64, (6,))
    graph = helper.make_graph([node], "g", [info], outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    mccompile.compile(model, tmp_path / "u", target="generic")
    network = mccompile.load(tmp_path / "u")
    for x in ([3, 1, 3, 3, 2, 1], [5, 4, 4, 5, 5, 5], [6, 5, 4, 3, 2, 1]):
        given = np.array(x, np.int64)
        theirs = plain_session(model.SerializeToString()).run(None, {"x": given})
        for mine, wanted in zip(network.run({"x": given}).values(), theirs, strict=True):
            np.testing.assert_array_equal(mine, wanted)
