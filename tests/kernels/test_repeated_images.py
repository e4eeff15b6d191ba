"""Windows of bytes over an operand of which an axis is one element, repeated: nothing moves along it."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import mccompile
from mccompile.run.network import Network
from mccompile.targets.target import strict_warnings
from tests.support.judge import plain_session

WHOLE = (2, 32, 6, 5)


def _network(axis: int, groups: int, window: int, path: Path) -> onnx.ModelProto:
    """Bytes repeated along an axis, after a product that no movement passes, and a convolution of them."""
    rng = np.random.default_rng(axis)
    given = tuple(1 if a == axis else e for a, e in enumerate(WHOLE))
    weights = rng.integers(-40, 40, (32, 32 // groups, window, window)).astype(np.int8)
    constants = {
        "s": np.array(0.1, np.float32), "z": np.array(3, np.int8), "w": weights, "none": np.array(0, np.int8),
        "whole": np.array(WHOLE), "out": np.array(2.0, np.float32),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("Expand", ["q", "whole"], ["e"]),
        helper.make_node(
            "QLinearConv", ["e", "s", "z", "w", "s", "none", "out", "z"], ["y"], group=groups,
            pads=[window // 2] * 4,
        ),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, given)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.INT8, None)],
        [numpy_helper.from_array(v, k) for k, v in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return model


KERNELS = {1: ("conv.staged", "conv.lines", "conv.integer"), 32: ("conv.planes", "conv.integer_depthwise")}


@pytest.mark.thorough
@pytest.mark.parametrize("axis", range(4))
@pytest.mark.parametrize(("groups", "window"), [(1, 1), (1, 3), (32, 3), (32, 1)])
def test_what_is_repeated_is_asked_for_once(axis: int, groups: int, window: int, tmp_path: Path) -> None:
    model = _network(axis, groups, window, tmp_path / "n.onnx")
    given = tuple(1 if a == axis else e for a, e in enumerate(WHOLE))
    x = np.random.default_rng(7).uniform(-12, 12, given).astype(np.float32)
    (want,) = plain_session(model.SerializeToString()).run(None, {"x": x})
    for kernel, (target, level) in product(KERNELS[groups], (("generic", "Os"), ("native", "O2"))):
        out = tmp_path / f"{kernel}_{target}"
        mccompile.compile(tmp_path / "n.onnx", out, target=target, opt_level=level, kernels={"conv": kernel})
        got = Network(out, strict_warnings("gcc")).run({"x": x})["y"]
        assert np.abs(got.astype(int) - want).max() <= 1, (kernel, target)


def _heads(form: str, path: Path) -> onnx.ModelProto:
    """A product of bytes for each of two heads of three batches, and what is added to its elements."""
    rng = np.random.default_rng(len(form))
    rows, columns, terms = 7, 21, 10
    extents = {"b": 3, "h": 2, "r": rows, "c": columns, "1": 1}
    beside = rng.normal(0, 30, tuple(extents[letter] for letter in form)).astype(np.float32)
    constants = {"s": np.array(0.1, np.float32), "z": np.array(3, np.int8), "beside": beside}
    nodes = [helper.make_node("QuantizeLinear", [n, "s", "z"], [f"{n}.q"]) for n in "xw"]
    nodes += [helper.make_node("DequantizeLinear", [f"{n}.q", "s", "z"], [f"{n}.f"]) for n in "xw"]
    nodes += [
        helper.make_node("MatMul", ["x.f", "w.f"], ["product"]),
        helper.make_node("Add", ["product", "beside"], ["sum"]),
        helper.make_node("Relu", ["sum"], ["y"]),
    ]
    shapes = {"x": (3, 2, rows, terms), "w": (3, 2, terms, columns)}
    graph = helper.make_graph(
        nodes, "heads", [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s) for n, s in shapes.items()],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(v, k) for k, v in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return model


@pytest.mark.parametrize("target", ["native", "x86-64-v2"])
@pytest.mark.parametrize("form", ["b11c", "1hrc", "b1rc", "bhrc", "1h11", "bh1c", "11rc", "hrc", "c"])
def test_products_of_heads_read_what_is_repeated(form: str, target: str, tmp_path: Path) -> None:
    """A mask for each batch, a bias for each head: both places are asked for, in vectors."""
    model = _heads(form, tmp_path / "n.onnx")
    rng = np.random.default_rng(1)
    inputs = {v.name: rng.uniform(-9, 9, [d.dim_value for d in v.type.tensor_type.shape.dim]).astype(np.float32)
              for v in model.graph.input}  # fmt: skip
    (want,) = plain_session(model.SerializeToString()).run(None, inputs)
    report = mccompile.compile(tmp_path / "n.onnx", tmp_path / "out", target=target).report
    assert "conv.integer" in {s["kernel"] for s in report["steps"]}
    source = (tmp_path / "out" / report["model"]["name"]).with_suffix(".c")
    assert "lanes[lane]" not in source.read_text()
    got = Network(tmp_path / "out", strict_warnings("gcc")).run(inputs)["y"]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4)
