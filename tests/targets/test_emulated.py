"""Targets that this machine does not run: their code in an emulator, against onnxruntime."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import mccompile
from mccompile.check.check import check
from mccompile.check.compare import compare
from mccompile.check.factors import F16_FACTOR
from mccompile.driver import Options
from mccompile.ir.errors import CompileError, UsageError
from mccompile.ir.graph_text import parse_graph
from mccompile.ir.scalar import Array
from mccompile.ops.registry import front_ends, lookup
from mccompile.run.build import build_program
from mccompile.run.emulate import EmulatedNet, Emulator, cross_tools, emulated_main
from mccompile.run.network import Network
from mccompile.targets.target import STRICT_WARNINGS, resolve, runs_here, strict_warnings
from tests._skips import REPOSITORY
from tests.kernels.cases import DIRECT, MATMULS, POINTWISE, VariantCase
from tests.kernels.test_variants import inputs_of, ort_run
from tests.ops.test_operators import CASES
from tests.support.compiled import compiled_graph
from tests.support.harness import build
from tests.support.opcases import CaseLibrary, agreement, case_inputs, compile_case, mismatch
from tests.support.real_models import RealModel, real_models
from tests.support.small_models import Maker, write_model
from tests.support.targets import BARE, EMULATED, FOREIGN, NARROW, needs_target

DIGITS = REPOSITORY / "examples" / "digits" / "digits.onnx"
REAL = {m.name: m for m in real_models() if not m.later}
QUICK = ("kws_dscnn_fp32", "mnist8")
ON_BOARDS = [t for t in ("cortex-m4", "riscv32imac") if t in BARE]
SLOW = ("go1_policy", "dtln_stage2", "squeezenet_fp16")
GUARDED = [MATMULS[3], POINTWISE[0], DIRECT[6], DIRECT[14]]


def foreign(name: str) -> str:
    """The target, where it can be emulated and is not this machine's own."""
    if runs_here(needs_target(name)):
        pytest.skip(f"{name} is what this machine runs")
    return name


@pytest.mark.parametrize(
    ("target", "first", "every", "cases"),
    [
        *((t, 0, 1, 1) for t in EMULATED),
        *((t, i, len(ON_BOARDS), 1) for i, t in enumerate(ON_BOARDS)),
        *((t, i, len(FOREIGN), 1) for i, t in enumerate(FOREIGN)),
        *(pytest.param(t, 0, 1, 5, marks=pytest.mark.slow) for t in NARROW),
        *(pytest.param(t, 0, 1, 1, marks=pytest.mark.slow) for t in (*ON_BOARDS, *FOREIGN)),
    ],
)
def test_operators_agree_with_onnxruntime(target: str, first: int, every: int, cases: int, tmp_path: Path) -> None:
    """Every operator, or one in ``every``, ``cases`` samples of each, in one program."""
    needs_target(target)
    ends = [f for f in front_ends().values() if f.sample is not None and not f.composed][first::every]
    options = Options(target=target)
    drawn = [
        (f, compile_case(f, (i + k) % CASES, tmp_path, options, f"net{i}_{k}"))
        for i, f in enumerate(ends) for k in range(cases)
    ]  # fmt: skip
    flags = [*resolve(target).c_flags, *STRICT_WARNINGS, "-O1" if cases == 1 else "-O2"]
    library = CaseLibrary(tmp_path, [b for _, b in drawn], flags).build()
    faults = [agreement(f, b, library.run(b, case_inputs(b.case))) for f, b in drawn]
    assert not any(faults), "\n".join(filter(None, faults))


@pytest.mark.parametrize("target", ["aarch64", "aarch64-sve256"])
def test_what_is_negated_and_then_masked_is_built(target: str, tmp_path: Path) -> None:
    """The last vector of a line: gcc 12 ends in an internal error at -O2 where it negates under a mask of SVE."""
    foreign(target)
    sums = "%n = map(%x) {expr={neg(x0)}} : f32[2,3] %y = reduce(%n) {mode='sum', axes=(1,)} : f32[2,1]"
    graph = parse_graph(f"graph @net(%x: f32[2,3]) {{ {sums} return %y }}", lookup)
    built = compiled_graph(graph, "O2", "net", target=target)
    library = CaseLibrary(tmp_path, [built], [*resolve(target).c_flags, *STRICT_WARNINGS, "-O2"]).build()
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    (got,) = library.run(built, {"x": x})
    np.testing.assert_allclose(got, -x.sum(axis=1, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize("target", NARROW)
@pytest.mark.parametrize(
    "model",
    [pytest.param(REAL[n], marks=pytest.mark.slow if n in SLOW else ()) for n in (*QUICK, *SLOW) if n in REAL],
    ids=lambda m: m.name,
)
def test_networks_agree_with_onnxruntime(model: RealModel, target: str, tmp_path: Path) -> None:
    needs_target(target)
    mccompile.compile(model.path, tmp_path / "out", target=target, input_shapes=model.shapes)
    network = Network(tmp_path / "out", tuple(strict_warnings("gcc")), emulate=True)
    network.fill_arenas(0xFF)
    got, noise = network.run(model.inputs()), model.noise()
    for name, want in model.outputs().items():
        factor = F16_FACTOR if model.half else 1.0
        verdict = compare(name, got[name].reshape(want.shape), want, np.full(want.shape, noise[name]), factor)
        assert verdict.ok, verdict.text()


@pytest.mark.parametrize("target", EMULATED)
@pytest.mark.parametrize("case", GUARDED, ids=lambda c: c.name)
def test_no_access_outside_of_the_memory(case: VariantCase, target: str, tmp_path: Path) -> None:
    """Between forbidden pages, and at no more than the least alignment."""
    foreign(target)
    model = case.model()
    (tmp_path / "guarded.onnx").write_bytes(model.SerializeToString())
    mccompile.compile(tmp_path / "guarded.onnx", tmp_path / "out", target=target, kernels=case.force)
    inputs = inputs_of(model, 1)
    harness = build(tmp_path / "out")
    for place in ("low", "high", "odd"):
        (got,) = harness.run(place, [inputs])
        for value, want in zip(got.values(), ort_run(model, inputs), strict=True):
            assert not mismatch(value, want, case.tolerance), place


JOINED: dict[str, tuple[str, Callable[..., Array]]] = {
    "a": ("exp(log(x0))", lambda x, z: np.exp(np.log(x))),
    "b": ("log(exp(x0))", lambda x, z: np.log(np.exp(x))),
    "c": ("tan(atan(x0))", lambda x, z: np.tan(np.arctan(x))),
    "d": ("div(sinh(x0), cosh(x0))", lambda x, z: np.sinh(x) / np.cosh(x)),
    "e": ("div(tanh(x0), sinh(x0))", lambda x, z: np.tanh(x) / np.sinh(x)),
    "f": ("mul(sqrt(x0), sqrt(x1))", lambda x, z: np.sqrt(x) * np.sqrt(z)),
    "g": ("mul(exp(x0), exp(x1))", lambda x, z: np.exp(x) * np.exp(z)),
    "h": ("mul(pow(x0, x1), pow(x1, x1))", lambda x, z: x**z * z**z),
    "i": ("pow(sqrt(x0), x1)", lambda x, z: np.sqrt(x) ** z),
}


@pytest.mark.parametrize("target", EMULATED)
def test_functions_of_functions_are_called(target: str, tmp_path: Path) -> None:
    """What undoes another, or is multiplied by its like, has its own NaN and infinities."""
    needs_target(target)
    given = {name: "%x, %z" if "x1" in text else "%x" for name, (text, _) in JOINED.items()}
    maps = [f"%{name} = map({given[name]}) {{expr={{{text}}}}} : f64[100]" for name, (text, _) in JOINED.items()]
    body, returned = " ".join(maps), ", ".join(f"%{name}" for name in JOINED)
    graph = parse_graph(f"graph @net(%x: f64[100], %z: f64[100]) {{ {body} return {returned} }}", lookup)
    built = compiled_graph(graph, "O2", "net", target=target)
    library = CaseLibrary(tmp_path, [built], [*resolve(target).c_flags, *STRICT_WARNINGS, "-O1"]).build()
    special = np.array([-1, -2.5, 800, -800, 0, 1e-3, 3, 1e200, np.inf, -np.inf])
    x, z = (a.reshape(-1) for a in np.meshgrid(special, special))
    got = library.run(built, {"x": x, "z": z})
    with np.errstate(all="ignore"):
        for value, (text, function) in zip(got, JOINED.values(), strict=True):
            np.testing.assert_allclose(value, function(x, z), rtol=1e-12, err_msg=text)


STOPPED = [("integers", "riscv64-v"), ("integers", "riscv64-v256")]
"""QEMU 7.2 ends with an assertion of its own where a conversion towards zero is the first of floats behind a change
of the width of vectors, as clang makes them of these networks; docs/targets.md says so."""


@pytest.mark.parametrize(
    ("name", "target"),
    [(n, t) for t in (*EMULATED, *FOREIGN) for n in ("residual", "integers") if (n, t) not in STOPPED],
)
def test_check_builds_and_emulates(name: str, target: str, tmp_path: Path) -> None:
    foreign(target)
    result = check(write_model(name, tmp_path), Options(target=target))
    assert result.ok, result.lines()
    assert len(result.runs) == 2


def test_check_at_both_ends_of_run_time_extents(tmp_path: Path) -> None:
    """Those of the caller are sent to the emulator, those that the network counts fetched from there."""
    m = Maker()
    x = m.input("x", ["n", 7])
    kept = m.node("Relu", [m.node("Sub", [x, m.const(np.float32(0.5))])])
    m.node("Transpose", [m.node("NonZero", [kept])], "pairs", perm=[1, 0])
    m.node("MatMul", [x, m.weight((7, 3))], "y")
    onnx.save(m.model(["y", "pairs"]), tmp_path / "net.onnx")
    for target in (EMULATED[0], "cortex-m4"):
        result = check(tmp_path / "net.onnx", Options(target=foreign(target), dims={"n": "2..9"}))
        assert result.ok, result.lines()
        labels = [r.label.partition(", ")[2] for r in result.runs]
        assert labels[:2] == ["seed 0, n=9", "seed 1, n=2"]
        assert len(labels) == 3  # and a place between


def test_check_in_two_memories(tmp_path: Path) -> None:
    memory = (("fast", 600), ("slow", 1 << 20))
    result = check(write_model("residual", tmp_path), Options(target=foreign(EMULATED[0]), memory=memory))
    assert result.ok, result.lines()


def test_check_finds_wrong_c(tmp_path: Path) -> None:
    """What is compared is what the emulated program computes."""
    target = foreign(EMULATED[0])
    mccompile.compile(DIGITS, tmp_path, target=target)
    x = np.linspace(0, 1, 64, dtype=np.float32)
    right = Network(tmp_path, emulate=True)
    inputs = {name: x.reshape(view.shape) for name, view in right.inputs.items()}
    want = right.run(inputs)["scores"]
    assert np.array_equal(want, right.run(inputs)["scores"])
    blob = bytearray((tmp_path / "digits.mcb").read_bytes())
    blob[-400:] = bytes(400)
    (tmp_path / "digits.mcb").write_bytes(blob)
    assert not np.allclose(want, Network(tmp_path, emulate=True).run(inputs)["scores"])


def test_a_status_and_the_end_of_the_program_are_told(tmp_path: Path) -> None:
    target = foreign(EMULATED[0])
    mccompile.compile(DIGITS, tmp_path, target=target)
    (tmp_path / "other.mcb").write_bytes(bytes(100))
    shutil.copy(tmp_path / "other.mcb", tmp_path / "digits.mcb")
    with pytest.raises(CompileError, match=r"digits_init answered status \d+: \w+"):
        Network(tmp_path, emulate=True)
    dying = tmp_path / "dying.c"
    dying.write_text("int main(void) { volatile int *p = 0; return *p; }\n")
    tools = cross_tools(resolve(target))
    program = build_program(tools.compiler, [dying], ["-O1", "-static"], tmp_path)
    with pytest.raises(CompileError, match="ended with status"):
        Emulator(program, tools).run([np.zeros(1 << 20, np.uint8)])


def test_missing_tools_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = next(name for name in EMULATED if not runs_here(name))
    monkeypatch.setattr(shutil, "which", lambda name: None if name.startswith("qemu") else f"/usr/bin/{name}")
    with pytest.raises(CompileError, match=resolve(target).emulator[0]) as caught:
        check(DIGITS, Options(target=target))
    assert f"{resolve(target).triple}-gcc" not in str(caught.value)
    assert all(package in str(caught.value) for package in resolve(target).packages)
    assert "--golden" in str(caught.value)


def test_a_target_without_an_emulator_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CompileError, match="no emulator for it is known"):
        cross_tools(resolve("x86-64-v4"))
    target = next(name for name in EMULATED if not runs_here(name))
    with pytest.raises(UsageError, match="inner values"):
        check(DIGITS, Options(target=target), per_layer=True)


def test_loading_a_foreign_network_is_an_error(tmp_path: Path) -> None:
    """Nobody is to measure an emulator by mistake."""
    target = next(name for name in EMULATED if not runs_here(name))
    mccompile.compile(DIGITS, tmp_path, target=target)
    with pytest.raises(CompileError, match=f"does not run code for target {target}"):
        mccompile.load(tmp_path)


def test_the_main_program_holds_all_networks() -> None:
    text = emulated_main([EmulatedNet("a"), EmulatedNet("b", 2)], 16)
    assert text.count("places[1][2].at") == 1
    assert text.count("places[0][2].at") == 0
