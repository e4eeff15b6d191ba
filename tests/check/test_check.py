"""The checker on good models, and on models whose generated C was spoiled: it has to find every planted fault."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mccompile.check.check import CheckResult, check, check_folder
from mccompile.driver import Compilation, Options
from mccompile.ir.errors import UsageError
from mccompile.onnxio import numpy_dtype
from tests._skips import needs_shared
from tests.check.conftest import GENERIC, compile_to, save, small_net, spoil, step_writing

F32 = TensorProto.FLOAT


@pytest.fixture
def net(tmp_path: Path) -> Path:
    return small_net(tmp_path / "small.onnx")


def spoiled(net: Path, tensor: str, statement: str, per_layer: bool = False, before: bool = False) -> CheckResult:
    """Check with a statement put behind the step that completes a tensor."""
    out = net.parent / "out"
    c = compile_to(net, out)
    report = json.loads((out / "report.json").read_text())
    spoil(out, c.graph.name, statement, step_writing(report, tensor), before)
    return check_folder(net, c, out, per_layer=per_layer)


def test_bits_of_bfloat16_are_compared_as_numbers(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).normal(0, 1, (8, 4)).astype(numpy_dtype("bf16"))
    ports = [helper.make_tensor_value_info(n, TensorProto.BFLOAT16, (3, d)) for n, d in (("x", 8), ("y", 4))]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], [numpy_helper.from_array(weights, "w")])
    path = tmp_path / "halves.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    result = check(path, GENERIC)
    assert result.ok, result.lines()
    (found,) = result.runs[0].comparisons
    assert 0 < found.allowed < 0.2
    out = tmp_path / "out"
    c = compile_to(path, out)
    report = json.loads((out / "report.json").read_text())
    spoil(out, c.graph.name, "a->y.v[2] ^= 0x40u;", step_writing(report, "y"), False)
    (found,) = check_folder(path, c, out).runs[0].comparisons
    assert found.differing == 1
    assert found.index == (0, 2)


@pytest.mark.parametrize("level", ["O0", "O2", "Os"])
def test_a_good_model_passes(net: Path, level: str) -> None:
    result = check(net, Options(target="generic", opt_level=level), per_layer=True)
    assert result.ok, result.lines()
    assert len(result.runs) == 2
    assert "onnxruntime" in result.judge
    assert result.trace is not None
    assert {"left", "y"} <= {layer.name for layer in result.trace.layers}
    assert result.trace.first is None
    assert len(result.lines()) <= 25
    assert json.loads(json.dumps(result.to_json(), allow_nan=False))["ok"] is True


def test_without_onnxruntime_the_fallback_judges(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    result = check(net, GENERIC, per_layer=True)
    assert result.ok, result.lines()
    assert "onnx.reference" in result.judge
    assert result.trace is not None
    assert len(result.trace.layers) >= 3
    assert not spoiled(net, "left", "RESULT[40] += 0.01f;").ok


def test_a_wrong_kernel_is_found_and_named(net: Path) -> None:
    result = spoiled(net, "left", "RESULT[40] += 0.01f;", per_layer=True)
    assert not result.ok
    assert not any(run.ok for run in result.runs)
    assert result.trace is not None
    assert result.trace.first is not None
    first = result.trace.first
    assert (first.name, first.nodes) == ("left", ("left/conv",))
    assert first.comparison.differing == 1
    assert first.comparison.channel == 1
    text = "\n".join(result.lines())
    assert "FAILED" in text
    assert "first: left (@" in text
    assert json.loads(json.dumps(result.to_json(), allow_nan=False))["trace"]["first"] == "left"


def test_the_first_layer_of_a_fused_model_is_the_one_that_was_fused(net: Path) -> None:
    result = spoiled(net, "relu", "RESULT[70] += 5.0f;", per_layer=True)
    assert result.trace is not None
    assert result.trace.first is not None
    assert result.trace.first.name == "relu"
    assert result.trace.first.nodes == ("first/conv", "first/relu")
    assert result.trace.worst is not None
    assert result.trace.worst.comparison.ratio >= result.trace.first.comparison.ratio


def test_nan_is_found(net: Path) -> None:
    result = spoiled(net, "y", "RESULT[2] = 0.0f / (RESULT[2] - RESULT[2]);")
    assert not result.ok
    comparison = result.runs[0].comparisons[0]
    assert (comparison.index, comparison.error) == ((0, 2), np.inf)
    json.dumps(result.to_json(), allow_nan=False)


def test_what_depends_on_the_arena_before_the_run_is_found(net: Path) -> None:
    """Right on an arena full of 0xFF, wrong on what a run leaves behind."""
    out = net.parent / "out"
    c = compile_to(net, out)
    report = json.loads((out / "report.json").read_text())
    tensors = {t["name"]: t for t in report["memory"]["tensors"]}
    behind_input = tensors["x"]["offset"] + tensors["x"]["bytes"]
    place = next(t["offset"] for t in tensors.values() if t["offset"] >= behind_input)
    spoil(out, c.graph.name, f"const unsigned stale = a->bytes[{place}];", 0, before=True)
    spoil(out, c.graph.name, "if (stale != 0xFFu) { RESULT[0] += 1.0f; }", step_writing(report, "y"))
    result = check_folder(net, c, out)
    assert result.runs[0].ok
    assert not result.runs[1].ok
    assert any("depends on what the arena holds" in f for f in result.faults)


def test_a_write_outside_of_the_arena_is_found(net: Path) -> None:
    far = "{ volatile size_t far_ = sizeof(*a) + 100u; ((uint8_t *)a)[far_] = 1u; }"
    result = spoiled(net, "y", far)
    assert all(run.ok for run in result.runs)
    assert result.faults == ("a kernel writes outside of the arena",)
    assert not result.ok


def test_a_warning_of_the_compiler_is_a_fault(net: Path) -> None:
    result = spoiled(net, "y", "{ int lost = 3; }")
    assert all(run.ok for run in result.runs)
    assert not result.ok
    assert any("without warnings" in f and "lost" in f for f in result.faults)


def test_an_input_that_was_to_be_kept_is_watched(net: Path) -> None:
    out = net.parent / "out"
    c = compile_to(net, out, Options(target="generic", keep_inputs=True))
    assert check_folder(net, c, out).ok
    report = json.loads((out / "report.json").read_text())
    spoil(out, c.graph.name, "a->x.v[0] += 1.0f;", step_writing(report, "y"))
    assert any("keep_inputs" in f for f in check_folder(net, c, out).faults)


def given(c: Compilation | None = None) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(9).standard_normal((1, 2, 6, 6)).astype(np.float32)}


def test_given_outputs_replace_the_reference(net: Path) -> None:
    import onnxruntime

    y, _ = onnxruntime.InferenceSession(str(net)).run(None, given())
    good = check(net, GENERIC, inputs=given(), expect={"y": y}, per_layer=True)
    assert good.ok, good.lines()
    assert good.judge == "the given outputs"
    y[0, 3] += 0.01
    bad = check(net, GENERIC, inputs=given(), expect={"y": y})
    assert not bad.ok
    assert bad.runs[0].comparisons[0].index == (0, 3)


def test_arguments_that_do_not_fit_are_usage_errors(net: Path) -> None:
    y = np.zeros((1, 5), np.float32)
    with pytest.raises(UsageError, match="need the inputs"):
        check(net, GENERIC, expect={"y": y})
    with pytest.raises(UsageError, match=r"no output 'z'\n.*its outputs are y"):
        check(net, GENERIC, inputs=given(), expect={"z": y})
    with pytest.raises(UsageError, match="no array is given for input 'x'"):
        check(net, GENERIC, inputs={"other": y})
    with pytest.raises(UsageError, match="its data f64"):
        check(net, GENERIC, inputs={"x": given()["x"].astype(np.float64)})


@pytest.mark.parametrize("kind", ["f32", "bf16"])
def test_numbers_for_an_input_of_bfloat16_are_told_of_its_bits(kind: str, tmp_path: Path) -> None:
    port = (TensorProto.BFLOAT16, [3])
    save(tmp_path / "bf16.onnx", [helper.make_node("Relu", ["x"], ["y"])], {"x": port}, {"y": port})
    with pytest.raises(UsageError, match=r"its data .*\n.*bits of bfloat16.*view\(np.uint16\)"):
        check(tmp_path / "bf16.onnx", GENERIC, inputs={"x": np.ones(3, np.float32).astype(numpy_dtype(kind))})


def test_many_outputs_stay_within_25_lines(tmp_path: Path) -> None:
    names = [f"y{i}" for i in range(12)]
    nodes = [helper.make_node("Mul", ["x", f"c{i}"], [n]) for i, n in enumerate(names)]
    weights = {f"c{i}": np.float32(i + 1).reshape(1) for i in range(12)}
    out = {n: (F32, [4]) for n in names}
    model = save(tmp_path / "many.onnx", nodes, {"x": (F32, [4])}, out, weights)
    x = {"x": np.ones(4, np.float32)}
    result = check(model, GENERIC, inputs=x, expect={n: np.zeros(4, np.float32) for n in names}, per_layer=True)
    assert not result.ok
    assert len(result.lines()) <= 25
    assert "and 6 more, 6 of them wrong" in "\n".join(result.lines())


@pytest.mark.parametrize("name", ["mnist8", "dtln_stage2"])
def test_real_models_agree_with_stored_outputs_and_by_layer(name: str) -> None:
    folder = needs_shared(f"models/{name}")
    ports = json.loads((folder / "io.json").read_text())
    inputs = {p["name"]: np.load(folder / f"input_{i}.npy") for i, p in enumerate(ports["inputs"])}
    outputs = {p["name"]: np.load(folder / f"output_{i}.npy") for i, p in enumerate(ports["outputs"])}
    result = check(folder / "model.onnx", GENERIC, inputs=inputs, expect=outputs, per_layer=True)
    assert result.ok, result.lines()
    assert result.trace is not None
    assert len(result.trace.layers) >= 4
    assert not result.trace.skipped


def test_inputs_that_nan_is_made_of_are_named(tmp_path: Path) -> None:
    """A GRU of onnxruntime makes numbers of NaN, ours hands it on."""
    pytest.importorskip("onnxruntime")
    nodes = [
        helper.make_node("Sqrt", ["x"], ["s"]),
        helper.make_node("GRU", ["s", "w", "w", "b"], ["", "h"], hidden_size=4, linear_before_reset=1),
    ]
    x = {"x": np.full((2, 1, 4), -1, np.float32)}
    path = save(
        tmp_path / "m.onnx", nodes, {"x": (F32, [2, 1, 4])}, {"s": (F32, [2, 1, 4]), "h": (F32, [1, 1, 4])},
        {"w": np.full((1, 12, 4), 0.1, np.float32), "b": np.zeros((1, 24), np.float32)},
    )  # fmt: skip
    result = check(path, Options(), inputs=x)
    assert not result.ok
    assert any("give others (--inputs)" in line for line in result.lines())
