"""`exact` leaves out the passes that may round otherwise, and those only."""

from __future__ import annotations

import numpy as np

from mccompile.driver import Options, optimize
from mccompile.ir.graph_text import parse_graph
from mccompile.ops.registry import lookup
from mccompile.passes.manager import exact_only, passes, rounding, run_passes
from mccompile.passes.pipeline import PIPELINES
from mccompile.search.state import Compilation
from mccompile.targets.target import resolve
from tests.support.graphs import difference
from tests.support.random_graphs import random_graph

SOFTMAX = """graph @g(%x: f32[2,4]) {
  %m = reduce(%x) {mode='max', axes=(1,)} : f32[2,1]
  %d = map(%x, %m) {expr={exp((x0 - x1))}} : f32[2,4]
  %s = reduce(%d) {mode='sum', axes=(1,)} : f32[2,1]
  %y = map(%d, %s) {expr={(x0 / x1)}} : f32[2,4]
  return %y
}"""


def _compilation(exact: bool, level: str = "O2") -> Compilation:
    graph = parse_graph(SOFTMAX, lookup)
    options = Options(target="generic", opt_level=level, exact=exact)
    return Compilation("g", "0" * 64, options, resolve("generic"), graph, [])


def test_the_option_leaves_out_what_rounds() -> None:
    c, other = _compilation(exact=True), _compilation(exact=False)
    optimize(c)
    optimize(other)
    assert [r.name for r in c.passes] == list(exact_only(PIPELINES["O2"]))
    assert {n.op.name for n in other.graph.nodes} == {"softmax"}
    assert {n.op.name for n in c.graph.nodes} == {"reduce", "map"}


def test_what_rounds_is_known_and_runs_from_o2_on() -> None:
    assert {"fold-affine", "recognize-softmax", "recognize-normalization", "compose-products"} <= rounding()
    assert not rounding() & {"canonicalize", "fold-constants", "compose-movement", "simplify-movement"}
    assert rounding() <= set(passes())
    assert not rounding() & set(PIPELINES["O1"])
    # Weights double, planes and operands are copied, one step becomes two.
    larger = {"widen-f16", "im2col", "col2im", "separate-averages", "separate-resizes", "fold-strides"}
    larger |= {"flatten-volumes", "narrow-products", "reduce-rows"}
    for level, left_out in (("O2", set()), ("O3", set()), ("Os", larger)):
        assert rounding() - set(PIPELINES[level]) == left_out, level


def test_the_exact_passes_keep_every_bit_in_f32() -> None:
    tried = 0
    for seed in range(60):
        drawn = random_graph(seed)
        values = [*drawn.graph.inputs, *(r for n in drawn.graph.nodes for r in n.results)]
        if any(v.dtype.name == "f16" for v in values):
            continue
        before = drawn.graph.evaluate(drawn.inputs)
        run_passes(drawn.graph, exact_only(PIPELINES["O3"]))
        assert difference(before, drawn.graph.evaluate(drawn.inputs)) == 0, f"seed {seed}"
        tried += 1
    assert tried > 30


def test_passes_that_round_do_change_bits() -> None:
    """Else the option would be for nothing."""
    changed = 0
    for seed in range(60):
        drawn = random_graph(seed)
        before = drawn.graph.evaluate(drawn.inputs)
        run_passes(drawn.graph, PIPELINES["O3"])
        after = drawn.graph.evaluate(drawn.inputs)
        pairs = zip(before.values(), after.values(), strict=True)
        changed += any(not np.array_equal(a, b, equal_nan=True) for a, b in pairs)
    assert changed > 5
