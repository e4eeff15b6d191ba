"""Every kernel variant, forced on networks around its tiles: against onnxruntime and against the generic kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import mccompile
from mccompile.driver import Compilation, Options, compile_program, import_graph, place_program
from mccompile.ir.kernel import Call
from mccompile.kernels.model.tiles import Tile
from mccompile.ops.sampling import Case
from mccompile.targets.target import STRICT_WARNINGS, resolve, strict_warnings
from tests._skips import REPOSITORY, needs_sanitizers, needs_tool
from tests.kernels.cases import DIRECT, MATMULS, POINTWISE, TRANSPOSED_DIRECT, Net, VariantCase, matmul
from tests.kernels.cases_channels import DEPTHWISE, OVER_CHANNELS
from tests.kernels.cases_conv_channels import CHANNELS
from tests.kernels.cases_matmul import ATTENTION, DOT, QUANTISED, VARIABLE, WORDS
from tests.kernels.cases_recurrent import RECURRENT
from tests.kernels.cases_strassen import STRASSEN
from tests.kernels.cases_vectors import GUARDED_VECTORS, VECTORS
from tests.kernels.cases_winograd import WINOGRAD
from tests.kernels.halos import FREE, HALOS
from tests.support.compiled import keep_layouts, store_channels_last
from tests.support.harness import SANITIZERS, SPLIT, build
from tests.support.judge import plain_session
from tests.support.opcases import Built, CaseLibrary, mismatch
from tests.support.targets import ALL_VECTORS, FOREIGN, NARROW, WIDE, needs_target

Array = np.ndarray[Any, np.dtype[Any]]
CASES = [
    *MATMULS, *POINTWISE, *DIRECT, *VECTORS, *HALOS, *FREE, *RECURRENT, *VARIABLE, *DOT, *ATTENTION, *CHANNELS,
    *WINOGRAD, *OVER_CHANNELS, *QUANTISED, *WORDS, *TRANSPOSED_DIRECT, *STRASSEN,
]
EVERY = [WIDE[-1], *(pytest.param(name, marks=pytest.mark.slow) for name in (*WIDE[:-1], *NARROW))]
GUARDED = [MATMULS[3], POINTWISE[0], DIRECT[6], DIRECT[14], HALOS[3], HALOS[6], FREE[0], WINOGRAD[3], WINOGRAD[-1]]
GUARDED += [QUANTISED[4], WORDS[4], WORDS[-1]]
GUARDED += [VARIABLE[2], VARIABLE[36], VARIABLE[-2], VARIABLE[-4], DOT[3], ATTENTION[5], ATTENTION[-1], DEPTHWISE[-1]]
GUARDED += [*GUARDED_VECTORS, *CHANNELS[-3:], STRASSEN[3], STRASSEN[14], STRASSEN[22], RECURRENT[-7], RECURRENT[-8]]


def of_kernel(kernel: str) -> list[VariantCase]:
    return [c for c in CASES if c.kernel == kernel]


def inputs_of(model: onnx.ModelProto, seed: int) -> dict[str, Array]:
    """Floats about zero, and whole numbers of all sizes."""
    rng = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for v in model.graph.input:
        shape = [d.dim_value for d in v.type.tensor_type.shape.dim]
        whole = v.type.tensor_type.elem_type == onnx.TensorProto.INT32
        drawn = rng.uniform(-1, 1, shape) * 2.0 ** rng.uniform(0, 31, shape) if whole else rng.uniform(-2, 2, shape)
        found[v.name] = drawn.astype(np.int32 if whole else np.float32)
    return found


def ort_run(model: onnx.ModelProto, inputs: dict[str, Array]) -> list[Array]:
    return list(plain_session(model.SerializeToString()).run(None, inputs))


def placed(case: VariantCase, number: int, target: str, folder: Path, force: dict[str, str]) -> Compilation:
    """The case with an address for every buffer; no C yet."""
    c = imported(case, number, target, folder, force)
    place_program(c)
    return c


def compiled(
    case: VariantCase, number: int, target: str, folder: Path, force: dict[str, str], threads: int = 1
) -> Built:
    c = imported(case, number, target, folder, force, threads)
    return Built(number, Case([]), [], c, compile_program(c))


def imported(
    case: VariantCase, number: int, target: str, folder: Path, force: dict[str, str], threads: int = 1
) -> Compilation:
    """The case as a graph, stored as it asks for."""
    path = folder / f"case{number}.onnx"
    path.write_bytes(case.model().SerializeToString())
    c = import_graph(path, Options(target=target, name=f"case{number}", kernels=force, threads=threads))
    if case.channels_last:
        store_channels_last(c)
    else:
        keep_layouts(c)
    return c


def kernels_of(built: Built) -> set[str]:
    assert built.compilation.program is not None
    return {s.kernel for s in built.compilation.program.body.linear() if isinstance(s, Call)}


def library(
    cases: Sequence[VariantCase], target: str, folder: Path, generic: bool = False, flags: Sequence[str] = (),
    threads: int = 1,
) -> CaseLibrary:
    folder.mkdir()
    family = {op for c in cases for op in c.force}
    plain = {op: f"{op}.generic" for op in family}
    built = [compiled(c, i, target, folder, plain if generic else c.force, threads) for i, c in enumerate(cases)]
    flags = ["-O0"] if generic else flags
    return CaseLibrary(folder, built, [*resolve(target).c_flags, *STRICT_WARNINGS, *flags]).build()


@pytest.mark.parametrize(
    ("target", "first", "every", "flags"),
    [
        (WIDE[-1], 0, 8, []),
        (WIDE[-1], 1, 12, ["-O1"]),
        *((name, 2, 8, ["-O1"]) for name in WIDE[:-1]),
        *((name, 0, 12, ["-O1"]) for name in NARROW),
        *((name, 3 + i, 36, ["-O1"]) for i, name in enumerate(FOREIGN)),
        *(pytest.param(name, 0, 1, [], marks=pytest.mark.slow) for name in (*WIDE, *NARROW, *FOREIGN)),
    ],
)
def test_forced_variants_agree(target: str, first: int, every: int, flags: list[str], tmp_path: Path) -> None:
    """With onnxruntime and, where it is compiled as users do, with the generic kernel: on an arena full of 0xFF,
    twice with other inputs; the kernel that was forced is the one that ran."""
    needs_target(target)
    cases = [c for kernel in dict.fromkeys(c.kernel for c in CASES) for c in of_kernel(kernel)[first::every]]
    forced = library(cases, target, tmp_path / "forced", flags=flags)
    generic = None if flags else library(cases, target, tmp_path / "generic", generic=True)
    for i, (case, built) in enumerate(zip(cases, forced.built, strict=True)):
        assert case.kernel in kernels_of(built), case.name
        assert generic is None or case.kernel not in kernels_of(generic.built[i]), case.name
        model = case.model()
        for seed in (1, 2):
            inputs = inputs_of(model, seed)
            got = forced.run(built, inputs)
            others = [generic.run(generic.built[i], inputs)] if generic else []
            for wanted in (ort_run(model, inputs), *others):
                faults = [mismatch(a, b, case.tolerance) for a, b in zip(got, wanted, strict=True)]
                assert not any(faults), f"{case.name}: {faults}"


@pytest.mark.parametrize("target", ALL_VECTORS)
def test_vector_epilogues_keep_special_values(target: str, tmp_path: Path) -> None:
    """x * 1 is x, whatever it is: NaN, infinities and zeros reach the epilogues as they are."""
    needs_target(target)
    cases = [matmul((6, 1), 19, tail) for tail in ("clip", "masks", "roots", "residual", "swish")]
    forced = library(cases, target, tmp_path / "forced")
    generic = library(cases, target, tmp_path / "generic", generic=True)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0], dtype=np.float32)
    for case, built, plain in zip(cases, forced.built, generic.built, strict=True):
        inputs = inputs_of(case.model(), 3)
        inputs["x0"] = special.reshape(6, 1)
        (got,), (want,) = forced.run(built, inputs), generic.run(plain, inputs)
        assert np.isnan(want).any(), case.name
        assert not mismatch(got, want, case.tolerance), f"{case.name}: {mismatch(got, want, case.tolerance)}"


TINY = 2.0**-126
"""The least normal number: what is smaller is zero to a target without denormals."""
FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "Exp": np.exp, "Tanh": np.tanh, "Sigmoid": lambda x: 1 / (1 + np.exp(-x)), "Sqrt": np.sqrt, "Abs": np.abs,
}  # fmt: skip


@pytest.mark.parametrize("target", ALL_VECTORS)
def test_vector_functions_are_accurate(target: str, tmp_path: Path) -> None:
    """x * 1 in an epilogue, for all magnitudes: within 4 ulp of the exact value, as the scalar table promises."""
    needs_target(target)
    points = np.concatenate(
        [np.linspace(-110, 110, 4001), np.geomspace(1e-40, 3e38, 2000), -np.geomspace(1e-40, 3e38, 2000)]
    )
    if not resolve(target).denormals:
        points = points[np.abs(points) >= TINY]
    x = np.concatenate([points, [np.nan, np.inf, -np.inf, 0.0]]).astype(np.float32).reshape(-1, 1)

    def case(op: str) -> VariantCase:
        def graph(n: Net) -> list[str]:
            return [n(op, n("MatMul", n.input(*x.shape), n.constant(np.ones((1, 21), dtype=np.float32))))]

        return VariantCase(op, "matmul.packed", graph)

    lib = library([case(op) for op in FUNCTIONS], target, tmp_path / "net")
    for op, built in zip(FUNCTIONS, lib.built, strict=True):
        assert "matmul.packed" in kernels_of(built)
        (got,) = lib.run(built, {"x0": x})
        _accurate(op, x, got, resolve(target).denormals)


def _accurate(op: str, x: Array, got: Array, denormals: bool) -> None:
    with np.errstate(all="ignore"):
        exact = np.broadcast_to(FUNCTIONS[op](x.astype(np.float64)), got.shape)
        want = exact.astype(np.float32)
    finite = np.isfinite(want)
    assert np.array_equal(got[~finite], want[~finite], equal_nan=True), op
    if not denormals:
        exact = np.where(np.abs(exact) < TINY, 0.0, exact)
    least = 1e-30 if op == "Sigmoid" else TINY  # 1 / (1 + exp(89)) is zero, in scalar C as well
    error = np.abs(got[finite] - exact[finite]) / np.maximum(np.abs(exact[finite]), least)
    assert error.max() <= 4 * 2.0**-23, f"{op}({np.broadcast_to(x, got.shape)[finite][error.argmax()]})"


ELSEWHERE = {
    "conv.blocks", "conv.integer", "conv.integer_depthwise", "conv.integer_winograd", "conv.lines", "conv.narrow",
    "conv.planes", "conv.staged", "map.bytes", "matmul.row", "nms.vector", "matmul.doubles", "reduce.doubles",
}  # fmt: skip
"""Kernels of bytes (test_integer*.py), of floats of 16 bits (test_narrow_products.py), those of
microcontrollers at -Os (compositions of the target `ONE_LANE`), what compares boxes (test_nms.py), functions of one
byte (test_byte_tables.py), and doubles (test_doubles.py, test_reduced_doubles.py)."""


def test_every_variant_has_a_case() -> None:
    """A template that no case forces is not tested."""
    templates = (REPOSITORY / "kernels_templates").glob("[a-z]*/*.c.j2")
    variants = {f"{p.parent.name}.{p.name.removesuffix('.c.j2')}" for p in templates}
    forced = {c.kernel for c in CASES}
    assert forced.isdisjoint(ELSEWHERE)
    assert {v for v in variants if not v.endswith(".generic")} == forced | ELSEWHERE


@pytest.mark.parametrize("target", EVERY)
def test_tiles_end_before_at_and_behind_extents(target: str, tmp_path: Path) -> None:
    """The cases reach tiles that fit exactly, that leave a rest, and that are larger than the extent."""
    seen: dict[str, set[tuple[int, bool]]] = {}
    for i, case in enumerate(CASES):
        program = placed(case, i, target, tmp_path, case.force).program
        assert program is not None
        for step in program.body.linear():
            if isinstance(step, Call) and step.kernel == case.kernel and isinstance(step.params, Tile):
                shape, tile = step.results[0].shape, step.params
                groups = getattr(step.op, "groups", 1)
                columns_last = ("matmul.packed", "matmul.strassen", "conv.channels")
                last = step.kernel in columns_last or step.op.name in ("matmul", "attention")
                rows, width = (shape[-2], shape[-1] // groups) if last else (shape[1] // groups, shape[-1])
                fit = seen.setdefault(case.kernel, set())
                fit |= {(0, rows % tile.rows == 0), (1, width % tile.width == 0), (2, width < tile.width)}
    for kernel, fits in seen.items():
        assert fits == {(axis, fit) for axis in (0, 1, 2) for fit in (False, True)}, kernel


@pytest.mark.parametrize(
    ("target", "case"),
    [
        *((WIDE[-1], case) for case in GUARDED),
        *(
            pytest.param(name, case, marks=[pytest.mark.slow] if i % 3 else [])
            for name in WIDE[:-1]
            for i, case in enumerate(GUARDED)
        ),
    ],
    ids=lambda v: v if isinstance(v, str) else v.name,
)
def test_no_access_outside_of_the_tensors(case: VariantCase, target: str, tmp_path: Path) -> None:
    """Between forbidden pages, at the least alignment, and with a poisoned guard around each tensor."""
    needs_target(target)
    compiler = needs_sanitizers("gcc")
    model = case.model()
    (tmp_path / "guarded.onnx").write_bytes(model.SerializeToString())
    mccompile.compile(tmp_path / "guarded.onnx", tmp_path / "out", target=target, kernels=case.force)
    runs = [inputs_of(model, seed) for seed in (1, 2)]
    wanted = [ort_run(model, inputs) for inputs in runs]
    plain = build(tmp_path / "out", (), compiler)
    split = build(tmp_path / "out", [*SANITIZERS, SPLIT, "-O0"], compiler)
    for harness, places in ((plain, ("low", "high", "odd")), (split, ("odd",))):
        for place in places:
            for got, want in zip(harness.run(place, runs), wanted, strict=True):
                for a, b in zip(got.values(), want, strict=True):
                    assert not mismatch(a, b, case.tolerance), f"{place}: {mismatch(a, b, case.tolerance)}"


@pytest.mark.parametrize("target", [*WIDE, "x86-64-v2"])
def test_clang_accepts_the_vector_text(target: str, tmp_path: Path) -> None:
    needs_target(target)
    clang = needs_tool("clang")
    cases = [matmul((4, 1), 18, "masks"), matmul((4, 1), 18, "roots"), *DIRECT[6:8], *DIRECT[12:16], POINTWISE[0]]
    cases += [VARIABLE[3], VARIABLE[-2], *ATTENTION[9:14], *VECTORS[::5]]
    built = [compiled(c, i, target, tmp_path, c.force) for i, c in enumerate(cases)]
    flags = [*resolve(target).c_flags, *strict_warnings("clang")]
    lib = CaseLibrary(tmp_path, built, flags, (clang,)).build()
    for case, b in zip(cases, built, strict=True):
        model = case.model()
        inputs = inputs_of(model, 1)
        for got, want in zip(lib.run(b, inputs), ort_run(model, inputs), strict=True):
            assert not mismatch(got, want, case.tolerance), f"{case.name}: {mismatch(got, want, case.tolerance)}"
