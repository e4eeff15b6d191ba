"""Checks of a user's data: many samples, open extents, tolerances, several models, results for CI servers."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mccompile
from mccompile.check.data import accuracy_of, with_dims
from mccompile.driver import Options
from mccompile.interface.tensors import Interface, Quantisation
from mccompile.ir.small_floats import bf16_bits
from tests.cli.conftest import Run, floats, run, save  # noqa: F401

RNG = np.random.default_rng(3)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """x[N, seq] -> y[N, seq, 5]: N is the batch, seq is open."""
    w = helper.make_tensor("w", TensorProto.FLOAT, [1, 5], [1.0, -2.0, 3.0, 0.5, -1.0])
    axes = helper.make_tensor("axes", TensorProto.INT64, [1], [2])
    nodes = [helper.make_node("Unsqueeze", ["x", "axes"], ["u"]), helper.make_node("MatMul", ["u", "w"], ["y"])]
    folder = tmp_path_factory.mktemp("data")
    return save(folder / "net.onnx", nodes, [floats("x", ["N", "seq"])], initializer=[w, axes])


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    w = helper.make_tensor("w", TensorProto.FLOAT, [4, 3], [float(v) for v in RNG.standard_normal(12)])
    folder = tmp_path_factory.mktemp("scores")
    return save(folder / "scores.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])], [floats("x", ["N", 4])],
                initializer=[w])  # fmt: skip


def test_an_array_alone_says_the_open_extents(model: Path, tmp_path: Path, run: Run) -> None:  # noqa: F811
    np.save(tmp_path / "x.npy", np.ones((3, 7), np.float32))
    told = json.loads(run("check", model, "--target", "generic", "--inputs", tmp_path / "x.npy", "--json").stdout)
    assert [r["label"] for r in told["runs"]] == ["sample 0", "sample 1", "sample 2"]
    assert {o["type"] for r in told["runs"] for o in r["outputs"]} == {"float32[1,7,5]"}
    assert told["accuracy"][0]["samples"] == 3
    whole = mccompile.check(model, target="generic", inputs=np.ones((3, 7), np.float32), dims={"N": 3})
    assert [r.label for r in whole.runs] == ["given inputs"]


def test_channels_last_say_the_extents_that_they_are(tmp_path: Path) -> None:
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2])
    model = save(tmp_path / "m.onnx", [node], [floats("x", [1, 3, "h", "w"])])
    for image in (np.zeros((1, 8, 5, 3), np.uint8), np.zeros((2, 1, 8, 5, 3), np.uint8)):
        options = with_dims(model, Options(input_formats={"x": "u8,nhwc,scale=0.5"}), {"x": image})
        assert options.dims == {"h": 8, "w": 5}


def test_a_sequence_and_text_are_given_by_their_tensors(tmp_path: Path) -> None:
    given = [helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, ["n", 3])]
    at = helper.make_tensor("i", TensorProto.INT64, [], [1])
    model = tmp_path / "s.onnx"
    nodes = [helper.make_node("SequenceAt", ["s", "i"], ["y"])]
    graph = helper.make_graph(nodes, "g", given, [floats("y", None)], [at])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    arrays = {f"s_{i}": np.full((2, 3), i, np.float32) for i in range(2)}
    found = mccompile.check(model, target="generic", inputs=arrays)
    assert found.ok, "\n".join(found.lines())
    assert found.runs[0].comparisons[0].want == 1


def test_what_is_expected_of_text_is_text(tmp_path: Path) -> None:
    ports = [helper.make_tensor_value_info(n, TensorProto.STRING, [2]) for n in "xy"]
    node = helper.make_node("StringNormalizer", ["x"], ["y"], case_change_action="UPPER")
    graph = helper.make_graph([node], "g", ports[:1], ports[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "t.onnx")
    given = np.array(["on", "off"])
    for expect, ok in ((np.array(["ON", "OFF"]), True), (np.array(["ON", "of"]), False)):
        found = mccompile.check(tmp_path / "t.onnx", target="generic", inputs=given, expect=expect)
        assert found.ok == ok
    mccompile.compile(tmp_path / "t.onnx", tmp_path / "o", target="generic", golden=tmp_path / "o", inputs=given)
    assert (tmp_path / "o" / "test_t.c").is_file()


def test_a_data_set_has_an_accuracy(scores: Path) -> None:
    x = RNG.standard_normal((20, 4)).astype(np.float32)
    found = mccompile.check(scores, target="generic", inputs=x)
    y = found.accuracy[0]
    assert (found.ok, y.samples, y.agreement, y.right) == (True, 20, 1.0, None)
    assert "20 samples: all ok" in found.lines()
    half = mccompile.check(scores, target="generic", inputs=x, labels=[3] * 20)
    assert (half.accuracy[0].right, half.accuracy[0].reference_right) == (0.0, 0.0)
    with pytest.raises(mccompile.UsageError, match="3 labels are given for 20 samples"):
        mccompile.check(scores, target="generic", inputs=x, labels=[1, 2, 3])


def of_class(array: object, **interface: object) -> float | None:
    """How often a first output is right, whose class is to be 2."""
    runs = [{"y": np.asarray(array)}]
    (found,) = accuracy_of(runs, runs, replace(Interface(), **interface), [2])
    assert found.right == found.reference_right
    return found.right


def test_a_whole_number_alone_is_a_class() -> None:
    for dtype in (np.int64, np.int32, np.uint8):
        assert of_class(np.array([[2]], dtype)) == 1.0
        assert of_class(np.array(1, dtype)) == 0.0
        assert of_class(np.array([5, 0, 9], dtype)) == 1.0  # scores
    scores = np.array([[-3.0, -2.0, 1.0]], np.float32)
    assert of_class(scores) == 1.0
    assert of_class(bf16_bits(scores), halves=frozenset("y")) == 1.0  # the bits of negative numbers are larger


@pytest.mark.parametrize(
    ("array", "interface"),
    [
        (np.ones((1, 1), np.float32), {}),
        (np.ones((1, 1), np.uint8), {"quantised": {"y": Quantisation(0.5, 0, "q")}}),
        (np.ones((2, 3), np.float32), {}),
        (np.ones((1, 4), np.uint8), {"texts": frozenset("y")}),
        (np.ones(0, np.int64), {}),
    ],
)
def test_labels_of_what_says_no_class(array: object, interface: dict[str, object]) -> None:
    with pytest.raises(mccompile.UsageError, match="neither the number of a class nor a score for each"):
        of_class(array, **interface)


def test_accuracy_is_of_what_was_compared() -> None:
    """The reference may know inner values, too, and what is expected may have another order and shape."""
    one, two = np.ones(3, np.float32), np.zeros(2, np.float32)
    found = accuracy_of([{"a": two, "z": one, "y": one}], [{"y": one, "z": two}], Interface())
    assert [(a.name, a.samples) for a in found] == [("y", 1)]
    with pytest.raises(mccompile.UsageError, match="labels are of the first output, 'y', of which nothing is"):
        accuracy_of([{"z": one}], [{"y": one, "z": one}], Interface(), [0])


def test_expected_outputs_of_many_samples_and_tolerances(scores: Path) -> None:
    x = RNG.standard_normal((6, 4)).astype(np.float32)
    good = x @ onnx.numpy_helper.to_array(onnx.load(scores).graph.initializer[0])
    assert mccompile.check(scores, target="generic", inputs=x, expect=good).ok
    wrong = good.copy()
    wrong[4, 1] += 0.01
    found = mccompile.check(scores, target="generic", inputs=x, expect=wrong)
    assert [r.ok for r in found.runs] == [True] * 4 + [False, True]
    assert any(line.startswith("6 samples: 1 differ") for line in found.lines())
    assert mccompile.check(scores, target="generic", inputs=x, expect=wrong, atol=0.02).ok
    assert not mccompile.check(scores, target="generic", inputs=x, expect=wrong, rtol=1e-7).ok
    with pytest.raises(mccompile.UsageError, match="5 samples of outputs are expected of 6"):
        mccompile.check(scores, target="generic", inputs=x, expect=good[:5])


@pytest.mark.parametrize("rows", [2, 4])
def test_a_golden_test_has_the_largest_extents(
    rows: int, scores: Path, run: Run, tmp_path: Path  # noqa: F811
) -> None:
    np.save(tmp_path / "x.npy", np.ones((rows, 4), np.float32))
    words = ["--target", "generic", "--dim", "N=1..4", "--golden", "--inputs", tmp_path / "x.npy"]
    done = run("check", scores, *words)
    assert done.exit_code == 0, done.output
    assert ("the golden test has random inputs" in done.stdout) == (rows < 4)


def test_several_models_and_junit(scores: Path, model: Path, tmp_path: Path, run: Run) -> None:  # noqa: F811
    words = ["check", scores, model, "--target", "generic", "--dim", "seq=3"]
    done = run(*words, "--junit", tmp_path / "a.xml", "-q")
    assert (done.exit_code, done.stdout) == (0, "")
    suites = list(ET.parse(tmp_path / "a.xml").getroot())
    assert [(s.get("failures"), s.get("errors")) for s in suites] == [("0", "0"), ("0", "0")]
    assert all(len(s) == int(s.get("tests", "0")) > 1 for s in suites)
    bad = save(tmp_path / "bad.onnx", [helper.make_node("Frob", ["x"], ["y"])], [floats("x", [1])])
    done = run(words[0], scores, bad, "--target", "generic", "--junit", tmp_path / "b.xml", "--json")
    told = json.loads(done.stdout)
    assert (done.exit_code, told["ok"]) == (1, False)
    assert [m["ok"] for m in told["models"]] == [True, False]
    assert told["models"][1]["error"]["code"] == "unsupported-operator"
    assert [(s.get("failures"), s.get("errors")) for s in ET.parse(tmp_path / "b.xml").getroot()] == [
        ("0", "0"), ("0", "1"),
    ]  # fmt: skip


def test_a_model_that_is_none_does_not_end_the_others(scores: Path, tmp_path: Path, run: Run) -> None:  # noqa: F811
    broken, gone, xml = tmp_path / "broken.onnx", tmp_path / "gone.onnx", tmp_path / "a.xml"
    broken.write_bytes(b"no model")
    done = run("check", broken, gone, scores, "--target", "generic", "--junit", xml)
    assert done.exit_code == 2
    assert "error: " + str(broken) + ": the file is" in done.stderr
    assert f"there is no file '{gone}'" in done.stderr
    suites = [(s.get("name"), s.get("errors")) for s in ET.parse(xml).getroot()]
    assert suites == [(str(broken), "1"), (str(gone), "1"), (str(scores), "0")]
    assert run("check", broken, scores, "--target", "generic").exit_code == 1
    assert run("check", scores, "--target", "nothing", "--junit", xml).exit_code == 2


def test_what_another_model_may_have_is_no_mistake(scores: Path, tmp_path: Path, run: Run) -> None:  # noqa: F811
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    words = ["--target", "generic", "--dim", "other=3", "-q"]
    assert run("check", tmp_path / "bad.onnx", scores, *words).exit_code == 1
    done = run("check", scores, scores, *words)
    assert done.exit_code == 2
    assert "no model has a dim 'other'" in done.stderr


def test_a_wrong_result_is_a_failure_in_junit(scores: Path, tmp_path: Path, run: Run) -> None:  # noqa: F811
    np.savez(tmp_path / "x.npz", x=np.ones((1, 4), np.float32))
    np.savez(tmp_path / "y.npz", y=np.zeros((1, 3), np.float32))
    done = run("check", scores, "--target", "generic", "--inputs", tmp_path / "x.npz", "--expect", tmp_path / "y.npz",
               "--junit", tmp_path / "c.xml")  # fmt: skip
    assert done.exit_code == 3
    failure = ET.parse(tmp_path / "c.xml").getroot().find("testsuite/testcase/failure")
    assert failure is not None
    assert "FAIL y" in (failure.text or "")
