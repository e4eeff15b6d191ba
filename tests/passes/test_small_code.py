"""Passes where code is to be small (-Os)."""

from __future__ import annotations

import pytest

from mccompile.ir import expr as ex
from mccompile.ir.graph_text import parse_graph
from mccompile.ops.registry import lookup
from mccompile.passes.manager import run_passes
from mccompile.passes.pipeline import PIPELINES
from mccompile.targets.target import at_level, resolve

SCALED = """graph @g(%x: f32[4], %q: i8[4]) {
  %s = const [0.5] : f32[]
  %t = const [0.25] : f32[]
  %y = map(%x, %s) {expr={(x0 * x1)}} : f32[4]
  %z = map(%q, %t) {expr={(f32(x0) * x1)}} : f32[4]
  return %y, %z
}"""


@pytest.mark.parametrize(("level", "operands"), [("Os", (2, 1)), ("O2", (1, 1))])
def test_scales_of_bytes_are_numbers_of_expressions(level: str, operands: tuple[int, int]) -> None:
    """Others stay operands where code is to be small: kernels that differ in them are one."""
    graph = parse_graph(SCALED, lookup)
    run_passes(graph, ["inline-scalars"], target=at_level(resolve("generic"), level))
    assert tuple(len(n.operands) for n in graph.nodes) == operands
    assert all(isinstance(n.op.elementwise, ex.Apply) for n in graph.nodes)


@pytest.mark.parametrize(("target", "level", "stored"), [
    *(("cortex-m4", level, True) for level in ("O1", "O2")), ("x86-64-v3", "Os", False), ("x86-64-v3", "O2", True),
])  # fmt: skip
def test_hosted_targets_keep_layouts_where_code_is_to_be_small(target: str, level: str, stored: bool) -> None:
    weights = ", ".join(["0.5"] * 16 * 16 * 9)
    graph = parse_graph(f"""graph @g(%x: f32[1,16,8,8]) {{
      %w = const [{weights}] : f32[16,16,3,3]
      %y = conv(%x, %w) {{strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)}} : f32[1,16,8,8]
      %z = conv(%y, %w) {{strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)}} : f32[1,16,8,8]
      return %z
    }}""", lookup)  # fmt: skip
    assert "choose-layouts" in PIPELINES[level]
    run_passes(graph, ["choose-layouts"], target=at_level(resolve(target), level))
    assert any(v.type.layout is not None for n in graph.nodes for v in n.results) == stored
