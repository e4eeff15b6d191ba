"""Arenas in several memories as C: the same results, warnings as errors, poisoned memory, guards."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

import mccompile
from mccompile import driver
from mccompile.check.check import check
from mccompile.check.golden import reference_golden
from mccompile.driver import Options
from mccompile.ir.errors import UsageError
from mccompile.run.memory import Fences, guarded_bytes
from mccompile.run.network import Network
from mccompile.targets.target import resolve, strict_warnings
from tests._skips import needs_sanitizers, needs_tool
from tests.support.small_models import MODELS, draw_inputs, write_model


def _compiled(model: Path, out: Path, target: str, share: float = 0.6) -> Path:
    """In two memories, of which the fast one has a part of what the arena takes as one."""
    whole = mccompile.compile(model, out / "one", target=target).report["memory"]["arena_bytes"]
    memory = {"dtcm": int(share * whole), "sram": 2 * whole}
    mccompile.compile(model, out / "two", target=target, memory=memory, embed=True)
    return out / "two"


@pytest.mark.thorough
@pytest.mark.parametrize("target", ["generic", "native"])
@pytest.mark.parametrize("name", MODELS)
def test_the_same_results_as_in_one_arena(name: str, target: str, tmp_path: Path) -> None:
    model = write_model(name, tmp_path)
    out = _compiled(model, tmp_path, target)
    fences = Fences()
    one, two = mccompile.load(tmp_path / "one"), Network(out, allocate=fences.allocate)
    assert len(two.arenas) >= 1
    assert sum(a.nbytes for a in two.arenas.values()) == two.report["memory"]["arena_bytes"]
    two.fill_arenas(0xFF)
    for seed in (1, 2):
        inputs = draw_inputs(model, seed)
        want, got = one.run(inputs), two.run(inputs)
        assert all(want[n].tobytes() == got[n].tobytes() for n in want)
    assert fences.intact()
    guarded = Network(out, allocate=guarded_bytes)
    assert guarded.run(inputs).keys() == want.keys()


def test_both_memories_are_used_somewhere(tmp_path: Path) -> None:
    """The comparison above would not notice a planner that never uses the fast memory."""
    used = []
    for name in ("residual", "concat", "views"):
        out = _compiled(write_model(name, tmp_path), tmp_path / name, "generic")
        report = json.loads((out / "report.json").read_text())
        regions = report["memory"]["regions"]
        used.append({r["name"] for r in regions})
        assert all(r["arena_bytes"] <= r["limit_bytes"] for r in regions)
        assert {t["region"] for t in report["memory"]["tensors"]} == used[-1]
    assert {"dtcm", "sram"} in used


@pytest.mark.thorough
@pytest.mark.parametrize(("compiler", "target"), [("gcc", "generic"), ("clang", "native")])
def test_no_warnings(target: str, compiler: str, tmp_path: Path) -> None:
    needs_tool(compiler)
    for name in ("residual", "many_outputs"):
        out = _compiled(write_model(name, tmp_path), tmp_path / name, target)
        for extra in ([], ["-DMCC_SPLIT_ARENA=64"], ["-DMCC_MISRA"]):
            flags = [*resolve(target).c_flags, *strict_warnings(compiler), *extra]
            sources = [f"{name}.c", f"{name}_blob.c", "mcc.c", "example_main.c"]
            subprocess.run([compiler, *flags, *sources, "-lm", "-o", "example"], cwd=out, check=True)
            subprocess.run(["./example"], cwd=out, check=True, capture_output=True)


def test_split_arenas_under_the_sanitizer(tmp_path: Path) -> None:
    compiler = needs_sanitizers("gcc")
    model = write_model("residual", tmp_path)
    options = Options(target="generic", memory=(("dtcm", 1000), ("sram", 100_000)))
    driver.compile(model, tmp_path / "out", options, extra=reference_golden(model))
    flags = ["-std=c99", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    sources = ["residual.c", "mcc.c", "test_residual.c"]
    for extra in ([], ["-DMCC_SPLIT_ARENA=64"]):
        command = [compiler, *flags, *extra, *sources, "-lm", "-o", "test"]
        subprocess.run(command, cwd=tmp_path / "out", check=True)
        done = subprocess.run(["./test"], cwd=tmp_path / "out", check=True, capture_output=True, text=True)
        assert done.stdout == "PASS residual\n"


def test_the_header_is_the_manual(tmp_path: Path) -> None:
    out = _compiled(write_model("residual", tmp_path), tmp_path, "generic")
    header = (out / "residual.h").read_text()
    assert "static residual_arena_dtcm arena_dtcm;" in header
    assert "static residual_arena_sram arena_sram;" in header
    assert "to be placed in dtcm, of " in header
    assert "residual_init(&net, &arena_dtcm, &arena_sram, blob, blob_bytes);" in header
    assert "#define RESIDUAL_ARENA_DTCM_BYTES " in header
    assert "RESIDUAL_ARENA_BYTES" not in header


def test_init_checks_every_memory(tmp_path: Path) -> None:
    out = _compiled(write_model("residual", tmp_path), tmp_path, "generic")
    network = mccompile.load(out)
    blob = network.pointer(network._blob)
    size, null = network._blob.nbytes, network.ffi.NULL
    good = [network.pointer(a) for a in network.arenas.values()]
    assert len(good) == 2
    init = network.lib.residual_init
    assert init(network._net, *good, blob, size) == 0
    for i in range(2):
        spoilt = [null if k == i else p for k, p in enumerate(good)]
        assert init(network._net, *spoilt, blob, size) == 1
        odd = [network.ffi.cast("char *", p) + (4 if k == i else 0) for k, p in enumerate(good)]
        assert init(network._net, *odd, blob, size) == 2


def test_check_and_trace_know_several_memories(tmp_path: Path) -> None:
    model = write_model("concat", tmp_path)
    options = Options(target="generic", memory=(("dtcm", 1500), ("sram", 100_000)))
    result = check(model, options, per_layer=True)
    assert result.ok, "\n".join(result.lines())
    assert result.trace is not None
    assert result.trace.layers


def test_one_arena_is_no_longer_there(tmp_path: Path) -> None:
    out = _compiled(write_model("residual", tmp_path), tmp_path, "generic")
    with pytest.raises(UsageError, match="dtcm, sram"):
        _ = mccompile.load(out).arena


def test_memories_change_nothing_but_addresses(tmp_path: Path) -> None:
    model = write_model("integers", tmp_path)
    out = _compiled(model, tmp_path, "generic", share=100)
    report = json.loads((out / "report.json").read_text())
    assert [r["name"] for r in report["memory"]["regions"]] == ["dtcm"]
    inputs = draw_inputs(model, 3)
    got, want = mccompile.load(out).run(inputs), mccompile.load(tmp_path / "one").run(inputs)
    assert all(np.array_equal(got[n], want[n]) for n in want)
