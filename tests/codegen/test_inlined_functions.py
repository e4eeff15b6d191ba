"""Functions that differ in numbers have one text where a program is long, and compute what they did."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from mccompile.codegen.inlined_functions import with_one_text
from mccompile.codegen.shared_functions import (
    Shared,
    functions_alike,
    functions_beside,
    own_name,
    shared_functions,
)
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


ROWS = """MCC_PLACE_CODE
static MCC_NOINLINE void KERNEL_NAME_%dx16(float *MCC_RESTRICT y0, int32_t m)
{
    MCC_WRITES();
    mcc_vf acc[%d][2] = { { { 0.0f } } };
    store(acc, y0, m, %d); /* %s */
}
"""


def test_functions_of_one_kernel_that_differ_in_rows_have_one_text() -> None:
    """Of the most rows: those that a function has not are never touched."""
    kernel = "".join(ROWS % (rows, rows, rows, "x" * 900) for rows in (6, 4))
    made = with_one_text(Shared({kernel: kernel}, {}))
    ((name, text),) = made.functions.items()
    assert name == "SHARED_0_6x16_any"
    assert "mcc_vf acc[6][2] = { { { 0.0f } } };\n    store(acc, y0, m, n0);" in text
    for rows in (6, 4):
        assert f"KERNEL_NAME_{rows}x16(float *MCC_RESTRICT y0, int32_t m)\n{{" in made.texts[kernel]
        assert f"    {name}(y0, m, {rows});\n}}" in made.texts[kernel]


def test_whole_kernels_have_one_text() -> None:
    """But those that call functions of their own."""
    whole = """MCC_PLACE_CODE
static void KERNEL_NAME(float *y0)
{
    MCC_WRITES();
    y0[%d] = 0.5f; /* %s */
}"""
    kernels = [whole % (n, "x" * 900) for n in (3, 8)]
    made = with_one_text(Shared({k: k for k in kernels}, {}))
    assert list(made.functions) == ["SHARED_0_any"]
    assert "MCC_INLINE void SHARED_0_any(float *y0, int32_t n0)" in made.functions["SHARED_0_any"]
    for k, n in zip(kernels, (3, 8), strict=True):
        body = f"{{\n    MCC_WRITES();\n    SHARED_0_any(y0, {n});\n}}"
        assert made.texts[k].endswith(f"void KERNEL_NAME(float *y0)\n{body}")
    callers = [k.replace("y0[", "KERNEL_NAME_part(y0)[") for k in kernels]
    assert not with_one_text(Shared({k: k for k in callers}, {})).functions


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


def test_turns_that_a_shared_function_writes_out_stay_numbers_where_it_is_called() -> None:
    """They are part of its name: functions that call it with others are not alike."""
    part = PART.replace("float *y0", "float *y0, int32_t turns").replace("MCC_UNROLL", "MCC_UNROLL_FULLY") % 5
    part = part.replace("i < 5", "i < turns")
    kernel = part + KERNEL.replace("MCC_WRITES()", "KERNEL_NAME_part(y0, %d)")
    kernels = [kernel % (n, n, "0.5f", n, "", n) for n in (3, 8)]
    made = shared_functions(kernels, functions_beside(kernels, inlined=True), 1)
    assert list(made.functions) == ["SHARED_0t1_part"]
    tiles = functions_beside(list(made.texts.values()))
    assert len(tiles) == 2
    assert not functions_alike(tiles)
    assert own_name("SHARED_0t1_part", "net_k2_conv") == "net_k2_conv_part"


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


def planes(m: Maker) -> str:
    """Depthwise tiles, which call functions for lines; and reductions and copies, which are whole kernels."""
    x = m.input("x", [1, 24, 21, 21])
    for stride in (1, 2, 1):
        x = m.node("Conv", [x, m.weight((24, 1, 3, 3))], group=24, pads=[1] * 4, strides=[stride] * 2)
        x = m.node("Relu", [x])
    small = m.node("AveragePool", [x], kernel_shape=[3, 3], strides=[2, 2])
    for y in (x, small):
        mean = m.node("ReduceMean", [m.node("Transpose", [y], perm=[0, 2, 3, 1])], axes=[2], keepdims=0)
        x = m.node("Add", [x, m.node("ReduceMax", [mean], keepdims=1)])
    return x


@pytest.mark.parametrize("network", [products, windows, planes])
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


def _convolutions() -> onnx.ModelProto:
    m = Maker()
    x = m.input("x", [1, 8, 64])
    x = m.node("Relu", [m.node("Conv", [x, m.weight((8, 8, 1))])])
    x = m.node("Relu", [m.node("Conv", [x, m.weight((8, 8, 15))], pads=[7, 7])])
    x = m.node("MaxPool", [x], kernel_shape=[4], strides=[4])
    x = m.node("Relu", [m.node("Conv", [x, m.weight((8, 8, 15))], pads=[7, 7])])
    return m.model([m.node("Conv", [x, m.weight((8, 8, 1))])])


def test_scalars_have_one_text_as_well(tmp_path: Path) -> None:
    onnx.save(_convolutions(), tmp_path / "net.onnx")
    with mock.patch("mccompile.codegen.sharing.MOST_LETTERS", 0):
        mccompile.compile(tmp_path / "net.onnx", tmp_path / "one", target="cortex-m7")
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "plain", target="cortex-m7")
    one, plain = ((tmp_path / out / "net.c").read_text() for out in ("one", "plain"))
    assert "_any(" in one
    assert "_any(" not in plain
    assert len(one) < len(plain)


@pytest.mark.parametrize("target", ["cortex-m0plus", "cortex-m3"])
def test_long_programs_of_processors_without_floats(target: str, tmp_path: Path) -> None:
    """The taps of a cubic resize are an inlined function where there are such."""
    nodes = [
        helper.make_node("Shape", ["x"], ["hw"], start=2),
        helper.make_node("Mul", ["hw", "times"], ["sizes"]),
        helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], axes=[2, 3], mode="cubic"),
    ]
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 8, "n", "n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array([2, 3]), "times")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=8)
    onnx.save(model, tmp_path / "net.onnx")
    with mock.patch("mccompile.codegen.sharing.MOST_LETTERS", 0):
        mccompile.compile(tmp_path / "net.onnx", tmp_path / "long", target=target, dims={"n": "1,4,7"})
    assert "MCC_INLINE" not in (tmp_path / "long" / "net.c").read_text()


@pytest.mark.parametrize(("columns", "kept"), [(4, False), (9, True)])
def test_functions_that_many_steps_call_are_not_put_into_run(columns: int, kept: bool, tmp_path: Path) -> None:
    """Products of all pairs of columns, of a batch of the run: gcc -O3 made ten times the code of them."""
    m = Maker(opset=13)
    x = m.input("x", ("b", columns))  # type: ignore[arg-type]
    parts = [m.node("Gather", [x, m.const(np.array([i]))], axis=1) for i in range(columns)]
    pairs = [
        m.node("ReduceProd", [m.node("Concat", [parts[i], parts[j]], axis=1)], axes=[1])
        for i in range(columns)
        for j in range(i)
    ]
    m.node("Concat", pairs, "y", axis=1)
    path = tmp_path / "net.onnx"
    onnx.save(m.model(["y"]), path)
    mccompile.compile(path, tmp_path / "out", target="x86-64-v3", dims={"b": "1..5"})
    assert ("\nstatic MCC_ONCE void net_k" in (tmp_path / "out" / "net.c").read_text()) == kept
