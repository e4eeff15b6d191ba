"""Products of i8 by u8 as products of u8: the same values, and no i8 left in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from mccompile.onnxio.unsigned import _PRODUCTS, unsigned_products
from mccompile.ops.registry import front_ends
from mccompile.ops.sampling import Case
from tests.support.draw import SeededDraw
from tests.support.judge import plain_session
from tests.support.opcases import case_inputs, case_model

Array = np.ndarray[Any, np.dtype[Any]]
N, I8, U8, I32 = helper.make_node, TensorProto.INT8, TensorProto.UINT8, TensorProto.INT32
FULL_A, FULL_W = np.full((3, 8), 255, np.uint8), np.full((8, 2), 127, np.int8)


def _model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[int, list[int]]],
    constants: dict[str, Array],
    functions: tuple[onnx.FunctionProto, ...] = (),
) -> onnx.ModelProto:
    infos = [helper.make_tensor_value_info(name, *t) for name, t in inputs.items()]
    weights = [numpy_helper.from_array(a, name) for name, a in constants.items()]
    graph = helper.make_graph(nodes, "g", infos, [onnx.ValueInfoProto(name="y")], weights)
    opsets = [helper.make_opsetid("", 21), *(helper.make_opsetid(f.domain, 1) for f in functions)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=functions)


def _run(model: bytes, feeds: dict[str, Array]) -> list[Array]:
    """onnxruntime's own answer."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return list(ort.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, feeds))


@pytest.mark.parametrize("place", sorted(_PRODUCTS), ids=lambda p: p[1])
def test_every_operator_keeps_its_values(place: tuple[str, str]) -> None:
    """With i8 of 7 bits, for which two products fit 16 bits, so that onnxruntime is right about the original too."""
    front_end = front_ends()[place]
    assert front_end.sample is not None
    rewritten = 0
    for seed in range(12):
        drawn = front_end.sample(SeededDraw(seed))
        small = [a // 2 if a is not None and a.dtype == np.int8 else a for a in drawn.inputs]
        tensors = {i for i, a in enumerate(small) if a is not None and a.ndim > 1}
        for constant in (drawn.constant, drawn.constant - tensors):
            case = Case(small, drawn.attrs, constant, drawn.outputs)
            model = case_model(front_end, case).SerializeToString()
            other = unsigned_products(model)
            if other is None:
                continue
            rewritten += 1
            for got, want in zip(_run(other, case_inputs(case)), _run(model, case_inputs(case)), strict=True):
                np.testing.assert_array_equal(got, want)
    assert rewritten >= 4


@pytest.mark.parametrize("constant", [True, False])
def test_extreme_bytes_are_multiplied_exactly(constant: bool) -> None:
    inputs = {"a": (U8, [3, 8])} | ({} if constant else {"w": (I8, [8, 2])})
    nodes = [N("Identity", ["w"], ["v"]), N("MatMulInteger", ["a", "v"], ["p"]),
             N("MatMulInteger", ["a", "w", "", "z"], ["q"]), N("Add", ["p", "q"], ["y"])]  # fmt: skip
    constants = {"z": np.array(-128, np.int8)} | ({"w": FULL_W} if constant else {})
    model = _model(nodes, inputs, constants).SerializeToString()
    feeds = {"a": FULL_A} | ({} if constant else {"w": FULL_W})
    other = unsigned_products(model)
    assert other is not None
    for session in (_run(other, feeds), plain_session(model).run(None, feeds)):
        np.testing.assert_array_equal(session[0], np.full((3, 2), 8 * 255 * (127 + 255)))


def test_images_of_signed_bytes_too() -> None:
    """ConvInteger of i8 by u8, padded with the zero point, which is 0 unless the node says otherwise."""
    nodes = [N("ConvInteger", ["x", "w"], ["y"], pads=[0, 0, 0, 1])]
    x, w = np.full((1, 8, 1, 2), -128, np.int8), np.full((1, 8, 1, 2), 255, np.uint8)
    other = unsigned_products(_model(nodes, {"x": (I8, [1, 8, 1, 2])}, {"w": w}).SerializeToString())
    assert other is not None
    assert _run(other, {"x": x})[0].reshape(-1).tolist() == [-128 * 255 * 16, -128 * 255 * 8]


def test_inner_graphs_and_functions() -> None:
    body = [N("MatMulInteger", ["a", "w"], ["inner"])]
    branches = [
        helper.make_graph(body, name, [], [helper.make_tensor_value_info("inner", I32, [3, 2])], own)
        for name, own in (("one", []), ("two", [numpy_helper.from_array(FULL_W, "w2")]))
    ]
    branches[1].node[0].input[1] = "w2"
    chosen = N("If", ["c"], ["p"], then_branch=branches[0], else_branch=branches[1])
    product = helper.make_function("own", "Product", ["s", "t"], ["u"], [N("MatMulInteger", ["s", "t"], ["u"])],
                                   [helper.make_opsetid("", 21)])  # fmt: skip
    nodes = [chosen, N("Product", ["a", "w"], ["q"], domain="own"), N("Add", ["p", "q"], ["y"])]
    inputs = {"a": (U8, [3, 8]), "c": (TensorProto.BOOL, [])}
    other = unsigned_products(_model(nodes, inputs, {"w": FULL_W}, (product,)).SerializeToString())
    assert other is not None
    for c in (True, False):
        np.testing.assert_array_equal(_run(other, {"a": FULL_A, "c": np.array(c)})[0], 2 * 8 * 255 * 127)


@pytest.mark.parametrize(("a", "w"), [(U8, np.uint8), (I8, np.int8)])
def test_operands_of_one_sign_are_left_alone(a: int, w: type) -> None:
    model = _model([N("MatMulInteger", ["a", "w"], ["y"])], {"a": (a, [3, 8])}, {"w": np.ones((8, 2), w)})
    assert unsigned_products(model.SerializeToString()) is None
