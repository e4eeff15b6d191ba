"""Attention over so few keys that no loop is left that would ask for the keys that follow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mccompile
from mccompile.run.network import Network
from mccompile.targets.target import runs_here, strict_warnings

VECTORS = "x86-64-v2" if runs_here("x86-64-v2") else "native"


def attention(shapes: Mapping[str, list[int | str]], path: Path) -> None:
    """The file of a network that weighs values v by queries q and keys k."""
    nodes = [
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q", "kt"], ["s"]),
        helper.make_node("Softmax", ["s"], ["p"], axis=-1), helper.make_node("MatMul", ["p", "v"], ["y"]),
    ]  # fmt: skip
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    graph = helper.make_graph(nodes, "g", given, [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)


def require_right(network: Network, queries: int, keys: int, batch_of_keys: int = 2) -> None:
    rng = np.random.default_rng(0)
    batches = {"q": 2, "k": batch_of_keys, "v": 2}
    x = {n: rng.normal(0, 1, (b, 1, queries if n == "q" else keys, 8)).astype(np.float32) for n, b in batches.items()}
    powers = np.exp(x["q"] @ x["k"].swapaxes(2, 3))
    want = powers / powers.sum(3, keepdims=True) @ x["v"]
    np.testing.assert_allclose(network.run(x)["y"], want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("keys", [1, 3, 4, 5, 40])
def test_nothing_is_declared_that_is_not_read(keys: int, tmp_path: Path) -> None:
    attention({name: [2, 1, keys, 8] for name in "qkv"}, tmp_path / "few.onnx")
    mccompile.compile(tmp_path / "few.onnx", tmp_path / "out", target=VECTORS)
    require_right(Network(tmp_path / "out", ("-O1", *strict_warnings("gcc"))), keys, keys)


@pytest.mark.parametrize("keys", [4, 5, 40])
def test_keys_that_all_have_are_not_asked_for_again(keys: int, tmp_path: Path) -> None:
    """They lie where they did in the turn before."""
    attention({"q": [2, 1, 4, 8], "k": [1, 1, keys, 8], "v": [2, 1, keys, 8]}, tmp_path / "same.onnx")
    mccompile.compile(tmp_path / "same.onnx", tmp_path / "out", target=VECTORS)
    require_right(Network(tmp_path / "out", ("-O1", *strict_warnings("gcc"))), 4, keys, batch_of_keys=1)


@pytest.mark.parametrize("target", ["generic", VECTORS])
def test_no_key_at_all(target: str, tmp_path: Path) -> None:
    """Each query gets 0 then, as from the two products, and not 0 / 0."""
    attention({"q": [2, 1, 6, 8], "k": [2, 1, "n", 8], "v": [2, 1, "n", 8]}, tmp_path / "none.onnx")
    mccompile.compile(tmp_path / "none.onnx", tmp_path / "out", target=target, dims={"n": "0..9"})
    network = Network(tmp_path / "out", ("-O1", *strict_warnings("gcc")))
    for keys in (0, 1, 9, 0):
        network.fill_arenas(0xFF)
        require_right(network, 6, keys)
