"""The number of zero of what is rounded to 16 bits, and how far floats may move it."""

from __future__ import annotations

import numpy as np

from mccompile.check.rounding import before_rounding, of_floats, zeros_of
from mccompile.ir.graph_text import parse_graph
from mccompile.ops.registry import lookup

GRAPH = """graph @g(%x: f32[2,6]) {
  %s = const [0.5, 0.25] : f32[2,1]
  %q = map(%x, %s) {expr={i16((rne((x0 / x1)) + 99.0))}} : i16[2,6]
  %b = map(%x) {expr={i8(rne(x0))}} : i8[2,6]
  %v, %i = topk(%q) {k=2, axis=1} : i16[2,2], i64[2,2]
  return %b, %v, %i
}"""


def test_zero_is_known_of_what_16_bits_are_made_of_by_elements() -> None:
    """Not of bytes, which floats do not move by a step; nor of what picks elements."""
    graph = parse_graph(GRAPH, lookup)
    assert zeros_of(graph, graph.nodes) == {"q": 99.0}


def test_how_far_floats_may_be_off_grows_with_the_channel_and_the_tensor() -> None:
    real = np.array([[99.0, 10099.0], [199.0, 99.0]])
    i16 = np.dtype(np.int16)
    limits = of_floats(real, 99.0, i16)
    assert np.allclose(limits, [[0.01 + 0.01 + 0.2, 1 + 0.01 + 0.2]] * 2, atol=1e-9)
    assert not of_floats(real, None, i16).any()


def test_what_is_cut_off_at_the_ends_of_the_type_is_no_larger() -> None:
    """But transforms, which have it before that, are off by more."""
    limits = of_floats(np.array([[1e6, 0.0]]), 0.0, np.dtype(np.uint16))
    assert np.allclose(limits, [[6.5535 + 0.065535 + 20, 0.065535 + 20]], atol=1e-6)


def test_what_an_epilogue_rounds_is_known_before_that() -> None:
    """And what a node has rounded on its way stays rounded."""
    text = """graph @g(%x: f32[1,2], %w: f32[2,2]) {
      %q = matmul(%x, %w) post0{ i8((rne((acc / 0.5)) + 3.0)) } : i8[1,2]
      %r = map(%x) {expr={u8(rne((f32(u8(rne((x0 / 0.5)))) * 0.3)))}} : u8[1,2]
      return %q, %r
    }"""
    graph = parse_graph(text, lookup)
    given = [np.array([[1, 2.2]], np.float32), np.array([[1, 0], [0.5, 1]], np.float32)]
    values = dict(zip(graph.inputs, given, strict=True))
    found = [before_rounding(n, values, n.evaluate(values)[0]) for n in graph.nodes]
    assert np.allclose(found, [[[4.2 + 3, 4.4 + 3]], [[2 * 0.3, 4 * 0.3]]], atol=1e-6)
