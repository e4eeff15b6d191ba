"""Kernels loop over nothing that there is once, and test nothing that cannot fail."""

from __future__ import annotations

import re
import subprocess
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import mccompile
from mccompile.codegen.arithmetic import scaled, total
from mccompile.codegen.binding import KernelContext
from mccompile.codegen.loops import all_of, any_of, chunk_tiles, chunked, in_chunk, loop, nest, tap, tiles
from mccompile.ir.graph_text import parse_graph
from mccompile.kernels.model.tiles import Segment, Tile, chunks
from mccompile.ops.registry import lookup
from mccompile.targets.target import STRICT_WARNINGS, resolve
from tests._skips import REPOSITORY
from tests.support.compiled import compiled_graph
from tests.support.draw import SeededDraw
from tests.support.graphs import fill_constants
from tests.support.opcases import CaseLibrary
from tests.support.small_models import MODELS, write_model

DIGITS = REPOSITORY / "examples" / "digits" / "digits.onnx"
IDLE = re.compile(r".* \* 1\b(?!\.).*|.* \+ 0\b(?!\.| [*/%]).*|.*\+ -\d.*|.*if \(\([^()]*\)\) .*")
"""Products by one, sums with zero, sums with what has a sign, and conditions in two pairs of parentheses."""
COUNTED = re.compile(
    r"(?<!MCC_UNROLL_FULLY\n)^ *for \(int32_t (\w+) = (\d+); \1 < (\d+); (?:\+\+\1|\1 \+= (\d+))\)", re.MULTILINE
)
"""Loops between numbers, but those that the compiler writes out."""


ONCE = [
    ("softmax(%x) {axis=3, mode='soft'}", "f32[1,5,1,24]"),
    ("softmax(%x) {axis=1, mode='log'}", "f32[1,5,1,24]"),
    ("normalize(%x) {axes=(2, 3), epsilon=0.01}", "f32[1,5,1,24]"),
    ("normalize(%x) {axes=(1, 2), epsilon=0.01}", "f32[1,5,1,24]"),
    ("reduce(%x) {mode='sum', axes=(1, 2)}", "f32[1,1,1,24]"),
    ("reduce(%x) {mode='max', axes=(2, 3)}", "f32[1,5,1,1]"),
    ("map(%x) {expr={x0 * x0}}", "f32[1,5,1,24]"),
]


def turns_of_one(text: str) -> list[str]:
    """The variables of loops that run once."""
    found = COUNTED.findall(text)
    return [name for name, first, end, step in found if int(first) + int(step or 1) >= int(end)]


def test_loops_over_one_are_none() -> None:
    assert nest(["i", "0", "j"], ["4", "1", "n"], lambda: "f(i, j);") == (
        "for (int32_t i = 0; i < 4; ++i) {\nfor (int32_t j = 0; j < n; ++j) {\nf(i, j);\n}\n}\n"
    )
    assert loop("0", 1, lambda: "f();") == "f();\n"


def test_tiles_of_one_turn_are_a_block() -> None:
    assert tiles("n", Segment(16, 20, 4), lambda: "f(n);") == "{\nconst int32_t n = 16;\nf(n);\n}\n"
    assert tiles("0", Segment(0, 1, 1), lambda: "f();") == "f();\n"
    shifted = tiles("n", Segment(8, 32, 8), lambda: "f(n);", shift="first")
    assert shifted.startswith("for (int32_t n = first + 8; n < first + 32; n += 8) {")


def test_sums_leave_out_what_does_nothing() -> None:
    assert total(scaled("b", 784), scaled("0", 12), scaled("ow * 2", 1), -3) == "b * 784 + ow * 2 - 3"
    assert total(scaled("r - 1", 4), scaled("3", "5")) == "(r - 1) * 4 + 15"
    assert total(scaled("i", "x0_s1"), scaled("1", "x0_s2")) == "i * x0_s1 + x0_s2"
    assert total() == total(0, "0") == "0"


def test_taps_are_tested_where_they_may_be_outside() -> None:
    same = tap("i", "o", "k", (1, 1, 1), (7, 2), 8)
    assert (same.at, same.declared, same.outside) == ("i", "o + k - 1", ("i < 0", "i >= 8"))
    assert any_of(same.outside) == "(i < 0) || (i >= 8)"
    assert all_of(same.inside) == "(i >= 0) && (i < 8)"
    one = tap("i", "o", "0", (1, 1, 0), (7, 0), 8)
    assert (one.at, one.declared, one.outside, one.inside) == ("o", "", (), ())
    valid = tap("i", "o", "k", (2, 1, 0), (3, 2), 9)
    assert (valid.declared, valid.outside) == ("o * 2 + k", ())
    assert tap("i", "o", "k", (2, 1, 0), (3, 2), 8).inside == ("i < 8",)
    assert all_of(("i < 8",)) == any_of(("i < 8",)) == "i < 8"
    assert tap("i", "o", "k", (1, 1, 0), None, "x0_e2").outside == ("i >= x0_e2",)  # a C parameter may be anything


def test_groups_fold() -> None:
    assert KernelContext.group("m", "64", 64, "1") == "m"
    assert KernelContext.group("m", "64", 16, "3") == "(m / 4) * 3"
    assert KernelContext.group("m", "x1_e0", 16, "3") == "(m / (x1_e0 / 16)) * 3"


@pytest.mark.parametrize("level", ["O2", "Os"])
@pytest.mark.parametrize("target", ["generic", "x86-64-v3"])
def test_no_kernel_loops_once_or_adds_nothing(target: str, level: str, tmp_path: Path) -> None:
    seen = 0
    for model in [DIGITS, *(write_model(name, tmp_path) for name in MODELS)]:
        out = tmp_path / f"{model.stem}_out"
        mccompile.compile(model, out, target=target, opt_level=level)
        text = (out / f"{model.stem}.c").read_text()
        kernels = text[text.index(f"{model.stem}_k0") :] if f"{model.stem}_k0" in text else ""
        assert not turns_of_one(kernels), f"{model.stem}: a loop of one turn"
        assert not IDLE.findall(kernels), f"{model.stem}: a term that does nothing"
        seen += len(COUNTED.findall(kernels))
    assert seen


@pytest.mark.parametrize("path", sorted((REPOSITORY / "tests" / "golden").glob("*.c")), ids=lambda p: p.stem)
def test_no_golden_kernel_loops_once_or_adds_nothing(path: Path) -> None:
    text = path.read_text()
    assert not turns_of_one(text)
    assert not IDLE.findall(text)


def test_kernels_over_axes_of_one_do_not_loop() -> None:
    """Every template that goes over axes of an operand, given one in which some extents are 1."""
    seen = set()
    for target in ("generic", "x86-64-v3"):
        for node, result in ONCE:
            graph = parse_graph(
                f"""graph @g(%x: f32[1,5,1,24], %s: f32[5,1,96], %h: f32[1,24]) {{
                  %w = const : f32[24,96] ; sha256=0
                  %c = const : f32[8,24,1,3] ; sha256=0
                  %y = {node} : {result}
                  return %y }}""",
                lookup,
            )
            fill_constants(graph, seed=1)
            facts = compiled_graph(graph, "O0", "g", target=target).facts
            seen |= {kernel.kernel for kernel in facts.kernels}
            for kernel in facts.kernels:
                assert not turns_of_one(kernel.text), kernel.text
                assert not IDLE.findall(kernel.text), kernel.text
    assert {"softmax.generic", "softmax.vector", "normalize.vector", "reduce.vector", "map.vector"} <= seen


@pytest.mark.parametrize(
    "node",
    [
        "conv(%e, %w) {strides=(2, 2), pads=(0, 0, 0, 0), dilations=(1, 1)}",
        "pool(%e) {mode='max', kernel=(1, 1), strides=(2, 2), pads=(0, 0, 0, 0), dilations=(1, 1)}",
    ],
)
def test_a_coordinate_that_nothing_needs_has_no_name(node: str, tmp_path: Path) -> None:
    """Lines of which all elements are one, read at every second: the C builds with warnings as errors."""
    text = f"""graph @g(%x: f32[1,2,8,1]) {{
      %w = const [1.0, 2.0, 3.0, 4.0] : f32[2,2,1,1]
      %e = expand(%x) {{shape=(1, 2, 8, 8)}} : f32[1,2,8,8]
      %y = {node} : f32[1,2,4,4]
      return %y
    }}"""
    built = compiled_graph(parse_graph(text, lookup), "O1", "g")
    library = CaseLibrary(tmp_path, [built], [*resolve("generic").c_flags, *STRICT_WARNINGS]).build()
    inputs = {"x": SeededDraw(0).array((1, 2, 8, 1))}
    (want,) = parse_graph(text, lookup).evaluate(inputs).values()
    np.testing.assert_allclose(library.run(built, inputs)[0], want, rtol=1e-5)


def test_chunks_in_one_loop_have_the_tiles_of_chunks_apart(tmp_path: Path) -> None:
    """Each row once, in order, in tiles of the same extents."""
    rng = np.random.default_rng(0)
    parts, want = [], []
    for _ in range(60):
        tile = Tile(int(rng.integers(1, 9)), 1, 1)
        size, extent = int(rng.integers(1, 40)), int(rng.integers(1, 120))
        for apart in (False, True):
            for chunk in chunked(chunks(extent, size), apart):
                shown = chunk_tiles("m", chunk, tile.tiles_m, lambda h: f'printf("%d %d\\n", (int)m, {h});')
                parts.append(in_chunk(chunk, partial(str, shown)))
            parts.append('printf("-\\n");')
        for piece in chunks(extent, size):
            for first in range(piece.start, piece.stop, piece.size):
                for s in tile.tiles_m(piece.size):
                    want += [(first + m, s.size) for m in range(s.start, s.stop, s.size)]
        want.append((-1, 0))
    (tmp_path / "rows.c").write_text(
        "#include <stdint.h>\n#include <stdio.h>\nint main(void)\n{\n" + "\n".join(parts) + "\nreturn 0;\n}\n"
    )
    subprocess.run(["cc", "-std=c99", "-o", "rows", "rows.c"], cwd=tmp_path, check=True)
    said = subprocess.run(["./rows"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout.split("-\n")
    for together, apart in zip(said[0:-1:2], said[1::2], strict=True):
        assert together == apart
    found = [tuple(map(int, line.split())) for text in said[1::2] for line in [*text.splitlines(), "-1 0"]]
    assert found == want
