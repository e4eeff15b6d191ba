"""The stack that a run takes: what is told is a bound, and a close one."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import mccompile
from mccompile.check.check import check
from mccompile.driver import Options
from mccompile.ir.errors import CompileError
from mccompile.run.build import compiler_version
from mccompile.run.stack import _add_usage, _calls, stack_of, worst
from mccompile.targets.target import resolve
from tests._skips import REPOSITORY, needs_tool
from tests.check.conftest import save
from tests.cli.conftest import Run, run  # noqa: F401  # `run` is a fixture
from tests.support.small_models import write_model

DIGITS = REPOSITORY / "examples" / "digits" / "digits.onnx"

MEASURE = r"""
#define _XOPEN_SOURCE 700
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
#include "NAME.h"

static NAME_arena arena;
static NAME_t net;
static ucontext_t here, there;
static unsigned char stack[1 << 20];

static void nothing(void) { }
static void once(void) { (void)NAME_run(&net); }

static size_t used(void (*function)(void))
{
    size_t untouched = 0;

    memset(stack, 0xA5, sizeof(stack));
    (void)getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = sizeof(stack);
    there.uc_link = &here;
    makecontext(&there, function, 0);
    (void)swapcontext(&here, &there);
    while (stack[untouched] == 0xA5) { ++untouched; }
    return sizeof(stack) - untouched;
}

int main(void)
{
    size_t most;

    if (NAME_init(&net, &arena, NAME_blob, UPPER_BLOB_BYTES) != MCC_OK) { return 1; }
    most = used(once);
    printf("%zu %zu\n", most, used(nothing));
    return 0;
}
"""

NOTHING_LATER = "-Wl,-z,now"
"""Else the dynamic linker looks up a function of the C library when it is first called, on the stack of the run: it
saves all vector registers there."""


@pytest.mark.thorough
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("target", ["generic", "native"])
@pytest.mark.parametrize("name", ["digits", "conv_padding", "views", "half"])
def test_a_run_takes_no_more_and_not_much_less(
    name: str, target: str, compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run on a painted stack, beside a function that does nothing. Fewer bytes may be touched than a frame has."""
    needs_tool(compiler)
    monkeypatch.setenv("CC", compiler)
    model = DIGITS if name == "digits" else write_model(name, tmp_path)
    made = mccompile.compile(model, tmp_path / "out", target=target, embed=True)
    told = stack_of(tmp_path / "out", made.report)
    assert set(told.outside) <= {"memcpy", "memmove", "memset"}
    main = MEASURE.replace("NAME", name).replace("UPPER", name.upper())
    (tmp_path / "out" / "measure.c").write_text(main)
    flags = [f for f in resolve(target).c_flags if f != "-std=c99"]
    command = [compiler, "-std=gnu99", *flags, "-c"]
    for source in (f"{name}.c", f"{name}_blob.c", "mcc.c", "measure.c"):
        subprocess.run([*command, source], cwd=tmp_path / "out", check=True)
    objects = [f"{name}.o", f"{name}_blob.o", "mcc.o", "measure.o"]
    subprocess.run([compiler, *objects, "-lm", NOTHING_LATER, "-o", "measure"], cwd=tmp_path / "out", check=True)
    printed = subprocess.run(["./measure"], cwd=tmp_path / "out", capture_output=True, text=True, check=True).stdout
    most, nothing = map(int, printed.split())
    taken = most - nothing
    library = 512 if told.outside else 0
    frame_of_the_test = 32
    assert taken <= told.nbytes + library + frame_of_the_test, told
    assert taken >= told.nbytes / 2 - frame_of_the_test, told


def test_the_worst_path_is_found() -> None:
    usage = {"run": 16, "a": 100, "b": 60, "c": 50, "aside": 900}
    calls = {"run": {"a", "b", "MCC_STEP"}, "a": set(), "b": {"c", "inlined"}, "inlined": {"expf"}, "c": {"memcpy"}}
    told = worst("run", usage, calls)
    assert told.path == (("run", 16), ("b", 60), ("c", 50))
    assert told.nbytes == 126
    assert "aside" not in told.functions


def test_parts_and_copies_of_a_function_are_added() -> None:
    usage: dict[str, int] = {}
    text = "a.c:7:6:f\t32\tstatic\na.c:7:6:f.part.0\t16\tstatic\na.c:7:6:f.constprop.1\t8\tdynamic,bounded\n"
    _add_usage(usage, text, 8)
    assert usage == {"f": 80}
    with pytest.raises(CompileError, match="the stack of g depends on its data"):
        _add_usage(usage, "a.c:1:1:g\t32\tdynamic\n", 0)
    with pytest.raises(CompileError, match="cannot be read"):
        _add_usage(usage, "gibberish\n", 0)


def test_a_recursion_has_no_bound() -> None:
    with pytest.raises(CompileError, match="b calls itself"):
        worst("a", {}, {"a": {"b"}, "b": {"c"}, "c": {"b"}})


def test_calls_are_those_of_the_text(tmp_path: Path) -> None:
    mccompile.compile(write_model("residual", tmp_path), tmp_path / "out", target="generic")
    calls = _calls((tmp_path / "out" / "residual.c").read_text())
    kernels = {name for name in calls if "_k" in name}
    assert kernels
    assert kernels <= calls["residual_run"]
    assert "expf" in {callee for name in calls if name.startswith(("mcc_", "residual_k")) for callee in calls[name]}


def test_parts_that_a_pool_of_threads_calls_count(tmp_path: Path) -> None:
    """What takes the most is called by nobody in the text but given to the pool."""
    weights = {"w": np.ones((64, 64, 3, 3), np.float32)}
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    ports = {"x": (1, [1, 64, 32, 32])}, {"y": (1, [1, 64, 32, 32])}
    model, told = save(tmp_path / "m.onnx", [node], *ports, weights), []
    for threads in (1, 4):
        out = tmp_path / f"of_{threads}"
        told.append(stack_of(out, mccompile.compile(model, out, target="generic", threads=threads).report))
    assert any("_step" in name for name, _ in told[1].path), told[1].line()
    assert told[1].nbytes >= told[0].nbytes
    assert ["mcc_pool_run" in t.outside for t in told] == [False, True]


def test_functions_of_others_are_named(tmp_path: Path) -> None:
    made = mccompile.compile(write_model("residual", tmp_path), tmp_path / "out", target="generic")
    told = stack_of(tmp_path / "out", made.report)
    assert "expf" in told.outside
    assert not any(name.startswith(("mcc_", "residual_", "_GLOBAL")) for name in told.outside)
    many = replace(told, outside=tuple("abcdef"))
    assert many.line().endswith(", and what a, b, c, d and 2 more take")


def test_check_and_inspect_tell(run: Run) -> None:  # noqa: F811
    found = check(DIGITS, Options(target="generic"))
    assert found.stack is not None
    assert any(line.startswith("stack: at most ") for line in found.lines())
    assert found.to_json()["stack"]["bytes"] == found.stack.nbytes > 0
    done = run("inspect", DIGITS, "--target", "generic", "--stack", "--json")
    assert json.loads(done.stdout)["stack"]["bytes"] == found.stack.nbytes
    assert "stack" not in json.loads(run("inspect", DIGITS, "--target", "generic", "--json").stdout)


def test_a_compiler_that_does_not_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """check goes on and says so; who asks for the stack alone gets an error."""
    quiet = tmp_path / "cc"
    real = needs_tool("gcc")
    drop = 'for a; do shift; [ "$a" = -fstack-usage ] || set -- "$@" "$a"; done'
    quiet.write_text(f'#!/bin/sh\nset -f\n{drop}\nexec {real} "$@"\n')
    quiet.chmod(0o755)
    monkeypatch.setenv("CC", str(quiet))
    found = check(DIGITS, Options(target="generic"))
    assert found.ok
    assert found.stack is None
    assert any("the stack of a run is not known" in note for note in found.notes)
    made = mccompile.compile(DIGITS, tmp_path / "out", target="generic")
    with pytest.raises(CompileError, match="does not tell"):
        stack_of(tmp_path / "out", made.report)


BOARDS = [("cortex-m4", "arm", ""), ("cortex-m0plus", "arm", "__aeabi_f"), ("riscv32imac", "riscv32", "sf")]


@pytest.mark.thorough
@pytest.mark.parametrize(("target", "machine", "helper"), BOARDS)
def test_a_board_uses_no_more(target: str, machine: str, helper: str) -> None:
    """What is found painted; where the core has no floats, the compiler's functions for them come on top."""
    needs_tool(f"{resolve(target).triple}-gcc")
    needs_tool(f"qemu-system-{machine}")
    found = check(DIGITS, Options(target=target, stepwise=True, io="caller"))
    assert found.ok, found.lines()
    assert found.stack is not None
    assert found.measured is not None
    of_the_board, of_helpers = 16, 128 * bool(helper)
    assert found.stack.nbytes / 2 <= found.measured.stack_bytes <= found.stack.nbytes + of_the_board + of_helpers
    assert any(helper in name for name in found.stack.outside) == bool(helper)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="of x86-64")
def test_clangs_numbers_get_the_return_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", needs_tool("clang"))
    assert "clang" in compiler_version([os.environ["CC"]])
    made = mccompile.compile(DIGITS, tmp_path, target="generic")
    assert all(own >= 8 for own in stack_of(tmp_path, made.report).functions.values())
