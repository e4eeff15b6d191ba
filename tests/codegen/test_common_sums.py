"""Parts of functions that compute sums have one text where a program is long, and compute what they did."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
import onnx
import pytest

import mccompile
from mccompile.codegen.common_sums import with_common_sums
from mccompile.codegen.shared_functions import Shared
from mccompile.run.network import Network
from mccompile.targets.target import strict_warnings
from tests._skips import needs_tool
from tests.support.small_models import Maker
from tests.support.targets import needs_target

TILE = """MCC_PLACE_CODE
static MCC_NOINLINE void KERNEL_NAME_6x32(const float *MCC_RESTRICT x0, float *MCC_RESTRICT y0, int32_t m%(more)s)
{
    MCC_WRITES();
    const float *w = &x0[m * 8];
    mcc_vf acc[6][2] = { { { 0.0f } } };
    %(before)sfor (int32_t i = 0; i < %(steps)s; ++i) {
        MCC_BARRIER();
        const mcc_vf w0 = mcc_vload(w);
        for (int32_t r = 0; r < 6; ++r) { /* %(padding)s */
            acc[r][0] = mcc_vfma(w0, w0, acc[r][0]);
            acc[r][1] = mcc_vfma(w0, w0, acc[r][1]);
        }
        w += 16;
    }%(behind)s
    mcc_vstore(y0, %(result)s);
}
"""
PLAIN = {"more": "", "before": "", "behind": "", "steps": "64", "result": "acc[0][0]", "padding": "x" * 500}


def tiles(*changes: dict[str, str]) -> list[str]:
    return [TILE % {**PLAIN, "result": f"{i} * acc[0][0]", **c} for i, c in enumerate(changes)]


def common(kernels: list[str]) -> Shared:
    return with_common_sums(Shared({k: k for k in kernels}, {}))


def test_parts_that_differ_in_numbers_have_one_text() -> None:
    kernels = tiles({"steps": "64"}, {"steps": "32"})
    made = common(kernels)
    ((name, text),) = made.functions.items()
    assert name == "SHARED_0_sums0"
    assert f"MCC_INLINE void {name}(const float *w, mcc_vf (*acc)[2], int32_t n0)\n{{" in text
    assert "for (int32_t i = 0; i < n0; ++i) {" in text
    for k, steps in zip(kernels, (64, 32), strict=True):
        assert f"= {{ {{ {{ 0.0f }} }} }};\n    {name}(w, acc, {steps});\n    mcc_vstore(y0, " in made.texts[k]
        assert "mcc_vfma" not in made.texts[k]


def test_numbers_that_functions_are_given_are_numbers() -> None:
    """Also what is made of them: where another one has a number, it has its own."""
    kernels = tiles({"steps": "n3", "more": ", int32_t n3"}, {"steps": "(2 * n0)", "more": ", int32_t n0"}, {})
    made = common(kernels)
    ((name, text),) = made.functions.items()
    assert "(const float *w, mcc_vf (*acc)[2], int32_t n0)" in text
    for k, given in zip(kernels, ("n3", "(2 * n0)", "64"), strict=True):
        assert f"    {name}(w, acc, {given});\n" in made.texts[k]


def test_what_only_looks_like_such_a_number_is_none() -> None:
    """Floats that several functions are given, and what a part counts by itself."""
    kernels = tiles({"more": ", float n1"}, {"more": ", float n1", "steps": "32"})
    loop = "for (int32_t n2 = 0; n2 < 2; ++n2) { f(acc, n1, n2); }"
    kernels = [k.replace("w += 16;", f"w += 16;\n{loop}") for k in kernels]
    made = common(kernels)
    ((name, text),) = made.functions.items()
    assert f"{name}(const float *w, mcc_vf (*acc)[2], float n1, int32_t number0)" in text
    assert loop in text
    for k, steps in zip(kernels, (64, 32), strict=True):
        assert f"    {name}(w, acc, n1, {steps});" in made.texts[k]


@pytest.mark.parametrize(
    "change",
    [
        {"behind": "\n    acc[0][0] += mcc_vload(w);"},  # where w is then
        {"before": "while (m--) ", "behind": "\n    (void)0;"},  # w goes on in the next turn
        {"result": "w[0]"},
    ],
)
def test_what_changes_a_variable_that_is_mentioned_later_stays(change: dict[str, str]) -> None:
    kernels = tiles({"steps": "64"} | change, {"steps": "32"} | change)
    if "result" in change:
        kernels[1] = kernels[1].replace("w[0]", "w[1]")
    made = common(kernels)
    for text in [*made.texts.values(), *made.functions.values()]:
        calls = [line for line in text.splitlines() if "_sums" in line and "(w, acc" in line]
        assert all("w" not in text.split(call, 1)[1].replace("w0", "") for call in calls)


def test_what_leaves_a_loop_or_stores_is_no_part() -> None:
    for left in ("break;", "mcc_vstore(y0, w0);", "MCC_IN_MEMORY(acc);", "KERNEL_NAME_other(acc);"):
        kernels = [k.replace("w += 16;", f"w += 16;\n{left}") for k in tiles({"steps": "64"}, {"steps": "32"})]
        assert not common(kernels).functions


def test_a_variable_that_is_not_known_is_not_guessed() -> None:
    kernels = [k.replace("w += 16;", "w += other;") for k in tiles({"steps": "64"}, {"steps": "32"})]
    assert not common(kernels).functions


def products(m: Maker) -> str:
    """Strassen's products, and tiles of packed ones with several epilogues."""
    x = m.input("x", [64, 256])
    for i, (depth, width) in enumerate(((256, 192), (192, 160), (160, 192), (192, 128))):
        y = m.node("MatMul", [x, m.weight((depth, width))])
        x = m.node(("Relu", "Sigmoid", "Abs", "Tanh")[i], [m.node("Add", [y, m.weight((width,))])])
    return x


def windows(m: Maker) -> str:
    """Tiles of channels whose pixels at the ends of lines meet fewer taps, and Winograd's."""
    x = m.input("x", [1, 16, 7, 7])
    for i, (before, channels, size) in enumerate(((16, 24, 3), (24, 48, 5), (48, 24, 3), (24, 48, 5))):
        y = m.node("Conv", [x, m.weight((channels, before, size, size))], pads=[size // 2] * 4)
        x = m.node(("Relu", "Sigmoid", "Abs", "Tanh")[i], [y])
    return x


def planes(m: Maker) -> str:
    """Depthwise tiles of several epilogues."""
    x = m.input("x", [1, 24, 21, 21])
    for stride, function in ((1, "Relu"), (2, "Sigmoid"), (1, "Abs"), (1, "Tanh")):
        y = m.node("Conv", [x, m.weight((24, 1, 3, 3))], group=24, pads=[1] * 4, strides=[stride] * 2)
        x = m.node(function, [y])
    return x


@pytest.mark.parametrize("network", [products, windows, planes])
@pytest.mark.parametrize(
    ("target", "compiler"), [("x86-64-v3", "clang"), ("native", "gcc"), ("aarch64", "gcc")]
)
def test_the_program_is_the_same(
    target: str, compiler: str, network: Callable[[Maker], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is saved by it: all parts that are alike have one text."""
    chosen = needs_target(target)
    if target != "aarch64":
        monkeypatch.setenv("CC", needs_tool(compiler))
    m = Maker()
    y = network(m)
    onnx.save(m.model([y]), tmp_path / "net.onnx")
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "plain", target=chosen)
    with (
        mock.patch("mccompile.codegen.sharing.MOST_LETTERS", 0),
        mock.patch("mccompile.codegen.common_sums.LEAST", -(10**6)),
        mock.patch("mccompile.codegen.common_sums.SHORTEST", 0),
    ):
        mccompile.compile(tmp_path / "net.onnx", tmp_path / "one", target=chosen)
    plain, one = ((tmp_path / out / "net.c").read_text() for out in ("plain", "one"))
    assert "_sums0(" not in plain
    assert one.count("_sums") > plain.count("_sums")
    answers = []
    for out in ("plain", "one"):
        net = Network(tmp_path / out, strict_warnings(compiler), emulate=True)
        data = np.asarray(np.random.default_rng(0).normal(size=net.inputs["x"].shape), np.float32)
        answers.append(net.run({"x": data})[y].tobytes())
    assert answers[0] == answers[1]
