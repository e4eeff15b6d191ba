"""Storage layouts: every kernel reads and writes any layout, for logical shapes never depend on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mccompile.ir.graph import Graph
from mccompile.ir.graph_text import parse_graph
from mccompile.ir.types import TensorType, parse_layout
from mccompile.ops.registry import lookup
from mccompile.targets.target import STRICT_WARNINGS
from tests.support.compiled import compiled_graph
from tests.support.opcases import CaseLibrary, mismatch

Arrays = dict[str, np.ndarray[Any, Any]]


def parse(text: str) -> Graph:
    return parse_graph(text, lookup)


def run(graph: Graph, folder: Path, inputs: Arrays) -> list[np.ndarray[Any, Any]]:
    """The outputs of a graph compiled as it is, built with strict warnings, on a poisoned arena."""
    built = compiled_graph(graph, "O0", "net")
    flags = [*built.compilation.target.c_flags, *STRICT_WARNINGS]
    return CaseLibrary(folder, [built], flags).build().run(built, inputs)


LAYOUTS = ["", ":nhwc", ":nchw4c", ":nchw16c", ":(3,2,1,0)"]


@pytest.mark.parametrize("first", LAYOUTS)
@pytest.mark.parametrize("second", LAYOUTS)
def test_convolution_pool_and_map_in_any_layouts(first: str, second: str, tmp_path: Path) -> None:
    """5 and 6 channels: blocks of 4 and 16 have tails, which may hold anything."""
    graph = parse(
        f"""graph @net(%x: f32[2,5,7,6], %w: f32[6,5,3,3], %b: f32[6,1,1]) {{
          %a = map(%x) {{expr={{x0}}}} : f32[2,5,7,6]{first}
          %c = conv(%a, %w) {{strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)}} with(%b)
               post0{{ relu(acc + x0) }} : f32[2,6,7,6]{second}
          %p = pool(%c) {{mode='max', kernel=(2, 2), strides=(2, 2), pads=(0, 0, 1, 0), dilations=(1, 1)}}
               : f32[2,6,4,3]{first}
          %y = map(%p) {{expr={{x0 * x0}}}} : f32[2,6,4,3]
          return %y }}"""
    )
    rng = np.random.default_rng(1)
    inputs = {v.name: rng.standard_normal(v.shape).astype(np.float32) for v in graph.inputs}
    (got,) = run(graph, tmp_path, inputs)
    assert not mismatch(got, graph.evaluate(inputs)["y"], 1e-6)


def test_relayout_keeps_every_element(tmp_path: Path) -> None:
    graph = parse(
        """graph @net(%x: i32[1,19,3,2]) {
          %a = map(%x) {expr={x0}} : i32[1,19,3,2]:nchw16c
          %b = map(%a) {expr={x0}} : i32[1,19,3,2]:nhwc
          %y = map(%b) {expr={x0}} : i32[1,19,3,2]
          return %y }"""
    )
    x = np.arange(19 * 6, dtype=np.int32).reshape(1, 19, 3, 2)
    (got,) = run(graph, tmp_path, {"x": x})
    assert not mismatch(got, x, 0)


def test_stored_shape_rounds_blocks_up() -> None:
    layout = parse_layout("nchw16c")
    t = TensorType(parse("graph @g(%x: f32[1]) { return %x }").inputs[0].dtype, (1, 19, 3, 2), layout)
    assert t.stored_shape == (1, 2, 3, 2, 16)
    assert t.nbytes == 4 * 192


@pytest.mark.parametrize("shapes", [("4,2,3,7", "2,4,3,7"), ("1,2,3,5", "1,3,2,5"), ("4,6,2,3", "4,2,9,2")])
@pytest.mark.parametrize("first", LAYOUTS)
@pytest.mark.parametrize("second", LAYOUTS)
def test_reshape_between_any_layouts(shapes: tuple[str, str], first: str, second: str, tmp_path: Path) -> None:
    """In the first pair both ends can be cut further, in the others no axes are common to both."""
    a, b = shapes
    graph = parse(
        f"""graph @net(%x: i32[{a}]) {{
          %a = map(%x) {{expr={{x0}}}} : i32[{a}]{first}
          %b = reshape(%a) {{shape=({b})}} : i32[{b}]{second}
          %y = map(%b) {{expr={{x0}}}} : i32[{b}]
          return %y }}"""
    )
    (value,) = graph.inputs
    x = np.arange(value.type.count, dtype=np.int32).reshape(value.shape)
    (got,) = run(graph, tmp_path, {"x": x})
    assert not mismatch(got, graph.evaluate({"x": x})["y"], 0)
