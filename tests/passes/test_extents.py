"""Passes on graphs with extents that are known at run time only: those that see such nodes (`passes/hiding.py`) do
what they do for numbers, or say what they cannot know.

What the graphs mean is told by running them: `tests/run/test_extents.py`.
"""

from __future__ import annotations

import numpy as np
import pytest

from mccompile.ir.dims import symbol
from mccompile.ir.graph_text import parse_graph, print_graph
from mccompile.ops.registry import lookup
from mccompile.passes.manager import run_passes
from mccompile.passes.movement.move_maps_over_reshapes import shared_blocks
from mccompile.targets.target import resolve
from tests.support.graphs import fill_constants

HEAD = "graph @g extents(n=1..9, s=1..40)"
CASES = {
    "fold-affine": (
        """(%x: f32[n,s,4]) {
  %w = const : f32[4,5] ; sha256=0
  %h = const [0.5] : f32[]
  %p = matmul(%x, %w) : f32[n,s,5]
  %y = map(%p, %h) {expr={(x0 * x1)}} : f32[n,s,5]
  return %y
}""",
        "%y = matmul(%x, %w.scaled) : f32[n,s,5]",
    ),
    "fold-affine-before": (
        """(%x: f32[n,s,4]) {
  %w = const : f32[4,5] ; sha256=0
  %h = const [0.5] : f32[]
  %p = map(%x, %h) {expr={(x0 * x1)}} : f32[n,s,4]
  %y = matmul(%p, %w) : f32[n,s,5]
  return %y
}""",
        "%y = matmul(%x, %w.scaled) : f32[n,s,5]",
    ),
    "fold-pads": (
        """(%x: f32[n,4,s,9]) {
  %w = const : f32[5,4,3,3] ; sha256=0
  %p = pad(%x) {pads=(0, 0, 0, 0, 0, 0, 1, 1)} : f32[n,4,s+1,10]
  %y = conv(%p, %w) {strides=(1, 1), pads=(1, 1, 0, 0), dilations=(1, 1)} : f32[n,5,s,9]
  return %y
}""",
        "conv(%x, %w) {strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)}",
    ),
    "move-maps-over-movement": (
        """(%x: f32[n,s,4], %w: f32[4,5]) {
  %p = matmul(%x, %w) : f32[n,s,5]
  %t = transpose(%p) {perm=(0, 2, 1)} : f32[n,5,s]
  %y = map(%t) {expr={abs(x0)}} : f32[n,5,s]
  return %y
}""",
        "= transpose(%y.early)",
    ),
    "integer-products": (
        """(%q: i8[n,4,8,8]) {
  %w = const : i8[5,4,3,3] ; sha256=0
  %x = map(%q) {expr={(f32(x0) * 0.5)}} : f32[n,4,8,8]
  %f = map(%w) {expr={(f32(x0) * 0.25)}} : f32[5,4,3,3]
  %y = conv(%x, %f) {strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)} : f32[n,5,8,8]
  return %y
}""",
        "conv(%q, %w)",
    ),
    "fuse-prologues": (
        """(%x: f32[n,s,4]) {
  %p = map(%x) {expr={abs(x0)}} : f32[n,s,4]
  %y = reduce(%p) {mode='sum', axes=(1,)} : f32[n,1,4]
  return %y
}""",
        "%y = reduce(%x) {mode='sum', axes=(1,)} pre0{ abs(acc) } : f32[n,1,4]",
    ),
    "recognize-attention": (
        """(%q: f32[n,2,s,4], %k: f32[n,2,4,s], %v: f32[n,2,s,5]) {
  %p = matmul(%q, %k) : f32[n,2,s,s]
  %w = softmax(%p) {axis=3} : f32[n,2,s,s]
  %y = matmul(%w, %v) : f32[n,2,s,5]
  return %y
}""",
        "%y = attention(%q, %k, %v) {score={x0}} : f32[n,2,s,5]",
    ),
    "recognize-softmax": (
        """(%x: f32[n,s]) {
  %e = map(%x) {expr={exp(x0)}} : f32[n,s]
  %t = reduce(%e) {mode='sum', axes=(1,)} : f32[n,1]
  %y = map(%e, %t) {expr={(x0 / x1)}} : f32[n,s]
  return %y
}""",
        "%y = softmax(%x) {axis=1",
    ),
    "recognize-normalization": (
        """(%x: f32[n,4,8]) {
  %m = reduce(%x) {mode='sum', axes=(2,)} post0{ (acc / 8.0) } : f32[n,4,1]
  %c = map(%x, %m) {expr={(x0 - x1)}} : f32[n,4,8]
  %v = reduce(%c) {mode='sum', axes=(2,)} pre0{ (acc * acc) } post0{ (acc / 8.0) } : f32[n,4,1]
  %r = map(%v) {expr={sqrt((x0 + 1.0e-5))}} : f32[n,4,1]
  %y = map(%c, %r) {expr={(x0 / x1)}} : f32[n,4,8]
  return %y
}""",
        "%y = normalize(%x) {axes=(2,), epsilon=",
    ),
    "simplify-movement": (
        """(%x: f32[n,s,4], %z: f32[n,s,4]) {
  %t = transpose(%z) {perm=(0, 2, 1)} : f32[n,4,s]
  %y = matmul(%x, %t) : f32[n,s,s]
  return %y
}""",
        "%y = matmul(%x, %z) {trans_b=True} : f32[n,s,s]",
    ),
    "choose-layouts": (
        """(%x: f32[n,32,s,16]) {
  %w = const : f32[64,32,3,3] ; sha256=0
  %v = const : f32[64,64,3,3] ; sha256=0
  %a = conv(%x, %w) {strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)} : f32[n,64,s,16]
  %y = conv(%a, %v) {strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)} : f32[n,64,s,16]
  return %y
}""",
        ": f32[n,64,s,16]:nhwc",
    ),
}


def _after(name: str, text: str) -> str:
    graph = parse_graph(f"{HEAD} {text}", lookup)
    fill_constants(graph, seed=2)
    records = run_passes(graph, [name], target=resolve("x86-64-v3"))
    return print_graph(graph) + "".join(f"// {line}\n" for r in records for line in r.remarks)


@pytest.mark.parametrize("name", CASES)
def test_a_pass_does_for_extents_what_it_does_for_numbers(name: str) -> None:
    text, wanted = CASES[name]
    assert wanted not in f"{HEAD} {text}"
    found = _after(name, text)
    assert wanted in found, found


def test_the_root_of_a_sum_over_an_extent_is_no_mean() -> None:
    """The number that the sum would be divided by is not known."""
    found = _after("recognize-normalization", """(%x: f32[2,s]) {
  %v = reduce(%x) {mode='sum', axes=(1,)} pre0{ (acc * acc) } : f32[2,1]
  %r = map(%v) {expr={sqrt(x0)}} : f32[2,1]
  %y = map(%x, %r) {expr={(x0 / x1)}} : f32[2,s]
  return %y
}""")
    assert "how many elements belong together is known at run time only" in found


def test_runs_of_axes_with_extents_that_may_be_0_have_an_end() -> None:
    """An extent of 0 or 1 is never taken for one of 1."""
    n = symbol("n", 0, 1)
    assert shared_blocks((1, n, 1), (n, 1)) == [(range(2), range(1)), (range(2, 3), range(1, 2))]
    assert shared_blocks((0, 3), (0, 5)) == [(range(1), range(1)), (range(1, 2), range(1, 2))]
    assert shared_blocks((n, 1, 2), (2, n)) == [(range(3), range(2))]


@pytest.mark.parametrize("extents", [(4, 0), (0, 3)])
def test_a_pool_of_nothing_is_nothing(extents: tuple[int, int]) -> None:
    """What is n columns wide has none in some run, and is evaluated then."""
    pool = lookup("pool")("average", (1, 1), (1, 1), (0, 0, 0, 0), (1, 1))
    (made,) = pool.evaluate(np.ones((2, 3, *extents), np.float32))
    assert made.shape == (2, 3, *extents)
