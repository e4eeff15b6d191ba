"""Kernels loop over nothing that there is once, and test nothing that cannot fail."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import mccompile
from mccompile.codegen.arithmetic import scaled, total
from mccompile.codegen.binding import KernelContext
from mccompile.codegen.loops import all_of, any_of, loop, nest, tap, tiles
from mccompile.ir.graph_text import parse_graph
from mccompile.kernels.model.tiles import Segment
from mccompile.ops.registry import lookup
from mccompile.targets.target import STRICT_WARNINGS, resolve
from tests._skips import REPOSITORY
from tests.support.compiled import compiled_graph
from tests.support.draw import SeededDraw
from tests.support.opcases import CaseLibrary
from tests.support.small_models import write_model

DIGITS = REPOSITORY / "examples" / "digits" / "digits.onnx"
COUNTED = re.compile(r"for \(int32_t (\w+) = (\d+); \1 < (\d+); (?:\+\+\1|\1 \+= (\d+))\)")


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
def test_no_kernel_of_strict_c_loops_once(level: str, tmp_path: Path) -> None:
    seen = 0
    for model in (DIGITS, *(write_model(name, tmp_path) for name in ("conv_padding", "residual", "concat"))):
        out = tmp_path / f"{model.stem}_out"
        mccompile.compile(model, out, target="generic", opt_level=level)
        for name, first, end, step in COUNTED.findall((out / f"{model.stem}.c").read_text()):
            seen += 1
            assert int(first) + int(step or 1) < int(end), f"{model.stem}: the loop over {name} is of one turn"
    assert seen


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
