"""Scratch memory against tiles of few pixels: what takes less of the arena."""

from __future__ import annotations

import pytest

from mccompile.ir.graph_text import parse_graph
from mccompile.kernel_passes.pipeline import improve
from mccompile.lower.lower import lower
from mccompile.ops.registry import lookup
from mccompile.targets.target import resolve
from tests.support.graphs import fill_constants

DEPTHWISE = """graph @g(%x: f32[1,{c},{n},{n}]:nhwc) {{
  %w = const : f32[{c},1,3,3] ; sha256=00
  %y = conv(%x, %w) {{strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1), groups={c}}} : f32[1,{c},{n},{n}]:nhwc
  return %y
}}"""


@pytest.mark.parametrize(("channels", "extent", "taken"), [(8, 12, "narrow-tiles"), (64, 12, "buffer-pixels")])
def test_a_plane_is_kept_aside_only_where_small_tiles_take_more(channels: int, extent: int, taken: str) -> None:
    """12 x 12 pixels of 8 channels: a plane with its padding has 784 bytes, a line of small tiles 416."""
    graph = parse_graph(DEPTHWISE.format(c=channels, n=extent), lookup)
    fill_constants(graph, 1)
    target = resolve("cortex-m7")
    improved = improve(lower(graph, target).module, ("buffer-pixels", "narrow-tiles"), target)
    assert {r.name for r in improved.records if r.changes} == {taken}
