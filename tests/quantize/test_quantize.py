"""`mccompile quantize`: results run in onnxruntime, the costs are those one finds by hand, bad data is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from mccompile.ir.errors import UsageError
from mccompile.onnxio import OnnxValue, read_model
from mccompile.quantize.quantize import QUANTISED, Quantised, Settings
from mccompile.run.noise import Noise
from mccompile.run.samples import cut
from tests._skips import REPOSITORY, needs_shared
from tests.cli.conftest import Run, floats, run, save, spawn  # noqa: F401  # `run` is a fixture

ort = pytest.importorskip("onnxruntime")
DIGITS = REPOSITORY / "examples" / "digits"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    images = np.load(DIGITS / "test_images.npy")[:64].astype(np.float32)
    np.savez(tmp_path / "data.npz", image=images)
    return tmp_path / "data.npz"


@pytest.mark.thorough
@pytest.mark.parametrize("more", [(), ("--activations", "uint8", "--per-tensor"), ("--exclude", "Conv")])
def test_float_network_and_data_become_c(more: tuple[str, ...], data: Path, tmp_path: Path, run: Run) -> None:  # noqa: F811
    """The two commands of README: what comes out of the first, the second takes, and the C computes it exactly."""
    out = tmp_path / "digits_int8.onnx"
    assert run("quantize", DIGITS / "digits.onnx", "--data", data, "-o", out, "-q", *more).exit_code == 0
    done = run("check", out, "--target", "generic", "--json")
    assert done.exit_code == 0, done.output
    assert run(out, "-o", tmp_path / "out", "--target", "generic", "--embed", "-q").exit_code == 0


def scores(path: Path, images: Any, output: str = "scores", name: str = "image") -> Any:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return np.concatenate([session.run([output], {name: image[None]})[0] for image in images])


@pytest.mark.parametrize(
    ("activations", "method"), [("int8", "minmax"), ("uint8", "percentile"), ("int8", "entropy")]
)
def test_digits_stay_digits(activations: str, method: str, data: Path, tmp_path: Path, run: Run) -> None:  # noqa: F811
    out = tmp_path / "q.onnx"
    done = run("quantize", DIGITS / "digits.onnx", "--data", data, "-o", out, "--json", "--activations", activations,
               "--method", method)  # fmt: skip
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    images = np.load(data)["image"]
    want, got = scores(DIGITS / "digits.onnx", images), scores(out, images)
    cost = told["outputs"]["scores"]
    apart = got.astype(np.float64) - want
    assert cost["max_abs_diff"] == pytest.approx(float(np.abs(apart).max()))
    snr = 10 * np.log10(np.square(want.astype(np.float64)).sum() / np.square(apart).sum())
    assert cost["snr_db"] == pytest.approx(snr)
    assert cost["snr_db"] > 20
    assert cost["argmax_agreement"] == (want.argmax(1) == got.argmax(1)).mean() > 0.98
    assert told["samples"] == 64
    model = read_model(out)
    weights = {a.dtype.name for a in model.graph.initializers.values() if a.ndim == 4}
    assert weights == {"int8"}
    zeros = {n.inputs[2] for n in model.graph.nodes if n.op_type == "QuantizeLinear"}
    assert {model.graph.initializers[z].dtype.name for z in zeros} == {activations}
    scales = [model.graph.initializers[n.inputs[1]] for n in model.graph.nodes if n.op_type == "DequantizeLinear"]
    assert max(s.size for s in scales) == 32, "a scale for each channel"


@pytest.mark.thorough
def test_the_same_data_gives_the_same_bytes(data: Path, tmp_path: Path) -> None:
    files = []
    for seed in ("1", "2"):
        out = tmp_path / f"{seed}.onnx"
        done = spawn(["quantize", DIGITS / "digits.onnx", "--data", data, "-o", out], env={"PYTHONHASHSEED": seed})
        assert done.returncode == 0, done.stderr
        assert "argmax agrees on" in done.stdout
        assert done.stderr == ""
        files.append(out.read_bytes())
    assert files[0] == files[1]


def test_layers_that_are_excluded_stay_in_floats(data: Path, tmp_path: Path, run: Run) -> None:  # noqa: F811
    out = tmp_path / "q.onnx"
    done = run(
        "quantize", DIGITS / "digits.onnx", "--data", data, "-o", out, "--exclude", "linear", "--exclude", "Mul"
    )
    assert done.exit_code == 0, done.output
    made = {node.op_type: node for node in read_model(out).graph.nodes}
    assert made["Gemm"].inputs[1] == "linear.weight"
    assert made["Mul"].inputs == ("image", "one_sixteenth")
    assert "linear (Gemm)" not in done.stdout


@pytest.mark.parametrize(
    ("exclude", "left"),
    [("head", {"v"}), ("MatMul", set()), ("Add", {"v", "w"}), ("Linear/head", {"v"})],
)
@pytest.mark.parametrize("named", [True, False])
def test_excluded_nodes_are_fused_with_none(
    exclude: str, left: set[str], named: bool, tmp_path: Path, run: Run  # noqa: F811
) -> None:  # fmt: skip
    """onnxruntime makes a Gemm of a product and its bias, by a name of its own, before it quantises."""
    n, rng = helper.make_node, np.random.default_rng(1)
    weights = {"v": rng.standard_normal((6, 6)), "w": rng.standard_normal((6, 5)), "b": rng.standard_normal(5)}
    tensors = [numpy_helper.from_array(a.astype(np.float32), name) for name, a in weights.items()]
    last = [n("MatMul", ["r", "w"], ["p"], name="head"), n("Add", ["p", "b"], ["y"], name="bias" if named else "")]
    nodes, functions = [n("MatMul", ["x", "v"], ["m"], name="body" if named else ""), n("Relu", ["m"], ["r"])], []
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    if exclude.startswith("Linear"):
        functions = [helper.make_function("own", "Linear", ["r", "w", "b"], ["y"], last, opsets[:1])]
        last = [n("Linear", ["r", "w", "b"], ["y"], domain="own")]
    made = helper.make_graph([*nodes, *last], "g", [floats("x", [4, 6])], [floats("y", [4, 5])], tensors)
    onnx.save(
        helper.make_model(made, opset_imports=opsets, ir_version=8, functions=functions), tmp_path / "m.onnx"
    )
    if functions:
        (exclude,) = (node.name for node in read_model(tmp_path / "m.onnx").graph.nodes if "head" in node.name)
    np.savez(tmp_path / "x.npz", x=rng.standard_normal((20, 4, 6)).astype(np.float32))
    done = run("quantize", tmp_path / "m.onnx", "--data", tmp_path / "x.npz", "-o", tmp_path / "q.onnx",
               "--exclude", exclude)  # fmt: skip
    assert done.exit_code == 0, done.output
    graph = read_model(tmp_path / "q.onnx").graph
    scaled = {node.inputs[0].removesuffix("_quantized") for node in graph.nodes if node.op_type == "DequantizeLinear"}
    assert scaled & {"v", "w"} == left
    assert [v.name for v in graph.outputs] == ["y"]


def test_the_worst_layer_is_the_one_that_rounds_the_most(tmp_path: Path, run: Run) -> None:  # noqa: F811
    """Two products; the second has a large weight for a value that is always zero: one scale rounds the others to
    nothing, a scale for each channel those of one."""
    rng = np.random.default_rng(3)
    first, second = (rng.standard_normal((16, 16)).astype(np.float32) for _ in range(2))
    first[:, 0], second[0, 0] = 0, 1000
    tensors = [helper.make_tensor(n, 1, [16, 16], w.ravel()) for n, w in (("v", first), ("w", second))]
    nodes = [
        helper.make_node("MatMul", ["x", "v"], ["m"], name="even"),
        helper.make_node("MatMul", ["m", "w"], ["y"], name="uneven"),
    ]
    path = save(tmp_path / "m.onnx", nodes, [floats("x", [4, 16])], initializer=tensors)
    x = rng.standard_normal((20, 4, 16)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    worst = []
    for more in ([], ["--per-tensor"]):
        done = run("quantize", path, "--data", tmp_path / "x.npz", "-o", tmp_path / "q.onnx", "--json", *more)
        assert done.exit_code == 0, done.output
        told = json.loads(done.stdout)
        assert told["samples"] == 20
        worst.append(told["worst_layers"][0])
    assert worst[1]["nodes"] == ["uneven"]
    assert worst[1]["snr_db"] < 3 < 30 < worst[1]["snr_db_of_inputs"]
    assert worst[0]["snr_db"] > 6


BIASES = {"row": [5], "of two axes": [1, 5], "one": [1], "one of two axes": [1, 1], "no axis": [], "all": [4, 5]}


def _cost(folder: Path, run: Run, nodes: list[Any], tensors: dict[str, Any], **outputs: list[int]) -> dict[str, Any]:  # noqa: F811
    """What the quantisation of a network of x f32[4,6] says of itself."""
    held = [numpy_helper.from_array(np.asarray(a, np.float32), n) for n, a in tensors.items()]
    made = helper.make_graph(nodes, "g", [floats("x", [4, 6])], [floats(n, s) for n, s in outputs.items()], held)
    path = folder / "m.onnx"
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), path)
    np.savez(folder / "x.npz", x=np.random.default_rng(5).standard_normal((20, 4, 6)).astype(np.float32))
    done = run("quantize", path, "--data", folder / "x.npz", "-o", folder / "q.onnx", "--json")
    assert done.exit_code == 0, done.output
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("beta", [1.0, 2.0, 0.5, 0.0])
def test_biases_of_gemm_are_what_they_are(bias: str, beta: float, tmp_path: Path, run: Run) -> None:  # noqa: F811
    """onnxruntime (1.32) forgets beta, and has no scale for each channel where a bias has not one number for each."""
    rng = np.random.default_rng(1)
    node = helper.make_node("Gemm", ["x", "w", "b"], ["y"], beta=beta, transB=1)
    tensors = {"w": rng.standard_normal((5, 6)) * 0.1, "b": rng.standard_normal(BIASES[bias]) + 1}
    told = _cost(tmp_path, run, [node], tensors, y=[4, 5])
    assert told["outputs"]["y"]["snr_db"] > 30
    assert bool(told["notes"]) == (bias == "all")


def test_a_clip_that_zero_is_outside_of_stays(tmp_path: Path, run: Run) -> None:  # noqa: F811
    """onnxruntime leaves out what the ends of the bytes do, but ranges of bytes reach to 0."""
    tensors = {"w": np.random.default_rng(1).standard_normal((6, 5)), "low": 0.5, "high": 1.5}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["t"]), helper.make_node("Clip", ["t", "low", "high"], ["y"])]
    told = _cost(tmp_path, run, nodes, tensors, y=[4, 5])
    assert told["outputs"]["y"]["max_abs_diff"] < 0.1


@pytest.mark.parametrize("op", ["Relu", "Clip"])
def test_an_output_before_a_relu_has_a_range_of_its_own(op: str, tmp_path: Path, run: Run) -> None:  # noqa: F811
    """onnxruntime gave it the Relu's, and it was never below 0."""
    tensors = {"w": np.random.default_rng(1).standard_normal((6, 5)), "low": 0, "high": 6}
    more = ["low", "high"] if op == "Clip" else []
    nodes = [helper.make_node("MatMul", ["x", "w"], ["t"]), helper.make_node(op, ["t", *more], ["y"])]
    told = _cost(tmp_path, run, nodes, tensors if more else {"w": tensors["w"]}, t=[4, 5], y=[4, 5])
    assert min(cost["snr_db"] for cost in told["outputs"].values()) > 30


def test_an_output_may_be_a_constant(tmp_path: Path, run: Run) -> None:  # noqa: F811
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Identity", ["w"], ["z"])]
    told = _cost(tmp_path, run, nodes, {"w": np.random.default_rng(1).standard_normal((6, 5))}, y=[4, 5], z=[6, 5])
    assert told["outputs"]["y"]["snr_db"] > 30


@pytest.mark.parametrize("name", ["models/mnist8/model.onnx", "mlperf_tiny/kws_dscnn_fp32.onnx"])
def test_shared_networks_run_quantised(name: str, tmp_path: Path, run: Run) -> None:  # noqa: F811
    """One of opset 8, and one with batch normalisation and names of hundreds of characters."""
    path = needs_shared(name)
    at = path.parent / "input_0.npy" if path.stem == "model" else path.with_name(f"{path.stem}.input.npy")
    (port,) = (v for v in read_model(path).graph.inputs if v.name not in read_model(path).graph.initializers)
    np.savez(tmp_path / "x.npz", **{port.name: np.load(at)})
    done = run("quantize", path, "--data", tmp_path / "x.npz", "-o", tmp_path / "q.onnx", "--json")
    assert done.exit_code == 0, done.output
    (cost,) = json.loads(done.stdout)["outputs"].values()
    assert cost["snr_db"] > 25
    assert cost["argmax_agreement"] == 1.0
    model = read_model(tmp_path / "q.onnx")
    assert model.opsets[""] >= 13
    assert {n.op_type for n in model.graph.nodes} & QUANTISED


def test_what_is_quantised_already_is_refused(data: Path, tmp_path: Path, run: Run) -> None:  # noqa: F811
    out = tmp_path / "q.onnx"
    assert run("quantize", DIGITS / "digits.onnx", "--data", data, "-o", out, "-q").exit_code == 0
    before = out.read_bytes()
    done = run("quantize", out, "--data", data, "-o", out)
    assert done.exit_code == 1
    assert "quantised already: node 0" in done.stderr
    assert out.read_bytes() == before


WRONG = {
    "another name": ({"picture": np.zeros((2, 1, 8, 8), np.float32)}, "no array is given for input 'image'"),
    "one too many": ({"image": np.zeros((2, 1, 8, 8), np.float32), "b": np.zeros(3)}, "the model has no input 'b'"),
    "another shape": (
        {"image": np.zeros((2, 8, 8), np.float32)},
        "f32[?,1,8,8], its data f32[2, 8, 8]",
    ),
    "another type": ({"image": np.zeros((2, 1, 8, 8))}, "astype(np.float32)"),
    "no sample": ({"image": np.zeros((0, 1, 8, 8), np.float32)}, "the data holds no sample"),
    "NaN": ({"image": np.full((1, 1, 8, 8), np.nan, np.float32)}, "NaN or infinity"),
}


@pytest.mark.parametrize("case", WRONG)
def test_data_that_does_not_fit(case: str, tmp_path: Path, run: Run) -> None:  # noqa: F811
    arrays, message = WRONG[case]
    np.savez(tmp_path / "x.npz", **arrays)
    done = run("quantize", DIGITS / "digits.onnx", "--data", tmp_path / "x.npz", "-o", tmp_path / "q.onnx")
    first = read_model(DIGITS / "digits.onnx").graph.inputs[0].shape
    assert first is not None
    expected = message.replace("?", "1" if first[0] == 1 else str(first[0]))
    assert done.exit_code == 2, done.output
    assert expected in done.stderr
    assert not (tmp_path / "q.onnx").exists()


def test_other_mistakes(data: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    digits, out = DIGITS / "digits.onnx", tmp_path / "q.onnx"
    done = run("quantize", digits, "--data", data, "-o", out, "--exclude", "nothing")
    assert (done.exit_code, "no node and no operator 'nothing'" in done.stderr) == (2, True)
    done = run("quantize", digits, "--data", data, "-o", tmp_path / "nowhere" / "q.onnx")
    assert (done.exit_code, "cannot be written" in done.stderr) == (2, True)
    done = run("quantize", digits, "--data", data, "-o", tmp_path)
    assert (done.exit_code, "is a folder" in done.stderr) == (2, True)
    own = Path(shutil.copy(digits, tmp_path / "own.onnx"))
    done = run("quantize", own, "--data", data, "-o", own)
    assert (done.exit_code, "is the model itself" in done.stderr) == (2, True)
    assert own.read_bytes() == digits.read_bytes()
    plain = save(tmp_path / "add.onnx", [helper.make_node("Identity", ["x"], ["y"])], [floats("x", [1, 4])])
    np.savez(tmp_path / "x.npz", x=np.zeros((3, 4), np.float32))
    done = run("quantize", plain, "--data", tmp_path / "x.npz", "-o", out)
    assert (done.exit_code, "nothing to quantise" in done.stderr) == (1, True)
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    done = run("quantize", digits, "--data", data, "-o", out)
    assert (done.exit_code, "pip install 'mccompile[check]'" in done.stderr) == (2, True)


def test_samples_are_cut_along_the_batch_or_stacked() -> None:
    a, b = OnnxValue("a", "f32", ("n", 3)), OnnxValue("b", "f32", (2, 3))
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    alone = np.ones((2, 3), np.float32)
    found = cut({"a": x, "b": alone}, [a, b], batch=1)
    assert [s["a"].tolist() for s in found] == [[row] for row in x.tolist()]
    assert all(s["b"] is found[0]["b"] for s in found)
    assert len(cut({"b": x}, [b])) == 2
    assert len(cut({"b": np.stack([alone] * 5)}, [b])) == 5
    with pytest.raises(UsageError, match="2 samples of input 'b', 4 of another"):
        cut({"a": x, "b": x}, [a, b], batch=1)
    with pytest.raises(UsageError, match="several samples lie along the first axis"):
        cut({"b": x[:3]}, [b])


def scaled_by_an_input(path: Path) -> Path:
    """y = (x * w) * s of x f32[1,4] and s f32[]."""
    weights = {"w": np.eye(4, dtype=np.float32)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Mul", ["p", "s"], ["y"])]
    ports = [helper.make_tensor_value_info(n, 1, e) for n, e in (("x", [1, 4]), ("s", []), ("y", [1, 4]))]
    consts = [onnx.numpy_helper.from_array(a, n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "g", ports[:2], ports[2:], consts)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("scales", [np.float32([0.5, 1, 2]), np.float32(0.5)])
def test_inputs_without_axes_have_samples(scales: Any, tmp_path: Path, run: Run) -> None:  # noqa: F811
    """Of f32[] three samples are f32[3], each an array again: numbers of numpy are nothing that onnxruntime takes."""
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=x, s=scales)
    model = scaled_by_an_input(tmp_path / "m.onnx")
    done = run("quantize", model, "--data", tmp_path / "d.npz", "-o", tmp_path / "q.onnx", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["outputs"]["y"]["snr_db"] > 25
    checked = run("check", model, "--data", tmp_path / "d.npz", "--target", "generic")
    assert checked.exit_code == 0, checked.output


def test_data_that_the_network_cannot_run_on(tmp_path: Path, run: Run) -> None:  # noqa: F811
    """The user's file is named, not ours, and the data suspected."""
    n = helper.make_node
    w = onnx.numpy_helper.from_array(np.ones((1, 1, 2, 2), np.float32), "w")
    nodes = [n("Conv", ["x", "w"], ["half"], strides=[2, 2]), n("Add", ["half", "z"], ["y"])]
    ports = [helper.make_tensor_value_info(p, 1, [1, 1, "h", "h"]) for p in ("x", "y")]
    z = helper.make_tensor_value_info("z", 1, [1, 1, "k", "k"])
    graph = helper.make_graph(nodes, "g", [ports[0], z], ports[1:], [w])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    np.savez(tmp_path / "d.npz", x=np.ones((2, 1, 8, 8), np.float32), z=np.ones((2, 1, 3, 3), np.float32))
    done = run("quantize", tmp_path / "m.onnx", "--data", tmp_path / "d.npz", "-o", tmp_path / "q.onnx")
    assert done.exit_code == 1
    assert "m.onnx: onnxruntime cannot run the model" in done.output
    assert "is the data what the model expects?" in done.output
    assert "prepared.onnx" not in done.output


def test_weights_in_files_of_their_own_count(tmp_path: Path, run: Run) -> None:  # noqa: F811
    model = onnx.load(scaled_by_an_input(tmp_path / "m.onnx"))
    onnx.save(model, tmp_path / "e.onnx", save_as_external_data=True, size_threshold=0, location="e.data")
    np.savez(tmp_path / "d.npz", x=np.ones((3, 4), np.float32), s=np.ones(3, np.float32))
    done = run("quantize", tmp_path / "e.onnx", "--data", tmp_path / "d.npz", "-o", tmp_path / "q.onnx", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["bytes"]["float"] > (tmp_path / "e.onnx").stat().st_size


def test_the_data_of_the_only_input_needs_no_name(data: Path, tmp_path: Path, run: Run) -> None:  # noqa: F811
    np.save(tmp_path / "x.npy", np.load(data)["image"][:12])
    out = tmp_path / "q.onnx"
    done = run("quantize", DIGITS / "digits.onnx", "--data", tmp_path / "x.npy", "-o", out, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["samples"] == 12


def test_an_infinite_difference_is_text_in_json() -> None:
    noise = Noise()
    noise.add(np.ones(2, np.float32), np.array([1, np.inf], np.float32))
    made = Quantised("q.onnx", Settings(), 1, 8, 8, {"y": noise}, [], ())
    assert json.loads(json.dumps(made.to_json(1), allow_nan=False))["outputs"]["y"]["max_abs_diff"] == "inf"


def test_what_is_no_tensor_has_no_data() -> None:
    with pytest.raises(UsageError, match="input 'x' is of type optional, of which no array is"):
        cut({"x": np.ones(3, np.float32)}, [OnnxValue("x", "optional", (3,))])
