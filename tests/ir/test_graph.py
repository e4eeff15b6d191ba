"""What a graph computes in numpy."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from mccompile.ir.errors import CompileError
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


def test_arrays_are_gone_with_what_computed_them() -> None:
    """Nothing has to search for them: searches are rare while we compile; arrays are few objects of many bytes."""
    graph = parse_graph(TEXT, lookup)
    gc.collect()
    gc.disable()
    try:
        graph.evaluate({"which": np.array([True]), "x": np.ones(3, np.float32)}, extents={"n": 3})
        assert gc.collect() == 0
    finally:
        gc.enable()


OUTSIDE = """graph @g extents(n=2..7) (%x: f32[n], %i: i64[n]) {
  %y = gather_elements(%x, %i) {axis=0} : f32[n]
  return %y
}
"""


def test_what_has_no_meaning_says_where_and_for_which_extents() -> None:
    graph = parse_graph(OUTSIDE, lookup)
    given = {"x": np.ones(3, np.float32), "i": np.array([0, 4, 0])}
    with pytest.raises(CompileError) as e:
        graph.evaluate(given, extents={"n": 3})
    assert (e.value.rule, e.value.where) == (
        "index 4 is outside of an axis of extent 3", "gather_elements (y), where n is 3"
    )  # fmt: skip


def test_numbers_of_64_bits_are_rounded_where_the_expression_says_so() -> None:
    text = """graph @g (%x: f64[3]) {
      %y = map(%x) {expr={f64(round_f16(f32(x0)))}} : f64[3]
      %z = map(%x) {expr={f64(f32(x0))}} : f64[3]
      return %y, %z
    }"""
    x = np.array([1.97021508, 1 / 3, 65519.9])
    got = parse_graph(text, lookup).evaluate({"x": x})
    np.testing.assert_array_equal(got["y"], x.astype(np.float16).astype(np.float64))
    np.testing.assert_array_equal(got["z"], x.astype(np.float32).astype(np.float64))
    exact = parse_graph(text, lookup).evaluate({"x": x}, wide=True)
    np.testing.assert_array_equal(exact["y"], x)
