"""Maps, softmax, normalisation and reductions over tensors in any order of storage, on vectors."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from mccompile.ir.graph import Graph
from mccompile.ir.graph_text import parse_graph
from mccompile.ops.registry import lookup
from mccompile.targets.target import STRICT_WARNINGS, resolve
from tests.kernels.test_variants import kernels_of
from tests.support.compiled import compiled_graph
from tests.support.opcases import CaseLibrary, mismatch
from tests.support.targets import WIDE, needs_target

FULL = "2,19,5,6"
LAYOUTS = ["", ":nhwc", ":(2,0,3,1)", ":(3,2,1,0)"]
NODES = [
    ("map(%a, %b, %s) {expr={sigmoid(x0) * x1 + x2}}", FULL),
    ("softmax(%a) {axis=1, mode='soft'}", FULL),
    ("softmax(%a) {axis=3, mode='log'} with(%b) post0{ acc * x0 }", FULL),
    ("normalize(%a) {axes=(1,), epsilon=1e-05} with(%s) post0{ acc + x0 }", FULL),
    ("normalize(%a) {axes=(2, 3), epsilon=1e-05} with(%s, %b) post0{ acc * x0 + x1 }", FULL),
    ("normalize(%a) {axes=(1, 2, 3), epsilon=1e-05, center=False}", FULL),
    ("reduce(%a) {mode='sum', axes=(2, 3)} with(%b, %s) pre0{ acc * x0 } post0{ abs(acc) + x1 }", "2,19,1,1"),
    ("reduce(%a) {mode='max', axes=(1,)}", "2,1,5,6"),
    ("reduce(%a) {mode='sum', axes=(0, 1)}", "1,1,5,6"),
]


def network(node: str, shape: str, first: str, second: str) -> Graph:
    """A node between values that are stored as two layouts say, and what turns row-major ones into these and back."""
    return parse_graph(
        f"""graph @net(%x: f32[{FULL}], %z: f32[{FULL}], %s: f32[19,1,1]) {{
          %a = map(%x) {{expr={{x0}}}} : f32[{FULL}]{first}
          %b = map(%z) {{expr={{x0}}}} : f32[{FULL}]{second}
          %r = {node} : f32[{shape}]{second}
          %y = map(%r) {{expr={{x0 * 2.0}}}} : f32[{shape}]
          %c = map(%b) {{expr={{x0 + 1.0}}}} : f32[{FULL}]
          return %y, %c }}""",
        lookup,
    )


@pytest.mark.parametrize("target", WIDE)
def test_any_layouts(target: str, tmp_path: Path) -> None:
    needs_target(target)
    pairs = [*zip(LAYOUTS, LAYOUTS, strict=True), *itertools.pairwise(LAYOUTS), (LAYOUTS[-1], "")]
    graphs = [network(*node, first, second) for node in NODES for first, second in pairs]
    built = [compiled_graph(g, "O1", f"net{i}", target=target) for i, g in enumerate(graphs)]
    flags = [*resolve(target).c_flags, *STRICT_WARNINGS, "-O1"]
    library = CaseLibrary(tmp_path, built, flags).build()
    rng = np.random.default_rng(3)
    used = set()
    for graph, b in zip(graphs, built, strict=True):
        inputs = {v.name: rng.standard_normal(v.shape).astype(np.float32) for v in graph.inputs}
        wanted = graph.evaluate(inputs)
        for got, name in zip(library.run(b, inputs), (v.name for v in graph.outputs), strict=True):
            assert not mismatch(got, wanted[name], 5e-6), f"{graph.nodes}: {mismatch(got, wanted[name], 5e-6)}"
        used |= kernels_of(b)
    assert used >= {"map.vector", "softmax.vector", "normalize.vector", "reduce.vector"}
