"""Which products `narrow-products` leaves in f32, where a kernel of f32 is faster."""

from __future__ import annotations

import pytest

from mccompile.ir.graph_text import parse_graph
from mccompile.ops.registry import lookup
from mccompile.passes.manager import run_passes
from mccompile.targets.target import resolve
from tests.support.graphs import fill_constants

TEXT = """
graph @g(%x: f32[1,64,56,56]) {
  %w0 = const : f32[64,64,1,1] ; sha256=0
  %w1 = const : f32[64,64,3,3] ; sha256=0
  %y0 = conv(%x, %w0) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)} : f32[1,64,56,56]:nhwc ; point
  %y1 = conv(%y0, %w1) {strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)} : f32[1,64,56,56]:nhwc ; window
  %y = relayout(%y1) : f32[1,64,56,56]
  return %y
}
"""


@pytest.mark.parametrize(
    ("target", "growth", "rounded"),
    [
        ("x86-64-v4-bf16", 16.0, ["point"]),  # Winograd takes 7 times the bytes of the window
        ("x86-64-v4-bf16", 2.0, ["point", "window"]),
        ("x86-64-v4-bf16", 0.0, ["point", "window"]),
        ("generic", 16.0, ["point", "window"]),  # it has no products of bf16 that f32 could be faster than
    ],
)
def test_f32_stays_where_winograd_is_faster_and_weights_may_grow(
    target: str, growth: float, rounded: list[str]
) -> None:
    graph = parse_graph(TEXT, lookup)
    fill_constants(graph, seed=1)
    names = ["narrow-products"]
    (record,) = run_passes(graph, names, target=resolve(target), precision={"*": "bf16"}, growth=growth)
    assert [n.origins[0] for n in graph.nodes if 0 in n.pre] == rounded
    assert record.changes == len(rounded)
    reasons = [miss.reason for miss in record.misses]
    assert reasons == ["conv.winograd of f32 is faster"] * (2 - len(rounded))
