"""Sums of thousands of elements of one sign: the error of a running sum grows with them, that of blocks does not.

Products by tiles of registers (matmul.packed, matmul.variable, conv.channels) are running sums still.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mccompile.ir.graph_text import parse_graph
from mccompile.ops.registry import lookup
from mccompile.targets.target import STRICT_WARNINGS, resolve
from tests.support.compiled import compiled_graph
from tests.support.opcases import CaseLibrary

MOST = 2e-6
"""Of a sum of 1,000 to 10,000 equal elements; a running sum loses 2e-5."""
WINDOW = "strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)"
REDUCTIONS = [
    ("%x: f32[2,8000]", "reduce(%x) {mode='sum', axes=(1,)}", "2,1"),
    ("%x: f32[2,700,3,5]", "reduce(%x) {mode='sum', axes=(1, 3)}", "2,1,3,1"),
    ("%x: f32[2,3,5,700]", "reduce(%x) {mode='sum', axes=(1, 2, 3)}", "2,1,1,1"),
    ("%x: f32[6000,2]", "reduce(%x) {mode='sum', axes=(0,)}", "1,2"),
]
PRODUCTS = [
    ("%x: f32[1,1,8], %k: f32[1,8,4000], %v: f32[1,4000,8]", "attention(%x, %k, %v) {score={x0}}", "1,1,8"),
    ("%x: f32[2,4000], %w: f32[4000,3]", "matmul(%x, %w)", "2,3"),
    ("%x: f32[2,4000], %w: f32[3,4000]", "matmul(%x, %w) {trans_b=True}", "2,3"),
    ("%x: f32[4000,2], %w: f32[4000,3]", "matmul(%x, %w) {trans_a=True}", "2,3"),
    ("%x: f32[1,500,4,4], %w: f32[2,500,3,3]", "conv(%x, %w) {" + WINDOW + "}", "1,2,2,2"),
    ("%x: f32[1,3000,2], %w: f32[2,3000,1]", "conv(%x, %w) {strides=(1,), pads=(0, 0), dilations=(1,)}", "1,2,2"),
]  # fmt: skip


@pytest.mark.parametrize("target", ["generic", "native"])
def test_long_sums(target: str, tmp_path: Path) -> None:
    nodes = [*REDUCTIONS, *(PRODUCTS if target == "generic" else [])]
    texts = [f"graph @net({operands}) {{ %y = {node} : f32[{y}] return %y }}" for operands, node, y in nodes]
    graphs = [parse_graph(text, lookup) for text in texts]
    built = [compiled_graph(g, "O0", f"net{i}", target=target) for i, g in enumerate(graphs)]
    library = CaseLibrary(tmp_path, built, [*resolve(target).c_flags, *STRICT_WARNINGS, "-O2"]).build()
    for graph, b in zip(graphs, built, strict=True):
        for value in (0.02, 0.3, 1.1):
            inputs = {v.name: np.full(v.shape, value, dtype=np.float32) for v in graph.inputs}
            (got,) = library.run(b, inputs)
            wide = graph.evaluate({n: a.astype(np.float64) for n, a in inputs.items()}, wide=True)
            error = np.abs(got / wide[graph.outputs[0].name] - 1).max()
            assert error < MOST, f"{graph.nodes[0].op} on {graph.inputs}: {error:.3g}"
