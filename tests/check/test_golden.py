"""The test in C: clean under strict warnings, right on right outputs, wrong on altered ones."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from mccompile import driver
from mccompile.check.check import check
from mccompile.check.golden import golden_files, literals, reference_golden
from mccompile.driver import Options
from mccompile.ir.errors import CompileError, UsageError
from mccompile.targets.target import resolve, strict_warnings
from tests._skips import needs_shared, needs_tool
from tests.check.conftest import compile_to, save, small_net
from tests.support.small_models import Maker

EMBED = Options(target="generic", embed=True)


def build_and_run(
    out: Path, name: str, compiler: str = "gcc", defines: tuple[str, ...] = (), *arguments: str
) -> subprocess.CompletedProcess[str]:
    """The exit status and output of the test program."""
    needs_tool(compiler)
    flags = [*resolve("generic").c_flags, *strict_warnings(compiler), *defines]
    sources = [f"test_{name}.c", f"{name}.c", "mcc.c", *([f"{name}_blob.c"] if defines else [])]
    command = [compiler, *flags, *sources, "-lm", "-o", "golden"]
    built = subprocess.run(command, cwd=out, capture_output=True, text=True)
    assert built.returncode == 0, f"{shlex.join(command)}\n{built.stderr}"
    return subprocess.run(["./golden", *arguments], cwd=out, capture_output=True, text=True)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_a_right_model_passes_from_file_path_and_array(tmp_path: Path, compiler: str) -> None:
    model = small_net(tmp_path / "small.onnx")
    out = tmp_path / "out"
    driver.compile(model, out, EMBED, extra=reference_golden(model))
    done = build_and_run(out, "small", compiler)
    assert (done.returncode, done.stdout) == (0, "PASS small\n")
    (out / "small.mcb").rename(out / "moved.bin")
    assert build_and_run(out, "small", compiler, (), "moved.bin").returncode == 0
    assert build_and_run(out, "small", compiler, ("-DSMALL_EMBED",)).returncode == 0
    missing = build_and_run(out, "small", compiler)
    assert missing.returncode == 1
    assert "cannot read small.mcb" in missing.stdout


def test_an_altered_expectation_fails_and_is_named(tmp_path: Path) -> None:
    model = small_net(tmp_path / "small.onnx")
    out = tmp_path / "out"
    driver.compile(model, out, EMBED, extra=reference_golden(model))
    path = out / "test_small.c"
    text = path.read_text()
    wanted = re.search(r"want_y\[5\] = \{\n\s*(.*?),\n", text)
    assert wanted is not None
    values = wanted[1].split(", ")
    values[3] = "0x1.8p+9f"
    path.write_text(text.replace(wanted[1], ", ".join(values)))
    done = build_and_run(out, "small")
    assert done.returncode == 1
    assert re.search(r"FAIL y: \S+ instead of 768 at element 3", done.stdout)
    assert done.stdout.endswith("FAIL small\n")


@pytest.mark.parametrize("form", ["i4", "f16"])
def test_weights_of_fewer_bits_are_what_is_expected(form: str, tmp_path: Path) -> None:
    m = Maker()
    m.node("MatMul", [m.input("x", [3, 40]), m.weight((40, 30))], "y")
    onnx.save(m.model(["y"]), tmp_path / "wide.onnx")
    options = Options(target="generic", weights={"*": form})
    driver.compile(tmp_path / "wide.onnx", tmp_path / "out", options, extra=reference_golden(tmp_path / "wide.onnx"))
    assert build_and_run(tmp_path / "out", "wide").stdout == "PASS wide\n"


def test_a_damaged_blob_fails(tmp_path: Path) -> None:
    model = small_net(tmp_path / "small.onnx")
    out = tmp_path / "out"
    driver.compile(model, out, EMBED, extra=reference_golden(model))
    blob = bytearray((out / "small.mcb").read_bytes())
    blob[-30] ^= 1
    (out / "small.mcb").write_bytes(blob)
    assert build_and_run(out, "small").returncode == 1


def identities(path: Path, arrays: dict[str, np.ndarray[Any, Any]]) -> Path:
    nodes = [helper.make_node("Identity", [f"x_{n}"], [n]) for n in arrays]
    kind = {n: helper.np_dtype_to_tensor_dtype(a.dtype) for n, a in arrays.items()}
    return save(
        path,
        nodes,
        {f"x_{n}": (kind[n], a.shape) for n, a in arrays.items()},
        {n: (kind[n], a.shape) for n, a in arrays.items()},
    )


EVERY_TYPE: dict[str, np.ndarray[Any, Any]] = {
    "f16": np.array([1.5, -0.0, np.nan, np.inf, -np.inf, 6e-8, 65504, -0.1], np.float16),
    "f32": np.array([[np.nan, np.inf, -np.inf, -0.0, 1e-45, 3.4028235e38, 0.1, -7]], np.float32),
    "f64": np.array([np.nan, np.inf, -np.inf, -0.0, 5e-324, 0.1], np.float64),
    "i8": np.array([-128, 127, 0], np.int8),
    "u8": np.array([0, 255], np.uint8),
    "i32": np.array([-(2**31), 2**31 - 1], np.int32),
    "i64": np.array([-(2**63), 2**63 - 1, -1], np.int64),
    "flag": np.array([True, False, True]),
}


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_every_element_type_and_special_value(tmp_path: Path, compiler: str) -> None:
    model = identities(tmp_path / "types.onnx", EVERY_TYPE)
    inputs = {f"x_{n}": a for n, a in EVERY_TYPE.items()}
    out = tmp_path / "out"
    driver.compile(model, out, EMBED, extra=lambda c: golden_files(c, inputs, EVERY_TYPE))
    done = build_and_run(out, "types", compiler)
    assert (done.returncode, done.stdout) == (0, "PASS types\n")


def test_special_values_are_constants_to_a_compiler_that_folds_little(tmp_path: Path) -> None:
    """It is compiled alone: tcc aligns nothing."""
    model, inputs = identities(tmp_path / "types.onnx", EVERY_TYPE), {f"x_{n}": a for n, a in EVERY_TYPE.items()}
    driver.compile(model, tmp_path / "out", EMBED, extra=lambda c: golden_files(c, inputs, EVERY_TYPE))
    subprocess.run([needs_tool("tcc"), "-c", "test_types.c"], cwd=tmp_path / "out", check=True)


@pytest.mark.parametrize(
    ("name", "index"),
    [("f16", 2), ("f16", 3), ("f32", 0), ("f64", 2), ("i8", 1), ("i64", 0), ("flag", 1)],
)
def test_one_wrong_element_of_any_type_fails(tmp_path: Path, name: str, index: int) -> None:
    model = identities(tmp_path / "types.onnx", EVERY_TYPE)
    inputs = {f"x_{n}": a for n, a in EVERY_TYPE.items()}
    wrong = EVERY_TYPE[name].copy()
    wrong.reshape(-1)[index] = 1
    out = tmp_path / "out"
    driver.compile(model, out, EMBED, extra=lambda c: golden_files(c, inputs, EVERY_TYPE | {name: wrong}))
    done = build_and_run(out, "types")
    assert done.returncode == 1
    assert f"FAIL {name}: " in done.stdout
    assert f"at element {index}" in done.stdout


def test_channels_are_judged_apart(tmp_path: Path) -> None:
    array = np.ones((1, 2, 3), np.float32)
    array[:, 0] = 1000
    model = identities(tmp_path / "net.onnx", {"y": array})
    given = array.copy()
    given[0, 1, 2] += 5e-3
    out = tmp_path / "out"
    driver.compile(model, out, EMBED, extra=lambda c: golden_files(c, {"x_y": given}, {"y": array}))
    done = build_and_run(out, "net")
    assert done.returncode == 1
    assert "at element 5" in done.stdout
    given[0] = array[0]
    given[0, 0, 1] += 5e-3
    driver.compile(model, out, EMBED, extra=lambda c: golden_files(c, {"x_y": given}, {"y": array}))
    assert build_and_run(out, "net").returncode == 0


def test_what_is_too_large_or_does_not_fit_is_refused(tmp_path: Path) -> None:
    big = np.zeros((600, 1000), np.float32)
    c = compile_to(identities(tmp_path / "big.onnx", {"y": big}), tmp_path / "big")
    with pytest.raises(CompileError, match="too large"):
        golden_files(c, {"x_y": big}, {"y": big})
    with pytest.raises(UsageError, match="no array is given for output 'y'"):
        golden_files(c, {"x_y": big}, {})
    with pytest.raises(UsageError, match="input 'x_y' is float64"):
        golden_files(c, {"x_y": big.astype(np.float64)}, {"y": big})


def test_outputs_of_extents_that_a_run_tells_are_refused(tmp_path: Path) -> None:
    m = Maker()
    m.node("NonZero", [m.input("x", [4])], "y")
    onnx.save(m.model(["y"]), tmp_path / "net.onnx")
    c = compile_to(tmp_path / "net.onnx", tmp_path / "net")
    with pytest.raises(CompileError, match=r"'y' is i64.*each run"):
        golden_files(c, {"x": np.ones(4, np.float32)}, {"y": np.zeros((1, 2), np.int64)})


@pytest.mark.parametrize("io", ["arena", "caller"])
def test_inputs_and_outputs_without_elements_are_c99(io: str, tmp_path: Path) -> None:
    m = Maker()
    past, x = m.input("past", [1, 0, 4]), m.input("x", [1, 2, 4])
    m.node("Concat", [past, x], "all", axis=1)
    m.node("Neg", [past], "before")
    onnx.save(m.model(["all", "before"]), tmp_path / "net.onnx")
    options = Options(target="generic", io=io)
    driver.compile(tmp_path / "net.onnx", tmp_path / "out", options, extra=reference_golden(tmp_path / "net.onnx"))
    assert build_and_run(tmp_path / "out", "net").stdout == "PASS net\n"
    command = [needs_tool("gcc"), "-std=c99", "-pedantic-errors", "-c", "example_main.c"]
    subprocess.run(command, cwd=tmp_path / "out", check=True)


def test_one_run_of_a_network_with_state_begins_anew(tmp_path: Path) -> None:
    """Outputs that are given are of one run; the program makes two."""
    m = Maker()
    m.node("Add", [m.input("h", [4]), m.input("x", [4])], "next")
    m.node("Neg", ["next"], "y")
    onnx.save(m.model(["next", "y"]), tmp_path / "net.onnx")
    x = np.ones(4, np.float32)
    driver.compile(
        tmp_path / "net.onnx", tmp_path / "out", Options(target="generic", state={"next": "h"}),
        extra=lambda c: golden_files(c, {"x": x}, {"y": -x}),
    )  # fmt: skip
    assert build_and_run(tmp_path / "out", "net").stdout == "PASS net\n"


def test_a_network_that_only_keeps_state_is_c99(tmp_path: Path) -> None:
    m = Maker()
    m.node("Add", [m.input("h", [4]), m.input("x", [4])], "next")
    onnx.save(m.model(["next"]), tmp_path / "net.onnx")
    options = Options(target="generic", state={"next": "h"})
    driver.compile(tmp_path / "net.onnx", tmp_path / "out", options, extra=reference_golden(tmp_path / "net.onnx"))
    assert build_and_run(tmp_path / "out", "net").stdout == "PASS net\n"


def test_the_program_runs_at_the_largest_extents_whatever_the_seed(tmp_path: Path) -> None:
    m = Maker()
    m.node("Relu", [m.input("x", ["n", 4])], "y")
    onnx.save(m.model(["y"]), tmp_path / "net.onnx")
    result = check(tmp_path / "net.onnx", Options(target="generic", dims={"n": "1..3"}), seed=1, golden=True)
    assert result.ok, result.lines()


def test_inputs_below_the_bounds_are_of_no_golden_test(tmp_path: Path) -> None:
    m = Maker()
    m.node("Relu", [m.input("x", ["n", 4])], "y")
    onnx.save(m.model(["y"]), model := tmp_path / "net.onnx")
    x, options = np.ones((2, 4), np.float32), Options(target="generic", dims={"n": "1..3"})
    with pytest.raises(UsageError, match=r"is \[2, 4\], and a golden test has all extents at their bounds: \[3, 4\]"):
        driver.compile(model, tmp_path / "out", options, extra=reference_golden(model, {"x": x}))


def test_literals_are_exact() -> None:
    values = np.random.default_rng(0).standard_normal(50).astype(np.float32)
    words = ", ".join(literals(values)).split(", ")
    np.testing.assert_array_equal(np.array([float.fromhex(w.rstrip("f")) for w in words], np.float32), values)
    assert literals(np.array([-(2**63)], np.int64)) == ["(-INT64_C(9223372036854775807) - 1)"]


def test_a_real_model(tmp_path: Path) -> None:
    model = needs_shared("models/mnist8/model.onnx")
    driver.compile(model, tmp_path / "out", Options(target="generic"), extra=reference_golden(model))
    assert build_and_run(tmp_path / "out", "mnist8").returncode == 0


