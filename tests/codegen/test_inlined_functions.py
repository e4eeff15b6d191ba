"""Functions that differ in numbers have one text where a program is long, and compute what they did."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import numpy as np
import onnx
import pytest

import mccompile
from mccompile.codegen.inlined_functions import with_one_text
from mccompile.codegen.shared_functions import Shared
from mccompile.run.network import Network
from mccompile.targets.target import strict_warnings
from tests._skips import needs_tool
from tests.support.small_models import Maker
from tests.support.targets import needs_target

KERNEL = """MCC_PLACE_CODE
static MCC_NOINLINE void KERNEL_NAME_tile(float *MCC_RESTRICT y0, int32_t i)
{
    MCC_WRITES();
    y0[i * %d] = %s;
    y0[i * %d + 1] = 0.0f; /* and as much more as is worth a call: %s */
}
MCC_PLACE_CODE
static void KERNEL_NAME(float *y0)
{
    KERNEL_NAME_tile(y0, %d);
}
"""


def test_what_is_left_of_a_function_calls_the_text() -> None:
    kernels = [KERNEL % (n, f"{n}.5f", n, "x" * 900, n) for n in (3, 8)]
    made = with_one_text(Shared({k: k for k in kernels}, {}))
    ((name, text),) = made.functions.items()
    assert name == "SHARED_0_tile_any"
    assert "MCC_INLINE void SHARED_0_tile_any(float *y0, int32_t i, int32_t n0, float n1)" in text
    assert "y0[i * n0] = n1;" in text
    for k, n in zip(kernels, (3, 8), strict=True):
        assert f"    MCC_WRITES();\n    SHARED_0_tile_any(y0, i, {n}, {n}.5f);\n}}" in made.texts[k]
        assert f"KERNEL_NAME_tile(y0, {n});" in made.texts[k]


def test_what_differs_in_restrict_alone_is_one_text() -> None:
    text = KERNEL % (3, "0.5f", 3, "x" * 900, 3)
    kernels = [text, text.replace("MCC_RESTRICT ", "")]
    made = with_one_text(Shared({k: k for k in kernels}, {}))
    assert list(made.functions) == ["SHARED_0_tile_any"]
    for k in kernels:
        assert "    SHARED_0_tile_any(y0, i);\n}" in made.texts[k]
        assert ("MCC_RESTRICT" in made.texts[k]) == ("MCC_RESTRICT" in k)


def test_what_differs_in_more_stays() -> None:
    kernels = [KERNEL % (3, "0.5f", 3, "x" * 900, 3), KERNEL.replace("+ 1", "- 1") % (4, "0.5f", 4, "x" * 900, 3)]
    shared = Shared({k: k for k in kernels}, {})
    assert with_one_text(shared) == shared


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_the_program_is_the_same(compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", needs_tool(compiler))
    m = Maker()
    x = m.input("x", [6, 40])
    for depth, width in ((40, 44), (44, 52), (52, 36)):
        x = m.node("Relu", [m.node("MatMul", [x, m.weight((depth, width))])])
    onnx.save(m.model([x]), tmp_path / "net.onnx")
    target = needs_target("x86-64-v3")
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "plain", target=target)
    with mock.patch("mccompile.codegen.sharing.MOST_LETTERS", 0):
        mccompile.compile(tmp_path / "net.onnx", tmp_path / "one", target=target)
    assert "_any(" in (tmp_path / "one" / "net.c").read_text()
    data = np.random.default_rng(0).standard_normal((6, 40)).astype(np.float32)
    answers = [
        Network(tmp_path / out, strict_warnings(compiler)).run({"x": data})[x].tobytes() for out in ("plain", "one")
    ]
    assert answers[0] == answers[1]


def test_scalars_have_one_text_as_well(tmp_path: Path) -> None:
    m = Maker()
    x = m.input("x", [1, 8, 64])
    x = m.node("Relu", [m.node("Conv", [x, m.weight((8, 8, 1))])])
    x = m.node("Relu", [m.node("Conv", [x, m.weight((8, 8, 15))], pads=[7, 7])])
    x = m.node("MaxPool", [x], kernel_shape=[4], strides=[4])
    x = m.node("Relu", [m.node("Conv", [x, m.weight((8, 8, 15))], pads=[7, 7])])
    x = m.node("Conv", [x, m.weight((8, 8, 1))])
    onnx.save(m.model([x]), tmp_path / "net.onnx")
    with mock.patch("mccompile.codegen.sharing.MOST_LETTERS", 0):
        mccompile.compile(tmp_path / "net.onnx", tmp_path / "one", target="cortex-m7")
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "plain", target="cortex-m7")
    one, plain = ((tmp_path / out / "net.c").read_text() for out in ("one", "plain"))
    assert "_any(" in one
    assert "_any(" not in plain
    assert len(one) < len(plain)
