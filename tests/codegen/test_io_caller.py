"""`--io caller`: inputs and outputs in memory that the application lends, with the results of every other build."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import mccompile
from mccompile import driver, projects
from mccompile.check.check import check, check_folder
from mccompile.check.golden import reference_golden
from mccompile.codegen.folder import write_folder
from mccompile.driver import Compilation, Options
from mccompile.ir.errors import CompileError, InternalError, UsageError
from mccompile.ir.kernel_parse import parse_program
from mccompile.ir.kernel_text import print_program
from mccompile.ops.registry import lookup
from mccompile.plan.check import check_program
from mccompile.plan.plan import EMPTY_ARENA
from mccompile.run.memory import guarded_bytes
from mccompile.run.network import Network
from mccompile.targets.target import resolve, strict_warnings
from tests._skips import REPOSITORY, needs_tool
from tests.cli.conftest import floats, save
from tests.support.random_graphs import random_graph
from tests.support.small_models import MODELS, draw_inputs, write_model
from tests.support.targets import WIDE, needs_target

DIGITS = REPOSITORY / "examples" / "digits" / "digits.onnx"


@pytest.mark.thorough
@pytest.mark.parametrize("target", ["generic", "native"])
@pytest.mark.parametrize("name", MODELS)
def test_the_results_are_the_same_bytes_and_the_arena_is_no_larger(name: str, target: str, tmp_path: Path) -> None:
    model = write_model(name, tmp_path)
    inputs = draw_inputs(model, 5)
    results, arenas = [], []
    for io in ("arena", "caller"):
        report = mccompile.compile(model, tmp_path / io, target=target, io=io, exact=True).report
        net = Network(tmp_path / io, allocate=guarded_bytes)
        net.fill_arenas(0xFF)
        results.append({n: a.tobytes() for n, a in net.run(inputs).items()})
        assert io == "arena" or all(np.array_equal(net.inputs[n], a, equal_nan=True) for n, a in inputs.items())
        arenas.append(report["memory"]["arena_bytes"])
        names = {t["name"] for t in report["memory"]["tensors"]}
        assert bool(names & {p["name"] for p in report["inputs"]}) == (io == "arena")
    assert results[0] == results[1]
    assert arenas[1] <= max(arenas[0], EMPTY_ARENA)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(8))
def test_random_graphs(seed: int, tmp_path: Path) -> None:
    results = []
    for io in ("arena", "caller"):
        drawn = random_graph(seed)
        options = Options(target="generic", io=io, opt_level=("O0", "O2", "Os", "O3")[seed % 4], exact=True)
        c = Compilation("drawn", "0" * 64, options, resolve("generic"), drawn.graph, [])
        driver.optimize(c)
        write_folder(tmp_path / io, driver.finish(c))
        net = Network(tmp_path / io, allocate=guarded_bytes)
        net.fill_arenas(0xFF)
        results.append({n: a.tobytes() for n, a in net.run(drawn.inputs).items()})
    assert results[0] == results[1]


@pytest.mark.thorough
@pytest.mark.parametrize("memory", [{}, {"dtcm": 4096, "sram": 4096}])
@pytest.mark.parametrize("target", ["generic", WIDE[-1], "aarch64"])
def test_an_arena_that_nothing_lies_in(target: str, memory: dict[str, int], tmp_path: Path) -> None:
    """One kernel from input to output, without weights."""
    needs_target(target)
    model = save(tmp_path / "one.onnx", [helper.make_node("Exp", ["x"], ["y"])], [floats("x", [3, 4])])
    made = Options(target=target, io="caller", memory=tuple(memory.items()))
    found = check(model, made)
    assert found.ok, found.lines()
    report = mccompile.compile(model, tmp_path / "out", target=target, io="caller", memory=memory).report
    assert report["memory"]["arena_bytes"] == EMPTY_ARENA % resolve(target).align + EMPTY_ARENA
    assert report["memory"]["tensors"] == []


@pytest.mark.thorough
def test_check_compares_layers_too(tmp_path: Path) -> None:
    found = check(DIGITS, Options(target="native", io="caller", stepwise=True), per_layer=True)
    assert found.ok, found.lines()
    assert found.trace is not None
    assert "scores" in [layer.name for layer in found.trace.layers]


@pytest.mark.thorough
def test_check_watches_what_the_network_was_lent(tmp_path: Path) -> None:
    """Writing to an input, and behind an output."""
    options = Options(target="generic", io="caller")
    for spoiled, fault in (
        ("((float *)(uintptr_t)net->input_image)[0] += 1.0f;", "a run changes its inputs"),
        ("net->output_scores[10] = 1.0f;", "writes outside"),
    ):
        c, files = driver.compile_files(DIGITS, options)
        out = tmp_path / fault.split()[-1]
        text = files["digits.c"].decode()
        assert text.count("    return MCC_OK;\n") == 1
        files["digits.c"] = text.replace("    return MCC_OK;\n", f"    {spoiled}\n    return MCC_OK;\n").encode()
        write_folder(out, files)
        found = check_folder(DIGITS, c, out)
        assert not found.ok
        assert any(fault in f for f in found.faults), found.faults


MAIN = r"""
#include <string.h>
#include "digits.h"

static digits_arena arena;
static float first[DIGITS_OUTPUT_SCORES_COUNT];
static float second[DIGITS_OUTPUT_SCORES_COUNT + 1];
static const float image[DIGITS_INPUT_IMAGE_COUNT] = { 3.0f, 16.0f, 1.0f };
static float other[DIGITS_INPUT_IMAGE_COUNT];

int main(void)
{
    digits_t net;

    if (digits_init(&net, &arena, digits_blob, DIGITS_BLOB_BYTES) != MCC_OK) { return 1; }
    if (digits_run(&net) != MCC_E_NULL) { return 2; }
    if (digits_set_input_image(&net, image) != MCC_OK) { return 3; }
    if (digits_run(&net) != MCC_E_NULL) { return 4; }
    if (digits_set_output_scores(&net, NULL) != MCC_E_NULL) { return 5; }
    if (digits_set_output_scores(&net, first) != MCC_OK) { return 6; }
    if (digits_set_output_scores(&net, (float *)(void *)((char *)second + 1)) != MCC_E_ALIGN) { return 7; }
    if (digits_output_scores(&net) != first || digits_input_image(&net) != image) { return 8; }
    if (digits_run(&net) != MCC_OK) { return 9; }
    memcpy(other, image, sizeof(other));
    if (digits_set_input_image(&net, other) != MCC_OK) { return 10; }
    if (digits_set_output_scores(&net, second + 1) != MCC_OK) { return 11; }
    if (digits_run(&net) != MCC_OK) { return 12; }
    if (memcmp(first, second + 1, sizeof(first)) != 0) { return 13; }
    if (memcmp(other, image, sizeof(other)) != 0) { return 14; }
    return (first[0] != first[1]) ? 0 : 15;
}
"""


@pytest.mark.thorough
@pytest.mark.parametrize("compiler", ["gcc", "clang", "g++"])
def test_the_contract_in_c(compiler: str, tmp_path: Path) -> None:
    mccompile.compile(DIGITS, tmp_path, target="generic", embed=True, io="caller")
    cpp = compiler == "g++"
    app = "app.cpp" if cpp else "app.c"
    (tmp_path / app).write_text(MAIN)
    flags = list(resolve("generic").c_flags)
    c_compiler = needs_tool("gcc" if cpp else compiler)
    _run([c_compiler, *flags, *strict_warnings(compiler), "-c", "digits.c", "digits_blob.c", "mcc.c"], tmp_path)
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]
    _run([needs_tool(compiler), "-std=c++11" if cpp else "-std=c99", *warnings, "-c", app], tmp_path)
    _run([needs_tool(compiler), "app.o", "digits.o", "digits_blob.o", "mcc.o", "-lm", "-o", "app"], tmp_path)
    _run(["./app"], tmp_path)


@pytest.mark.thorough
def test_the_programs_that_are_written_beside_it(tmp_path: Path) -> None:
    """The golden test and the example of a network; the example of a project with one arena; several memories."""
    options = Options(target="generic", io="caller", embed=True)
    out = tmp_path / "one"
    driver.compile(DIGITS, out, options, extra=reference_golden(DIGITS))
    flags = [*resolve("generic").c_flags, *strict_warnings("gcc")]
    needs_tool("gcc")
    _run(["gcc", *flags, "test_digits.c", "digits.c", "mcc.c", "-lm", "-o", "golden"], out)
    assert _run(["./golden"], out) == "PASS digits\n"
    both = tmp_path / "both"
    models = [DIGITS, write_model("views", tmp_path)]
    project = Options(target="generic", io="caller", project="both", share_arena=True)
    projects.compile_project(models, both, project)
    sources = ["digits.c", "views.c", "both_kernels.c", "mcc.c", "example_main.c"]
    _run(["gcc", *flags, *sources, "-lm", "-o", "example"], both)
    assert "scores" in _run(["./example"], both)
    memory = {"dtcm": 3000, "sram": 64 * 1024}
    mccompile.compile(DIGITS, tmp_path / "regions", target="generic", io="caller", memory=memory)
    image = np.load(DIGITS.parent / "test_images.npy")[:1].astype(np.float32)
    plain = mccompile.compile(DIGITS, tmp_path / "plain", target="generic").out_dir
    nets = [mccompile.load(folder) for folder in (plain, tmp_path / "regions")]
    want, got = (net.run({"image": image.reshape(net.inputs["image"].shape)})["scores"] for net in nets)
    assert np.array_equal(want, got)


TEXT = """\
program @p target=generic arena=16 blob=0 peak=16 bound=16 naive=16 algorithm="none" {
  buffer x : f32[4] caller @0 align=4 role=input
  buffer y : f32[4] caller @0 align=4 role=output
  buffer a : f32[4] arena @0 align=16
  call map.generic map {expr={neg(x0)}} (x) -> a
  call map.generic map {expr={exp(x0)}} (a) -> y
}
"""


def test_the_text_round_trips_and_is_checked() -> None:
    program = parse_program(TEXT, lookup, lambda kernel: None)
    check_program(program)
    assert [b.space for b in program.module.buffers] == ["caller", "caller", "arena"]
    assert print_program(parse_program(print_program(program), lookup, lambda kernel: None)) == print_program(program)


FAULTS = {
    "an input is written": (("-> a", "-> x"), "is not in the arena and no output"),
    "a temporary": (("caller @0 align=4 role=input", "caller @0 align=4"), "is no input and no output"),
    "not at 0": (("y : f32[4] caller @0", "y : f32[4] caller @4"), "outside of the caller of 16 bytes"),
    "an output that is incomplete": (("(a) -> y", "(a) -> y[2]{1}"), "nobody has written 8 of its bytes"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found(fault: str) -> None:
    (old, new), message = FAULTS[fault]
    text = TEXT.replace(old, new)
    if fault == "an output that is incomplete":
        text = text.replace("(a) -> y[2]{1}", "(a[2]{1}) -> y[2]{1}")
    with pytest.raises((CompileError, InternalError)) as error:
        check_program(parse_program(text, lookup, lambda kernel: None))
    assert message in str(error.value)


def test_other_places_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="arena or caller, not 'flash'"):
        mccompile.compile(DIGITS, tmp_path / "out", io="flash")


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.returncode}\n{done.stderr[-3000:]}"
    return done.stdout
