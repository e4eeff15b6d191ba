"""Kernels that differ only in numbers are one function of these."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from mccompile.codegen import kernels
from mccompile.codegen.printed import Rendered, Step
from mccompile.codegen.savings import least_saving
from mccompile.codegen.shared_numbers import Form, form_of, joined
from mccompile.codegen.sharing import _calling
from mccompile.driver import Options
from mccompile.ir.graph import Graph
from mccompile.ir.graph_text import parse_graph
from mccompile.ops.registry import front_ends, lookup
from mccompile.targets.target import STRICT_WARNINGS, at_level, resolve, strict_warnings
from tests._fast import share
from tests._skips import needs_tool
from tests.support.compiled import compiled_graph
from tests.support.opcases import CaseLibrary, case_inputs, compile_case, mismatch
from tests.support.targets import needs_target

LAYERS = (
    (8, 8, 3, 1 << 26, -2040, 4), (8, 8, 3, 1 << 25, 520, 3), (8, 8, 3, 1 << 26, 96, 4),
    (8, 16, 1, 1 << 27, 8160, 6), (16, 32, 1, 1 << 27, 96, 5), (32, 8, 1, 1 << 27, 96, 4),
)  # fmt: skip
"""Channels, filters, taps, and what scales the sums of convolutions that follow each other. The first reads planes,
the last writes them."""


def _network() -> Graph:
    rng = np.random.default_rng(3)
    lines = ["graph @g(%q0: i8[1,8,9,7]) {"]
    for i, (channels, filters, taps, m, c, s) in enumerate(LAYERS):
        shape = (filters, channels, taps, taps)
        weights, starts = rng.integers(-40, 40, shape), rng.integers(-900, 900, filters)
        pads = ", ".join([str(taps // 2)] * 4)
        lines += [
            f"%w{i} = const {weights.reshape(-1).tolist()} : i8[{','.join(map(str, shape))}]",
            f"%b{i} = const {starts.tolist()} : i32[{filters},1,1]",
            f"%q{i + 1} = conv(%q{i}, %w{i}) {{strides=(1, 1), pads=({pads}), dilations=(1, 1)}} with(%b{i})",
            "pre0{ (i32(acc) - i32(-128)) } pre1{ i32(acc) }",
            f"post0{{ sat_i8(asr((mulhi((acc + x0), i32({m})) + i32({c})), i32({s}))) }} : i8[1,{filters},9,7]",
        ]
    text = "\n".join([*lines, f"return %q{len(LAYERS)}", "}"])
    return parse_graph(text.replace("with(", "\n with("), lookup)


@pytest.mark.parametrize(("target", "level"), [("generic", "Os"), ("cortex-m4", "Os")])
@pytest.mark.thorough
def test_layers_that_differ_in_numbers_share_a_function(target: str, level: str, tmp_path: Path) -> None:
    needs_target(target)
    b = compiled_graph(_network(), level, "g", target=target)
    names = [k.kernel for k in b.facts.kernels]
    assert names.count("conv.staged") < len(LAYERS), names
    library = CaseLibrary(tmp_path, [b], [*resolve(target).c_flags, *STRICT_WARNINGS]).build()
    inputs = {"q0": np.random.default_rng(4).integers(-128, 128, (1, 8, 9, 7)).astype(np.int8)}
    (want,) = _network().evaluate(inputs).values()
    (got,) = library.run(b, inputs)
    assert want.std() > 10
    assert np.array_equal(got, want)


def _depthwise(rows: tuple[int, ...], pointwise: int) -> Graph:
    """Depthwise convolutions of so many rows each, and products of many channels, most of the work there is."""
    rng = np.random.default_rng(5)
    taps, wide = rng.standard_normal((32, 1, 3, 3)).tolist(), rng.standard_normal((pointwise, 32, 1, 1)).tolist()
    numbers = [str(np.asarray(w).reshape(-1).tolist()) for w in (taps, wide)]
    inputs = ", ".join(f"%x{n}: f32[1,32,{n},{n}]" for n in rows)
    lines = [f"graph @g({inputs}) {{", f"%t = const {numbers[0]} : f32[32,1,3,3]",
             f"%w = const {numbers[1]} : f32[{pointwise},32,1,1]"]  # fmt: skip
    for n in rows:
        lines += [
            f"%d{n} = conv(%x{n}, %t) {{strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1), "
            f"groups=32}} : f32[1,32,{n},{n}]",
            f"%y{n} = conv(%d{n}, %w) {{strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}} "
            f": f32[1,{pointwise},{n},{n}]",
        ]
    outputs = ", ".join(f"%y{n}" for n in rows)
    return parse_graph("\n".join([*lines, f"return {outputs}", "}"]), lookup)


@pytest.mark.parametrize(("pointwise", "level", "functions"), [(960, "O2", 1), (960, "O3", 2), (16, "O2", 2)])
@pytest.mark.thorough
def test_vectors_share_where_the_network_is_hardly_slower(
    pointwise: int, level: str, functions: int, tmp_path: Path
) -> None:
    needs_target("x86-64-v3")
    rows = (28, 56)
    b = compiled_graph(_depthwise(rows, pointwise), level, "g", target="x86-64-v3")
    assert [k.kernel for k in b.facts.kernels].count("conv.depthwise") == functions
    library = CaseLibrary(tmp_path, [b], [*resolve("x86-64-v3").c_flags, *STRICT_WARNINGS]).build()
    rng = np.random.default_rng(4)
    inputs = {f"x{n}": rng.standard_normal((1, 32, n, n)).astype(np.float32) for n in rows}
    wanted = _depthwise(rows, pointwise).evaluate(inputs).values()
    for got, want in zip(library.run(b, inputs), wanted, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-4 * np.abs(want).max())


def test_where_it_is_done() -> None:
    assert least_saving(at_level(resolve("x86-64-v3"), "O3")) is None
    assert least_saving(at_level(resolve("generic"), "O2")) is None
    found = [least_saving(at_level(resolve("cortex-m4"), level)) for level in ("Os", "O2")]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0] < found[1]


def _texts(*numbers: tuple[int, ...]) -> list[str]:
    inner = "static void KERNEL_NAME_stage(int8_t *to)\n{\n    to[%d] = 1;\n}\n"
    outer = "static void KERNEL_NAME(int8_t *y0)\n{\n    KERNEL_NAME_stage(&y0[%d]);\n    y0[%d] = y0[%d * 2];\n}\n"
    return [(inner + outer) % n for n in numbers]


def test_functions_beside_a_kernel_get_the_numbers_that_they_mention() -> None:
    texts = _texts((5, 1, 5, 12), (7, 1, 7, 15))
    one = joined([form_of(t) for t in texts])
    assert "KERNEL_NAME_stage(int8_t *to, int32_t n0)\n" in one.text
    assert "KERNEL_NAME(int8_t *y0, int32_t n0, int32_t n1)\n" in one.text
    assert "KERNEL_NAME_stage(&y0[1], n0);" in one.text
    assert one.values == ((5, 12), (7, 15))


def test_numbers_that_follow_from_others_are_no_parameters() -> None:
    one = joined([form_of(t) for t in _texts((5, 15, 7, 9), (7, 21, 9, 9))])
    assert one.values == ((5,), (7,))
    assert "&y0[(3 * n0)]" in one.text
    assert "y0[(n0 + 2)] = y0[9 * 2]" in one.text


@pytest.mark.parametrize(
    "text",
    [
        "int32_t acc[{}];", "int32_t acc[3][{}];", "memcpy(to, from, {});", "i = j / {};", "i = j % {};",
        "d = mcc_vload_shorts_u8(p, {});",
        "to[i] = {};", "/* of {} channels */", "#define X {}", "x = {}.5f;", "x = 1e-{}f;", "x = 1.5e+{};",
        "x = {}u;", "k{} = 1;", "x = y == INT64_C({});", "x = UINT32_C({}) + y;", "case {}:", "case (uint8_t){}:",
        "const float *a[{}];", "const float *const *a[3][{}];", "float a[3], b[{}];", "void f(float a[{}], int n);",
        "void f(float (*a)[{}]);", "static const int32_t a[1] = {{ {} }};", "static MCC_ALIGNED(4) int8_t x = {};",
        "static const char t[] = \"a;b\"; /* don't */ f(\"{}\");", 'f("times {}");', 'f("a\\"{}");', "x = '{}';",
        "// of {} channels", "#define X \\\n {}", "enum {{ A = {} }};", "MCC_STATIC_ASSERT(a, sizeof(x) == {});",
        "x = 0{};", "x = 0x{};", "x = 0x1.8p-{};", "x = 1.e-{};", "v = __builtin_shufflevector(a, b, {}, 1);",
        "MCC_ALIGNED({}) float x;", "x = 429496729{};", "x = -214748364800{};",
    ],
)  # fmt: skip
def test_what_decides_on_instructions_or_has_to_be_constant_stays_a_number(text: str) -> None:
    forms = [form_of(text.format(n)) for n in (5, 6)]
    assert forms[0].pieces != forms[1].pieces


@pytest.mark.parametrize("text", ["static const float a[2] = {{ 0.5f, {}.5f }};", 'f("{}.5f");', "/* {}.5f */"])
def test_floats_stay_where_they_have_to_be_constant(text: str) -> None:
    forms = [form_of(text.format(n), floats=True) for n in (5, 6)]
    assert forms[0].pieces != forms[1].pieces


BEFORE = ("c = '\"';", "/* don't */", "// don't\n", 'f("\\\\");', "static void f(int a)\n{", "")


@pytest.mark.parametrize("before", BEFORE)
def test_what_stands_behind_is_a_number_again(before: str) -> None:
    """Text in quotes, comments and heads of functions end where they end."""
    assert form_of(f"{before} x = y[7] + 2147483647; /* ' */").numbers == (7, 2147483647)


def test_floats_are_divided_by_as_by_any_number() -> None:
    assert form_of("x = y / 192.0f + z / 13.5f;", floats=True).numbers == ("192.0f", "13.5f")
    assert form_of("i = j / 192 + k % 13;", floats=True).numbers == ()


def test_floats_and_integers_are_of_two_kinds() -> None:
    forms = [form_of(f"x = y * {n};", floats=True) for n in ("2.0f", "2")]
    assert forms[0].pieces == forms[1].pieces
    assert forms[0].kind != forms[1].kind


SAMPLED = [f for f in front_ends().values() if f.sample is not None]
TOGETHER = 12
"""Operators whose cases are compiled at once."""


def _of_numbers(steps: list[Step], printer: object) -> tuple[list[Step], dict[str, Rendered]]:
    """Steps whose kernels are given all numbers that may differ."""
    out = []
    for s in steps:
        form = form_of(s.made.text, floats=True)
        others = (f"{i}.5f" if isinstance(n, str) else 10007 + 7919 * i * i for i, n in enumerate(form.numbers, 3))
        one = joined([form, Form(form.pieces, tuple(others))])
        out.append(_calling(s, one, one.values[0], once=False))
    return out, {}


@pytest.mark.parametrize("first", share(range(0, len(SAMPLED), TOGETHER), 8))
@pytest.mark.parametrize("target", ["generic", "x86-64-v3"])
def test_all_numbers_of_kernels_may_be_parameters(
    target: str, first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What templates print is C, and computes the same, with each number that is not fixed as a parameter."""
    needs_target(target)
    monkeypatch.setattr(kernels, "with_less_code", _of_numbers)
    options, chosen = Options(target=target, opt_level="Os"), SAMPLED[first : first + TOGETHER]
    built = [compile_case(f, 0, tmp_path, options, f"case{i}") for i, f in enumerate(chosen)]
    flags = [*resolve(target).c_flags, "-O1", "-Werror=vla"]
    library = CaseLibrary(tmp_path, built, flags).build()
    for f, b in zip(chosen, built, strict=True):
        for got, want in zip(library.run(b, case_inputs(b.case)), b.expected, strict=True):
            dtype = {"float32": "f32", "float16": "f16"}.get(want.dtype.name, "")
            tolerance = f.tolerance.get(dtype, 0.0) if b.case.tolerance is None else b.case.tolerance
            assert not mismatch(got, want, tolerance), f"{f.op_type}, {b.label}"


def _multiples(*factors: int) -> onnx.ModelProto:
    """For each number: the multiples of it below it times n, and 16 times n times it."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])
    held = {"none": np.array(0), "axis": np.array(0)}
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "axis"], ["n"]),
    ]
    for i, factor in enumerate(factors):
        held |= {f"f{i}": np.array(factor), f"v{i}": np.full(16, factor)}
        nodes += [
            helper.make_node("Mul", ["n", f"f{i}"], [f"end{i}"]),
            helper.make_node("Range", ["none", f"end{i}", f"f{i}"], [f"r{i}"]),
            helper.make_node("Mul", ["shape", f"v{i}"], [f"y{i}"]),
        ]
    names = [f"{kind}{i}" for i in range(len(factors)) for kind in "ry"]
    results = [helper.make_tensor_value_info(name, TensorProto.INT64, None) for name in names]
    initializers = [numpy_helper.from_array(a.astype(np.int64), name) for name, a in held.items()]
    graph = helper.make_graph(nodes, "g", [x], results, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def test_numbers_of_64_bits_are_no_parameters(tmp_path: Path) -> None:
    factors = (2**34 + 7, 3 * 2**33 + 11, 5, 6, 2**31, 2**31 - 1)
    mccompile.compile(_multiples(*factors), tmp_path, target="generic", opt_level="Os", dims={"n": "1..9"})
    found = mccompile.load(tmp_path).run({"x": np.zeros(5, np.float32)})
    for i, factor in enumerate(factors):
        assert found[f"r{i}"].tolist() == [factor * k for k in range(5)]
        assert found[f"y{i}"].tolist() == [5 * factor] * 16


def test_names_that_a_kernel_has_are_not_taken() -> None:
    text = "static void KERNEL_NAME(int8_t *y0)\n{\n    const int32_t n0 = %d;\n    y0[n0] = 1;\n}"
    texts = [text % i for i in (4, 5)]
    assert "int32_t n0 = number0;" in joined([form_of(t) for t in texts]).text


def _ragged(depths: tuple[int, ...], widths: tuple[int, ...], rows: tuple[int, ...]) -> Graph:
    """Products over a few steps, integers that fill no vector, rows by weights of bytes: several of each, in other
    numbers alone."""
    rng = np.random.default_rng(6)
    given = [f"%x{k}: f32[2,{k}]" for k in depths] + [f"%z{n}: f32[{n}]" for n in widths]
    given += [f"%r{k}: f32[1,{k}]" for k in rows]
    lines = [f"graph @g({', '.join(given)}) {{"]
    for k in depths:
        lines += [
            f"%w{k} = const {rng.standard_normal(12 * k).tolist()} : f32[{k},12]",
            f"%y{k} = matmul(%x{k}, %w{k}) : f32[2,12]",
        ]
    for n in widths:
        lines.append(f"%q{n} = map(%z{n}) {{expr={{i16(rne((x0 * 4.0)))}}}} : i16[{n}]")
    for k in rows:
        lines += [
            f"%b{k} = const {rng.integers(-128, 128, k).tolist()} : i8[{k},1]",
            f"%s{k} = const [0.1] : f32[1,1]",
            f"%p{k} = matmul_quantised(%r{k}, %b{k}, %s{k}, _) {{block={k}, zero=3}} : f32[1,1]",
        ]
    outputs = ", ".join([*(f"%y{k}" for k in depths), *(f"%q{n}" for n in widths), *(f"%p{k}" for k in rows)])
    return parse_graph("\n".join([*lines, f"return {outputs}", "}"]), lookup)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_numbers_that_are_parameters_fit_what_they_are_given_to(
    target: str, compiler: str, tmp_path: Path
) -> None:
    """Loops of so many turns are not asked to be written out, and ends of vectors take them as they are."""
    needs_target(target)
    needs_tool(compiler)
    graph = _ragged((3, 4, 5), (3, 5, 6), (32, 64))
    b = compiled_graph(graph, "Os", "g", target=target)
    library = CaseLibrary(tmp_path, [b], [*resolve(target).c_flags, *strict_warnings(compiler)], [compiler]).build()
    rng = np.random.default_rng(7)
    inputs = {v.name: rng.standard_normal(v.shape).astype(np.float32) for v in graph.inputs}
    wanted = _ragged((3, 4, 5), (3, 5, 6), (32, 64)).evaluate(inputs).values()
    for got, want in zip(library.run(b, inputs), wanted, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_tiles_of_other_sizes_are_functions_of_their_own(compiler: str, tmp_path: Path) -> None:
    """Lines of 30 and of 60 end in tiles of 2 and of 4 pixels, whose loops are written out."""
    needs_target("x86-64-v3")
    needs_tool(compiler)
    rows = (30, 60)
    b = compiled_graph(_depthwise(rows, 960), "O2", "g", target="x86-64-v3")
    flags = [*resolve("x86-64-v3").c_flags, *strict_warnings(compiler)]
    library = CaseLibrary(tmp_path, [b], flags, [compiler]).build()
    rng = np.random.default_rng(8)
    inputs = {f"x{n}": rng.standard_normal((1, 32, n, n)).astype(np.float32) for n in rows}
    wanted = _depthwise(rows, 960).evaluate(inputs).values()
    for got, want in zip(library.run(b, inputs), wanted, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-4 * np.abs(want).max())
    assert [k.kernel for k in b.facts.kernels].count("conv.depthwise") == 2


def _written_out(lines: int, apart: int) -> str:
    """A kernel whose functions are given by how many turns they write loops out, and how far apart places are."""
    return f"""\
MCC_INLINE void KERNEL_NAME_line(float (*acc)[7], int32_t count, int32_t apart, int32_t first)
{{
    const int32_t more = (count < 9) ? count : 9;
    const int32_t end = more + 1;
    MCC_UNROLL_FULLY
    for (int32_t i = first; i < end; ++i) {{
        acc[i][0] += apart;
    }}
}}

MCC_INLINE void KERNEL_NAME_tile(float *y0, int32_t lines, int32_t apart)
{{
    float acc[12][7];
    KERNEL_NAME_line(&acc[1], lines, apart, 3);
    y0[apart] = acc[0][0];
}}

static void KERNEL_NAME(float *y0)
{{
    KERNEL_NAME_tile(y0, {lines}, {apart});
}}
"""


def test_turns_that_are_handed_on_to_be_written_out_stay_numbers() -> None:
    assert form_of(_written_out(5, 64)).numbers == (9, 9, 1, 0, 1, 0, 0, 64)
    forms = [form_of(_written_out(*numbers)) for numbers in ((5, 64), (5, 32), (6, 64))]
    assert forms[0].pieces == forms[1].pieces != forms[2].pieces
    assert "KERNEL_NAME_tile(y0, 5, n0)" in joined(forms[:2]).text


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_extents_of_the_run_fit_what_they_are_given_to(target: str, compiler: str, tmp_path: Path) -> None:
    needs_target(target)
    needs_tool(compiler)
    kinds = ("i8", "i16", "u8", "u16")
    maps = [f"%{k} = map(%x) {{expr={{{k}(rne((x0 * 4.0)))}}}} : {k}[9*n]" for k in kinds]
    lines = ["graph @g extents(n=1..7) (%x: f32[9*n]) {", *maps, f"return {', '.join(f'%{k}' for k in kinds)}", "}"]
    b = compiled_graph(parse_graph("\n".join(lines), lookup), "Os", "g", target=target)
    CaseLibrary(tmp_path, [b], [*resolve(target).c_flags, *strict_warnings(compiler)], [compiler]).build()


def test_what_is_fixed_stays_so_beside_hot_loops() -> None:
    """Divisors outside of the loops whose numbers stay, and the numbers in these."""
    loop = "MCC_UNROLL\n    for (int32_t i = 0; i < 12; ++i) {\n        y0[i * 3] = x0[i];\n    }\n"
    head = "static void KERNEL_NAME(float *y0)\n{\n    const int32_t a = n / 7 + 5;\n    "
    text = f"{head}{loop}    y0[9 * a] = 1.0f;\n}}\n"
    assert form_of(text, hot=False).numbers == (5, 9)
    assert form_of(text).numbers == (5, 0, 12, 3, 9)
