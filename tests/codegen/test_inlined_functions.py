"""Functions that differ in numbers have one text where a program is long, and compute what they did."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
import onnx
import pytest

import mccompile
from mccompile.codegen.inlined_functions import with_one_text
from mccompile.codegen.shared_functions import Shared, functions_alike, functions_beside, shared_functions
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


PART = """MCC_PLACE_CODE
MCC_INLINE void KERNEL_NAME_part(float *y0)
{
    MCC_UNROLL
    for (int32_t i = 0; i < %d; ++i) {
        y0[i] = 1.0f;
    }
}
"""


def test_inlined_functions_are_shared_and_then_what_calls_them() -> None:
    calling = KERNEL.replace("MCC_WRITES()", "KERNEL_NAME_part(y0)")
    kernels = [PART % n + calling % (n, "0.5f", n, "", n) for n in (3, 8)]
    functions = functions_beside(kernels, inlined=True)
    made = shared_functions(kernels, functions, 1, {a.kind for a in functions_alike(functions)})
    ((name, text),) = made.functions.items()
    assert "MCC_INLINE void SHARED_0_part(float *y0, int32_t n0)" in text
    assert "MCC_UNROLL\n    for (int32_t i = 0; i < n0; ++i)" in text
    for k, n in zip(kernels, (3, 8), strict=True):
        assert f"    {name}(y0, {n});" in made.texts[k]
    assert not functions_beside(kernels)
    texts = list(made.texts.values())
    tiles = functions_beside(texts)
    both = shared_functions(texts, tiles, 1, {a.kind for a in functions_alike(tiles)}, made.functions)
    assert list(both.functions) == [name, "SHARED_1_tile"]
    assert f"    {name}(y0, n0);" in both.functions["SHARED_1_tile"]


def products(m: Maker) -> str:
    x = m.input("x", [6, 40])
    for depth, width in ((40, 44), (44, 52), (52, 36)):
        x = m.node("Relu", [m.node("MatMul", [x, m.weight((depth, width))])])
    return x


def windows(m: Maker) -> str:
    x = m.input("x", [1, 8, 40])
    for before, channels, dilation in ((8, 16, 1), (16, 24, 1), (24, 24, 3), (24, 16, 3)):
        weights, reach = m.weight((channels, before, 11)), 5 * dilation
        x = m.node("Relu", [m.node("Conv", [x, weights], pads=[reach, reach], dilations=[dilation])])
    return x


@pytest.mark.parametrize("network", [products, windows])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_the_program_is_the_same(
    compiler: str, network: Callable[[Maker], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", needs_tool(compiler))
    m = Maker()
    y = network(m)
    onnx.save(m.model([y]), tmp_path / "net.onnx")
    target = needs_target("x86-64-v3")
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "plain", target=target)
    with mock.patch("mccompile.codegen.sharing.MOST_LETTERS", 0):
        mccompile.compile(tmp_path / "net.onnx", tmp_path / "one", target=target)
    plain, one = ((tmp_path / out / "net.c").read_text() for out in ("plain", "one"))
    assert "_any(" in one
    if network is windows:
        assert plain.count("MCC_INLINE void") > one.count("MCC_INLINE void") > 0
    answers = []
    for out in ("plain", "one"):
        net = Network(tmp_path / out, strict_warnings(compiler))
        data = np.asarray(np.random.default_rng(0).normal(size=net.inputs["x"].shape), np.float32)
        answers.append(net.run({"x": data})[y].tobytes())
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
