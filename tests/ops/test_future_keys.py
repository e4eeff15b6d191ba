"""Attention of which queries read no later key: whatever those keys hold, and however many there are."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import mccompile
from tests.support.small_models import Maker

Array = np.ndarray[Any, np.dtype[Any]]
CONTRIB = "com.microsoft"
STEPS, WIDTH = 4, 8
LOUD = 4000.0
"""By how much each key outdoes those before it: no mask of -10,000 keeps the last apart from the first."""


def _keys(rows: int) -> Array:
    """[1, rows, WIDTH]: the first place of a key, which is all that queries read, grows from key to key."""
    keys = np.random.default_rng(1).standard_normal((1, rows, WIDTH)).astype(np.float32)
    keys[0, :, 0] = LOUD * math.sqrt(WIDTH) * np.arange(rows)
    return keys


def _queries(rows: int) -> Array:
    queries = np.zeros((1, rows, WIDTH), np.float32)
    queries[0, :, 0] = 1
    return queries


def _values(rows: int) -> Array:
    return np.random.default_rng(2).standard_normal((1, rows, WIDTH)).astype(np.float32)


def _model(m: Maker, op: str, given: list[str], domain: str, **attributes: Any) -> onnx.ModelProto:
    m.nodes.append(helper.make_node(op, given, ["y"], domain=domain, **attributes))
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    graph = helper.make_graph(m.nodes, "future", m.inputs, [y], m.weights)
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid(CONTRIB, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _apart(op: str) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Queries, keys and values are inputs."""
    m = Maker()
    feeds = {"q": _queries(STEPS), "k": _keys(STEPS), "v": _values(STEPS)}
    names = [m.input(name, a.shape) for name, a in feeds.items()]
    if op == "Attention":
        return _model(m, op, names, "", q_num_heads=1, kv_num_heads=1, is_causal=1), feeds
    if op == "GroupQueryAttention":
        last, total = m.const(np.array([STEPS - 1], np.int32)), m.const(np.array(STEPS, np.int32))
        return _model(m, op, [*names, "", "", last, total], CONTRIB, num_heads=1, kv_num_heads=1), feeds
    return _model(m, op, names, CONTRIB, num_heads=1, unidirectional=1), feeds


def _joined() -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Attention of com.microsoft: all three are columns of one product, here by 1."""
    m = Maker()
    x = np.concatenate([_queries(STEPS), _keys(STEPS), _values(STEPS)], axis=2)
    w, bias = m.const(np.eye(3 * WIDTH, dtype=np.float32)), m.const(np.zeros(3 * WIDTH, np.float32))
    model = _model(m, "Attention", [m.input("x", x.shape), w, bias], CONTRIB, num_heads=1, unidirectional=1)
    return model, {"x": x}


def _quantised() -> tuple[onnx.ModelProto, dict[str, Array]]:
    """QAttention: keys, values and 1 are bytes; scales make scores as far apart."""
    m = Maker()
    x = np.zeros((1, STEPS, 3), np.uint8)
    x[0, :, 0], x[0, :, 1], x[0, :, 2] = 200, 60 * np.arange(STEPS), [10, 90, 30, 250]
    w = np.zeros((3, 3 * WIDTH), np.int8)
    w[0, 0] = w[1, WIDTH] = w[2, 2 * WIDTH] = 100
    scale = LOUD * math.sqrt(WIDTH)
    given = [m.input("x", x.shape, onnx.TensorProto.UINT8), m.const(w), m.const(np.zeros(3 * WIDTH, np.float32)),
             m.const(np.array(1 / 100, np.float32)), m.const(np.array(1 / 100, np.float32)), "",
             m.const(np.array(0, np.uint8)), m.const(np.array(0, np.int8))]  # fmt: skip
    return _model(m, "QAttention", given, CONTRIB, num_heads=1, unidirectional=1, scale=scale), {"x": x}


CASES = {
    "standard": lambda: _apart("Attention"),
    "heads": lambda: _apart("MultiHeadAttention"),
    "grouped": lambda: _apart("GroupQueryAttention"),
    "joined": _joined,
    "quantised": _quantised,
}


@pytest.mark.parametrize("target", ["generic", "native"])
@pytest.mark.parametrize("kind", CASES)
def test_the_loudest_key_is_behind(kind: str, target: str, tmp_path: Path) -> None:
    """Each query reads the last key that it may, which outdoes the others by thousands: the answer is its value."""
    model, feeds = CASES[kind]()
    path = tmp_path / "future.onnx"
    onnx.save(model, path)
    mccompile.compile(path, tmp_path / "out", target=target)
    (got,) = mccompile.load(tmp_path / "out").run(feeds).values()
    if kind == "quantised":
        want = np.zeros((1, STEPS, WIDTH), np.float32)
        want[0, :, 0] = feeds["x"][0, :, 2] / 100
    else:
        want = _values(STEPS)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", ["generic", "native"])
@pytest.mark.parametrize("queries", [1, 2, 3, 4, 5])
def test_queries_by_keys_of_the_run(queries: int, target: str, tmp_path: Path) -> None:
    """Numbers of queries that are even and odd, which are read together in pairs, and as many keys as a run has."""
    m, most = Maker(), 9
    names = [m.input("q", [1, queries, WIDTH]), *(m.input(n, [1, "keys", WIDTH]) for n in ("k", "v"))]
    path = tmp_path / "keys.onnx"
    onnx.save(_model(m, "MultiHeadAttention", names, CONTRIB, num_heads=2), path)
    mccompile.compile(path, tmp_path / "out", target=target, dims={"keys": f"1..{most}"})
    network, rng = mccompile.load(tmp_path / "out"), np.random.default_rng(3)
    for keys in (1, 4, most):
        q, k, v = (rng.standard_normal((1, n, WIDTH)).astype(np.float32) for n in (queries, keys, keys))
        heads = [a.reshape(-1, 2, WIDTH // 2).swapaxes(0, 1) for a in (q, k, v)]
        scores = heads[0] @ heads[1].swapaxes(1, 2) / math.sqrt(WIDTH // 2)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        want = (shares / shares.sum(-1, keepdims=True) @ heads[2]).swapaxes(0, 1).reshape(q.shape)
        (got,) = network.run({"q": q, "k": k, "v": v}).values()
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
