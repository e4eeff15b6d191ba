"""The judge: onnxruntime and its noise, the fallback on our canonical form, and the random inputs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from mccompile.check import saturation, ties
from mccompile.check.check import check
from mccompile.check.compare import compare
from mccompile.check.drawn import random_inputs
from mccompile.check.reference import UNROUNDED, OnnxReference, OnnxRuntime, open_judge
from mccompile.driver import Options
from mccompile.importer.labels import Legend
from mccompile.ir.errors import CompileError
from mccompile.ir.types import DTYPES, TensorType
from tests.check.conftest import save, small_net
from tests.support.targets import WIDE, needs_target

F32, I64 = TensorProto.FLOAT, TensorProto.INT64


def old_forms(path: Path) -> Path:
    """BatchNormalization and Softmax as opset 9 has them: what onnx.reference gets wrong."""
    rng = np.random.default_rng(0)
    weights = {n: rng.random(3).astype(np.float32) + 0.5 for n in ("scale", "b", "mean", "var")}
    nodes = [
        helper.make_node("BatchNormalization", ["x", "scale", "b", "mean", "var"], ["n"]),
        helper.make_node("Softmax", ["n"], ["y"]),
    ]
    return save(path, nodes, {"x": (F32, [2, 3, 4])}, {"y": (F32, [2, 3, 4])}, weights, opset=9)


def test_the_fallback_agrees_with_onnxruntime_on_old_forms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = old_forms(tmp_path / "m.onnx")
    x = {"x": np.random.default_rng(1).standard_normal((2, 3, 4)).astype(np.float32)}
    judge = open_judge(path, ["y"], ["n"])
    assert isinstance(judge, OnnxRuntime)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    fallback = open_judge(path, ["y"], ["n"])
    assert isinstance(fallback, OnnxReference)
    assert "not installed" in fallback.engine
    one, two = judge.run(x).values, fallback.run(x).values
    assert set(one) == set(two) == {"y", "n"}
    for name in one:
        assert two[name].dtype == np.float32
        np.testing.assert_allclose(two[name], one[name], rtol=1e-5, atol=1e-6)
    assert fallback.run(x).noise == {}


def test_noise_shows_what_is_ill_conditioned(tmp_path: Path) -> None:
    """x * w - x * w': a difference of nearly equal numbers is as sure as its operands, not as its own size."""
    w = np.linspace(1, 2, 32).astype(np.float32).reshape(1, 32)
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["a"]),
        helper.make_node("Mul", ["x", "v"], ["b"]),
        helper.make_node("Sub", ["a", "b"], ["y"]),
    ]
    v = np.nextafter(w, np.float32(3))
    path = save(tmp_path / "m.onnx", nodes, {"x": (F32, [1, 32])}, {"y": (F32, [1, 32])}, {"w": w, "v": v})
    found = open_judge(path, ["y"], ["a"]).run({"x": np.full((1, 32), 1000, np.float32)})
    assert found.noise["y"].max() >= np.abs(found.values["y"]).max() * 0.5
    assert 0 < found.noise["a"].max() <= 1e-6 * found.values["a"].max()


@pytest.mark.parametrize("per_column", [False, True])
def test_a_cell_that_rounds_its_state_is_judged_by_the_real_weights(per_column: bool, tmp_path: Path) -> None:
    """And held to them as closely as any cell of floats: one weight of another scale is found."""
    rng = np.random.default_rng(3)
    size, hidden, steps = 6, 5, 7
    scales = rng.uniform(0.5, 1, (2, 1, 20) if per_column else (2, 1)).astype(np.float32) / 100
    weights = {n: rng.integers(-127, 128, (1, rows, 20)).astype(np.int8) for n, rows in (("w", size), ("r", hidden))}
    weights |= {"ws": scales[0], "rs": scales[1], "z": np.full(scales[0].shape, 3, np.int8)}
    inputs = ["x", "w", "r", "", "", "", "", "", "ws", "z", "rs", "z"]
    node = helper.make_node("DynamicQuantizeLSTM", inputs, ["y"], domain="com.microsoft", hidden_size=hidden)
    given, made = {"x": (F32, [steps, 1, size])}, {"y": (F32, [steps, 1, 1, hidden])}
    path = save(tmp_path / "m.onnx", [node], given, made, weights)
    result = check(path, Options())
    assert result.ok, "\n".join(result.lines())
    assert UNROUNDED in result.notes
    other = save(tmp_path / "o.onnx", [node], given, made, weights | {"ws": scales[0] * np.float32(1.01)})
    x = {"x": rng.standard_normal((steps, 1, size)).astype(np.float32)}
    one, two = (open_judge(p, ["y"]).run(x) for p in (path, other))
    assert not compare("y", one.values["y"], two.values["y"], two.noise["y"]).ok


def test_what_cells_round_is_judged_as_layers_are(tmp_path: Path) -> None:
    """The second of two reads states, which are no floats in C: some are rounded to the other side of a tie, which no
    tolerance of outputs allows."""
    rng, size, hidden = np.random.default_rng(5), 8, 24
    weights: dict[str, np.ndarray] = {"z": np.zeros(1, np.int8)}
    nodes, x = [], "x"
    for i, depth in enumerate((size, hidden)):
        for name, rows in ((f"w{i}", depth), (f"r{i}", hidden)):
            weights[name] = rng.integers(-127, 128, (1, rows, 4 * hidden)).astype(np.int8)
            weights[f"{name}.s"] = rng.uniform(0.002, 0.004, 1).astype(np.float32)
        inputs = [x, f"w{i}", f"r{i}", "", "", "", "", "", f"w{i}.s", "z", f"r{i}.s", "z"]
        made = [f"y{i}"]
        nodes += [helper.make_node("DynamicQuantizeLSTM", inputs, made, domain="com.microsoft", hidden_size=hidden)]
        nodes += [helper.make_node("Squeeze", [f"y{i}", "one"], [x := f"s{i}"])]
    weights["one"] = np.array([1])
    path = save(tmp_path / "m.onnx", nodes, {"x": (F32, [24, 1, size])}, {"s1": (F32, [24, 1, hidden])}, weights)
    explained = []
    for seed in (0, 2, 4):
        result = check(path, Options(), seed=seed)
        assert result.ok, "\n".join(result.lines())
        explained.append(result.ties is not None)
    assert any(explained)


@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3)])
def test_cells_without_sequences_are_judged_by_onnx(op: str, gates: int, tmp_path: Path) -> None:
    """onnxruntime would end the program there."""
    r, hidden = np.random.default_rng(0), 3
    weights = {"w": r.normal(size=(1, gates * hidden, 2)), "r": r.normal(size=(1, gates * hidden, hidden))}
    node = helper.make_node(op, ["x", "w", "r"], ["y"], hidden_size=hidden)
    given, made = {"x": (F32, [4, "n", 2])}, {"y": (F32, [4, 1, "n", hidden])}
    path = save(tmp_path / "m.onnx", [node], given, made, {n: a.astype(np.float32) for n, a in weights.items()})
    result = check(path, Options(dims={"n": "0..2"}))
    assert result.ok, "\n".join(result.lines())
    assert {run.comparisons[0].type for run in result.runs} >= {"float32[4,1,0,3]", "float32[4,1,2,3]"}


def test_scans_without_steps_do_not_end_the_program(tmp_path: Path) -> None:
    """Nobody judges them along axis 1: onnxruntime divides by zero, onnx.reference does not know them."""
    body = helper.make_graph(
        [helper.make_node("Add", ["a", "r"], ["b"]), helper.make_node("Neg", ["b"], ["o"])], "body",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in "ar"],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in "bo"],
    )  # fmt: skip
    node = helper.make_node("Scan", ["s", "x"], ["t", "y"], body=body, num_scan_inputs=1, scan_input_axes=[1])
    given, made = {"s": (F32, [3]), "x": (F32, [3, "n"])}, {"t": (F32, [3]), "y": (F32, ["n", 3])}
    path = save(tmp_path / "m.onnx", [node], given, made)
    assert check(path, Options(target="generic", dims={"n": "1..2"})).ok
    with pytest.raises(CompileError) as raised:
        check(path, Options(target="generic", dims={"n": "0..2"}))
    assert "nothing to go through" in str(raised.value)


@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3)])
def test_cells_of_doubles_are_judged_by_onnx(op: str, gates: int, tmp_path: Path) -> None:
    """onnxruntime loads them, and does not support them where it runs."""
    r, f64 = np.random.default_rng(0), TensorProto.DOUBLE
    weights = {"w": r.normal(size=(1, gates * 3, 2)), "r": r.normal(size=(1, gates * 3, 3))}
    node = helper.make_node(op, ["x", "w", "r"], ["y"], hidden_size=3)
    path = save(tmp_path / "m.onnx", [node], {"x": (f64, [4, 2, 2])}, {"y": (f64, [4, 1, 2, 3])}, weights)
    result = check(path, Options())
    assert result.ok, "\n".join(result.lines())
    assert result.runs[0].comparisons[0].type == "float64[4,1,2,3]"


def test_onnxruntime_judges_scans_where_another_input_is_empty(tmp_path: Path) -> None:
    """Beside an operator that onnx.reference does not have: along the first axis nothing ends the program."""
    body = helper.make_graph(
        [helper.make_node("Add", ["a", "r"], ["b"]), helper.make_node("Neg", ["b"], ["o"])], "body",
        [helper.make_tensor_value_info(n, F32, [3]) for n in "ar"],
        [helper.make_tensor_value_info(n, F32, [3]) for n in "bo"],
    )  # fmt: skip
    nodes = [
        helper.make_node("Scan", ["s", "x"], ["t", "y"], body=body, num_scan_inputs=1),
        helper.make_node("FastGelu", ["z"], ["w"], domain="com.microsoft"),
    ]
    given = {"s": (F32, [3]), "x": (F32, [4, 3]), "z": (F32, ["n", 2])}
    made = {"y": (F32, [4, 3]), "w": (F32, ["n", 2])}
    result = check(save(tmp_path / "m.onnx", nodes, given, made), Options(target="generic", dims={"n": "0..2"}))
    assert result.ok, "\n".join(result.lines())


def test_an_optimiser_that_ends_the_program_is_left_out(tmp_path: Path) -> None:
    """onnxruntime's, where a branch reads what is dequantised and turned: in a program of its own."""
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["d"]), helper.make_node("Transpose", ["d"], ["y"]),
        helper.make_node("If", ["b"], ["w"], **{
            f"{name}_branch": helper.make_graph(
                [helper.make_node(op, ["y"], [f"{name}_w"])], name, [],
                [helper.make_tensor_value_info(f"{name}_w", TensorProto.FLOAT, None)])
            for name, op in (("then", "Neg"), ("else", "Abs"))
        }),
    ]  # fmt: skip
    given = {"x": (TensorProto.INT8, [3, 3]), "b": (TensorProto.BOOL, [])}
    constants = {"s": np.array(0.1, np.float32), "z": np.array(3, np.int8)}
    path = save(tmp_path / "m.onnx", nodes, given, {"y": (F32, [3, 3]), "w": (F32, [3, 3])}, constants)
    command = [sys.executable, "-m", "mccompile", "check", str(path), "--target", "generic"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_inner_values_of_4_bits_are_not_asked_for(tmp_path: Path) -> None:
    """onnxruntime has no arrays of them."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s"], ["q"], output_dtype=TensorProto.INT4),
        helper.make_node("DequantizeLinear", ["q", "s"], ["f"]), helper.make_node("Relu", ["f"], ["y"]),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", F32, [64])], [helper.make_tensor_value_info("y", F32, [64])],
        [helper.make_tensor("s", F32, [], [0.25])],
    )  # fmt: skip
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    result = check(path, Options(target="generic"), per_layer=True)
    assert result.ok, result.lines()
    assert result.trace is not None


def test_a_wrong_optimisation_is_no_noise(tmp_path: Path) -> None:
    """Zeros around negative numbers are the largest there, which padding of the pooling itself is not."""
    nodes = [
        helper.make_node("Pad", ["x", "pads"], ["p"]),
        helper.make_node("MaxPool", ["p"], ["y"], kernel_shape=[3, 3], strides=[2, 2]),
    ]
    pads = {"pads": np.array([0, 0, 1, 1, 0, 0, 1, 1], dtype=np.int64)}
    path = save(tmp_path / "m.onnx", nodes, {"x": (F32, [1, 2, 6, 6])}, {"y": (F32, [1, 2, 3, 3])}, pads)
    found = open_judge(path, ["y"]).run({"x": np.full((1, 2, 6, 6), -1, np.float32)})
    assert found.values["y"][0, 0].tolist() == [[0, 0, 0], [0, -1, -1], [0, -1, -1]]
    assert not found.noise["y"].any()


def test_f16_noise_is_what_f32_would_have_kept(tmp_path: Path) -> None:
    f16 = TensorProto.FLOAT16
    nodes = [helper.make_node("Add", ["x", "c"], ["y"])]
    c = np.full(4, 2048, np.float16)
    path = save(tmp_path / "m.onnx", nodes, {"x": (f16, [4])}, {"y": (f16, [4])}, {"c": c})
    found = open_judge(path, ["y"]).run({"x": np.array([0, 1, 2, 3], np.float16)})
    assert found.values["y"].dtype == np.float16
    np.testing.assert_array_equal(found.noise["y"], [0, 1, 0, 1])


def test_where_nothing_judges_both_reasons_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """onnx.reference does not know operators of other domains, which onnxruntime may not load."""
    node = helper.make_node("Tokenizer", ["x"], ["y"], domain="com.microsoft", mark=0, mincharnum=1, pad_value="")
    text = TensorProto.STRING
    model = onnx.load(save(tmp_path / "m.onnx", [node], {"x": (text, [2])}, {"y": (text, [2, 2])}))
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    onnx.save(model, tmp_path / "m.onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    judge = open_judge(tmp_path / "m.onnx", ["y"])
    with pytest.raises(CompileError, match=r"Tokenizer.* is unknown") as caught:
        judge.run({"x": np.zeros((2, 4), np.uint8)})
    assert caught.value.hint == "it was asked because onnxruntime is not installed"


def test_a_model_that_cannot_run_on_the_inputs_is_a_clear_error(tmp_path: Path) -> None:
    table = np.zeros((2, 3), np.float32)
    nodes = [helper.make_node("Gather", ["t", "i"], ["y"])]
    path = save(tmp_path / "m.onnx", nodes, {"i": (I64, [1])}, {"y": (F32, [1, 3])}, {"t": table})
    judge = open_judge(path, ["y"])
    with pytest.raises(CompileError, match="cannot run the model on these inputs") as caught:
        judge.run({"i": np.array([7])})
    assert "--inputs" in caught.value.hint


def test_inner_values_are_the_nodes_results(tmp_path: Path) -> None:
    path = small_net(tmp_path / "m.onnx")
    x = random_inputs({"x": TensorType(DTYPES["f32"], (1, 2, 6, 6))}, 0)
    found = open_judge(path, ["y"], ["relu", "conv", "y"]).run(x).values
    assert list(found) == ["y", "relu", "conv"]
    np.testing.assert_array_equal(found["relu"], np.maximum(found["conv"], 0))


def test_random_inputs_are_as_documented() -> None:
    types = {n: TensorType(d, (500,)) for n, d in DTYPES.items()} | {"scalar": TensorType(DTYPES["i64"], ())}
    one, two, other = random_inputs(types, 5), random_inputs(types, 5), random_inputs(types, 6)
    for name, t in types.items():
        assert one[name].dtype == t.dtype.numpy
        assert one[name].shape == t.shape
        np.testing.assert_array_equal(one[name], two[name])
    assert not np.array_equal(one["f32"], other["f32"])
    assert abs(one["f32"].std() - 1) < 0.2
    assert set(one["i64"].tolist()) == {0, 1}
    assert one["u8"].min() >= 0
    assert one["i8"].max() > 64


@pytest.mark.parametrize("saturates", [False, True])
def test_products_of_bytes_that_saturate_are_judged_as_unsigned_ones(
    saturates: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a processor without VNNI: the largest bytes, and a note."""
    monkeypatch.setattr(saturation, "_saturates", lambda _: saturates)
    node, x = helper.make_node("MatMulInteger", ["x", "w"], ["y"]), {"x": np.full((1, 8), 255, np.uint8)}
    types = {"x": (TensorProto.UINT8, [1, 8])}, {"y": (TensorProto.INT32, [1, 2])}
    path = save(tmp_path / "m.onnx", [node], *types, {"w": np.full((8, 2), 127, np.int8)})
    judge = open_judge(path, ["y"])
    assert judge.notes == ((saturation.UNSIGNED,) if saturates else ())
    if saturates:
        assert judge.run(x).values["y"].tolist() == [[8 * 255 * 127] * 2]
        found = check(path, Options(target="generic"), inputs=x)
        assert found.ok, found.lines()
        assert saturation.UNSIGNED in found.notes


def test_sigmoids_near_zero_are_as_unsure_as_those_near_one(tmp_path: Path) -> None:
    """onnxruntime computes them to 6e-8 of 1, also where they are 1e-6."""
    nodes = [helper.make_node("Sigmoid", ["x"], ["y"])]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])
    graph = helper.make_graph(nodes, "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    judge = open_judge(tmp_path / "m.onnx", ["y"])
    found = judge.run({"x": np.array([[-13.95, -14.2, -15, -16.1]], np.float32)})
    exact = 1 / (1 + np.exp(np.array([[13.95, 14.2, 15, 16.1]])))
    assert compare("y", exact.astype(np.float32), found.values["y"], found.noise["y"]).ok
    assert not compare("y", (exact + 1e-6).astype(np.float32), found.values["y"], found.noise["y"]).ok


@pytest.mark.parametrize("in_function", [False, True])
def test_spectra_of_odd_lengths_are_as_unsure_as_onnxruntime_makes_them(tmp_path: Path, in_function: bool) -> None:
    """Its f32 spectra of 400 samples are off by 1e-3 of what is small; exact ones are right, and no others."""
    rng = np.random.default_rng(0)
    window = np.hanning(400).astype(np.float32)
    nodes = [
        helper.make_node("STFT", ["x", "step", "window"], ["s"]),
        helper.make_node("ReduceSumSquare", ["s", "parts"], ["power"], keepdims=0),
        helper.make_node("Log", ["power"], ["y"]),
    ]
    constants = {"step": np.array(160, np.int64), "window": window, "parts": np.array([3], np.int64)}
    ports = {"x": (F32, [1, 4000, 1])}, {"y": (F32, [1, 23, 201])}
    whole = helper.make_node("Spectra", ["x", *constants], ["y"], domain="own")
    path = save(tmp_path / "m.onnx", [whole] if in_function else nodes, *ports, constants, opset=18)
    if in_function:
        model, opsets = onnx.load(path), [helper.make_opsetid("", 18)]
        model.functions.append(helper.make_function("own", "Spectra", ["x", *constants], ["y"], nodes, opsets))
        model.opset_import.append(helper.make_opsetid("own", 1))
        onnx.save(model, path)
    x = rng.standard_normal((1, 4000, 1)).astype(np.float32)
    found = open_judge(path, ["y"]).run({"x": x})
    frames = [x[0, at : at + 400, 0].astype(np.float64) * window for at in range(0, 3601, 160)]
    exact = np.log(np.abs(np.fft.rfft(frames)) ** 2)[None].astype(np.float32)
    assert compare("y", exact, found.values["y"], found.noise["y"]).ok
    assert not compare("y", exact * np.float32(1.02), found.values["y"], found.noise["y"]).ok


def test_outputs_of_bfloat16_whose_type_no_file_says_are_bits(tmp_path: Path) -> None:
    ports = {"x": (TensorProto.BFLOAT16, [3, 4])}, {"y": (TensorProto.BFLOAT16, [3, 4])}
    model = onnx.load(save(tmp_path / "m.onnx", [helper.make_node("Add", ["x", "x"], ["y"])], *ports))
    model.graph.output[0].ClearField("type")
    onnx.save(model, tmp_path / "m.onnx")
    result = check(tmp_path / "m.onnx", Options(target="generic"), golden=True)
    assert result.ok, result.lines()


TREE = {
    "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
    "nodes_values": [0.5, 0.0, 0.0], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0], "class_treeids": [0, 0, 0, 0], "class_nodeids": [1, 1, 2, 2],
    "class_ids": [0, 1, 0, 1], "class_weights": [0.9, 0.1, 0.2, 0.8], "classlabels_int64s": [0, 1],
}  # fmt: skip


def test_what_differs_is_explained_by_layers_that_were_compared_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes are computed, and what differs (docs/conformance.md) is no tie of these."""
    nodes = [
        helper.make_node("Cast", ["x"], ["bytes"], to=TensorProto.UINT8),
        helper.make_node("Cast", ["bytes"], ["number"], to=F32),
        helper.make_node("TreeEnsembleClassifier", ["number"], ["label", "scores"], domain="ai.onnx.ml", **TREE),
    ]
    ports = {"x": (F32, [1, 2])}, {"label": (I64, [1]), "scores": (F32, [1, 2])}
    model = onnx.load(save(tmp_path / "m.onnx", nodes, *ports))
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    onnx.save(model, tmp_path / "m.onnx")
    monkeypatch.setattr(ties, "rounded_names", lambda graph: [])
    found = check(tmp_path / "m.onnx", Options(target="generic"), inputs={"x": np.zeros((1, 2), np.float32)})
    assert found.ties is None
    assert not found.ok


def test_sequences_are_compared_tensor_by_tensor(tmp_path: Path) -> None:
    node = helper.make_node("SplitToSequence", ["x"], ["parts"], axis=0)
    model = onnx.load(save(tmp_path / "m.onnx", [node], {"x": (F32, [3, 4])}, {}))
    model.graph.output.append(helper.make_tensor_sequence_value_info("parts", F32, None))
    onnx.save(model, tmp_path / "m.onnx")
    found = check(tmp_path / "m.onnx", Options(target="generic"))
    assert found.ok
    assert [c.name for c in found.runs[0].comparisons] == ["parts_0", "parts_1", "parts_2"]


@pytest.mark.parametrize("installed", [True, False])
def test_text_is_compared(installed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random text, and a user's, of an .npz."""
    if not installed:
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
    text = TensorProto.STRING
    nodes = [
        helper.make_node("StringConcat", ["s", "t"], ["both"]),
        helper.make_node("Equal", ["s", "t"], ["same"]),
    ]
    ports = {"s": (text, [2, 3]), "t": (text, [3])}, {"both": (text, [2, 3]), "same": (TensorProto.BOOL, [2, 3])}
    path = save(tmp_path / "m.onnx", nodes, *ports, opset=20)
    assert check(path, Options(target="generic")).ok
    one = np.array([["a", "ü", "word"], ["", "b", "c"]])
    found = check(path, Options(target="generic"), inputs={"s": one, "t": one[0].astype(object)})
    assert found.ok
    assert len(found.runs) == 1


def test_a_session_that_fails_gives_no_noise(tmp_path: Path) -> None:
    """onnxruntime's optimisations lose tensors of no element that it has without them."""
    judge = open_judge(small_net(tmp_path / "m.onnx"), ["y"])
    assert isinstance(judge, OnnxRuntime)
    inputs = {"x": np.ones((1, 2, 6, 6), np.float32)}
    wrong = open_judge(old_forms(tmp_path / "other.onnx"), ["y"])
    assert isinstance(wrong, OnnxRuntime)
    without = replace(judge, others=()).run(inputs)
    spoilt = replace(judge, others=(wrong.plain,)).run(inputs)  # which knows no such shape
    assert not spoilt.noise
    np.testing.assert_array_equal(spoilt.values["y"], without.values["y"])


def test_a_map_of_no_row_has_its_columns() -> None:
    assert Legend((1, 2), True).applied([]).shape == (0, 2)
    assert Legend((1, 2), True).applied([{2: 4.0, 1: 3.0}]).tolist() == [[3.0, 4.0]]


def test_what_is_unsure_is_judged_by_more_draws(tmp_path: Path) -> None:
    """A chain of layers that magnify: one draw of weights shows that it is unsure, seven how much."""
    rng = np.random.default_rng(1)
    weights = {f"w{i}": (rng.standard_normal((16, 16)) * 0.8).astype(np.float32) for i in range(48)}
    nodes = []
    for i in range(48):
        nodes.append(helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"p{i}"]))
        nodes.append(helper.make_node("Tanh", [f"p{i}"], [f"x{i + 1}"]))
    ports = {"x0": (TensorProto.FLOAT, [1, 16])}, {"x48": (TensorProto.FLOAT, [1, 16])}
    judge = open_judge(save(tmp_path / "m.onnx", nodes, *ports, weights), ["x48"])
    x = {"x0": rng.standard_normal((1, 16)).astype(np.float32)}
    once, often = judge.run(x), judge.surer().run(x)
    np.testing.assert_array_equal(once.values["x48"], often.values["x48"])
    assert (often.noise["x48"] >= once.noise["x48"]).all()
    assert often.noise["x48"].max() > 1.5 * once.noise["x48"].max() > 0
    moved = once.values["x48"] + np.float32(0.9) * often.noise["x48"].astype(np.float32) * 8
    assert not compare("y", moved, once.values["x48"], once.noise["x48"]).ok
    assert compare("y", moved, once.values["x48"], often.noise["x48"]).ok


@pytest.mark.parametrize("target", WIDE)
def test_whole_numbers_reach_golden_tests_as_they_are(target: str, tmp_path: Path) -> None:
    """gcc 12.2 copies three ones and five zeros of int64, where it knows them, as eight ones with AVX-512."""
    needs_target(target)
    x = np.array([1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1], dtype=np.int64)
    ports = {"x": (TensorProto.INT64, [12])}, {"y": (TensorProto.INT64, [12])}
    path = save(tmp_path / "m.onnx", [helper.make_node("Add", ["x", "x"], ["y"])], *ports)
    result = check(path, Options(target=target), inputs={"x": x}, golden=True)
    assert result.ok, result.lines()


@pytest.mark.parametrize("per_layer", [False, True])
def test_an_order_that_nobody_says_is_ours(per_layer: bool, tmp_path: Path) -> None:
    """What TopK of an unsorted network gives is sorted, whoever judges, and so are its places."""
    nodes = [
        helper.make_node("TopK", ["x", "k"], ["v", "i"], sorted=0),
        helper.make_node("GatherElements", ["x", "i"], ["y"], axis=1),
    ]
    outputs = {"v": (F32, [9, 4]), "i": (I64, [9, 4]), "y": (F32, [9, 4])}
    save(tmp_path / "m.onnx", nodes, {"x": (F32, [9, 40])}, outputs, {"k": np.array([4])})
    found = check(tmp_path / "m.onnx", Options(target="generic"), per_layer=per_layer)
    assert found.ok, "\n".join(found.lines())
