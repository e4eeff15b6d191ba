"""What many steps have found, one behind the other: kernels that differ in counts are one, sums are kept."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from mccompile.codegen import model
from mccompile.codegen.long_sums import LongSums
from mccompile.ir.dims import symbol, symbols
from tests.support.runs import compare

CLASSES, PLACES = 12, 9


def _found() -> onnx.ModelProto:
    """The scores above 0 of each class, at most 5 of the best, all behind one another, and their places."""
    constants = {
        "zero": np.float32(0), "last": np.array([-1]), "none": np.array([0]), "five": np.array([5]),
        **{f"row{i}": np.array(i) for i in range(CLASSES)},
    }  # fmt: skip
    nodes = []
    for i in range(CLASSES):
        nodes += [
            helper.make_node("Gather", ["x", f"row{i}"], [f"scores{i}"], axis=0),
            helper.make_node("Greater", [f"scores{i}", "zero"], [f"above{i}"]),
            helper.make_node("NonZero", [f"above{i}"], [f"found{i}"]),
            helper.make_node("Transpose", [f"found{i}"], [f"places{i}"], perm=[1, 0]),
            helper.make_node("GatherND", [f"scores{i}", f"places{i}"], [f"kept{i}"]),
            helper.make_node("Shape", [f"kept{i}"], [f"count{i}"]),
            helper.make_node("Concat", [f"count{i}", "five"], [f"both{i}"], axis=0),
            helper.make_node("ReduceMin", [f"both{i}"], [f"k{i}"], keepdims=1),
            helper.make_node("TopK", [f"kept{i}", f"k{i}"], [f"best{i}", f"at{i}"], axis=0),
        ]
    every = range(CLASSES)
    nodes += [
        helper.make_node("Concat", [f"best{i}" for i in every], ["best"], axis=0),
        helper.make_node("Concat", [f"at{i}" for i in every], ["at"], axis=0),
        helper.make_node("Concat", [f"kept{i}" for i in every], ["all"], axis=0),
        helper.make_node("Neg", ["all"], ["negated"]),
        helper.make_node("Unsqueeze", ["all", "last"], ["column"]),
        helper.make_node("Concat", ["column", "column"], ["pairs"], axis=1),
        helper.make_node("ReduceSum", ["pairs", "none"], ["total"], keepdims=0),
        helper.make_node("Softmax", ["pairs"], ["shares"], axis=0),
    ]
    floats = ("best", "negated", "total", "shares")
    ports = [("at", TensorProto.INT64, [None]), *((n, TensorProto.FLOAT, None) for n in floats)]
    graph = helper.make_graph(
        nodes, "found", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [CLASSES, PLACES])],
        [helper.make_tensor_value_info(*port) for port in ports],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _feeds() -> list[dict[str, Any]]:
    """Most above 0, few, all, none, and about half of them; one class has none in each."""
    r = np.random.default_rng(0)
    feeds = []
    for above in (0.5, -0.5, 2, -2, 0):
        x = (r.standard_normal((CLASSES, PLACES)) + above).astype(np.float32)
        x[r.integers(CLASSES)] = -1
        feeds.append({"x": x})
    return feeds


OPTIONS = [{"target": "generic"}, {"target": "generic", "opt_level": "Os"}, {"target": "native"},
           {"target": "native", "stepwise": True}]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_what_many_steps_have_found(tmp_path: Path, options: dict[str, object]) -> None:
    compare(_found(), tmp_path, _feeds(), rtol=1e-5, atol=1e-5, **options)


@pytest.mark.parametrize("options", OPTIONS[:3], ids=str)
@pytest.mark.usefixtures("long")
def test_classes_of_long_programs_are_turns_of_a_loop(tmp_path: Path, options: dict[str, object]) -> None:
    compare(_found(), tmp_path, _feeds(), rtol=1e-5, atol=1e-5, **options)
    text = (tmp_path / "out" / "net.c").read_text()
    assert max(map(int, re.findall(r"(\d+) turns of \d+ steps?", text))) >= CLASSES // 2
    assert "MCC_STATUS_STEP_TO" in text
    assert "*(const int32_t *)net_a(a, at[" in text


@pytest.mark.parametrize("options", OPTIONS[:3], ids=str)
def test_many_sums_of_long_programs_are_an_array(
    tmp_path: Path, options: dict[str, object], long: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps that add a count each are turns of a loop, which finds the counts in the table of the loop before it."""
    monkeypatch.setattr(model, "MANY_SUMS", 8)
    compare(_found(), tmp_path, _feeds(), rtol=1e-5, atol=1e-5, **options)
    text = (tmp_path / "out" / "net.c").read_text()
    assert re.search(r"^ +int32_t sums\[\d+\];", text, re.MULTILINE)
    assert "const int32_t sum_" not in text
    assert len(re.findall(r"\n +sums\[1u \+ turn\] = [^;]* \+ sums\[turn\];", text)) == 1
    assert re.search(r"\*\(const int32_t \*\)net_a\(a, net_turns\d+\[\d+u \+ turn\]", text)
    assert len(re.findall(r"\n +sums\[", text)) < CLASSES


def test_one_kernel_does_for_all_counts_and_sums_of_them_are_short(tmp_path: Path) -> None:
    onnx.save(_found(), tmp_path / "found.onnx")
    mccompile.compile(tmp_path / "found.onnx", tmp_path / "out", target="generic")
    text = (tmp_path / "out" / "found.c").read_text()
    for kernel in ("gather_nd", "topk"):
        assert len(re.findall(rf"^static .*found_k\d+_{kernel}\(", text, re.MULTILINE)) == 1
    assert max(head.count("int32_t dim_") for head in re.findall(r"^static [^{]*\{", text, re.MULTILINE)) <= 4
    statements = re.findall(r"    (?:MCC_\w*STEP|const int32_t sum_\d)[^;]*;", text)
    assert max(len(" ".join(s.split())) for s in statements) < 600
    assert "const int32_t sum_" in text


def _halves() -> onnx.ModelProto:
    """Every other of what six vectors hold above 0, and all of four more; a sum of other counts is kept before."""
    counted = 10
    nodes = []
    for i in range(counted):
        nodes += [
            helper.make_node("Relu", [f"x{i}"], [f"above{i}"]),
            helper.make_node("NonZero", [f"above{i}"], [f"places{i}"]),
            helper.make_node("Cast", [f"places{i}"], [f"f{i}"], to=TensorProto.FLOAT),
        ]
    nodes += [
        helper.make_node("Concat", [f"f{i}" for i in range(4, counted)], ["others"], axis=1),
        helper.make_node("CumSum", ["others", "one"], ["first"]),
        helper.make_node("Concat", [f"f{i}" for i in range(6)], ["six"], axis=1),
        helper.make_node("Slice", ["six", "none", "end", "one", "two"], ["half"]),
        helper.make_node("Concat", ["half", *(f"f{i}" for i in range(6, counted))], ["all"], axis=1),
        helper.make_node("CumSum", ["all", "one"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, [PLACES]) for i in range(counted)]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, None]) for n in ("first", "y")]
    constants = {"none": [0], "one": [1], "two": [2], "end": [2**40]}
    weights = [numpy_helper.from_array(np.array(a), n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "halves", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_sum_within_a_sum_is_said_by_what_others_know(tmp_path: Path, options: dict[str, object]) -> None:
    """(a + .. + f + 1) / 2 + g + .. + j: the sum that is halved has a name in the kernel alone."""
    r = np.random.default_rng(1)
    feeds = [{f"x{i}": r.normal(a, 1, PLACES).astype(np.float32) for i in range(10)} for a in (0, 1, -1, 9, -9)]
    compare(_halves(), tmp_path, feeds, rtol=0, atol=0, **options)


def test_what_sums_are_given_is_said_without_their_own_names() -> None:
    counts = [symbol(f"k{i}", 0, 9) for i in range(10)]
    sums = LongSums(())
    sums.short((sum(counts[:6]) + 1) // 2 + sum(counts[6:]))
    assert len(sums.kept) == 2
    assert {s.name for n in sums.kept.values() for s in symbols(n)} == {f"k{i}" for i in range(10)}
