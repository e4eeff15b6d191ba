"""Every tile that tuning may try computes the same as the one that the model prefers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mccompile import driver
from mccompile.codegen.folder import write_folder
from mccompile.driver import Compilation, Options
from mccompile.ir.graph import Graph
from mccompile.ir.graph_text import parse_graph
from mccompile.kernels.model.tiled import TRIED
from mccompile.kernels.registry import candidates
from mccompile.ops.registry import lookup
from mccompile.run.network import Network
from mccompile.targets.target import resolve
from tests.support.graphs import difference, random_inputs

PRODUCT = """graph @net(%x: f32[29,40], %e: f32[150]) {
  %w = const : f32[40,150] ; sha256=0
  %y = matmul(%x, %w) {} with(%e) post0{ relu(acc + x0) } : f32[29,150]
  return %y }"""

PIXELS = """graph @net(%x: f32[1,24,6,7]) {
  %w = const : f32[150,24,1,1] ; sha256=0
  %a = map(%x) {expr={x0}} : f32[1,24,6,7]:nhwc
  %c = conv(%a, %w) {strides=(STRIDE, STRIDE), pads=(0, 0, 0, 0), dilations=(1, 1)}
       post0{ relu(acc) } : f32[1,150,ROWS]:nhwc
  %y = map(%c) {expr={x0}} : f32[1,150,ROWS]
  return %y }"""

STRIDED = {1: "6,7", 2: "3,4"}


def graph_of(text: str) -> Graph:
    graph = parse_graph(text, lookup)
    (w,) = graph.constants
    graph.constants[w] = np.random.default_rng(0).standard_normal(w.shape).astype(np.float32)
    return graph


@pytest.mark.parametrize(
    "text", [PRODUCT, *(PIXELS.replace("STRIDE", str(s)).replace("ROWS", rows) for s, rows in STRIDED.items())]
)
def test_every_tile(text: str, tmp_path: Path) -> None:
    target = resolve("native")
    if not target.lanes:
        pytest.skip("needs a target with vectors")
    graph = graph_of(text)
    node = next(n for n in graph.nodes if n.op.name in ("matmul", "conv"))
    packed = next(v for v in candidates(node.op.name) if v.kernel == "matmul.packed")
    labels = [o.label for o in packed.offers(node, target, graph.constants)][1:]
    assert len(set(labels)) == len(labels) == TRIED
    inputs = random_inputs(graph, 0)
    want = graph.evaluate(inputs)
    for i, label in enumerate(labels):
        options = Options(passes=(), kernels={node.op.name: label}, keep_inputs=True)
        c = Compilation("net", "0" * 64, options, target, graph_of(text), [])
        write_folder(tmp_path / str(i), driver.finish(c))
        assert c.lowered is not None
        assert label in [choice.offer.label for choice in c.lowered.choices.values()]
        assert difference(want, Network(tmp_path / str(i)).run(inputs)) < 1e-5
