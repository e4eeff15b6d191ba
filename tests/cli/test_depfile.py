"""``--depfile``: a rule of make that names all files that were read."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests._skips import REPOSITORY, needs_tool
from tests.cli.conftest import Run, floats, save, spawn


def words(rule: Path) -> list[str]:
    """The paths of a rule, behind the colon."""
    return rule.read_text().strip().split(": ", 1)[1].split(" ")


def test_arrays_of_constants_functions_of_c_and_plugins_are_named(tmp_path: Path) -> None:
    (tmp_path / "acme" / "targets").mkdir(parents=True)
    plugin = tmp_path / "acme" / "targets" / "none.py"
    plugin.write_text("TARGETS = ()\n")
    low_pass = REPOSITORY / "tests" / "plugins" / "low_pass.h"
    np.save(tmp_path / "w.npy", np.ones([3, 16], np.float32))
    nodes = [helper.make_node("LowPass", ["x"], ["a"], domain="com.acme", share=0.25)]
    nodes += [helper.make_node("Add", ["a", "w"], ["y"])]
    model = save(tmp_path / "net.onnx", nodes, [floats("x", [3, 16]), floats("w", [3, 16])])
    given = ["--custom-op", f"com.acme:LowPass={low_pass}", "--plugin", tmp_path / "acme"]
    given += ["--constant", f"w={tmp_path / 'w.npy'}", "--target", "generic", "--depfile", tmp_path / "net.d"]
    done = spawn([model, "-o", tmp_path / "out", *given])
    assert done.returncode == 0, done.stderr
    read = [model, tmp_path / "w.npy", plugin, *(low_pass.with_suffix(suffix) for suffix in (".h", ".c", ".py"))]
    assert words(tmp_path / "net.d") == list(map(str, read))


def test_the_arrays_of_a_text_are_named(run: Run, model: Path, tmp_path: Path) -> None:
    dumps = tmp_path / "dumps"
    assert run(model, "-o", tmp_path / "out", "--target", "generic", "--dump-dir", dumps, "-q").exit_code == 0
    text = next(path for path in sorted(dumps.glob("*.mcir")) if path.with_suffix(".npz").exists())
    result = run(text, "-o", tmp_path / "of", "--target", "generic", "--depfile", tmp_path / "of.d", "-q")
    assert result.exit_code == 0, result.output
    assert words(tmp_path / "of.d") == [str(text), str(text.with_suffix(".npz"))]


@pytest.mark.parametrize("name", ["a b", "a#b", "$a", "a\\b", "a\\ b", "a\\#b$(c)", "ä"])
def test_make_reads_the_names(name: str, run: Run, tmp_path: Path) -> None:
    relu = [helper.make_node("Relu", ["x"], ["y"])]
    model = save(tmp_path / f"{name}.onnx", relu, [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])])
    result = run(model, "-o", tmp_path / f"{name} out", "--target", "generic", "--depfile", tmp_path / "net.d", "-q")
    assert result.exit_code == 0, result.output
    (tmp_path / "Makefile").write_text((tmp_path / "net.d").read_text() + "\t@printf '%s' '$<'\n")
    (tmp_path / f"{name} out" / "report.json").unlink()
    made = subprocess.run([needs_tool("make"), "-s"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert made.stdout == str(model)
