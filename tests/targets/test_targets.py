"""The targets as data: which one a machine is, what their flags turn on, and what the documents say of them."""

from __future__ import annotations

import platform
import shlex
import subprocess
from pathlib import Path

import onnx
import onnx.parser
import pytest

import mccompile
from mccompile.ir.errors import UsageError
from mccompile.targets import target as module
from mccompile.targets.machine import Capability
from mccompile.targets.target import Target, resolve, runs_here, targets
from tests._skips import REPOSITORY, needs_tool
from tests.support.targets import BARE, BYTES, EMULATED, FOREIGN, IMITATED, NARROW, WIDE, needs_cross_compiler

DIGITS = REPOSITORY / "examples" / "digits" / "digits.onnx"
X86 = "fpu sse2 ssse3 sse4_1 sse4_2 popcnt"
HASWELL = f"{X86} avx2 fma f16c abm bmi1 bmi2 movbe"
MACHINES = [
    ("x86_64", f"{HASWELL} avx512f avx512bw avx512vl avx512dq avx512cd", "x86-64-v4"),
    ("x86_64", f"{HASWELL} avx512f avx512bw avx512vl avx512dq avx512cd avx512_vnni", "x86-64-v4-vnni"),
    ("AMD64", f"{HASWELL} avx512f", "x86-64-v3"),
    ("AMD64", f"{HASWELL} avx_vnni", "x86-64-v3-vnni"),
    ("x86_64", f"{X86} avx", "x86-64-v2"),
    ("x86_64", "fpu sse2", "generic"),
    ("x86_64", "", "generic"),
    ("aarch64", "fp asimd", "aarch64"),
    ("aarch64", "fp asimd asimddp", "aarch64-dotprod"),
    ("aarch64", "fp asimd asimddp i8mm", "aarch64-i8mm"),
    ("aarch64", "fp asimd asimddp asimdfhm", "aarch64-fp16"),
    ("aarch64", "fp asimd asimddp asimdfhm i8mm bf16", "aarch64-bf16"),
    ("arm64", "", "aarch64"),
    ("armv7l", "half thumb neon vfpv4", "armv7-neon"),
    ("armv7l", "half thumb vfpv3d16", "generic"),
    ("aarch64", "fp asimd sve", "aarch64"),
    ("aarch64", "fp asimd sve sve256", "aarch64-sve256"),
    ("riscv64", "", "generic"),
    ("riscv64", "rv64imafdcv i m a f d c v", "riscv64-v"),
    ("riscv64", "rv64imafdcv_zvl256b i m a f d c v zvl256b", "riscv64-v256"),
]


@pytest.mark.parametrize(("machine", "features", "best"), MACHINES)
def test_native_is_the_best_that_a_machine_runs(
    machine: str, features: str, best: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(module, "_features", lambda: set(features.split()))
    assert resolve("native").name == best
    runs = [t for t in targets().values() if runs_here(t.name) and t.name not in IMITATED]
    assert resolve("generic") in runs
    assert all(t.vector_bytes <= resolve("native").vector_bytes for t in runs)


@pytest.mark.parametrize(
    ("machine", "cpuinfo", "best"),
    [
        ("aarch64", "Features : fp asimd crc32", "armv7-neon"),
        ("aarch64", "Features : half thumb neon vfpv4", "armv7-neon"),
        ("armv7l", "Features : half thumb neon vfpv4", "armv7-neon"),
        ("x86_64", f"flags : {HASWELL}", "generic"),
        ("AMD64", f"flags : {HASWELL}", "generic"),
        ("riscv64", "isa : rv64imafdcv", "generic"),
    ],
)
def test_a_process_of_32_bits_runs_none_of_64(
    machine: str, cpuinfo: str, best: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a Python of 32 bits on a kernel of 64 bits is."""
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(module, "POINTER_BYTES", 4)
    monkeypatch.setattr(module, "_features", lambda: module.words_of(cpuinfo))
    assert resolve("native").name == best


def compiler_of(target: Target) -> list[str]:
    return needs_cross_compiler(target) if target.triple else [needs_tool("gcc")]


def macros(command: list[str]) -> set[str]:
    command = [*command, "-dM", "-E", "-x", "c", "/dev/null"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {line.split()[1].split("(")[0] for line in text.splitlines()}


@pytest.mark.parametrize("name", [*WIDE, *NARROW, *FOREIGN, *BYTES, *BARE])
def test_the_flags_turn_on_what_the_file_requires(name: str) -> None:
    target = resolve(name)
    assert target.requires
    assert set(target.requires) <= macros([*compiler_of(target), *target.c_flags])


@pytest.mark.parametrize("core", ["cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33+nodsp"])
def test_cores_without_floats_take_the_c_of_cortex_m3(core: str) -> None:
    target = resolve("cortex-m3")
    known = macros([*compiler_of(target), f"-mcpu={core}", "-mthumb", "-mfloat-abi=soft"])
    assert set(target.requires) <= known
    assert not set(target.requires) <= macros([*compiler_of(target), "-mcpu=cortex-m0plus", "-mthumb"])


@pytest.mark.parametrize("name", [*WIDE, *NARROW, *FOREIGN])
def test_primitives_of_an_instruction_set_are_helpers(name: str) -> None:
    target = resolve(name)
    text = (REPOSITORY / "kernels_templates" / "_lib" / f"vector_{target.isa}.c.j2").read_text()
    assert "call helper(" in text


@pytest.mark.parametrize("name", BARE)
def test_microcontrollers_are_data(name: str) -> None:
    """They have little memory, integers in fixed point, and a name that says what their flags do."""
    target = resolve(name)
    assert not runs_here(name)
    assert (target.align, target.requant, target.machine.l2) == (4, "fixed", 0)
    assert not target.spare_memory
    assert target.board
    assert target.lanes in (0, 1)
    floats = macros([*compiler_of(target), *target.c_flags]) & {"__ARM_FP", "__riscv_flen"}
    assert bool(floats) == bool(target.lanes)
    fused = "-ffp-contract=fast" in target.c_flags
    assert fused == (Capability.FMA in target.capabilities)


def test_gcc_is_told_that_nothing_sees_traps_where_it_makes_vectors() -> None:
    for t in (t for t in targets().values() if t.name not in IMITATED):
        assert ("-fno-trapping-math" in t.required_flags) == (not t.board and t.name != "armv7-neon")


LEAKY = """
<ir_version: 8, opset_import: ["" : 17]>
net (float[64] x) => (float[64] y) { y = LeakyRelu <alpha = 0.25> (x) }
"""


@pytest.mark.parametrize("traps", ["-ftrapping-math", "-fno-trapping-math"])
def test_gcc_makes_vectors_of_choices_only_where_nothing_sees_traps(traps: str, tmp_path: Path) -> None:
    """What the flag is for."""
    onnx.save(onnx.parser.parse_model(LEAKY), tmp_path / "net.onnx")
    mccompile.compile(tmp_path / "net.onnx", tmp_path, target="generic")
    command = [needs_tool("gcc"), *resolve("generic").c_flags, "-O3", "-fopt-info-vec", traps, "-c", "net.c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ("loop vectorized" in done.stderr) == (traps == "-fno-trapping-math")


def test_what_integers_are_made_of_is_known() -> None:
    for t in (t for t in targets().values() if t.name not in IMITATED):
        assert t.integer in ("mla", "smlad", "mve", "madd", "smlal")
        assert t.prefers in ("i8", "u8")


CORTEX_M = [name for name in BARE if name.startswith("cortex")]
REFUSING = ["x86-64-v2", "x86-64-v3", "x86-64-v4", "armv7-neon", *FOREIGN, *CORTEX_M]
"""RISC-V compilers without flags have all that is required, for 64 bits."""


@pytest.mark.parametrize("name", REFUSING)
def test_without_its_flags_the_generated_file_refuses(name: str, tmp_path: Path) -> None:
    target = resolve(name)
    mccompile.compile(DIGITS, tmp_path, target=name)
    command = [*compiler_of(target), "-std=c99", "-fsyntax-only", "digits.c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0
    assert f"was generated for {name}" in done.stderr
    assert all(flag in done.stderr for flag in target.flags)


@pytest.mark.parametrize("name", EMULATED)
def test_clang_takes_the_same_text(name: str, tmp_path: Path) -> None:
    """It compiles for all machines; that it links for them is not asked."""
    target = resolve(name)
    compiler_of(target)  # whose headers clang reads
    mccompile.compile(DIGITS, tmp_path, target=name)
    flags = [*target.c_flags, *module.strict_warnings("clang"), f"--target={target.triple}"]
    done = subprocess.run(
        [needs_tool("clang"), *flags, "-c", "digits.c", "mcc.c"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_document_has_a_row_for_each_target() -> None:
    text = (REPOSITORY / "docs" / "targets.md").read_text()
    known = [t for t in targets().values() if t.name not in IMITATED]
    for t in known:
        vectors = f"{8 * t.vector_bytes} bits" if t.lanes > 1 else "one float" if t.lanes else "none"
        row = f"| `{t.name}` | {t.summary} | {vectors} | `{shlex.join(t.c_flags)}` |"
        assert row in text
        assert all(package in text for package in t.packages)
    assert sum("-std=c99" in line for line in text.splitlines() if line.startswith("| `")) == len(known)


@pytest.mark.parametrize(
    ("name", "meant"), [("arm64", "aarch64"), ("avx2", "x86-64-v3"), ("m4", "cortex-m4"), ("cortex-m9", "cortex-m7")]
)
def test_an_unknown_target_is_told_what_may_be_meant(name: str, meant: str) -> None:
    with pytest.raises(UsageError) as refused:
        resolve(name)
    assert f"did you mean {meant}" in refused.value.hint
