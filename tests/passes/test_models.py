"""The passes keep the meaning of real networks: float64 before and after, on the inputs that come with them."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest

from mccompile.check.ties import is_quantised
from mccompile.driver import Options, import_graph
from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Graph
from mccompile.passes.manager import passes, run_passes
from mccompile.passes.pipeline import PIPELINES
from mccompile.targets.target import resolve
from tests._skips import needs_shared
from tests.support.graphs import Arrays, difference
from tests.support.shared import model_names

FAST_MACS = 60e6
"""Larger networks are left to the slow tests."""

SLOW_MACS = 1e9
"""Larger networks are evaluated before and after the whole pipeline only."""

VECTORS = resolve("x86-64-v4")
"""Some passes change nothing without vectors."""

FEW = 3
"""Nodes that there may be nothing to do about: a forest and the class of its best score."""

CONSTANTS_ROUNDED = {"f16": 5e-3, "other": 1e-5}
"""By storage: folded weights are rounded to what they are stored as."""


def _macs(graph: Graph) -> int:
    return sum(n.op.macs(n.operand_types(), [r.type for r in n.results]) for n in graph.nodes)


def _import(folder: Path) -> Graph:
    ports = json.loads((folder / "io.json").read_text())
    shapes = {p["name"]: p["shape"] for p in ports["inputs"]}
    try:
        return import_graph(folder / "model.onnx", Options(target="generic", input_shapes=shapes)).graph
    except CompileError as e:
        pytest.skip(f"the model is not supported: {str(e).splitlines()[0]}")


def _inputs(folder: Path, graph: Graph) -> dict[str, np.ndarray]:
    """The stored inputs; the first step of those that hold several."""
    ports = json.loads((folder / "io.json").read_text())
    stored = {p["name"]: np.load(folder / f"input_{i}.npy") for i, p in enumerate(ports["inputs"])}
    return {v.name: stored[v.name].reshape(-1, *v.shape)[0].reshape(v.shape) for v in graph.inputs}


def _check(name: str) -> None:
    folder = needs_shared(f"models/{name}")
    plain, graph = _import(folder), _import(folder)
    inputs = _inputs(folder, graph)
    want = plain.evaluate(inputs, wide=True)
    run_passes(graph, PIPELINES["O3"])
    if not is_quantised(plain):  # else a tie may fall to either side: tests/check/test_ties.py
        _compare(graph, inputs, want)
    assert len(graph.nodes) <= len(plain.nodes)


def _compare(graph: Graph, inputs: Arrays, want: Arrays, what: str = "") -> None:
    half = any(v.dtype.name == "f16" for v in graph.constants)
    error = difference(want, graph.evaluate(dict(inputs), wide=True))
    assert error < CONSTANTS_ROUNDED["f16" if half else "other"], what


@pytest.mark.parametrize("name", model_names())
def test_passes_keep_the_meaning_of_a_network(name: str) -> None:
    folder = needs_shared(f"models/{name}")
    macs = _macs(_import(folder))
    if macs >= FAST_MACS:
        pytest.skip(f"{macs / 1e6:.0f} MMACs: left to the slow test")
    _check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", model_names())
def test_passes_keep_the_meaning_of_every_network(name: str) -> None:
    _check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", model_names())
def test_every_prefix_of_the_pipeline_keeps_the_meaning(name: str) -> None:
    """The graph is evaluated after each pass that changed something."""
    folder = needs_shared(f"models/{name}")
    graph = _import(folder)
    if _macs(graph) >= SLOW_MACS:
        pytest.skip("too large for numpy after each pass: the whole pipeline is tested")
    inputs = _inputs(folder, graph)
    want = graph.evaluate(inputs, wide=True)
    for i, step in enumerate(PIPELINES["O3"]):
        (record,) = run_passes(graph, [step], target=VECTORS)
        if record.changes:
            _compare(graph, inputs, want, f"after {PIPELINES['O3'][: i + 1]}")


@pytest.mark.slow
@pytest.mark.parametrize("name", model_names())
def test_every_pass_alone_keeps_the_meaning(name: str) -> None:
    folder = needs_shared(f"models/{name}")
    plain = _import(folder)
    if _macs(plain) >= SLOW_MACS:
        pytest.skip("too large for numpy after each pass: the whole pipeline is tested")
    inputs = _inputs(folder, plain)
    want = plain.evaluate(inputs, wide=True)
    fired = 0
    for step in passes():
        graph = _import(folder)
        (record,) = run_passes(graph, [step], target=VECTORS)
        if record.changes:
            fired += 1
            _compare(graph, inputs, want, step)
    assert fired or len(plain.nodes) <= FEW, "nothing was tried"


@pytest.mark.parametrize("name", ["gtcrn_stream", "yolox_nano", "silero_vad"])
def test_passes_are_quick(name: str) -> None:
    graph = _import(needs_shared(f"models/{name}"))
    start = time.process_time()
    run_passes(graph, PIPELINES["O3"])
    assert time.process_time() - start < 2
