"""How large the code is: what `size` says, wherever the files lie; and a reason where nobody can say."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import onnx
import pytest

from mccompile import driver
from mccompile.driver import Options
from mccompile.projects import compile_project
from mccompile.run.code import code_of, code_or_note
from mccompile.targets.target import resolve
from tests._skips import REPOSITORY, needs_tool
from tests.support.small_models import Maker

DIGITS = REPOSITORY / "examples" / "digits" / "digits.onnx"


@pytest.mark.thorough
@pytest.mark.parametrize("level", ["O2", "Os"])
def test_sizes_are_those_of_size(level: str, tmp_path: Path) -> None:
    needs_tool("arm-none-eabi-gcc")
    made = driver.compile(DIGITS, tmp_path / "out", Options(target="cortex-m4", opt_level=level))
    code = code_of(tmp_path / "out", made.report)
    sizes = {}
    for name in ("digits", "mcc"):
        command = ["arm-none-eabi-gcc", *resolve("cortex-m4").c_flags, "-c", f"{name}.c"]
        subprocess.run(command, cwd=tmp_path / "out", check=True)
        told = subprocess.check_output(["arm-none-eabi-size", f"{name}.o"], cwd=tmp_path / "out", text=True)
        sizes[name] = [int(n) for n in told.splitlines()[1].split()[:3]]
    assert code.text_bytes + code.constants_bytes == sizes["digits"][0]
    assert code.data_bytes == sizes["digits"][1] + sizes["digits"][2] == 0
    assert code.runtime_bytes == sizes["mcc"][0]
    functions = code.to_json()["functions"]
    assert sum(f["bytes"] for f in functions) <= code.text_bytes
    assert [f["bytes"] for f in functions] == sorted((f["bytes"] for f in functions), reverse=True)
    named = {f["name"]: f["stack_bytes"] for f in functions}
    assert named["digits_init"] is None
    assert code.stack is not None
    assert named["digits_run"] == code.stack.functions["digits_run"]


@pytest.mark.thorough
def test_files_may_lie_in_folders(tmp_path: Path) -> None:
    needs_tool("arm-none-eabi-gcc")
    found = []
    for package in ("cmake", "zephyr", "cargo"):
        options = Options(target="cortex-m4", package=package)
        made = driver.compile(DIGITS, tmp_path / package, options)
        found.append(code_of(tmp_path / package, made.report).to_json())
    assert found[0] == found[1] == found[2]


def test_without_a_compiler_there_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    made = driver.compile(DIGITS, tmp_path / "out", Options(target="generic"))
    code, note = code_or_note(tmp_path / "out", made.report)
    assert code is None
    assert "no-such-compiler" in note


def test_report_json_does_not_depend_on_compilers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What --report writes has the code; report.json, which has the same bytes everywhere, has not."""
    monkeypatch.setenv("CC", "no-such-compiler")
    driver.compile(DIGITS, tmp_path / "out", Options(target="generic"))
    without = (tmp_path / "out" / "report.json").read_bytes()
    monkeypatch.delenv("CC")
    driver.compile(DIGITS, tmp_path / "out", Options(target="generic"))
    assert (tmp_path / "out" / "report.json").read_bytes() == without
    assert "code" not in json.loads(without)


def test_a_network_of_a_project_has_the_functions_that_it_calls(tmp_path: Path) -> None:
    """Kernels lie in one file, those of the other network too."""
    paths = []
    for name, op in (("soft", "Softmax"), ("plain", "Relu")):
        maker = Maker()
        paths.append(tmp_path / f"{name}.onnx")
        onnx.save(maker.model([maker.node(op, [maker.input("x", (4, 8))])]), paths[-1])
    both = tmp_path / "both"
    report = compile_project(paths, both, Options(target="generic", project="both")).report
    soft, plain = (code_of(both, {**report["models"][name], "files": report["files"]}) for name in ("soft", "plain"))
    assert {"soft_run", "soft_init"} < soft.functions.keys()
    assert {"plain_run", "plain_init"} < plain.functions.keys()
    assert not soft.functions.keys() & plain.functions.keys()
    functions = {**soft.functions, **plain.functions}
    kernels = {name: size for name, size in functions.items() if name.startswith("both")}
    assert len(kernels) == 2
    own = sum(size for name, size in soft.functions.items() if name not in kernels)
    assert sum(soft.functions.values()) <= soft.text_bytes < own + sum(kernels.values())
