"""What a graph computes in numpy."""

from __future__ import annotations

import numpy as np

from mccompile.ir.graph_text import parse_graph
from mccompile.ops.registry import lookup

TEXT = """graph @g extents(n=1..7) (%which: bool[1], %x: f32[n]) {
  %y = if(%which, %x) regions {
    graph @then extents(n=1..7) (%p: f32[n]) {
      %t = map(%p) {expr={neg(x0)}} : f32[n]
      return %t
    }
    graph @else extents(n=1..7) (%q: f32[n]) {
      return %q
    }
  } : f32[n]
  return %y
}
"""


def test_graphs_inside_of_nodes_know_the_extents_of_the_run() -> None:
    graph = parse_graph(TEXT, lookup)
    x = np.arange(3, dtype=np.float32)
    for which, want in ((True, -x), (False, x)):
        (got,) = graph.evaluate({"which": np.array([which]), "x": x}, extents={"n": 3}).values()
        np.testing.assert_array_equal(got, want)
