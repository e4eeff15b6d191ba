"""A number beside which others are rounded stays apart from them, whatever is folded into the bias that it is.

With M = 1.5 * 2^23, (x + M) - M is x rounded to a whole number: exporters write that for Round, and quantised
training for what it simulates.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from mccompile import driver
from mccompile.driver import Options

Array = np.ndarray
N = helper.make_node

K = 4
M = np.full(K, 12582912, np.float32)
COLUMN = (K, 1, 1)
LIKE = {
    "x": np.random.default_rng(0).normal(size=(1, K, 3, 3)).astype(np.float32),
    "w": (np.eye(K) * 2).reshape(K, K, 1, 1).astype(np.float32),
    "v": (np.eye(K) * 0.7).reshape(K, K, 1, 1).astype(np.float32),
    "m": M,
    "n": M.reshape(COLUMN) + np.arange(K, dtype=np.float32).reshape(COLUMN),
    "s": np.full(COLUMN, 0.4, np.float32),
    "c": np.full(K, 0.3, np.float32),
}
"""Of rows and columns the products have x and w as matrices."""
DEAD = np.diag([3, 3, 3, 0]).astype(np.float32)
"""Weights of which the last channel is constant."""
FULL = np.eye(K, dtype=np.float32)
FULL = np.vstack([FULL[:-1], np.ones((1, K), np.float32)])

NETS: dict[str, tuple[list[onnx.NodeProto], dict[str, Array]]] = {
    "a shift before a convolution": (
        [N("Add", ["x", "s"], ["a"]), N("Conv", ["a", "w", "m"], ["b"]), N("Sub", ["b", "n"], ["y"])], {},
    ),
    "a shift before a convolution and a step": (
        [
            N("Add", ["x", "s"], ["a"]), N("Conv", ["a", "w", "m"], ["b"]), N("Sub", ["b", "n"], ["d"]),
            N("Floor", ["d"], ["y"]),
        ],
        {},
    ),
    "a shift before a product": (
        [N("Add", ["x", "s"], ["a"]), N("Gemm", ["a", "w", "m"], ["b"]), N("Sub", ["b", "m"], ["y"])],
        {"x": LIKE["x"].reshape(-1, K), "s": np.full(K, 0.4, np.float32), "w": FULL * 2},
    ),
    "a constant channel": (
        [
            N("MatMul", ["x", "w"], ["a"]), N("Add", ["a", "s"], ["h"]), N("Relu", ["h"], ["r"]),
            N("MatMul", ["r", "v"], ["p"]), N("Add", ["p", "m"], ["b"]), N("Sub", ["b", "m"], ["y"]),
        ],
        {"x": LIKE["x"].reshape(-1, K), "w": DEAD, "v": FULL, "s": np.array([0, 0, 0, 0.4], np.float32)},
    ),
    "two convolutions": (
        [
            N("Conv", ["x", "w", "m"], ["a"]), N("Conv", ["x", "v"], ["b"]), N("Add", ["a", "b"], ["d"]),
            N("Sub", ["d", "n"], ["y"]),
        ],
        {},
    ),
    "a convolution and what it reads": (
        [N("Conv", ["x", "w", "m"], ["a"]), N("Add", ["a", "x"], ["d"]), N("Sub", ["d", "n"], ["y"])], {},
    ),
    "a convolution, a number and what it reads": (
        [
            N("Conv", ["x", "w", "c"], ["a"]), N("Add", ["a", "n"], ["d"]), N("Add", ["d", "x"], ["e"]),
            N("Sub", ["e", "n"], ["y"]),
        ],
        {},
    ),
}  # fmt: skip


def _both(path: Path, nodes: list[onnx.NodeProto], arrays: dict[str, Array]) -> tuple[Array, Array]:
    """What a network is as it is read, and as it is optimised, in its own types, of the array x."""
    read = {name for node in nodes for name in node.input}
    kind = helper.np_dtype_to_tensor_dtype(arrays["x"].dtype)
    x, y = (helper.make_tensor_value_info(n, kind, s) for n, s in (("x", arrays["x"].shape), ("y", None)))
    constants = [numpy_helper.from_array(a, n) for n, a in arrays.items() if n in read - {"x"}]
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), path)
    c = driver.open_model(path, Options(target="generic"))
    plain = c.graph.evaluate({"x": arrays["x"]})
    driver.optimize(c)
    return plain["y"], c.graph.evaluate({"x": arrays["x"]})["y"]


@pytest.mark.parametrize("name", NETS)
def test_what_is_rounded_beside_a_large_bias_is_rounded_as_it_was(name: str, tmp_path: Path) -> None:
    nodes, own = NETS[name]
    plain, optimised = _both(tmp_path / "m.onnx", nodes, {**LIKE, **own})
    assert (plain == np.rint(plain)).all()
    assert np.array_equal(plain, optimised)


@pytest.mark.parametrize(
    ("dtype", "constant", "weight", "others", "bias", "x"),
    [("f2", 100, 200.125, -200, 1, 50), ("f2", 100, 200, -300, 60000, 50), ("f4", 2, 1e38, -1e38, 3e38, 1)],
)
def test_shares_of_constant_channels_are_as_wide_as_sums(
    dtype: str, constant: float, weight: float, others: float, bias: float, x: float, tmp_path: Path
) -> None:
    """Of f16 a share of 20012.5 is no f16, and beside 60,000 it is infinite, but sums are f32; beside 3e38, in f32,
    as much is taken off again."""
    weights = np.array([[1, 0], [0, 0], [0, 1]], dtype).reshape(3, 2, 1, 1)
    arrays = {
        "x": np.full((1, 2, 3, 3), x, dtype), "w": weights, "b": np.array([0, constant, 0], dtype),
        "v": np.array([[others, weight, others], [1, 1, 1]], dtype).reshape(2, 3, 1, 1),
        "c": np.array([bias, 1], dtype),
    }  # fmt: skip
    nodes = [N("Conv", ["x", "w", "b"], ["a"]), N("Conv", ["a", "v", "c"], ["y"])]
    plain, optimised = _both(tmp_path / "m.onnx", nodes, arrays)
    assert np.isfinite(plain).all()
    np.testing.assert_allclose(optimised.astype(np.float64), plain.astype(np.float64), rtol=2e-3)


@pytest.mark.parametrize("kind", ["AveragePool", "MaxPool"])
def test_windows_of_nothing_but_padding_have_no_constant_channels(kind: str, tmp_path: Path) -> None:
    """With dilations a window may reach over a small image: its mean is 0, whatever the channel is."""
    rng = np.random.default_rng(0)
    w = rng.normal(size=(4, 2, 1, 1)).astype(np.float32)
    w[[0, 2]] = 0
    arrays = {
        "x": rng.normal(size=(1, 2, 1, 1)).astype(np.float32), "w": w, "b": np.array([5, 1, 7, 2], np.float32),
        "v": rng.normal(size=(3, 4, 1, 1)).astype(np.float32), "low": np.array(-3, np.float32),
    }  # fmt: skip
    pool = N(kind, ["a"], ["p"], kernel_shape=[2, 2], dilations=[2, 2], pads=[1] * 4)
    nodes = [
        N("Conv", ["x", "w", "b"], ["a"]), pool, N("Clip", ["p", "low"], ["q"]), N("Conv", ["q", "v"], ["y"]),
    ]  # fmt: skip
    plain, optimised = _both(tmp_path / "m.onnx", nodes, arrays)
    np.testing.assert_allclose(optimised, plain, rtol=1e-5)
