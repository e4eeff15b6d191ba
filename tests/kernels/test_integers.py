"""Kernels of bytes: sums of integers are those of the reference, bit for bit, whatever computes them."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from mccompile.codegen.folder import write_folder
from mccompile.codegen.helpers import with_needs
from mccompile.driver import finish
from mccompile.ir import expr as ex
from mccompile.ir.kernel import Call
from mccompile.ir.types import I32
from mccompile.kernels.conv.staged import PackedPairs, may_pair
from mccompile.kernels.model.words import no_words
from mccompile.run.build import run_compiler
from mccompile.targets.target import STRICT_WARNINGS, resolve, strict_warnings, targets
from tests._skips import needs_sanitizers, needs_tool
from tests.kernels.cases import OPSET
from tests.kernels.integer_cases import (
    LINES,
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
from tests.support.targets import BYTE_VECTORS, needs_target

ARITHMETICS = ("smlad", "mla", "narrow", "wide", "mve")
FAMILIES = {
    "conv.staged": ({"conv": "conv.staged"}, STAGED),
    "conv.planes": ({"conv": "conv.planes"}, PLANES),
    "conv.lines": ({"conv": "conv.lines"}, LINES),
    "matmul": ({"matmul": "conv.staged"}, PRODUCTS),
    "matmul.row": ({"matmul": "matmul.row"}, ROWS),
    "conv.row": ({"conv": "matmul.row"}, PIXELS),
}
PAIRS = [(f, a) for f in FAMILIES for a in (ARITHMETICS if f != "conv.lines" else ("mve",))]
GUARDED = [*STAGED[2:9:6], *STAGED[14:30:4], *PLANES[2:22:7], *PLANES[21:30:2], PLANES[-1], *ROWS[3:12:3]]


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


@pytest.mark.parametrize(("family", "arithmetic"), PAIRS)
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
def test_windows_may_lie_in_the_padding(arithmetic: str, tmp_path: Path) -> None:
    """All of them, along an axis, where strides leave out the operand."""
    cases = [
        Layer((1, 8, *x), (8, w, *kernel), strides, pads, (1, 1), 8 // w, zero=3)
        for w in (1, 8)
        for x, kernel, strides, pads in (
            ((4, 1), (3, 3), (1, 9), (1, 7, 1, 1)), ((1, 4), (3, 3), (9, 1), (7, 1, 1, 1)),
            ((4, 2), (1, 1), (1, 7), (0, 5, 0, 0)), ((2, 4), (2, 2), (4, 2), (7, 3, 1, 5)),
        )
    ]  # fmt: skip
    found = library(cases, arithmetic, {}, tmp_path)
    for i, (layer, b) in enumerate(zip(cases, found.built, strict=True)):
        graph = graph_of(layer, i)
        inputs = inputs_of(graph, 1)
        (want,) = graph.evaluate(inputs).values()
        assert np.array_equal(found.run(b, inputs)[0], want), layer.name


@pytest.mark.parametrize("arithmetic", ARITHMETICS)
def test_no_access_outside_of_the_tensors(arithmetic: str, tmp_path: Path) -> None:
    """Between forbidden pages, at the least alignment, a guard around each tensor, nothing undefined."""
    compiler = needs_sanitizers("gcc")
    chosen = GUARDED if arithmetic == "smlad" else GUARDED[ARITHMETICS.index(arithmetic) - 1 :: 4]
    for i, layer in enumerate([*chosen, *(LINES[::4] if arithmetic == "mve" else ())]):
        c = compilation(layer, i, "guarded", host(arithmetic), force_of(layer))
        out = tmp_path / f"out{i}"
        write_folder(out, finish(c))
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
        library(cases, "smlad", force, folder, clang)


def test_arm_accepts_the_text(tmp_path: Path) -> None:
    """The instructions themselves, not what stands for them here, at any level."""
    compiler = needs_tool("arm-none-eabi-gcc")
    target = resolve("cortex-m4")
    for i, layer in enumerate([STAGED[2], STAGED[16], PLANES[3], PRODUCTS[4]]):
        c = compilation(layer, i, "layer", target, force_of(layer))
        out = tmp_path / f"out{i}"
        write_folder(out, finish(c))
        for level in ("-O0", "-O2", "-Os"):
            flags = [*target.c_flags, *STRICT_WARNINGS, level]
            run_compiler([compiler, *flags, "-c", "layer.c", "-o", "layer.o"], out)


def test_clang_takes_the_assembler(tmp_path: Path) -> None:
    """That of functions without any C, whose steps are entered by the bytes that one has."""
    clang = needs_tool("clang")
    names = ["mcc_pairs_i8_4", "mcc_pairs_u8_1", "mcc_pair", "mcc_stage_u8"]
    helpers, _ = with_needs(names, resolve("cortex-m4"))
    kept = ", ".join(f"(void (*)(void)){name}" for name in names)
    begin = ["#define MCC_PLACE_CODE", "#include <stdint.h>"]
    lines = [*begin, *(h.text for h in helpers), f"void (*const kept[])(void) = {{ {kept} }};"]
    (tmp_path / "m.c").write_text("\n".join(lines))
    core = ["--target=arm-none-eabi", "-mcpu=cortex-m4", "-mthumb", "-ffreestanding", "-std=c99"]
    for level in ("-O0", "-O2"):
        flags = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-function", level]
        run_compiler([clang, *core, *flags, "-c", "m.c", "-o", "m.o"], tmp_path)


OF_CORES = {
    "cortex-m4": ("conv.staged", "conv.planes"),
    "cortex-m4 -Os": ("conv.staged", "conv.planes"),  # functions may begin between two words
    "cortex-m55": ("conv.staged", "conv.lines"), "riscv32imac": ("conv.staged", "matmul.row"),
    "cortex-m0plus": ("matmul.row",),
    "cortex-m4 -DMCC_NO_ASM": ("conv.staged", "conv.planes", "matmul.row"),
}  # fmt: skip


@pytest.mark.parametrize(("core", "families"), OF_CORES.items(), ids=OF_CORES)
def test_a_core_computes_what_its_text_means_here(core: str, families: Sequence[str], tmp_path: Path) -> None:
    """Instructions of its own, not what stands for them on other machines."""
    core, *flags = core.split()
    target = resolve(needs_target(core))
    for family in families:
        force, cases = FAMILIES[family]
        chosen = [c for c in cases if c.dtype == "i8" and c.form == "fixed"][::2]
        folder = tmp_path / family
        folder.mkdir()
        found = [built(c, i, f"case{i}", target, force) for i, c in enumerate(chosen)]
        on_board = CaseLibrary(folder, found, [*target.c_flags, *STRICT_WARNINGS, "-O2", *flags]).build()
        for i, (layer, b) in enumerate(zip(chosen, found, strict=True)):
            assert set(force.values()) <= kernels_of(b), layer.name
            graph = graph_of(layer, i)
            inputs = inputs_of(graph, 1)
            (want,) = graph.evaluate(inputs).values()
            (got,) = on_board.run(b, inputs)
            assert np.array_equal(got, want), layer.name


POINTS = conv((1, 16, 12, 5), (16, 16, 1, 1), zero=-128)
WINDOWS = depthwise((1, 16, 12, 5), (3, 3), pads=(1, 1, 1, 1), zero=-128)


@pytest.mark.parametrize(
    ("layer", "kernel", "arithmetic"),
    [
        *((POINTS, "conv.staged", a) for a in ARITHMETICS),
        *((replace(POINTS, stored=False), "conv.staged", a) for a in ARITHMETICS),
        *((WINDOWS, "conv.planes", a) for a in ARITHMETICS),
        (WINDOWS, "conv.lines", "mve"),
    ],
    ids=lambda v: v if isinstance(v, str) else v.name,
)
def test_results_take_the_place_of_operands(layer: Layer, kernel: str, arithmetic: str, tmp_path: Path) -> None:
    """The arena has room for one tensor and a few hundred bytes."""
    (b,) = library([layer], arithmetic, {"conv": kernel}, tmp_path).built
    program = b.compilation.program
    assert program is not None
    steps = [s for s in program.body.linear() if isinstance(s, Call) and s.kernel.startswith("conv.")]
    for step in steps:
        assert 0 in step.inplace
    if layer.stored:
        (step,) = steps
        assert step.reads[0] is not None
        assert program.offsets[step.reads[0].buffer] == program.offsets[step.results[0].buffer]


def test_channels_share_words_only_where_sums_allow_it() -> None:
    even, odd = np.array([[-127, 127]]), np.array([[127, -128]])
    begins = np.zeros(2, np.int64)
    assert may_pair(np.concatenate([even, odd]), begins, -128, 127)
    assert not may_pair(np.concatenate([np.array([[-128, 0]]), np.array([[-1, 0]])]), begins, -128, 127)
    assert may_pair(np.concatenate([np.array([[-128, 0]]), np.array([[0, 0]])]), begins, -128, 127)
    many = np.full((2, 516), 127)
    assert may_pair(many, begins, -128, 127) is (516 * 127 * 128 < 2**23)
    assert not may_pair(many[:, :4], np.array([2**23, 0]), -128, 127)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_rows_whose_sums_begin_beyond_32_bits(dtype: type, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With 128 times the sum of the row less, as weights without sign want it; the whole sums fit."""
    monkeypatch.setitem(targets(), "narrow", replace(host("narrow"), name="narrow"))
    terms, size = (132_000, -128) if dtype is np.int8 else (66_000, 255)
    weights = (np.arange(3 * terms).reshape(terms, 3) % 7 - 103).astype(np.int8)
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    given = [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), [1, terms])]
    results = [helper.make_tensor_value_info("y", TensorProto.INT32, [1, 3])]
    graph = helper.make_graph([node], "g", given, results, [numpy_helper.from_array(weights, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    report = mccompile.compile(model, tmp_path, target="narrow", kernels={"matmul": "matmul.row"}).report
    assert [step["kernel"] for step in report["steps"]] == ["matmul.row"]
    x = np.full((1, terms), size, dtype)
    (got,) = build(tmp_path, SANITIZERS).run("same", [{"x": x}])
    np.testing.assert_array_equal(got["y"], x.astype(np.int64) @ weights.astype(np.int64))


@pytest.mark.parametrize(("bits", "reason"), [(ex.num(5, I32), ""), (ex.Var(I32, 1), "shifted by other numbers")])
def test_words_are_shifted_by_constants(bits: ex.Expr, reason: str) -> None:
    body = ex.apply("sat_i8", ex.apply("asr", ex.Var(I32, 0), bits))
    assert reason in no_words(body)
    assert bool(reason) == bool(no_words(body))


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


def seen(name: str, shape: Sequence[int]) -> tuple[list[onnx.NodeProto], tuple[int, ...]]:
    """Nodes that make of `x` a view of a shape, and the shape of `x`."""
    n, c, *space = shape
    if name == "transposed":
        return [helper.make_node("Transpose", ["x"], ["v"], perm=[0, 3, 2, 1])], (n, *reversed(space), c)
    if name == "pixels":
        return [helper.make_node("Transpose", ["x"], ["v"], perm=[0, 3, 1, 2])], (n, *space, c)
    if name == "repeated":
        return [helper.make_node("Expand", ["x", "shape"], ["v"])], (n, c, 1, space[1])
    axis = {"channels backwards": 1, "lines backwards": 2, "columns backwards": 3}[name]
    start, end, step = (
        helper.make_node("Constant", [], [word], value_ints=[value])
        for word, value in (("start", -1), ("end", -(2**40)), ("step", -1))
    )
    along = helper.make_node("Constant", [], ["axis"], value_ints=[axis])
    cut = helper.make_node("Slice", ["x", "start", "end", "axis", "step"], ["v"])
    return [start, end, step, along, cut], tuple(shape)


@pytest.mark.parametrize(
    "name", ["transposed", "pixels", "repeated", "channels backwards", "lines backwards", "columns backwards"]
)
@pytest.mark.parametrize(("kernel", "groups", "stride"), [(3, 1, 1), (1, 1, 1), (1, 1, 2), (3, 6, 1), (3, 6, 2)])
@pytest.mark.parametrize("target", ["generic", BYTE_VECTORS])
def test_views_of_any_stride(
    name: str, kernel: int, groups: int, stride: int, target: str, tmp_path: Path
) -> None:
    """Operands that are seen through copies: as the generic kernel, byte by byte."""
    rng = np.random.default_rng(0)
    nodes, shape = seen(name, (1, 6, 8, 9))
    w = rng.integers(-127, 128, (6, 6 // groups, kernel, kernel)).astype(np.int8)
    zero = np.array(5, np.int8)
    numbers = {"scale": np.float32(1), "zero": zero, "w": w, "plain": np.array(0, np.int8), "out": np.float32(301)}
    numbers["shape"] = np.array((1, 6, 8, 9), np.int64)
    names = ["v", "scale", "zero", "w", "scale", "plain", "out", "zero"]
    pads = [kernel // 2] * 4
    layer = helper.make_node("QLinearConv", names, ["y"], group=groups, strides=[stride] * 2, pads=pads)
    x = helper.make_tensor_value_info("x", onnx.TensorProto.INT8, shape)
    constants = [numpy_helper.from_array(np.asarray(v), k) for k, v in numbers.items()]
    graph = helper.make_graph([*nodes, layer], "g", [x], [helper.make_empty_tensor_value_info("y")], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    (tmp_path / "m.onnx").write_bytes(onnx.shape_inference.infer_shapes(model).SerializeToString())
    given = {"x": rng.integers(-128, 128, shape).astype(np.int8)}
    found = []
    for folder, force in (("own", {}), ("generic", {"conv": "conv.generic"})):
        made = mccompile.compile(tmp_path / "m.onnx", tmp_path / folder, target=target, kernels=force)
        assert ("conv.generic" in made.report["kernels"]) == bool(force)
        found.append(mccompile.load(tmp_path / folder).run(given)["y"])
    assert found[1].std() > 5
    assert (found[0] == found[1]).all()


PRODUCTS_OF_HALVES = """
#define __ARM_ARCH_6M__ 1
#define MCC_PLACE_CODE
#include <stdint.h>
%s
int main(void)
{
    static const int32_t ends[] = { INT32_MIN, INT32_MIN + 1, -65536, -65535, -32768, -1, 0, 1, 32767, 65535, 65536,
                                    0x7FFF0000, INT32_MAX };
    uint64_t drawn = 88172645463325252u;
    for (int i = 0; i < 13 * 13 + 1000000; ++i) {
        drawn ^= drawn << 13;
        drawn ^= drawn >> 7;
        drawn ^= drawn << 17;
        const int32_t a = (i < 169) ? ends[i / 13] : (int32_t)(uint32_t)drawn >> (i & 15);
        const int32_t b = (i < 169) ? ends[i %% 13] : (int32_t)(uint32_t)(drawn >> 32);
        if (mcc_mulhi_i32(a, b) != (int32_t)(((int64_t)a * b) >> 32)) return 1;
    }
    return 0;
}
"""


def test_high_halves_of_products_on_cores_without_long_ones(tmp_path: Path) -> None:
    """Their C, run here: at the ends of 32 bits and on drawn numbers, nothing undefined."""
    compiler = needs_sanitizers("gcc")
    helpers, _ = with_needs(["mcc_mulhi_i32"], resolve("cortex-m0plus"))
    (tmp_path / "m.c").write_text(PRODUCTS_OF_HALVES % "\n".join(h.text for h in helpers))
    run_compiler([compiler, "-O1", *SANITIZERS, "m.c", "-o", "m"], tmp_path)
    subprocess.run([tmp_path / "m"], check=True)
