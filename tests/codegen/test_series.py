"""Steps that come again with other operands: one loop over a table of these, in long programs."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from mccompile.codegen import model, sharing
from mccompile.codegen.series import Recurring, recurring
from tests.support.harness import SANITIZERS, SPLIT, build
from tests.support.judge import plain_session
from tests.support.runs import compare

WIDTH, LAYERS = 16, 6


def _layers(layers: int = LAYERS) -> onnx.ModelProto:
    """Products by weights of their own and softmaxes in turn, of which each adds what the layer began with; what the
    layers give is read in two halves."""
    r = np.random.default_rng(0)
    weights = {f"w{i}": r.standard_normal((WIDTH, WIDTH)).astype(np.float32) for i in range(layers)}
    sizes = np.array([WIDTH // 2, WIDTH // 2])
    nodes, last = [], "x"
    for i in range(layers):
        nodes += [
            helper.make_node("MatMul", [last, f"w{i}"], [f"m{i}"]),
            helper.make_node("Softmax", [f"m{i}"], [f"s{i}"], axis=-1),
            helper.make_node("Add", [f"s{i}", last], [f"y{i}"]),
            helper.make_node("Split", [f"y{i}", "sizes"], [f"a{i}", f"b{i}"], axis=1),
            helper.make_node("CumSum", [f"a{i}", "axis"], [f"c{i}"]),
            helper.make_node("CumSum", [f"b{i}", "axis"], [f"d{i}"]),
            helper.make_node("Concat", [f"d{i}", f"c{i}"], [f"z{i}"], axis=1),
        ]
        last = f"z{i}"
    constants = {**weights, "sizes": sizes, "axis": np.array(0)}
    graph = helper.make_graph(
        nodes, "layers", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, WIDTH])],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


SIZES = (40, 64, 24)


def _scales() -> onnx.ModelProto:
    """What is found in three vectors of other sizes, by the same steps, and a product that takes longer."""
    nodes = [helper.make_node("MatMul", ["m", "w"], ["z"])]
    for i in range(len(SIZES)):
        nodes += [
            helper.make_node("NonZero", [f"x{i}"], [f"places{i}"]),
            helper.make_node("Transpose", [f"places{i}"], [f"rows{i}"]),
            helper.make_node("GatherND", [f"x{i}", f"rows{i}"], [f"found{i}"]),
            helper.make_node("CumSum", [f"found{i}", "zero"], [f"sums{i}"]),
            helper.make_node("Slice", [f"sums{i}", "zero", "nine"], [f"y{i}"]),
        ]
    inputs = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, [size]) for i, size in enumerate(SIZES)]
    inputs.append(helper.make_tensor_value_info("m", TensorProto.FLOAT, [64, 64]))
    outputs = [helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, [f"n{i}"]) for i in range(len(SIZES))]
    outputs.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [64, 64]))
    weights = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    constants = [("zero", np.array([0])), ("nine", np.array([9])), ("w", weights)]
    graph = helper.make_graph(
        nodes, "scales", inputs, outputs, [numpy_helper.from_array(a, n) for n, a in constants],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


OPTIONS = [
    {"target": "generic"}, {"target": "generic", "opt_level": "O0"}, {"target": "native"},
    {"target": "native", "opt_level": "Os"}, {"target": "native", "threads": 2}, {"target": "native", "io": "caller"},
]  # fmt: skip
UNROLLED = [{"stepwise": True}, {"target": "cortex-m7"}]
"""Each step has a place of its own there."""


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.usefixtures("long")
def test_layers_in_a_loop(tmp_path: Path, options: dict[str, object]) -> None:
    feeds = [{"x": np.random.default_rng(i).standard_normal((4, WIDTH)).astype(np.float32)} for i in range(2)]
    compare(_layers(), tmp_path, feeds, rtol=1e-5, atol=1e-5, **options)
    assert "_turns" in (tmp_path / "out" / "net.c").read_text()


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_steps_at_several_scales_are_given_their_numbers(
    tmp_path: Path, options: dict[str, object], long: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the table: kernels that differ in numbers are one."""
    monkeypatch.setattr(sharing, "MOST_LETTERS", 0)
    feeds = []
    for i in range(5):  # of the first there is nothing to be found, of the last all
        r = np.random.default_rng(i)
        feed = {f"x{k}": r.normal(size=size) * (r.random(size) < i / 4) for k, size in enumerate(SIZES)}
        feeds.append({n: a.astype(np.float32) for n, a in {**feed, "m": r.normal(size=(64, 64))}.items()})
    compare(_scales(), tmp_path, feeds, rtol=1e-5, atol=1e-5, **options)
    text = (tmp_path / "out" / "net.c").read_text()
    if options["target"] == "native" and not {"opt_level", "io"} & options.keys():
        assert "(int32_t)at[" in text
        table = re.search(r"_turns\d+\[3\]\[\d+\] = \{\n(.*?)\n\};", text, re.DOTALL)
        assert table is not None
        assert all(re.search(rf"\b{size}u\b", table[1]) for size in SIZES)


@pytest.mark.usefixtures("long")
def test_a_turn_finds_its_operands_by_their_names(tmp_path: Path) -> None:
    onnx.save(_layers(), tmp_path / "net.onnx")
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", target="generic")
    text = (tmp_path / "out" / "net.c").read_text()
    table = re.search(r"_turns\d+\[(\d)\]\[\d+\] = \{\n(.*?)\n\};", text, re.DOTALL)
    assert table is not None
    assert int(table[1]) >= LAYERS - 2
    for i in range(2, LAYERS - 1):
        assert f"IN_W(w{i}" in table[2]
    assert len(re.findall(r"\n +MCC_STEP", text)) < 5 * LAYERS


@pytest.mark.parametrize("options", UNROLLED, ids=str)
@pytest.mark.usefixtures("long")
def test_steps_that_are_found_by_their_places_stay_apart(tmp_path: Path, options: dict[str, Any]) -> None:
    onnx.save(_layers(), tmp_path / "net.onnx")
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", **options)
    assert "_turns" not in (tmp_path / "out" / "net.c").read_text()


@pytest.mark.parametrize("many", [False, True])
def test_names_and_indentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: bool) -> None:
    """What repeats has less room in long programs."""
    monkeypatch.setattr(model, "MOST_LETTERS", 0 if many else 10**9)
    proto = _layers()
    proto.graph.node[1].name = "/net/decoder/layers.0/attention/scores/normalised/Softmax"
    onnx.save(proto, tmp_path / "net.onnx")
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", target="generic")
    text = (tmp_path / "out" / "net.c").read_text()
    shown = ".../scores/normalised/Softmax" if many else proto.graph.node[1].name
    assert text.count(shown) == text.count("normalised/Softmax") == 2
    levels = {len(line) - len(line.lstrip(" ")) for line in re.findall(r"^ *for \(.*$", text, re.MULTILINE)}
    assert min(levels) == (2 if many else 4)
    assert all(level % min(levels) == 0 for level in levels)


def test_kernels_of_long_programs_have_short_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Static ones: what long names of models would add is no part of their C."""
    onnx.save(_layers(), tmp_path / "layers.onnx")
    for letters, prefix in [(10**9, "layers_k0_"), (0, "k0_")]:
        monkeypatch.setattr(sharing, "MOST_LETTERS", letters)
        mccompile.compile(tmp_path / "layers.onnx", tmp_path / "out", target="native")
        text = (tmp_path / "out" / "layers.c").read_text()
        assert re.search(rf"^static .*\b{prefix}\w+\(", text, re.MULTILINE)


def test_short_programs_have_a_line_for_each_step(tmp_path: Path) -> None:
    onnx.save(_layers(), tmp_path / "net.onnx")
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", target="generic")
    assert "_turns" not in (tmp_path / "out" / "net.c").read_text()


@pytest.mark.usefixtures("long")
def test_guards_lie_between_tensors_of_series_too(tmp_path: Path) -> None:
    feeds = [{"x": np.random.default_rng(i).standard_normal((4, WIDTH)).astype(np.float32)} for i in range(2)]
    onnx.save(_layers(), tmp_path / "layers.onnx")
    mccompile.compile(tmp_path / "layers.onnx", tmp_path / "out", target="generic")
    assert "_turns" in (tmp_path / "out" / "layers.c").read_text()
    session = plain_session((tmp_path / "layers.onnx").read_bytes())
    for got, feed in zip(build(tmp_path / "out", [*SANITIZERS, SPLIT]).run("low", feeds), feeds, strict=True):
        (want,) = session.run(None, feed)
        np.testing.assert_allclose(next(iter(got.values())), want, rtol=1e-5, atol=1e-5)


def test_what_saves_most_is_chosen_first() -> None:
    forms = [0, 0, 1, 0, 0, 1, 0, 0, 1, 2, 3, 3, 3, 4]
    assert recurring(forms, [100] * len(forms), 200) == [Recurring(0, 3, 3), Recurring(10, 1, 3)]
    assert recurring(forms, [100] * len(forms), 500) == [Recurring(0, 3, 3)]
    assert recurring(forms, [100] * len(forms), 700) == []
    assert recurring([], [], 0) == []


def test_a_stretch_that_something_better_takes_a_part_of_is_looked_through_again() -> None:
    forms = [5, 5, 5, 5, 0, 1, 0, 1, 0, 1, 0, 1, 1, 1, 1]
    assert recurring(forms, [100] * len(forms), 200) == [Recurring(0, 1, 4), Recurring(4, 2, 4), Recurring(12, 1, 3)]


def test_long_programs_are_looked_through_in_time() -> None:
    forms = np.random.default_rng(0).integers(0, 4, 10_000).tolist()
    begin = time.process_time()
    found = recurring(forms, [400] * len(forms), 1500)
    assert time.process_time() - begin < 5
    assert all(forms[c.first + i] == forms[c.first + i % c.count] for c in found for i in range(c.count * c.times))
