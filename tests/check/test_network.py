"""`mccompile.load`: arguments, damaged folders, memory that ends where it must not be read on, building."""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mccompile
from mccompile.ir.errors import CompileError, UsageError
from mccompile.run import network as network_module
from mccompile.run.build import build_library, c_compiler
from mccompile.run.memory import Fences, aligned_bytes, guarded_bytes
from mccompile.run.network import Network
from mccompile.targets.target import STRICT_WARNINGS, strict_warnings
from tests.check.conftest import compile_to, small_net

X = np.random.default_rng(2).standard_normal((1, 2, 6, 6)).astype(np.float32)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    compile_to(small_net(tmp_path / "small.onnx"), tmp_path / "out")
    return tmp_path / "out"


def test_views_live_longer_than_the_network(out: Path) -> None:
    network = mccompile.load(out)
    want = network.run({"x": X})["y"]
    network.inputs["x"][...] = X
    network.invoke()
    y = network.outputs["y"]
    del network
    gc.collect()
    np.testing.assert_array_equal(y, want)


def test_networks_of_one_library_are_independent(out: Path) -> None:
    one, two = mccompile.load(out), mccompile.load(out)
    want = one.run({"x": X})["y"]
    two.run({"x": X + 1})
    np.testing.assert_array_equal(one.outputs["y"], want)


@pytest.mark.parametrize("align", [1, 16, 64])
@pytest.mark.parametrize("count", [1, 63, 64, 4096, 5000])
def test_memory_is_aligned_and_has_its_size(count: int, align: int) -> None:
    fences = Fences()
    for allocate in (aligned_bytes, guarded_bytes, fences.allocate):
        memory = allocate(count, align)
        assert memory.size == count
        assert memory.ctypes.data % align == 0
        memory[:] = 7
    assert fences.intact()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_read_beside_memory_is_no_number(dtype: type[np.floating[Any]]) -> None:
    """Nor is every other number of 16 bits: a window that begins in front of the arena makes no number of it."""
    fences = Fences()
    whole = fences.allocate(64, 64).base
    assert isinstance(whole, np.ndarray)
    words = whole[-whole.ctypes.data % 64 :]
    assert np.isnan(words[:4096].view(dtype)).all()
    assert np.isnan(words[:4096].view(np.float16)[1::2]).all()


def test_nothing_is_read_past_the_end_of_arena_or_blob(out: Path) -> None:
    want = Network(out).run({"x": X})["y"]
    guarded = Network(out, allocate=guarded_bytes)
    guarded.arena[:] = 0xFF
    np.testing.assert_array_equal(guarded.run({"x": X})["y"], want)


def test_a_blob_that_is_cut_short_damaged_or_of_another_program_is_refused(out: Path, tmp_path: Path) -> None:
    blob = (out / "small.mcb").read_bytes()
    for end in (0, 10, 64, len(blob) - 1):
        (out / "small.mcb").write_bytes(blob[:end])
        with pytest.raises(CompileError, match="small_init answered status"):
            mccompile.load(out)
    (out / "small.mcb").write_bytes(blob + b"tail")
    mccompile.load(out)
    (out / "small.mcb").write_bytes(blob[:40] + bytes([blob[40] ^ 1]) + blob[41:])
    with pytest.raises(CompileError, match="status"):
        mccompile.load(out)


def test_wrong_inputs_are_usage_errors_and_change_nothing(out: Path) -> None:
    network = mccompile.load(out)
    network.inputs["x"][...] = X
    for wrong in ({}, {"x": X, "z": X}, {"x": X[0]}, {"x": X.astype(np.float64)}):
        with pytest.raises(UsageError):
            network.run(wrong)
    np.testing.assert_array_equal(network.inputs["x"], X)


def test_folders_that_hold_no_model_are_usage_errors(out: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no report"):
        mccompile.load(tmp_path)
    report = (out / "report.json").read_text()
    for text, message in (("{", "damaged"), ("{}", "no report"), ("[]", "no report")):
        (out / "report.json").write_text(text)
        with pytest.raises(UsageError, match=message):
            mccompile.load(out)
    (out / "report.json").write_text(report)
    for name in ("small.mcb", "small.c"):
        kept = (out / name).read_bytes()
        (out / name).unlink()
        with pytest.raises(UsageError, match=name):
            mccompile.load(out)
        (out / name).write_bytes(kept)


def test_a_target_that_this_machine_lacks_is_an_error_not_a_crash(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = json.loads((out / "report.json").read_text())
    report["target"]["name"] = "x86-64-v4"
    (out / "report.json").write_text(json.dumps(report))
    monkeypatch.setattr(network_module, "runs_here", lambda name: name != "x86-64-v4")
    with pytest.raises(CompileError, match="does not run code for target x86-64-v4"):
        mccompile.load(out)


def test_a_library_is_built_once_for_equal_files_and_anew_for_changed_ones(tmp_path: Path) -> None:
    (tmp_path / "a.h").write_text("#define N 1\n")
    (tmp_path / "a.c").write_text('#include "a.h"\nint n(void);\nint n(void) { return N; }\n')
    first = build_library([tmp_path / "a.c"], ["-O1"], tmp_path)
    inode = first.stat().st_ino
    assert build_library([tmp_path / "a.c"], ["-O1"], tmp_path) == first
    assert first.stat().st_ino == inode
    assert build_library([tmp_path / "a.c"], ["-O2"], tmp_path) != first
    (tmp_path / "a.h").write_text("#define N 2\n")
    assert build_library([tmp_path / "a.c"], ["-O1"], tmp_path) != first


def test_relative_paths_are_those_of_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made/b.h").write_text("int b(void);\n")
    (tmp_path / "made/b.c").write_text('#include "b.h"\nint b(void) { return 7; }\n')
    monkeypatch.chdir(tmp_path)
    assert build_library([Path("made/b.c")], ["-O1"], Path("made")).exists()


def test_no_compiler_and_broken_c_are_clear_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.c").write_text("int n(void) { return x; }\n")
    with pytest.raises(CompileError, match="the C compiler failed"):
        build_library([tmp_path / "a.c"], [], tmp_path)
    monkeypatch.setenv("CC", "/nowhere/cc")
    with pytest.raises(CompileError, match="cannot be run"):
        build_library([tmp_path / "a.c"], [], tmp_path)
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(CompileError, match="no C compiler"):
        c_compiler()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name == "ziglang" or None)
    assert c_compiler() == [sys.executable, "-m", "ziglang", "cc"]


def test_strict_warnings_are_spelled_for_the_compiler() -> None:
    assert strict_warnings("/usr/bin/gcc-12") == STRICT_WARNINGS
    clang = strict_warnings("Debian clang version 14.0.6")
    assert "-Wcast-align" in clang
    assert "-Wcast-align=strict" not in clang
    assert len(clang) == len(STRICT_WARNINGS)
