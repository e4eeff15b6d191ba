"""Kernels of bytes: sums of integers are those of the reference, bit for bit, whatever computes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from mccompile.driver import finish
from mccompile.ir.kernel import Call
from mccompile.kernels.conv.staged import PackedPairs, may_pair
from mccompile.run.build import run_compiler
from mccompile.targets.target import STRICT_WARNINGS, resolve, strict_warnings
from tests._skips import needs_sanitizers, needs_tool
from tests.kernels.integer_cases import (
    PIXELS,
    PLANES,
    PRODUCTS,
    ROWS,
    STAGED,
    Layer,
    built,
    compilation,
    conv,
    depthwise,
    graph_of,
    host,
    inputs_of,
)
from tests.support.harness import SANITIZERS, SPLIT, build
from tests.support.opcases import Built, CaseLibrary

ARITHMETICS = ("smlad", "mla", "narrow", "mve")
FAMILIES = {
    "conv.staged": ({"conv": "conv.staged"}, STAGED),
    "conv.planes": ({"conv": "conv.planes"}, PLANES),
    "matmul": ({"matmul": "conv.staged"}, PRODUCTS),
    "matmul.row": ({"matmul": "matmul.row"}, ROWS),
    "conv.row": ({"conv": "matmul.row"}, PIXELS),
}
GUARDED = [*STAGED[2:9:6], *STAGED[14:30:4], *PLANES[2:22:7], *PLANES[21:30:2], *ROWS[3:12:3]]


def force_of(layer: Layer) -> dict[str, str]:
    return next(force for force, cases in FAMILIES.values() if layer in cases)


def kernels_of(b: Built) -> set[str]:
    assert b.compilation.program is not None
    return {s.kernel for s in b.compilation.program.body.linear() if isinstance(s, Call)}


def library(
    cases: Sequence[Layer], arithmetic: str, force: dict[str, str], folder: Path, compiler: str = "gcc"
) -> CaseLibrary:
    found = [built(c, i, f"case{i}", host(arithmetic), force) for i, c in enumerate(cases)]
    warnings = STRICT_WARNINGS if compiler == "gcc" else strict_warnings(compiler)
    return CaseLibrary(folder, found, [*resolve("generic").c_flags, *warnings, "-O1"], (compiler,)).build()


@pytest.mark.parametrize("arithmetic", ARITHMETICS)
@pytest.mark.parametrize("family", FAMILIES)
def test_sums_are_exact(family: str, arithmetic: str, tmp_path: Path) -> None:
    """On an arena full of 0xFF; the kernel that was forced is the one that ran."""
    force, cases = FAMILIES[family]
    found = library(cases, arithmetic, force, tmp_path)
    for i, (layer, b) in enumerate(zip(cases, found.built, strict=True)):
        assert set(force.values()) <= kernels_of(b), layer.name
        graph = graph_of(layer, i)
        for seed in (1, 2):
            inputs = inputs_of(graph, seed)
            (want,) = graph.evaluate(inputs).values()
            (got,) = found.run(b, inputs)
            wrong = got != want
            assert not wrong.any(), f"{layer.name}: {wrong.sum()} of {wrong.size} differ"


@pytest.mark.parametrize("arithmetic", ARITHMETICS)
def test_no_access_outside_of_the_tensors(arithmetic: str, tmp_path: Path) -> None:
    """Between forbidden pages, at the least alignment, a guard around each tensor, nothing undefined."""
    compiler = needs_sanitizers("gcc")
    for i, layer in enumerate(GUARDED):
        c = compilation(layer, i, "guarded", host(arithmetic), force_of(layer))
        out = tmp_path / f"out{i}"
        out.mkdir()
        for name, data in finish(c).items():
            (out / name).write_bytes(data)
        graph = graph_of(layer, i)
        runs = [inputs_of(graph, seed) for seed in (1, 2)]
        split = build(out, [*SANITIZERS, SPLIT, "-O0"], compiler)
        for inputs, got in zip(runs, split.run("odd", runs), strict=True):
            (want,) = graph.evaluate(inputs).values()
            assert all((a == want).all() for a in got.values()), layer.name


def test_clang_accepts_the_text(tmp_path: Path) -> None:
    clang = needs_tool("clang")
    for family, (force, cases) in FAMILIES.items():
        folder = tmp_path / family
        folder.mkdir()
        library(cases[::6], "smlad", force, folder, clang)


def test_arm_accepts_the_text(tmp_path: Path) -> None:
    """The instructions themselves, not what stands for them here, at any level."""
    compiler = needs_tool("arm-none-eabi-gcc")
    target = resolve("cortex-m4")
    for i, layer in enumerate([STAGED[2], STAGED[16], PLANES[3], PRODUCTS[4]]):
        c = compilation(layer, i, "layer", target, force_of(layer))
        out = tmp_path / f"out{i}"
        out.mkdir()
        for name, data in finish(c).items():
            (out / name).write_bytes(data)
        for level in ("-O0", "-O2", "-Os"):
            flags = [*target.c_flags, *STRICT_WARNINGS, level]
            run_compiler([compiler, *flags, "-c", "layer.c", "-o", "layer.o"], out)


@pytest.mark.parametrize("arithmetic", ARITHMETICS)
@pytest.mark.parametrize(
    "layer",
    [
        conv((1, 16, 12, 5), (16, 16, 1, 1), zero=-128),
        conv((1, 16, 12, 5), (16, 16, 1, 1), zero=-128, stored=False),
        depthwise((1, 16, 12, 5), (3, 3), pads=(1, 1, 1, 1), zero=-128),
    ],
    ids=lambda layer: layer.name,
)
def test_results_take_the_place_of_operands(layer: Layer, arithmetic: str, tmp_path: Path) -> None:
    """The arena has room for one tensor and a few hundred bytes."""
    (b,) = library([layer], arithmetic, force_of_kind(layer), tmp_path).built
    program = b.compilation.program
    assert program is not None
    steps = [s for s in program.body.linear() if isinstance(s, Call) and s.kernel.startswith("conv.")]
    for step in steps:
        assert 0 in step.inplace
    if layer.stored:
        (step,) = steps
        assert step.reads[0] is not None
        assert program.offsets[step.reads[0].buffer] == program.offsets[step.results[0].buffer]


def force_of_kind(layer: Layer) -> dict[str, str]:
    return {"conv": "conv.staged" if layer.groups == 1 else "conv.planes"}


def test_channels_share_words_only_where_sums_allow_it() -> None:
    even, odd = np.array([[-127, 127]]), np.array([[127, -128]])
    begins = np.zeros(2, np.int64)
    assert may_pair(np.concatenate([even, odd]), begins, -128, 127)
    assert not may_pair(np.concatenate([np.array([[-128, 0]]), np.array([[-1, 0]])]), begins, -128, 127)
    assert may_pair(np.concatenate([np.array([[-128, 0]]), np.array([[0, 0]])]), begins, -128, 127)
    many = np.full((2, 516), 127)
    assert may_pair(many, begins, -128, 127) is (516 * 127 * 128 < 2**23)
    assert not may_pair(many[:, :4], np.array([2**23, 0]), -128, 127)


def test_words_of_pairs_keep_every_weight() -> None:
    """What two sums of products with unit operands say of each weight."""
    rng = np.random.default_rng(0)
    weights = rng.integers(-127, 128, (4, 8))
    words = PackedPairs(tuple(map(tuple, weights.tolist())), paired=True).pack(np.zeros(0)).astype(np.int64)
    halves = np.stack([words & 0xFFFF, words >> 16 & 0xFFFF], axis=-1)
    halves = np.where(halves >= 2**15, halves - 2**16, halves)
    low = ((halves & 0xFF) ^ 0x80) - 0x80
    quads = weights.reshape(2, 2, 2, 4)[..., [0, 2, 1, 3]].reshape(2, 2, 2, 2, 2)
    assert (low == quads[:, 1]).all()
    assert ((halves - low) >> 8 == quads[:, 0]).all()
