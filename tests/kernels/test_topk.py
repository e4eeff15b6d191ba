"""Sorting by bits, where orders could go wrong: equal elements, zeros of both signs, infinities, NaN."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from mccompile.ir.scalar import Array
from mccompile.ops.topk import TopK


def _model(shape: tuple[int, ...], k: int, axis: int, largest: bool, dtype: int) -> onnx.ModelProto:
    result = [k if a == axis else e for a, e in enumerate(shape)]
    node = helper.make_node("TopK", ["x", "k"], ["y", "i"], axis=axis, largest=int(largest))
    ports = [helper.make_tensor_value_info("x", dtype, shape)]
    outputs = [("y", dtype), ("i", TensorProto.INT64)]
    results = [helper.make_tensor_value_info(name, t, result) for name, t in outputs]
    graph = helper.make_graph([node], "topk", ports, results, [numpy_helper.from_array(np.array([k]), "k")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def _special(shape: tuple[int, ...]) -> Array:
    rng = np.random.default_rng(3)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-40, -1e-40, 3.4e38, -2.5], np.float32)
    return rng.choice(special, shape)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(("shape", "k", "axis"), [((700,), 600, 0), ((3, 90, 2), 90, 1)])
def test_floats_are_in_order(largest: bool, shape: tuple[int, ...], k: int, axis: int, tmp_path: Path) -> None:
    x = _special(shape)
    _agrees(_model(shape, k, axis, largest, TensorProto.FLOAT), x, k, axis, largest, tmp_path)


def test_whole_numbers_are_in_order(tmp_path: Path) -> None:
    x = np.array([5, -(2**31), 2**31 - 1, 0, -1, 5, 7, 0] * 20, np.int32)
    _agrees(_model(x.shape, 100, 0, True, TensorProto.INT32), x, 100, 0, True, tmp_path)


def _agrees(model: onnx.ModelProto, x: Array, k: int, axis: int, largest: bool, folder: Path) -> None:
    options = {"target": "x86-64-v2", "kernels": {"topk": "topk.radix"}}
    artifacts = mccompile.compile(model, folder / "topk", **options)  # type: ignore[arg-type]
    assert [s["kernel"] for s in artifacts.report["steps"]] == ["topk.radix"]
    network = mccompile.load(folder / "topk")
    got = network(x)
    wanted = TopK(k, axis, largest).evaluate(x)
    for a, b in zip(got.values() if isinstance(got, dict) else got, wanted, strict=True):
        np.testing.assert_array_equal(a, b)
