"""Attention of which constant masks hide keys: the same values as onnxruntime's, whatever masks look like."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

from mccompile.codegen.folder import write_folder
from mccompile.driver import Options, compile_files
from mccompile.ir.graph import Graph
from mccompile.ops.attention import Attention, in_band, keys_in_band
from mccompile.run.network import Network
from mccompile.targets.target import STRICT_WARNINGS
from tests._fast import first
from tests.kernels.cases import Array, Net

TARGETS = ("generic", "native", "x86-64-v2")
LOWEST = float(np.finfo(np.float32).min)


def _drawn_mask(rng: np.random.Generator, queries: int, keys: int) -> tuple[Array, bool]:
    """Which keys queries read, a key each at least; and whether these lie in a band that leaves many out."""
    apart = np.arange(keys) - np.arange(queries)[:, None]
    behind = keys - queries
    kind = int(rng.integers(5))
    if kind == 0:
        return apart <= behind, True
    if kind == 1:  # a window of few keys up to the own one
        return (apart <= behind) & (apart > behind - int(rng.integers(1, queries // 2))), True
    if kind == 2:  # neighbours on both sides
        return abs(apart - behind // 2) <= int(rng.integers(1, 5)) + behind // 2, True
    if kind == 3:  # blocks, and within these what is drawn
        size = queries // 4
        same = np.arange(keys) // size == np.arange(queries)[:, None] // size
        return same & (rng.random((queries, keys)) < 0.7) | (apart == 0), True
    return (rng.random((queries, keys)) < 0.7) | (apart == 0), False


def _masked(n: Net, rng: np.random.Generator, scores: str, shown: Array) -> tuple[str, bool]:
    """Scores with a mask as exporters write it, and whether it hides what it hides for certain."""
    low = float(rng.choice([-np.inf, -1e9, LOWEST, -1e4]))
    number = n.constant(np.array(low, np.float32))
    way = int(rng.integers(4))
    if way == 0:
        scores = n("Where", n.constant(shown), scores, number)
    elif way == 1:
        scores = n("Where", n.constant(~shown), number, scores)
    elif way == 2:  # beside what falls with the distance, for each head
        slopes = np.array([0.5, 0.25], np.float32).reshape(2, 1, 1)
        distance = np.abs(np.arange(shown.shape[1]) - np.arange(shown.shape[0])[:, None]).astype(np.float32)
        scores = n("Add", scores, n.constant(np.where(shown, -slopes * distance, np.float32(low)).astype(np.float32)))
    else:
        scores = n("Add", scores, n.constant(np.where(shown, 0, low).astype(np.float32)[None]))
    if rng.integers(2):  # a mask of the run
        scores = n("Add", scores, n.input(1, 1, shown.shape[1]))
        return scores, low == -np.inf
    return scores, low < -1e6


@pytest.mark.parametrize("seed", first(range(24), 8))
def test_masks_that_hide_keys(seed: int, tmp_path: Path) -> None:
    """Causal masks, windows and blocks, of the kinds of numbers that exporters hide by; others stay as they are."""
    rng = np.random.default_rng(seed)
    n = Net(seed)
    queries = int(rng.choice([16, 19, 33, 70]))
    keys = queries + int(rng.choice([0, 0, 1, 5]))
    length, width = int(rng.choice([4, 8, 20])), int(rng.choice([3, 16, 40]))
    q, k, v = (n.input(2, *s) for s in ((queries, length), (length, keys), (keys, width)))
    shown, band = _drawn_mask(rng, queries, keys)
    scores, hides = _masked(n, rng, n("Mul", n("MatMul", q, k), n.constant(np.array(0.4, np.float32))), shown)
    weights = n("Softmax", scores, axis=-1)
    if rng.integers(2):
        weights = n("Where", n("IsNaN", weights), n.constant(np.array(0, np.float32)), weights)
    y = n("MatMul", weights, v)
    path = tmp_path / "net.onnx"
    path.write_bytes(n.model(n("Relu", y) if rng.integers(2) else y).SerializeToString())
    for target in TARGETS:
        graph = _compared(path, target, rng)
        ops = [node.op for node in graph.nodes if isinstance(node.op, Attention)]
        assert [bool(op.band) for op in ops] == [band and hides]


def _compared(path: Path, target: str, rng: np.random.Generator) -> Graph:
    """The graph after all passes of a network whose program gives what onnxruntime does."""
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    inputs = {i.name: rng.standard_normal(i.shape).astype(np.float32) for i in session.get_inputs()}
    (want,) = session.run(None, inputs)
    c, files = compile_files(path, Options(target=target))
    write_folder(path.parent / target / c.graph.name, files)
    (got,) = Network(path.parent / target / c.graph.name, STRICT_WARNINGS, emulate=True).run(inputs).values()
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)
    return c.graph


@pytest.mark.parametrize("target", ["generic", "native", "x86-64-v3"])
@pytest.mark.parametrize(("queries", "keys"), [(600, 600), (40, 1100)])
def test_the_operator_of_opset_23(queries: int, keys: int, target: str, tmp_path: Path) -> None:
    """Sums that go in runs; no mask is stored, or computed when the network runs."""
    n = Net(1)
    n.opset = 23
    y = n("Attention", n.input(1, 2, queries, 8), *(n.input(1, 2, keys, 8) for _ in range(2)), is_causal=1)
    path = tmp_path / "net.onnx"
    path.write_bytes(n.model(y).SerializeToString())
    graph = _compared(path, target, np.random.default_rng(2))
    assert {node.op.name for node in graph.nodes} <= {"attention", "transpose"}


def test_pairs_in_a_band() -> None:
    rng = np.random.default_rng(0)
    for _ in range(100):
        low, high = sorted(int(b) for b in rng.integers(-9, 10, 2))
        queries, keys = (int(e) for e in rng.integers(1, 9, 2))
        assert keys_in_band((low, high), queries, keys) == in_band((low, high), queries, keys).sum()
