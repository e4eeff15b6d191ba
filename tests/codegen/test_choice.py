"""``--targets``: a program with the code of several, of which it takes one when it runs, with that one's results."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import mccompile
from mccompile import projects
from mccompile.codegen.blob import read_blob
from mccompile.driver import Options
from mccompile.ir.errors import UsageError
from mccompile.targets.processor import choosable, questions
from mccompile.targets.target import resolve, runs_here, strict_warnings
from tests._skips import REPOSITORY, needs_tool
from tests.cli.conftest import spawn
from tests.support.small_models import draw_inputs, write_model

DIGITS = REPOSITORY / "examples" / "digits" / "digits.onnx"
X86 = ("generic", "x86-64-v2", "x86-64-v3", "x86-64-v4")

MAIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "digits.h"
static digits_arena arena;
MCC_ALIGNED(64) static unsigned char blob[200000];
int main(int argc, char **argv)
{
    FILE *file = fopen("digits.mcb", "rb");
    const size_t bytes = (file != NULL) ? fread(blob, 1, sizeof(blob), file) : 0u;
    digits_t net;
    mcc_status st = mcc_blob_verify(blob, bytes);

    if (file != NULL) { (void)fclose(file); }
    if (st == MCC_OK) {
        st = (argc > 1) ? digits_init_on(&net, (digits_target)atoi(argv[1]), &arena, blob, bytes)
                        : digits_init(&net, &arena, blob, bytes);
    }
    if (st == MCC_OK) {
        for (int i = 0; i < DIGITS_INPUT_IMAGE_COUNT; ++i) {
            digits_input_image(&net)[i] = (float)(i % 7) / 7.0f;
        }
        st = digits_run(&net);
    }
    if (st != MCC_OK) {
        (void)puts(mcc_status_text(st));
        return 0;
    }
    (void)puts(digits_target_names[net.target]);
    for (int i = 0; i < DIGITS_OUTPUT_SCORES_COUNT; ++i) {
        uint32_t bits;
        (void)memcpy(&bits, &digits_output_scores(&net)[i], sizeof(bits));
        (void)printf("%08x ", bits);
    }
    return 0;
}
"""


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-2000:]}{done.stderr[-3000:]}"
    return done.stdout


def build(compiler: str, folder: Path, targets: Sequence[str], *more: str) -> None:
    """Each C file with the flags of its target, as strictly as all of ours."""
    (folder / "main.c").write_text(MAIN)
    own = {f"digits_{name.replace('-', '_')}.c": resolve(name).c_flags for name in targets}
    warnings = strict_warnings(compiler)
    for source in folder.glob("*.c"):
        if source.name not in ("example_main.c", "test_digits.c"):
            run(compiler, *own.get(source.name, ("-std=c99", "-O2")), *warnings, *more, "-c", source.name, cwd=folder)
    run(compiler, *(p.name for p in folder.glob("*.o")), "-lm", "-o", "app", cwd=folder)


@pytest.mark.thorough
@pytest.mark.parametrize("tool", ["gcc", "clang"])
def test_results_are_those_of_single_builds(tool: str, tmp_path: Path) -> None:
    compiler, folder = needs_tool(tool), tmp_path / "net"
    if not runs_here("x86-64-v2"):
        pytest.skip("no x86-64")
    projects.compile_choice(DIGITS, folder, Options(targets=X86))
    build(compiler, folder, X86)
    image = (np.arange(64) % 7 / np.float32(7)).astype(np.float32).reshape(1, 1, 8, 8)
    said = {}
    for i, name in enumerate(X86):
        said[name] = run("./app", str(i), cwd=folder)
        if not runs_here(name):
            assert said[name] == "wrong processor\n"
            continue
        mccompile.compile(DIGITS, tmp_path / name, target=name)
        (want,) = mccompile.load(tmp_path / name).run(image).values()
        head, bits = said[name].split("\n")
        got = np.array([int(b, 16) for b in bits.split()], np.uint32).view(np.float32)
        assert head == name
        if tool == "gcc":  # what `load` builds with
            assert got.tobytes() == want.tobytes()
        np.testing.assert_allclose(got, want.reshape(-1), rtol=1e-4)
    assert run("./app", cwd=folder) == said[[name for name in X86 if runs_here(name)][-1]]  # the last that runs here
    assert run("./app", "7", cwd=folder) == "wrong processor\n"


@pytest.mark.thorough
def test_the_longest_name_has_targets_too(tmp_path: Path) -> None:
    """Their names behind it are no part of what users may give."""
    name = "mobilenet_v2_1_0_224_quantized_for_boats"
    projects.compile_choice(DIGITS, tmp_path, Options(targets=("generic", "x86-64-v2"), name=name))
    assert {f"{name}.c", f"{name}_generic.c", f"{name}_x86_64_v2.c"} <= {p.name for p in tmp_path.iterdir()}


def test_a_processor_that_nobody_can_ask_gets_what_asks_for_nothing(tmp_path: Path) -> None:
    gcc, folder = needs_tool("gcc"), tmp_path / "net"
    if not runs_here("x86-64-v2"):
        pytest.skip("no x86-64")
    projects.compile_choice(DIGITS, folder, Options(targets=("generic", "x86-64-v2")))
    word = "uint32_t nothing(uint32_t leaf, uint32_t subleaf, uint32_t word)"
    (folder / "nothing.c").write_text(
        f"#include <stdint.h>\n{word};\n{word}\n{{\n(void)leaf; (void)subleaf; (void)word; return 0u;\n}}\n"
    )
    build(gcc, folder, X86, "-DMCC_CPU_WORD=nothing")
    assert run("./app", cwd=folder).startswith("generic\n")
    assert run("./app", "1", cwd=folder) == "wrong processor\n"


def test_python_loads_the_target_that_this_machine_runs(tmp_path: Path) -> None:
    names = [name for name in X86[:3] if runs_here(name)]
    if len(names) < 2:
        pytest.skip("one target alone runs here")
    model = write_model("residual", tmp_path)
    projects.compile_choice(model, tmp_path / "net", Options(targets=tuple(names)))
    network = mccompile.load(tmp_path / "net")
    assert network.report["target"]["name"] == names[-1]
    mccompile.compile(model, tmp_path / "one", target=names[-1])
    inputs = draw_inputs(model, 1)
    want = mccompile.load(tmp_path / "one").run(inputs)
    assert all(network.run(inputs)[n].tobytes() == want[n].tobytes() for n in want)


def test_equal_weights_are_there_once(tmp_path: Path) -> None:
    """Targets that differ in products of bytes alone pack the weights of floats alike."""
    projects.compile_choice(DIGITS, tmp_path, Options(targets=("x86-64-v3", "x86-64-v4", "x86-64-v4-vnni")))
    sections = read_blob((tmp_path / "digits.mcb").read_bytes())
    assert [t.name for t in sections.tensors] == ["x86-64-v3", "x86-64-v4+x86-64-v4-vnni"]
    reports = json.loads((tmp_path / "report.json").read_text())["models"].values()
    places = [r["blob"]["offset"] for r in reports]
    assert places[0] != places[1] == places[2]


@pytest.mark.thorough
@pytest.mark.parametrize("more", [{"io": "caller", "stepwise": True}, {"dims": {"N": "1..4"}}])
def test_every_function_is_passed_on(more: dict[str, object], tmp_path: Path) -> None:
    compiler = needs_tool("gcc")
    options = Options(targets=("generic", "x86-64-v2"), embed=True, **more)  # type: ignore[arg-type]
    projects.compile_choice(DIGITS, tmp_path, options)
    for source in ("digits.c", "example_main.c"):
        run(compiler, "-std=c99", *strict_warnings(compiler), "-c", source, cwd=tmp_path)


@pytest.mark.thorough
def test_cmake_gives_each_file_its_flags(tmp_path: Path) -> None:
    cmake = needs_tool("cmake")
    if not runs_here("x86-64-v2"):
        pytest.skip("no x86-64")
    net = tmp_path / "net"
    spawn([DIGITS, "-o", net, "--targets", "x86-64-v2,x86-64-v3,x86-64-v4", "--golden", net])
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.13)\nproject(app C)\nadd_subdirectory(net)\n"
        "add_executable(app net/test_digits.c)\ntarget_link_libraries(app PRIVATE digits::digits)\n"
    )
    run(cmake, "-S", ".", "-B", "b", cwd=tmp_path)
    run(cmake, "--build", "b", cwd=tmp_path)
    assert "PASS digits" in run("b/app", "net/digits.mcb", cwd=tmp_path)


def test_targets_that_no_machine_has_a_choice_of_are_refused(tmp_path: Path) -> None:
    for names, rule in (
        (("x86-64-v2",), "several targets"),
        (("x86-64-v2", "x86-64-v2"), "several targets"),
        (("x86-64-v2", "aarch64"), "they are of aarch64 and of x86_64"),
        (("generic", "cortex-m4"), "cortex-m4 is a microcontroller's"),
    ):
        with pytest.raises(UsageError, match=rule):
            choosable(names)
    for more, rule in (({"package": "zephyr"}, "one processor"), ({"split_kernels": True}, "--split-kernels")):
        with pytest.raises(UsageError, match=rule):
            projects.compile_choice(DIGITS, tmp_path, Options(targets=X86[:2], **more))  # type: ignore[arg-type]


def test_what_is_asked_is_what_a_target_needs() -> None:
    """AVX2 also wants an operating system that saves its registers, and AVX-512 one that saves more."""
    saved = {name: [q.mask for q in questions(resolve(name)) if q.leaf == 0xD] for name in X86}
    assert saved == {"generic": [], "x86-64-v2": [], "x86-64-v3": [0x06], "x86-64-v4": [0xE6]}
    assert [(q.leaf, q.mask) for q in questions(resolve("aarch64-i8mm"))] == [(16, 1 << 20), (26, 1 << 13)]
