"""What a model computes with sums of f64 is nearer to what it means than what onnxruntime computes of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mccompile.onnxio import sums_in_doubles
from tests.support.judge import plain_session

Array = np.ndarray[Any, np.dtype[Any]]
EPSILON = 0.01


def _model(shape: tuple[int, ...], scale: Array, bias: Array, opset: int) -> bytes:
    node = helper.make_node("InstanceNormalization", ["x", "scale", "bias"], ["y"], epsilon=EPSILON)
    graph = helper.make_graph(
        [node], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(scale, "scale"), numpy_helper.from_array(bias, "bias")],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8).SerializeToString()


def test_an_epsilon_that_a_call_gives_is_left_to_it() -> None:
    """Inside of a function, whose attribute it is."""
    node = helper.make_node("InstanceNormalization", ["x", "s", "b"], ["y"])
    node.attribute.add(name="epsilon", type=onnx.AttributeProto.FLOAT, ref_attr_name="eps")
    function = helper.make_function("my", "F", ["x", "s", "b"], ["y"], [node], [helper.make_opsetid("", 21)], ["eps"])
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, 2, 8)) for n in "xy")
    graph = helper.make_graph([helper.make_node("F", ["x", "s", "b"], ["y"], domain="my", eps=1.0)], "g", [x], [y], [
        numpy_helper.from_array(np.ones(2, np.float32), n) for n in "sb"
    ])  # fmt: skip
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("my", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9, functions=[function]).SerializeToString()
    given = np.random.default_rng(0).normal(size=(1, 2, 8)).astype(np.float32)
    np.testing.assert_allclose(_ran(sums_in_doubles(model) or model, given), _ran(model, given), rtol=1e-5, atol=1e-6)


def _ran(model: bytes, x: Array) -> Array:
    return np.asarray(plain_session(model).run(None, {"x": x})[0])


@pytest.mark.parametrize("opset", [11, 14, 15, 17, 18, 21])
@pytest.mark.parametrize("shape", [(2, 3, 40_000), (1, 2, 200, 300), (2, 1, 30, 40, 50)])
def test_instances(shape: tuple[int, ...], opset: int) -> None:
    rng = np.random.default_rng(opset)
    x = (3.0 + rng.normal(size=shape)).astype(np.float32)
    scale, bias = (rng.normal(size=shape[1]).astype(np.float32) for _ in range(2))
    rows = x.reshape(*shape[:2], -1).astype(np.float64)
    unit = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + EPSILON)
    want = (unit * scale[:, None] + bias[:, None]).reshape(shape)
    plain = _model(shape, scale, bias, opset)
    wide = sums_in_doubles(plain)
    assert wide is not None
    onnx.checker.check_model(onnx.ModelProto.FromString(wide))
    found = _ran(wide, x)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, want, rtol=1e-6, atol=1e-6)
    assert np.abs(found - want).max() < np.abs(_ran(plain, x) - want).max()
