"""Prologues beside the operators of every template: any text of C must be one operand there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mccompile.codegen.c_expr import bare, wrapped
from mccompile.ir.graph import Graph
from mccompile.ir.graph_text import parse_graph
from mccompile.ops.registry import lookup
from mccompile.targets.target import STRICT_WARNINGS, resolve
from tests.support.compiled import compiled_graph
from tests.support.opcases import CaseLibrary, mismatch

BODIES = [
    "select(lt(acc, 0.0), acc * 0.5, acc)",  # c ? a : b
    "acc + x0",
    "acc - x0",
    "neg(acc)",
    "f32(lt(acc, x0))",  # a cast
]
PLANE = "2,4,7,6"
NODES = [
    ("softmax(%x) {axis=3, mode='soft'}", "2,4,7,6"),
    ("softmax(%x) {axis=1, mode='log'}", "2,4,7,6"),
    ("softmax(%x) {axis=3, mode='hard'}", "2,4,7,6"),
    ("normalize(%x) {axes=(2, 3), epsilon=0.01}", "2,4,7,6"),
    ("normalize(%x) {axes=(1,), epsilon=0.01, center=False}", "2,4,7,6"),
    ("normalize(%x) {axes=(3,), epsilon=0.01, center=False, floor=True}", "2,4,7,6"),
    ("reduce(%x) {mode='sum', axes=(1, 3)}", "2,1,7,1"),
    ("reduce(%x) {mode='prod', axes=(2,)}", "2,4,1,6"),
    ("reduce(%x) {mode='max', axes=(3,)}", "2,4,7,1"),
    ("reduce(%x) {mode='min', axes=(0,)}", "1,4,7,6"),
    ("pool(%x) {mode='average', kernel=(2, 2), strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}", "2,4,6,5"),
    ("pool(%x) {mode='max', kernel=(2, 2), strides=(2, 2), pads=(0, 0, 1, 1), dilations=(1, 1)}", "2,4,4,3"),
    ("conv(%x, %w) {strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)}", "2,3,7,6"),
    (
        "conv_transpose(%x, %t) {strides=(2, 1), pads=(0, 0, 0, 0), dilations=(1, 1), output_padding=(0, 0)}",
        "2,2,15,8",
    ),
    ("matmul(%x, %m)", "2,4,7,5"),
]


def network(node: str, shape: str, body: str) -> Graph:
    extras = "with(%s)" if "x0" in body else ""
    return parse_graph(
        f"""graph @net(%x: f32[{PLANE}], %s: f32[{PLANE}], %w: f32[3,4,3,3], %t: f32[4,2,3,3], %m: f32[6,5]) {{
          %y = {node} {extras} pre0{{ {body} }} : f32[{shape}]
          return %y }}""",
        lookup,
    )


@pytest.mark.parametrize("target", ["generic", "native"])
def test_prologues_are_one_operand(target: str, tmp_path: Path) -> None:
    graphs = [network(*node, body) for node in NODES for body in BODIES]
    built = [compiled_graph(g, "O0", f"net{i}", target=target) for i, g in enumerate(graphs)]
    library = CaseLibrary(tmp_path, built, [*resolve(target).c_flags, *STRICT_WARNINGS, "-O1"]).build()
    rng = np.random.default_rng(8)
    for graph, b in zip(graphs, built, strict=True):
        inputs = {v.name: rng.standard_normal(v.shape).astype(np.float32) for v in graph.inputs}
        (got,), (want,) = library.run(b, inputs), graph.evaluate(inputs).values()
        assert not mismatch(got, want, 1e-5), f"{graph.nodes}: {mismatch(got, want, 1e-5)}"


@pytest.mark.parametrize(
    ("text", "beside"),
    [
        ("x0[f(i) * 3]", "x0[f(i) * 3]"),
        ("f(a - (b + c))", "f(a - (b + c))"),
        ("f(a) + g(b)", "(f(a) + g(b))"),
        ("(a) + (b)", "((a) + (b))"),
        ("(float)x", "((float)x)"),
        ("(float)(x)", "((float)(x))"),
        ("-1.5f", "(-1.5f)"),
        ("(c ? a : b)", "(c ? a : b)"),
        ("c ? a : b", "(c ? a : b)"),
        ("1.5f", "1.5f"),
    ],
)
def test_text_beside_operators(text: str, beside: str) -> None:
    assert wrapped(text) == beside
    assert wrapped(beside) == beside
    assert wrapped(bare(text)) == beside
