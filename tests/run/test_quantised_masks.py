"""Attention of bytes whose mask is added behind the product: repeated along the heads, the batch, or neither."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

import mccompile
from tests.support.targets import needs_target

SCALES = {"x": 1 / 32, "w": 1 / 32, "p": 129 / 1024, "m": 1 / 8, "y": 777 / 1024}
"""Of which no sum is a tie."""


MASKS = [(2, 1, 4, 4), (1, 3, 4, 4), (3, 4, 4), (2, 3, 4, 4), (1, 1, 1, 4), (2, 1, 1, 4)]


@pytest.mark.parametrize("mask", MASKS, ids=str)
@pytest.mark.parametrize("target", ["generic", "x86-64-v3", "x86-64-v4-vnni"])
def test_a_mask_may_be_repeated_along_one_leading_axis(mask: tuple[int, ...], target: str, tmp_path: Path) -> None:
    needs_target(target)
    scales = [numpy_helper.from_array(np.array(s, np.float32), f"{n}_scale") for n, s in SCALES.items()]
    zero = numpy_helper.from_array(np.array(3, np.int8), "zero")

    def cast(op: str, value: str, name: str, of: str) -> NodeProto:
        return helper.make_node(op, [value, f"{of}_scale", "zero"], [name])

    nodes = [
        *(cast("DequantizeLinear", n, f"{n}_real", n) for n in "xwm"),
        helper.make_node("MatMul", ["x_real", "w_real"], ["product"]),
        cast("QuantizeLinear", "product", "p", "p"), cast("DequantizeLinear", "p", "p_real", "p"),
        helper.make_node("Add", ["p_real", "m_real"], ["sum"]), cast("QuantizeLinear", "sum", "y", "y"),
    ]  # fmt: skip
    shapes = {"x": (2, 3, 4, 8), "w": (2, 3, 8, 4), "m": mask}
    inputs = [helper.make_tensor_value_info(n, TensorProto.INT8, s) for n, s in shapes.items()]
    output = helper.make_tensor_value_info("y", TensorProto.INT8, (2, 3, 4, 4))
    graph = helper.make_graph(nodes, "masked", inputs, [output], [*scales, zero])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    mccompile.compile(model, tmp_path, target=target)
    rng = np.random.default_rng(1)
    given = {n: rng.integers(-128, 128, s).astype(np.int8) for n, s in shapes.items()}
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(mccompile.load(tmp_path).run(given)["y"], session.run(None, given)[0])
