"""Prologues beside the operators of every template: any text of C must be one operand there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

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
    ("normalize(%x) {axes=(1,), epsilon=0.0, center=False, of_sum=True}", "2,4,7,6"),
    ("normalize(%x) {axes=(3,), epsilon=0.01, center=False, floor=True, of_sum=True}", "2,4,7,6"),
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


ABSENT = "select(lt(1.0, 0.0), acc, 2.0)"  # of O0, nothing folds it; the front ends of ONNX may
IGNORING = ["2.0", "x0 + 1.0", ABSENT]
"""Bodies that do without the value: what a template names for it must not be left unused."""


def ignoring_network(node: str, shape: str, body: str, where: str) -> Graph:
    extra = shape if where == "post0" else PLANE
    beside = "with(%s)" if "x0" in body else ""
    return parse_graph(
        f"""graph @net(%x: f32[{PLANE}], %s: f32[{extra}], %w: f32[3,4,3,3], %t: f32[4,2,3,3], %m: f32[6,5]) {{
          %y = {node} {beside} {where}{{ {body} }} : f32[{shape}]
          return %y }}""",
        lookup,
    )


@pytest.mark.parametrize("where", ["pre0", "post0"])
@pytest.mark.parametrize("target", ["generic", "x86-64-v3"])
def test_a_body_may_do_without_the_value(target: str, where: str, tmp_path: Path) -> None:
    """Every kernel builds with warnings as errors: a choice between constants leaves no name unused."""
    graphs = [ignoring_network(*node, body, where) for node in NODES for body in IGNORING]
    graphs.append(
        parse_graph(
            f"""graph @net(%x: f32[{PLANE}]) {{
              %y = map(%x) {{expr={{x0 + 1.0}}}} post0{{ 2.0 }} : f32[{PLANE}]
              return %y }}""",
            lookup,
        )
    )
    built = [compiled_graph(g, "O0", f"net{i}", target=target) for i, g in enumerate(graphs)]
    library = CaseLibrary(tmp_path, built, [*resolve(target).c_flags, *STRICT_WARNINGS, "-O1"]).build()
    rng = np.random.default_rng(8)
    for graph, b in zip(graphs, built, strict=True):
        inputs = {v.name: rng.standard_normal(v.shape).astype(np.float32) for v in graph.inputs}
        (got,), (want,) = library.run(b, inputs), graph.evaluate(inputs).values()
        assert not mismatch(got, want, 1e-5), f"{graph.nodes}: {mismatch(got, want, 1e-5)}"


@pytest.mark.parametrize("target", ["generic", "native"])
@pytest.mark.parametrize("scale", ["6,5", "1,5", "6,1", "1,1"])
def test_what_a_prologue_of_one_matrix_reads_is_for_all_images(scale: str, target: str, tmp_path: Path) -> None:
    """A matrix for all images is read with their axes, and so is what stands beside it."""
    graph = parse_graph(
        f"""graph @net(%x: f32[{PLANE}], %m: f32[6,5], %s: f32[{scale}]) {{
          %y = matmul(%x, %m) with(%s) pre1{{ (acc - x0) }} : f32[2,4,7,5]
          return %y }}""",
        lookup,
    )
    built = [compiled_graph(graph, "O0", "net", target=target)]
    library = CaseLibrary(tmp_path, built, [*resolve(target).c_flags, *STRICT_WARNINGS]).build()
    rng = np.random.default_rng(5)
    inputs = {v.name: rng.standard_normal(v.shape).astype(np.float32) for v in graph.inputs}
    (got,) = library.run(built[0], inputs)
    np.testing.assert_allclose(got, inputs["x"] @ (inputs["m"] - inputs["s"]), rtol=1e-5, atol=1e-5)
