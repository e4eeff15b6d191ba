"""Attention over so few keys that no loop is left that would ask for the keys that follow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mccompile
from mccompile.run.network import Network
from mccompile.targets.target import runs_here, strict_warnings


@pytest.mark.parametrize("keys", [1, 3, 4, 5, 40])
def test_nothing_is_declared_that_is_not_read(keys: int, tmp_path: Path) -> None:
    shapes = {name: [2, 1, keys, 8] for name in "qkv"}
    nodes = [
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q", "kt"], ["s"]),
        helper.make_node("Softmax", ["s"], ["p"], axis=-1), helper.make_node("MatMul", ["p", "v"], ["y"]),
    ]  # fmt: skip
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    graph = helper.make_graph(nodes, "g", given, [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "few.onnx")
    target = "x86-64-v2" if runs_here("x86-64-v2") else "native"
    mccompile.compile(tmp_path / "few.onnx", tmp_path / "out", target=target)
    network = Network(tmp_path / "out", ("-O1", *strict_warnings("gcc")))
    rng = np.random.default_rng(0)
    x = {name: rng.normal(0, 1, shape).astype(np.float32) for name, shape in shapes.items()}
    powers = np.exp(x["q"] @ x["k"].swapaxes(2, 3))
    want = powers / powers.sum(3, keepdims=True) @ x["v"]
    np.testing.assert_allclose(network.run(x)["y"], want, rtol=1e-4, atol=1e-5)
