"""`mccompile bench`, from the command to the numbers."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import helper

from mccompile.bench.bench import bench
from mccompile.bench.engines import ENGINES
from mccompile.cli.main import cli
from mccompile.driver import Options
from mccompile.ir.errors import CompileError, UsageError
from mccompile.report.figures import write_results
from mccompile.targets.target import runs_here, targets
from tests.cli.conftest import floats, save

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.onnx"


def run(*args: object) -> Result:
    return CliRunner().invoke(cli, ["bench", *map(str, args)])


def test_bench_of_the_example_per_layer(tmp_path: Path) -> None:
    done = run(DIGITS, "--per-layer", "--rounds", 2, "--json")
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    assert data["macs"] > 0
    assert 0 < data["ms"]["best"] <= data["ms"]["median"] < 100
    assert data["ms"]["quartile1"] <= data["ms"]["median"] <= data["ms"]["quartile3"]
    assert data["gflops"] == pytest.approx(2 * data["macs"] / data["ms"]["median"] / 1e6, rel=0.01)
    assert data["of_peak"] == pytest.approx(data["gflops"] / data["machine"]["gflops"], rel=0.01)
    assert {"cpu", "compiler", "gflops", "ghz"} <= data["machine"].keys()
    assert [x["step"] for x in data["layers"]] == list(range(len(data["layers"])))
    assert sum(x["share"] for x in data["layers"]) == pytest.approx(1.0, abs=0.01)
    assert sum(x["macs"] for x in data["layers"]) == data["macs"]
    assert {x["bound"] for x in data["layers"]} <= {"compute", "bandwidth", "overhead"}
    assert any("conv1" in name for x in data["layers"] for name in x["onnx"])
    total = sum(x["us"] for x in data["layers"]) / 1e3
    assert 0.2 < total / data["ms"]["median"] < 5  # the steps are the run, but for calls and clocks


def test_results_are_compared_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    done = run(DIGITS, "--rounds", 1, "--check", "--json")
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    assert data["check"]["ok"]
    assert data["ms"]["best"] > 0
    monkeypatch.setattr("mccompile.check.result.CheckResult.ok", False)
    assert run(DIGITS, "--rounds", 1, "--check", "--target", "generic").exit_code == 3


def test_the_error_that_is_allowed_is_the_checks_too() -> None:
    words = (DIGITS, "--rounds", 1, "--check", "--target", "generic", "--weights", "i8", "--json", "--max-error")
    assert run(*words, 1e-9).exit_code == 3
    assert run(*words, 0.2).exit_code == 0


@pytest.mark.parametrize(("rows", "counted"), [(2, False), (8, True)])
def test_there_are_no_rates_below_the_largest_extents(rows: int, counted: bool, tmp_path: Path) -> None:
    """Multiply-adds are those of eight rows."""
    weights = [helper.make_tensor("w", 1, [4, 4], np.ones(16))]
    model = save(tmp_path / "m.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])], [floats("x", ["n", 4])],
                 initializer=weights)  # fmt: skip
    options = Options(target="generic", dims={"n": "1..8"})
    x = np.ones((rows, 4), np.float32)
    found = bench(model, options, inputs={"x": x}, rounds=1, seconds=0.001, per_layer=True)
    told = found.to_json()
    assert [told[key] is not None for key in ("gflops", "of_peak")] == [counted] * 2
    (layer,) = told["layers"]
    assert [layer[key] is not None for key in ("gflops", "of_peak", "gb_per_s")] == [counted] * 3
    assert (layer["bound"] != "unknown") == counted
    assert any("GFLOP/s, " in line for line in found.lines()) == counted
    write_results((tmp_path / "r.html", tmp_path / "r.json"), bench=found)


def test_bench_as_text(tmp_path: Path) -> None:
    done = run(DIGITS, "--rounds", 1, "--target", "generic")
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    assert "of the core's roof" in done.stdout
    assert "ONNX nodes" not in done.stdout
    assert "digits (digits.onnx) for generic -O2" in done.stdout


def test_another_engine_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(model: Path, inputs: object, threads: int) -> tuple[str, object]:
        assert threads == 1
        return "slow 1.0", lambda: time.sleep(0.002)

    monkeypatch.setitem(ENGINES, "slow", slow)
    found = bench(DIGITS, Options(target="generic"), rounds=1, against="slow", seconds=0.01)
    (other,) = found.others
    assert other.engine == "slow 1.0"
    assert other.time.median > 0.002
    assert other.ratio == pytest.approx(other.time.median / found.time.median)
    assert found.to_json()["against"][0]["ratio"] == round(other.ratio, 4)


def test_onnxruntime_beside() -> None:
    pytest.importorskip("onnxruntime")
    found = bench(DIGITS, Options(), rounds=1, against="onnxruntime", seconds=0.01)
    assert found.others[0].engine.startswith("onnxruntime ")
    assert 0 < found.others[0].time.median < 0.1


def _port(name: str, kind: int, shape: list[int | str]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


FED = {
    "a constant": (
        [helper.make_node("Mul", ["x", "s"], ["y"])], [_port("x", 1, [2]), _port("s", 1, [])], _port("y", 1, [2]),
        Options(constants={"s": 2.0}), None,
    ),
    "text": (
        [helper.make_node("StringConcat", ["x", "x"], ["y"])], [_port("x", 8, [2])], _port("y", 8, [2]),
        Options(), np.array(["on", "off"]),
    ),
    "bits of bfloat16": (
        [helper.make_node("Cast", ["x"], ["y"], to=1)], [_port("x", 16, [2])], _port("y", 1, [2]), Options(), None,
    ),
    "what has another rank than the file says": (
        [helper.make_node("Squeeze", ["x"], ["y"])], [_port("x", 1, ["a", "b", "c"])], _port("y", 1, ["n"]),
        Options(dims={"a": 2, "b": 1, "c": 3}), None,
    ),
    "what has another extent than the file says": (
        [helper.make_node("Relu", ["x"], ["y"])], [_port("x", 1, ["n"])], _port("y", 1, [11]),
        Options(dims={"n": 32}), None,
    ),
    "a sequence": (
        [helper.make_node("SequenceAt", ["x", "i"], ["y"])],
        [helper.make_tensor_sequence_value_info("x", 1, [2])], _port("y", 1, [2]),
        Options(input_shapes={"x_0": [2], "x_1": [2]}), None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FED)
def test_another_engine_is_fed_what_the_model_takes(case: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    nodes, inputs, output, options, x = FED[case]
    held = [helper.make_tensor("i", 7, [], [1])] if case == "a sequence" else []
    graph = helper.make_graph(nodes, "g", inputs, [output], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.save(model, tmp_path / "m.onnx")
    found = bench(tmp_path / "m.onnx", options, inputs=x, rounds=1, against="onnxruntime", seconds=0.001)
    assert found.others[0].time.median > 0


def test_wrong_usage() -> None:
    done = run(DIGITS, "--against", "tensorflow")
    assert done.exit_code == 2
    assert "known engines: onnxruntime" in done.output
    done = run(Path("net.mcir"), "--against", "onnxruntime")
    assert (done.exit_code, "onnxruntime needs the .onnx model" in done.output) == (2, True)
    assert run(DIGITS, "--rounds", 0).exit_code == 2
    with pytest.raises(UsageError):
        bench(DIGITS, Options(), rounds=0)


def test_a_target_of_another_machine() -> None:
    foreign = [name for name in targets() if not runs_here(name)]
    if not foreign:
        pytest.skip("this machine runs code for every target")
    with pytest.raises(CompileError, match="does not run code for target"):
        bench(DIGITS, replace(Options(), target=foreign[0]), rounds=1)
