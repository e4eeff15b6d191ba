"""Random graphs: no pass, no level, no printing and no generated code changes what a graph means."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from mccompile.ir.graph import Graph
from mccompile.ir.graph_text import arrays, parse_graph, print_graph
from mccompile.ops.registry import lookup
from mccompile.passes.analysis.weight_forms import EVERY
from mccompile.passes.manager import passes, rounding, run_passes
from mccompile.passes.pipeline import PIPELINES
from mccompile.targets.target import STRICT_WARNINGS, resolve
from tests.support.compiled import compiled_graph
from tests.support.draw import SeededDraw
from tests.support.graphs import Arrays, difference, random_inputs
from tests.support.opcases import CaseLibrary
from tests.support.random_graphs import random_graph

SEEDS = range(220)
C_SEEDS = range(48)
LEVELS = ("O0", "O3", "Os")

_COMPUTING = ("fold-constants", "canonicalize", "move-maps-over-movement")
CONSTANTS_ROUNDED = dict.fromkeys(_COMPUTING, 1e-6) | dict.fromkeys(rounding(), 1e-5)
"""Passes that compute constants, which are f32: so far may the meaning in float64 move. The others keep it."""

OTHER_PRODUCTS = ("fuse-siblings", "enlarge-windows", "simplify-movement")
"""Passes that change how wide a product is, or which operand is transposed: numpy sums it in another order then."""

NEED_LARGE_VALUES = (
    "stream-rows", "reduce-rows", "separate-pools", "separate-averages", "separate-resizes", "fold-strides",
)  # fmt: skip
"""Passes that leave alone what fits into a cache, or is narrower than a few vectors, as in random graphs; they have
tests of their own."""

OF_COMPUTED_WEIGHTS = ("im2col", "col2im")
"""Passes on weights of the run: those of random graphs are constants (tests/passes/test_im2col.py draws others, and
test_col2im.py)."""

OF_RECURRENT_NETWORKS = ("recognize-recurrent",)
"""Passes that look for cells, of which random graphs have none (tests/passes/test_recurrent_cells.py draws them)."""

OF_EXTREMES = ("join-extremes",)
"""Passes that look for the least and the largest element of one value, which random graphs seldom ask for both
(tests/passes/join_extremes.mcir, tests/kernels/test_extremes.py)."""

OF_EXTENTS = ("tabulate-extents",)
"""Passes on extents of the run, of which random graphs have none (tests/passes/tabulate_extents.mcir)."""

OF_QUANTISED_NETWORKS = (
    "pair-channels",
    *(name for name, run in passes().items() if run.__module__.startswith("mccompile.passes.quant.")),
)
"""Passes that look for bytes that stand for floats, of which random graphs have none; quantised networks are judged
layer by layer (tests/check/test_ties.py), and these passes one by one (the .mcir files of tests/passes)."""

BEHIND_OTHERS = ("store-halves", "band-attention", "fold-score-scales", "share-heads", "round-products")
"""Passes that look for what others write: rounded operands (tests/passes/store_halves.mcir), attention
(band_attention.mcir, fold_score_scales.mcir, share_heads.mcir), and products in one map with sums and steps
(round_products.mcir)."""

HALF_CONSTANTS_ROUNDED = 4e-3
"""The same where a constant may be f16, as `NARROWING` makes them here, or what it is multiplied by."""

NARROWING = ("narrow-weights", "narrow-products")

ROUNDED_ONCE = 2e-2
"""Graphs with f16: fused operators round once where they rounded each time."""


@functools.cache
def meaning(seed: int, wide: bool) -> Arrays:
    """The outputs of a drawn graph, which many tests compare with."""
    drawn = random_graph(seed)
    return drawn.graph.evaluate(drawn.inputs, wide=wide)


def _has_half(graph: Graph) -> bool:
    values = [*graph.inputs, *(r for n in graph.nodes for r in n.results)]
    return any(v.dtype.name == "f16" for v in values)


@pytest.mark.parametrize("name", sorted(passes()))
def test_each_pass_keeps_the_meaning(name: str) -> None:
    changes = 0
    for seed in SEEDS:
        drawn = random_graph(seed)
        graph, wide, narrow = drawn.graph, meaning(seed, wide=True), meaning(seed, wide=False)
        half = {EVERY: "f16"}
        (record,) = run_passes(graph, [name], target=resolve("x86-64-v4"), weights=half, precision=half)
        changes += record.changes
        error = difference(wide, graph.evaluate(drawn.inputs, wide=True), floor=1)
        bound = CONSTANTS_ROUNDED.get(name, 1e-9)
        if bound > 1e-9 and (_has_half(graph) or name in NARROWING):
            bound = HALF_CONSTANTS_ROUNDED
        assert error <= bound, f"seed {seed}: {error}\n{print_graph(graph)}"
        if name in rounding() or (name == "fuse-groups" and _has_half(graph)):
            continue
        same = difference(narrow, graph.evaluate(drawn.inputs), floor=1)
        allowed = 1e-6 if name in OTHER_PRODUCTS else 0
        assert same <= allowed, f"seed {seed} is off by {same} in f32\n{print_graph(graph)}"
    networks = (*OF_RECURRENT_NETWORKS, *OF_EXTENTS, *OF_EXTREMES, *OF_QUANTISED_NETWORKS, *OF_COMPUTED_WEIGHTS)
    elsewhere = (*NEED_LARGE_VALUES, *networks, *BEHIND_OTHERS)
    assert changes > 5 or name in elsewhere, f"{name} changed next to nothing: the graphs do not test it"


@pytest.mark.parametrize("level", sorted(PIPELINES))
def test_each_level_keeps_the_meaning_and_the_interface(level: str) -> None:
    for seed in SEEDS:
        drawn = random_graph(seed)
        graph, before = drawn.graph, meaning(seed, wide=True)
        signature = [(v.name, v.type) for v in (*graph.inputs, *graph.outputs)]
        run_passes(graph, PIPELINES[level])
        assert [(v.name, v.type) for v in (*graph.inputs, *graph.outputs)] == signature, f"seed {seed}"
        error = difference(before, graph.evaluate(drawn.inputs, wide=True), floor=1)
        bound = HALF_CONSTANTS_ROUNDED if _has_half(drawn.graph) else 2e-5
        assert error < bound, f"seed {seed}: {error}\n{print_graph(graph)}"


@pytest.mark.parametrize("level", ["O0", "O3"])
def test_text_round_trips(level: str) -> None:
    for seed in SEEDS:
        drawn = random_graph(seed)
        run_passes(drawn.graph, PIPELINES[level])
        text = print_graph(drawn.graph)
        again = parse_graph(text, lookup, arrays(drawn.graph))
        assert print_graph(again) == text
        assert difference(drawn.graph.evaluate(drawn.inputs), again.evaluate(drawn.inputs)) == 0, f"seed {seed}"


def test_a_pass_is_idempotent_on_what_the_pipeline_leaves() -> None:
    """Cleaning a second time finds nothing: the pipeline's order leaves no work behind."""
    left = 0
    for seed in SEEDS:
        graph = random_graph(seed).graph
        run_passes(graph, PIPELINES["O2"])
        left += sum(r.changes for r in run_passes(graph, PIPELINES["O1"]))
    assert left <= len(SEEDS) // 10


# -- generated C -------------------------------------------------------------------------------------------
def _check_c(seeds: Sequence[int], folder: Path, nodes: int = 12) -> None:
    """Every level of every seed in one C file; each is run twice, on an arena of 0xFF and other inputs."""
    built = [
        compiled_graph(random_graph(seed, nodes).graph, level, f"g{seed}_{level.lower()}", seed)
        for seed in seeds
        for level in LEVELS
    ]
    flags = [f for f in resolve("generic").c_flags if not f.startswith("-O")]
    library = CaseLibrary(folder, built, [*flags, "-O1", *STRICT_WARNINGS]).build()
    references = {seed: random_graph(seed, nodes) for seed in seeds}
    for b in built:
        drawn = references[b.seed]
        for inputs in (drawn.inputs, {n: -a for n, a in drawn.inputs.items()}):
            want = drawn.graph.evaluate(inputs)
            got = dict(zip(want, library.run(b, inputs), strict=True))
            error = difference(want, got, floor=1)
            bound = ROUNDED_ONCE if _has_half(drawn.graph) else 1e-4
            assert error < bound, f"{b.facts.name}: {error}\n{print_graph(drawn.graph)}"


def test_generated_c_means_the_same_at_every_level(tmp_path: Path) -> None:
    _check_c(C_SEEDS, tmp_path)


def test_an_output_that_is_a_reshape_of_an_output_is_copied(tmp_path: Path) -> None:
    """Both have memory of their own, also where a third value is a reshape of the second."""
    text = """graph @g(%x: f32[6]) {
      %a = map(%x) {expr={relu(x0)}} : f32[6]
      %b = reshape(%a) {shape=(6, 1)} : f32[6,1]
      %c = reshape(%b) {shape=(1, 6)} : f32[1,6]
      %d = matmul(%b, %c) : f32[6,6]
      return %a, %b, %d
    }"""
    built = [compiled_graph(parse_graph(text, lookup), level, f"g_{level.lower()}") for level in LEVELS]
    library = CaseLibrary(tmp_path, built, [*resolve("generic").c_flags, *STRICT_WARNINGS]).build()
    inputs = {"x": SeededDraw(0).array((6,))}
    want = parse_graph(text, lookup).evaluate(inputs)
    for b in built:
        assert difference(want, dict(zip(want, library.run(b, inputs), strict=True))) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1400, 40))
def test_generated_c_means_the_same_on_many_larger_graphs(first: int, tmp_path: Path) -> None:
    _check_c(range(first, first + 40), tmp_path, nodes=25)


@pytest.mark.slow
def test_passes_in_any_order_keep_the_meaning() -> None:
    """Ten passes drawn at random, on 1000 graphs."""
    for seed in range(5000, 6000):
        drawn = random_graph(seed, 20)
        graph, before = drawn.graph, drawn.graph.evaluate(drawn.inputs, wide=True)
        draw = SeededDraw(seed)
        names = [draw.choice(sorted(passes())) for _ in range(10)]
        run_passes(graph, names)
        error = difference(before, graph.evaluate(drawn.inputs, wide=True), floor=1)
        assert error < (HALF_CONSTANTS_ROUNDED if _has_half(graph) else 5e-5), f"seed {seed}, {names}: {error}"


# -- the tests themselves ----------------------------------------------------------------------------------
def test_graphs_have_what_they_are_meant_to_have() -> None:
    drawn = [random_graph(seed).graph for seed in SEEDS]
    names = {n.op.name for g in drawn for n in g.nodes}
    assert {"conv", "conv_transpose", "matmul", "pool", "reduce", "map", "concat", "slice", "split", "pad"} <= names
    assert {"f16", "f32", "i32", "i64"} <= {v.dtype.name for g in drawn for v in g.outputs}
    assert sum(len(g.outputs) > 1 for g in drawn) > 30
    assert sum(any(len(users) > 1 for users in g.users().values()) for g in drawn) > 60


def test_a_planted_wrong_pass_is_found() -> None:
    found = 0
    for seed in SEEDS:
        drawn = random_graph(seed)
        before = drawn.graph.evaluate(drawn.inputs, wide=True)
        spoiled = copy.deepcopy(drawn.graph)
        for v, a in spoiled.constants.items():
            if v.dtype.is_float and isinstance(a, np.ndarray):
                spoiled.constants[v] = a * a.dtype.type(1.01)
        found += difference(before, spoiled.evaluate(drawn.inputs, wide=True), floor=1) > 1e-4
    assert found > 40


def test_random_inputs_are_reproducible() -> None:
    graph = random_graph(3).graph
    assert difference(random_inputs(graph, 5), random_inputs(graph, 5)) == 0
