"""Models that are rewritten for onnxruntime: names that are made of names are no others of the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

from mccompile.onnxio import (
    quantisable,
    sigmoids_by_exp,
    sums_in_doubles,
    unrounded_recurrence,
    unsigned_products,
)
from tests.support.judge import plain_session

N = helper.make_node
Array = np.ndarray[Any, np.dtype[Any]]


def _quantisable(model: bytes) -> bytes:
    path = Path("model.onnx")
    path.write_bytes(model)
    quantisable(path)
    return path.read_bytes()


def _beside(nodes: Sequence[onnx.NodeProto], names: Sequence[str], constants: dict[str, Array]) -> bytes:
    """A model of nodes from "x" to "y", and of values with names besides."""
    graph = helper.make_graph(
        [*nodes, *(N("Neg", ["w"], [name]) for name in names), N("Sum", list(names), ["z"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 2, 4]),
         helper.make_tensor_value_info("m", TensorProto.FLOAT, [3, 4]),
         helper.make_tensor_value_info("u", TensorProto.UINT8, [2, 4]),
         helper.make_tensor_value_info("w", TensorProto.FLOAT, [2])],
        [onnx.ValueInfoProto(name="y"), helper.make_tensor_value_info("z", TensorProto.FLOAT, [2])],
        [numpy_helper.from_array(a, k) for k, a in constants.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=opsets, ir_version=8))
    if model.graph.output[0].type.WhichOneof("value") is None:  # of another domain
        model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 4))
    return model.SerializeToString()


def _recurrence() -> tuple[list[onnx.NodeProto], dict[str, Array]]:
    parts: dict[str, Array] = {"h0": np.zeros((1, 2, 2), np.float32)}
    for name, rows in (("a", 4), ("b", 2)):
        parts[name] = np.ones((1, rows, 8), np.int8)
        parts[f"{name}s"], parts[f"{name}z"] = np.ones(1, np.float32), np.zeros(1, np.int8)
    inputs = ["x", "a", "b", "", "", "h0", "h0", "", "as", "az", "bs", "bz"]
    return [N("DynamicQuantizeLSTM", inputs, ["y"], domain="com.microsoft", hidden_size=2)], parts


SCALES = {"b": np.ones(2, np.float32)}
BYTES = {"k": np.ones((4, 3), np.int8), "b": np.ones((1, 4), np.float32), "g": np.ones((4, 4), np.float32)}
CASES: list[tuple[Callable[[bytes], bytes | None], list[onnx.NodeProto], list[str], dict[str, Array]]] = [
    (sigmoids_by_exp, [N("Sigmoid", ["x"], ["y"])], ["y.sigmoid0", "y.sigmoid2"], {}),
    (sums_in_doubles, [N("ReduceMean", ["x"], ["y"])], ["y.operand0", "y.wide"], {}),
    (sums_in_doubles, [N("InstanceNormalization", ["x", "b", "b"], ["y"])], ["y.rows", "y.mean"], SCALES),
    (unsigned_products, [N("MatMulInteger", ["u", "k"], ["y"])], ["k.unsigned", "uint8.128"], BYTES),
    (_quantisable, [N("Gemm", ["m", "g", "b"], ["y"], beta=2.0)], ["b.of.y"], BYTES),
    (_quantisable, [N("Neg", ["x"], ["y"]), N("Relu", ["y"], ["r"])], ["y.inner"], {}),
    (unrounded_recurrence, _recurrence()[0], ["a.real", "b.real"], _recurrence()[1]),
]


@pytest.mark.parametrize(("rewrite", "nodes", "names", "constants"), CASES)
def test_rewritten_models_define_each_value_once(
    rewrite: Callable[[bytes], bytes | None], nodes: list[onnx.NodeProto], names: list[str],
    constants: dict[str, Array], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    made = rewrite(_beside(nodes, names, constants))
    assert made is not None
    onnx.checker.check_model(made)


def test_an_output_that_is_a_limit_of_another_stays_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Clip between x and the least element, which is an output: x is no output, whatever else the Clip reads."""
    monkeypatch.chdir(tmp_path)
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1,4] x, float[1] s) => (float low, float[1,4] y)
        { low = ReduceMin<keepdims=0>(s) y = Clip(x, low) }"""
    model = onnx.parser.parse_model(text).SerializeToString()
    given = {"x": np.float32([[-2, -1, 1, 2]]), "s": np.float32([-1.5])}
    for made in (model, _quantisable(model)):
        low, y = plain_session(made).run(None, given)
        assert (float(low), y.tolist()) == (-1.5, [[-1.5, -1, 1, 2]])
