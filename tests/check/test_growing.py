"""State that grows: in each run of a check, a golden test or a measurement, all extents are those that it needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import mccompile
from mccompile import driver
from mccompile.bench.bench import bench
from mccompile.check.check import check
from mccompile.check.golden import reference_golden
from mccompile.driver import Options
from mccompile.ir.errors import UsageError
from tests.check.conftest import save
from tests.check.test_golden import build_and_run

F = TensorProto.FLOAT
AXES = {"one": np.array([1], np.int64), "two": np.array([2], np.int64)}
FORMS: dict[str, dict[str, str]] = {
    "a mask as long as the cache": {"n": "0..8", "m": "n+1"},
    "room for two runs": {"n": "0..1", "m": "n+1"},
    "rows of the caller": {"n": "0..8", "m": "n+t", "t": "1..16"},
}


def cache(path: Path, rows: str | int = 1) -> Path:
    """o = sum of present by mask; past [1,n,4] and x make present; an output that has the extents of past."""
    nodes = [
        helper.make_node("Concat", ["past", "x"], ["present"], axis=1),
        helper.make_node("Unsqueeze", ["mask", "two"], ["wide"]),
        helper.make_node("Mul", ["present", "wide"], ["masked"]),
        helper.make_node("ReduceSum", ["masked", "one"], ["o"], keepdims=0),
        helper.make_node("Neg", ["past"], ["before"]),
    ]
    inputs: dict[str, Any] = {"x": (F, [1, rows, 4]), "past": (F, [1, "n", 4]), "mask": (F, [1, "m"])}
    outputs: dict[str, Any] = {"o": (F, [1, 4]), "present": (F, [1, "m", 4]), "before": (F, [1, "n", 4])}
    return save(path, nodes, inputs, outputs, AXES)


def options_of(form: str, **more: Any) -> Options:
    return Options(target="generic", dims=dict(FORMS[form]), state={"present": "past"}, **more)


def model_of(form: str, folder: Path) -> Path:
    return cache(folder / "cache.onnx", "t" if "t" in FORMS[form] else 1)


@pytest.mark.parametrize("form", FORMS)
def test_each_run_has_the_extents_that_state_has_grown_to(form: str, tmp_path: Path) -> None:
    """Of those of the caller the largest is in the last run: before, it would leave no room for another."""
    result = check(model_of(form, tmp_path), options_of(form), golden=True)
    assert result.ok, result.lines()
    assert [run.label.split(", ", 2)[2] for run in result.runs] == {
        "a mask as long as the cache": ["n=0", "n=1", "n=2"],
        "room for two runs": ["n=0", "n=1"],
        "rows of the caller": ["n=0, t=1", "n=1, t=6", "n=7, t=16"],
    }[form]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("io", ["arena", "caller"])
def test_the_golden_program_grows_as_well(form: str, io: str, tmp_path: Path) -> None:
    """With the rows of the caller it makes one run, which takes all the room, and begins anew."""
    model = model_of(form, tmp_path)
    driver.compile(model, tmp_path / "out", options_of(form, io=io), extra=reference_golden(model))
    done = build_and_run(tmp_path / "out", "cache")
    assert (done.returncode, done.stdout) == (0, "PASS cache\n")
    path = tmp_path / "out/test_cache.c"
    text = path.read_text()
    at = text.index("want_o[")
    path.write_text(text[:at] + text[at:].replace("0x1.", "0x1.f", 1))
    done = build_and_run(tmp_path / "out", "cache")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "FAIL cache")


def test_given_inputs_run_as_often_as_they_fit(tmp_path: Path) -> None:
    form = "a mask as long as the cache"
    model, x = model_of(form, tmp_path), np.ones((1, 1, 4), np.float32)
    result = check(model, options_of(form), inputs={"x": x, "mask": np.ones((1, 1), np.float32)}, golden=True)
    assert result.ok, result.lines()
    assert [run.label for run in result.runs] == ["given inputs, run 1"]
    with pytest.raises(UsageError, match=r"run 1: axis 1 of input 'mask' is 3, and n\+1 is 1 in this run \(n=0\)"):
        check(model, options_of(form), inputs={"x": x, "mask": np.ones((1, 3), np.float32)})


def test_samples_that_state_has_no_room_for_are_refused(tmp_path: Path) -> None:
    nodes = [helper.make_node("Concat", ["past", "x"], ["present"], axis=1),
             helper.make_node("ReduceSum", ["present", "one"], ["o"], keepdims=0)]  # fmt: skip
    inputs: dict[str, Any] = {"x": (F, [1, 1, 4]), "past": (F, [1, "n", 4])}
    outputs: dict[str, Any] = {"o": (F, [1, 4]), "present": (F, [1, "m", 4])}
    model = save(tmp_path / "net.onnx", nodes, inputs, outputs, {"one": AXES["one"]})
    options = Options(target="generic", dims={"n": "0..1"}, state={"present": "past"})
    assert len(check(model, options, inputs={"x": np.ones((1, 1, 4), np.float32)}).runs) == 2
    with pytest.raises(UsageError, match=r"sample 2: state has no room for one more run: n is 2, and may be 0\.\.1"):
        check(model, options, inputs={"x": np.ones((4, 1, 1, 4), np.float32)})


@pytest.mark.parametrize("form", FORMS)
def test_a_measurement_is_of_runs_of_one_size(form: str, tmp_path: Path) -> None:
    found = bench(model_of(form, tmp_path), options_of(form), rounds=1, seconds=1e-4, per_layer=True)
    assert found.time.median > 0


def test_a_measurement_takes_the_extents_of_given_inputs(tmp_path: Path) -> None:
    form = "a mask as long as the cache"
    inputs = {"x": np.ones((1, 1, 4), np.float32), "mask": np.ones((1, 4), np.float32)}
    assert bench(model_of(form, tmp_path), options_of(form), inputs=inputs, rounds=1, seconds=1e-4).time.median > 0
    inputs["mask"] = np.ones((1, 40), np.float32)
    with pytest.raises(UsageError, match=r"no extent n of state, 0\.\.8, is that of the inputs: n\+1 is 40"):
        bench(model_of(form, tmp_path), options_of(form), inputs=inputs, rounds=1, seconds=1e-4)


def test_runs_that_are_repeated_do_not_grow(tmp_path: Path) -> None:
    form = "a mask as long as the cache"
    mccompile.compile(model_of(form, tmp_path), tmp_path / "out", target="generic", dims=dict(FORMS[form]),
                      state={"present": "past"}, keep_inputs=True)  # fmt: skip
    network = mccompile.load(tmp_path / "out")
    run = network.repeated({"n": 5})
    network.set_inputs({"x": np.ones((1, 1, 4), np.float32), "mask": np.ones((1, 6), np.float32)})
    for _ in range(20):
        run()
    np.testing.assert_array_equal(network.outputs["o"], np.ones((1, 4), np.float32))
