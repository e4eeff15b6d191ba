"""Decoders whose caches the network keeps: token by token beside onnxruntime, in the room that there is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

import mccompile
from mccompile import driver
from mccompile.driver import Options
from mccompile.ir.errors import CompileError, UsageError
from mccompile.run.network import Network
from tests.support.decoders import SMALL, Sizes, grouped, standard, state
from tests.support.small_models import Maker

GROUPED = replace(SMALL, width=64, vocabulary=31, room=8)


def _by_hand(path: Path, tokens: list[np.ndarray], sizes: Sizes, heads: int) -> list[np.ndarray]:
    """The scores of onnxruntime, which is given its caches back."""
    session = ort.InferenceSession(path.read_bytes())
    held = {given: np.zeros((1, heads, 0, sizes.head), np.float32) for given in state(sizes).values()}
    names, scores = ["logits", *state(sizes)], []
    for ids in tokens:
        logits, *kept = session.run(names, {"ids": ids, **held})
        held = dict(zip(state(sizes).values(), kept, strict=True))
        scores.append(logits)
    return scores


def _compiled(path: Path, folder: Path, sizes: Sizes, target: str, **dims: str) -> Network:
    ranges = {"past": f"0..{sizes.room - 1}", **dims}
    mccompile.compile(path, folder, target=target, dims=ranges, state=state(sizes))
    return mccompile.load(folder)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["generic", "native"])
@pytest.mark.parametrize(
    ("make", "sizes", "heads"),
    [
        (standard, SMALL, 4), (grouped, GROUPED, 2), (lambda s: grouped(s, 4), GROUPED, 2),
        (lambda s: grouped(s, 8, 4), GROUPED, 2), (lambda s: grouped(s, 4, 4), GROUPED, 2),
    ],
    ids=["standard", "grouped", "4-bits", "8-bits-rounded", "4-bits-rounded"],
)
def test_token_by_token(
    make: Callable[[Sizes], onnx.ModelProto], sizes: Sizes, heads: int, target: str, tmp_path: Path
) -> None:
    """As many tokens as there is room for, then none; from any token on again, and from the beginning."""
    path = tmp_path / "decoder.onnx"
    onnx.save(make(sizes), path)
    rng = np.random.default_rng(3)
    tokens = [rng.integers(0, sizes.vocabulary, (1, 1)) for _ in range(sizes.room)]
    want = _by_hand(path, tokens, sizes, heads)
    network = _compiled(path, tmp_path / "out", sizes, target)
    for round_ in range(2):
        network.reset()
        for i, ids in enumerate(tokens):
            got = network.run({"ids": ids})["logits"]
            np.testing.assert_allclose(got, want[i], rtol=2e-4, atol=2e-4, err_msg=f"token {i} of round {round_}")
        assert network.state["past.0.key"].shape == (1, heads, sizes.room, sizes.head)
        with pytest.raises(CompileError, match="status"):
            network.run({"ids": tokens[0]})
    network.set_extents({"past": 3})
    np.testing.assert_allclose(network.run({"ids": tokens[3]})["logits"], want[3], rtol=2e-4, atol=2e-4)


@pytest.mark.slow
def test_several_tokens_at_once(tmp_path: Path) -> None:
    """The extent by which state grows is one of the run, too."""
    path = tmp_path / "decoder.onnx"
    onnx.save(standard(SMALL, "tokens"), path)
    rng = np.random.default_rng(4)
    tokens = [rng.integers(0, SMALL.vocabulary, (1, n)) for n in (3, 1, 2)]
    network = _compiled(path, tmp_path / "out", replace(SMALL, room=9), "generic", tokens="1..3")
    for ids, want in zip(tokens, _by_hand(path, tokens, SMALL, 4), strict=True):
        np.testing.assert_allclose(network.run({"ids": ids})["logits"], want, rtol=2e-4, atol=2e-4)
    assert network.extents["past"] == 6


ATTENTION = {
    "grouped": ("GroupQueryAttention", {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1}),
    "window": ("GroupQueryAttention", {"num_heads": 4, "kv_num_heads": 2, "local_window_size": 3}),
    "heads": ("MultiHeadAttention", {"num_heads": 2, "unidirectional": 1}),
    "joined": ("Attention", {"num_heads": 2, "unidirectional": 1}),
}


def _attention(kind: str, queries: int) -> onnx.ModelProto:
    """One node of onnxruntime's whose keys of calls before are as many as the run has."""
    op, attributes = ATTENTION[kind]
    m = Maker(opset=18)
    if op == "Attention":
        x = m.input("x", [1, queries, 12])
        given = [x, m.weight((12, 96)), m.weight((96,)), "", m.input("past", [2, 1, 2, "past", 16])]
        outputs = ["y", "present"]
    else:
        heads = attributes["num_heads"]
        shared = attributes.get("kv_num_heads", heads)
        q, k, v = (m.input(name, [1, queries, n * 16]) for name, n in (("q", heads), ("k", shared), ("v", shared)))
        past = [m.input(f"past_{name}", [1, shared, "past", 16]) for name in ("key", "value")]
        if op == "MultiHeadAttention":
            given = [q, k, v, "", "", "", *past]
        else:
            given = [q, k, v, *past, m.input("ends", [1], TensorProto.INT32), m.input("total", [], TensorProto.INT32)]
        if "do_rotary" in attributes:
            given += [m.weight((16, 8)), m.weight((16, 8))]
        outputs = ["y", "present_key", "present_value"]
    m.nodes.append(helper.make_node(op, given, outputs, domain="com.microsoft", **attributes))
    infos = [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs]
    graph = helper.make_graph(m.nodes, "attention", m.inputs, infos, m.weights)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.slow
@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("kind", ATTENTION)
def test_attention_behind_keys_of_the_run(kind: str, queries: int, tmp_path: Path) -> None:
    """Lengths that are computed when the program runs mean what the shapes say; no query reads what is behind it."""
    if kind in ("grouped", "window") and queries > 1:
        first = (0,)  # onnxruntime takes several tokens behind others for a prompt
    else:
        first = (0, 1, 6)
    path = tmp_path / "attention.onnx"
    onnx.save(_attention(kind, queries), path)
    session = ort.InferenceSession(path.read_bytes())
    mccompile.compile(path, tmp_path / "out", target="generic", dims={"past": "0..6"})
    network, rng = mccompile.load(tmp_path / "out"), np.random.default_rng(5)
    for past in first:
        feeds = {v.name: rng.standard_normal([past if e == "past" else e for e in v.shape]).astype(np.float32)
                 for v in session.get_inputs()}  # fmt: skip
        lengths = {"ends": np.array([past + queries - 1], np.int32), "total": np.array(past + queries, np.int32)}
        feeds |= {name: a for name, a in lengths.items() if name in feeds}
        got = network.run(feeds)
        for v, want in zip(session.get_outputs(), session.run(None, feeds), strict=True):
            np.testing.assert_allclose(got[v.name], want, rtol=1e-4, atol=1e-5, err_msg=f"{v.name} behind {past}")


def test_nothing_of_a_cache_is_copied(tmp_path: Path) -> None:
    """What is joined lies in its place, and only the new rows are written."""
    path = tmp_path / "decoder.onnx"
    onnx.save(standard(SMALL), path)
    c = driver.open_model(path, Options(target="generic", dims={"past": "0..11"}, state=state(SMALL)))
    facts = driver.compile_program(c)
    assert sum("lies there already" in s.comment for s in facts.steps) == 2 * SMALL.layers
    assert c.program is not None
    assert len(c.program.module.state) == 2 * SMALL.layers
    assert {p.shape for p in facts.states} == {(1, 4, 12, 8)}


def test_caches_of_which_nothing_is_kept_alike_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "decoder.onnx"
    onnx.save(standard(SMALL, "tokens"), path)
    wrong = {"logits": "past.0.key"}
    with pytest.raises(UsageError, match=r"it is f32\[1,tokens,61\], and the input is"):
        driver.open_model(path, Options(dims={"past": "0..11", "tokens": "1..3"}, state=wrong))
