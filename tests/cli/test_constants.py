"""``--constant``: inputs fixed to a value, from the command line to the generated interface."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.cli.conftest import Run, floats, save


@pytest.fixture
def chooser(tmp_path: Path) -> Path:
    """-x if k > 1 else |x| + w, w[2]."""
    then = helper.make_graph([helper.make_node("Neg", ["x"], ["a"])], "t", [], [floats("a", [2])])
    other = helper.make_graph(
        [helper.make_node("Abs", ["x"], ["b0"]), helper.make_node("Add", ["b0", "w"], ["b"])],
        "e", [], [floats("b", [2])],
    )  # fmt: skip
    nodes = [
        helper.make_node("Greater", ["k", "one"], ["c"]),
        helper.make_node("If", ["c"], ["y"], name="choice", then_branch=then, else_branch=other),
    ]
    inputs = [floats("x", [2]), floats("w", [2]), helper.make_tensor_value_info("k", TensorProto.INT64, [])]
    one = helper.make_tensor("one", TensorProto.INT64, [], [1])
    return save(tmp_path / "chooser.onnx", nodes, inputs, initializer=[one])


@pytest.mark.parametrize(("k", "names"), [("2", ["x", "w"]), ("-1", ["x", "w"])])
def test_a_number(run: Run, chooser: Path, tmp_path: Path, k: str, names: list[str]) -> None:
    result = run(chooser, "-o", tmp_path / "out", "--constant", f"k={k}", "--target", "generic", "--json")
    assert result.exit_code == 0, result.stderr
    assert [v["name"] for v in json.loads(result.stdout)["inputs"]] == names


def test_an_array_of_a_file(run: Run, chooser: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "w.npy", np.array([1.0, 2.0]))
    result = run("opt", chooser, "--constant", "k=0", "--constant", f"w={tmp_path / 'w.npy'}")
    assert result.exit_code == 0, result.stderr
    assert "[1.0, 2.0]" in result.stdout
    assert "%w: " not in result.stdout


def test_check_judges_with_the_same_value(run: Run, chooser: Path) -> None:
    for k in ("0", "5"):
        result = run("check", chooser, "--constant", f"k={k}", "--target", "generic")
        assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("k=fast", "neither a number nor an .npy file nor a dim"),
        ("k", "has to be like sr=16000"),
        ("k=nothing.npy", "cannot be read"),
        ("k=1.5", "element type"),
        ("w=1e39", "element type"),
        ("j=1", "no graph input named 'j'"),
    ],
)
def test_what_does_not_fit(run: Run, chooser: Path, tmp_path: Path, value: str, words: str) -> None:
    result = run(chooser, "-o", tmp_path / "out", "--constant", value)
    assert result.exit_code == 2
    assert words in result.stderr
    assert not (tmp_path / "out").exists()


def test_without_it_both_branches_are_compiled(run: Run, chooser: Path, tmp_path: Path) -> None:
    assert run(chooser, "-o", tmp_path / "out").exit_code == 0
    (source,) = (tmp_path / "out").glob("[!me]*.c")
    assert source.read_text().count("[0] != 0u) {") == source.read_text().count("[0] == 0u) {") > 0


def test_the_inputs_of_ir_text_are_fixed(run: Run, chooser: Path, tmp_path: Path) -> None:
    assert run("opt", chooser, "--constant", "k=0", "-o", tmp_path / "a.mcir").exit_code == 0
    result = run(tmp_path / "a.mcir", "-o", tmp_path / "out", "--constant", "k=0")
    assert result.exit_code == 2
    assert "fixed" in result.stderr
