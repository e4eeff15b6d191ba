"""`--stepwise`: a run step by step is a run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import mccompile
from mccompile.targets.target import resolve, strict_warnings
from tests._skips import REPOSITORY, needs_tool
from tests.cli.conftest import floats, save

DIGITS = REPOSITORY / "examples" / "digits" / "digits.onnx"

MAIN = r"""
#include <stdio.h>
#include <string.h>
#include "digits.h"

static digits_arena arena;

static void write_inputs(const digits_t *net)
{
    for (int i = 0; i < DIGITS_INPUT_IMAGE_COUNT; ++i) { digits_input_image(net)[i] = (float)(i % 17); }
}

int main(void)
{
    digits_t net;
    float want[DIGITS_OUTPUT_SCORES_COUNT];
    uint32_t step = 0u;
    uint32_t calls = 0u;
    mcc_status st;

    if (digits_init(&net, &arena, digits_blob, DIGITS_BLOB_BYTES) != MCC_OK) { return 1; }
    write_inputs(&net);
    if (digits_run(&net) != MCC_OK) { return 2; }
    memcpy(want, digits_output_scores(&net), sizeof(want));
    for (int run = 0; run < 2; ++run) {
        memset(&arena, 0xFF, sizeof(arena));
        write_inputs(&net);
        do {
            if (step != calls % DIGITS_STEPS) { return 3; }
            st = digits_run_step(&net, &step);
            calls += 1u;
        } while (st == MCC_OK);
        if (st != MCC_END || step != 0u) { return 4; }
        if (memcmp(want, digits_output_scores(&net), sizeof(want)) != 0) { return 5; }
    }
    if (calls != 2u * DIGITS_STEPS) { return 6; }
    step = DIGITS_STEPS;
    if (digits_run_step(&net, &step) != MCC_E_INDEX || step != DIGITS_STEPS) { return 7; }
    (void)printf("%lu steps", (unsigned long)DIGITS_STEPS);
    return 0;
}
"""


@pytest.mark.thorough
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("target", ["generic", "native"])
def test_steps_one_by_one_are_a_run(compiler: str, target: str, tmp_path: Path) -> None:
    made = mccompile.compile(DIGITS, tmp_path, target=target, embed=True, stepwise=True)
    assert made.report["options"]["stepwise"] is True
    (tmp_path / "app.c").write_text(MAIN)
    flags = [*resolve(target).c_flags, *strict_warnings(compiler)]
    sources = ["digits.c", "digits_blob.c", "mcc.c"]
    for command in ([*flags, "-c", *sources], [*resolve(target).c_flags, "app.c", *sources, "-lm", "-o", "app"]):
        done = subprocess.run(
            [needs_tool(compiler), *command], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    done = subprocess.run(["./app"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"exit code {done.returncode}"
    assert done.stdout == f"{len(made.report['steps'])} steps"


@pytest.mark.thorough
def test_an_error_ends_the_run(tmp_path: Path) -> None:
    """A step that finds an index out of range, among others: run answers what it answers."""
    indices = helper.make_tensor_value_info("i", TensorProto.INT64, [2])
    nodes = [helper.make_node("Exp", ["x"], ["e"]), helper.make_node("Gather", ["e", "i"], ["y"])]
    model = save(tmp_path / "gather.onnx", nodes, [floats("x", [5, 3]), indices])
    answers: list[object] = []
    for stepwise in (False, True):
        mccompile.compile(model, tmp_path / f"out{stepwise}", target="generic", stepwise=stepwise)
        net = mccompile.load(tmp_path / f"out{stepwise}")
        for array in net.inputs.values():
            array[...] = 99 if array.dtype.kind == "i" else 0
        with pytest.raises(mccompile.ir.errors.CompileError) as error:
            net.invoke()
        answers.append(str(error.value).replace(f"out{stepwise}", ""))
        good = {n: np.zeros_like(a) for n, a in net.inputs.items()}
        answers.append({n: a.tolist() for n, a in net.run(good).items()})
    assert answers[:2] == answers[2:]
    assert "index" in str(answers[0])


def test_a_network_without_steps_is_run(tmp_path: Path) -> None:
    nodes = [helper.make_node("Reshape", ["x", "s"], ["y"]), helper.make_node("Shape", ["x"], ["s"])]
    model = save(tmp_path / "none.onnx", nodes[::-1], [floats("x", [0, 3])])
    made = mccompile.compile(model, tmp_path / "out", target="generic", stepwise=True)
    assert made.report["steps"] == []
    (y,) = mccompile.load(tmp_path / "out").run({"x": np.zeros((0, 3), np.float32)}).values()
    assert y.shape == (0, 3)


def test_without_the_option_there_is_no_such_function(tmp_path: Path) -> None:
    mccompile.compile(DIGITS, tmp_path, target="generic")
    assert all("run_step" not in (tmp_path / f"digits.{kind}").read_text() for kind in "ch")
