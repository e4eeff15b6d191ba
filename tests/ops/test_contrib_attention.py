"""Attention operators of onnxruntime beside onnxruntime itself: which keys a query asks, and what is a buffer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from mccompile.check.check import check
from mccompile.driver import Options
from tests.support.judge import plain_session

FLOAT, I32 = TensorProto.FLOAT, TensorProto.INT32
CONTRIB = "com.microsoft"
Shape = list[int | str]


def _model(
    path: Path, node: onnx.NodeProto, given: dict[str, tuple[int, Shape]], made: dict[str, Shape | None]
) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info(n, t, s) for n, (t, s) in given.items()]
    outputs = [helper.make_tensor_value_info(n, FLOAT, s) for n, s in made.items()]
    graph = helper.make_graph([node], "g", inputs, outputs)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(CONTRIB, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    onnx.save(model, path)
    return model


@pytest.mark.parametrize(
    ("queries", "keys", "past"), [(2, 5, 0), (5, 2, 0), (2, 4, 3), (3, 3, 0), (2, 2, 3), (1, 4, 0), ("s", "n", 0)]
)
def test_queries_ask_no_key_behind_their_place(
    queries: int | str, keys: int | str, past: int, tmp_path: Path
) -> None:
    """Of as many queries as there are not new keys the first asks the first of these, and the last asks all."""
    names = ["q", "k", "v"]
    given: dict[str, tuple[int, Shape]] = {n: (FLOAT, [2, keys, 8]) for n in names} | {"q": (FLOAT, [2, queries, 8])}
    if past:
        names += ["", "", "", "pk", "pv"]
        given |= {n: (FLOAT, [2, 2, past, 4]) for n in ("pk", "pv")}
    made = dict.fromkeys(["y", "ok", "ov"] if past else ["y"])
    node = helper.make_node("MultiHeadAttention", names, list(made), domain=CONTRIB, num_heads=2, unidirectional=1)
    path = tmp_path / "m.onnx"
    _model(path, node, given, made)
    dims = {"s": "1..3", "n": "1..4"} if queries == "s" else {}
    result = check(path, Options(target="generic", dims=dims))
    assert result.ok, result.lines()


@pytest.mark.parametrize(("room", "dims"), [(8, {}), ("M", {"M": 8}), ("M", {"M": "1..8"})], ids=str)
def test_keys_of_calls_before_are_a_buffer_where_the_model_says_so(
    room: int | str, dims: dict[str, int | str], tmp_path: Path
) -> None:
    """One sample that says in the run how many of them there are."""
    node = helper.make_node(
        "GroupQueryAttention", ["q", "k", "v", "pk", "pv", "last", "total"], ["y", "ok", "ov"], domain=CONTRIB,
        num_heads=4, kv_num_heads=2,
    )  # fmt: skip
    held: Shape = [1, 2, room, 16]
    given: dict[str, tuple[int, Shape]] = {
        "q": (FLOAT, [1, 1, 64]), "k": (FLOAT, [1, 1, 32]), "v": (FLOAT, [1, 1, 32]), "pk": (FLOAT, held),
        "pv": (FLOAT, held), "last": (I32, [1]), "total": (I32, []),
    }  # fmt: skip
    model = _model(tmp_path / "m.onnx", node, given, {"y": [1, 1, 64], "ok": held, "ov": held})
    mccompile.compile(tmp_path / "m.onnx", tmp_path / "out", target="generic", dims=dims)
    network, rng = mccompile.load(tmp_path / "out"), np.random.default_rng(0)
    feeds = {
        n: rng.standard_normal([8 if e == room else e for e in s]).astype(np.float32)
        for n, (t, s) in given.items() if t == FLOAT
    }  # fmt: skip
    for last in (0, 5, 7):
        run = {**feeds, "last": np.array([last], np.int32), "total": np.array(8, np.int32)}
        got, wanted = network.run(run), plain_session(model.SerializeToString()).run(None, run)
        for name, want in zip(("y", "ok", "ov"), wanted, strict=True):
            assert got[name].shape == want.shape
            rows = slice(None) if name == "y" else slice(last + 1)  # behind the new one are any
            np.testing.assert_allclose(got[name][..., rows, :], want[..., rows, :], rtol=1e-4, atol=1e-5)


def test_functions_of_constants_are_folded_as_they_are_computed(tmp_path: Path) -> None:
    """onnx.reference counts labels that are ignored in a mean, and caps scores of attention before they are shown."""
    rng = np.random.default_rng(0)
    q, k = (rng.standard_normal((1, 2, n, 4)).astype(np.float32) for n in (3, 5))
    scores, labels = rng.standard_normal((4, 3)).astype(np.float32), np.array([-1, 0, 2, 1])
    nodes = [
        helper.make_node("Attention", ["q", "k", "k"], ["a", "", "", "raw"], softcap=2.0),
        helper.make_node("NegativeLogLikelihoodLoss", ["scores", "labels"], ["loss"], ignore_index=-1),
        helper.make_node("Mul", ["x", "raw"], ["y"]), helper.make_node("Mul", ["x", "loss"], ["z"]),
    ]  # fmt: skip
    arrays = {"q": q, "k": k, "scores": scores, "labels": labels}
    infos = [[helper.make_tensor_value_info(n, FLOAT, s) for n, s in some] for some in (
        [("x", [1])], [("y", [1, 2, 3, 5]), ("z", [1])]
    )]  # fmt: skip
    graph = helper.make_graph(nodes, "g", *infos, [numpy_helper.from_array(a, n) for n, a in arrays.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    mccompile.compile(model, tmp_path / "out", target="generic", name="n")
    got = mccompile.load(tmp_path / "out").run({"x": np.ones(1, np.float32)})
    np.testing.assert_allclose(got["y"], q @ k.swapaxes(2, 3) / 2, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got["z"], [-(scores[1, 0] + scores[2, 2] + scores[3, 1]) / 3], rtol=1e-5)
