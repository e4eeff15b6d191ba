"""Recurrent cells, top-k and Einsum where samples do not reach: absent outputs, long runs, state, bad lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from mccompile.driver import Options, compile_program, import_graph
from mccompile.ir.errors import CompileError
from mccompile.ops.registry import front_ends
from mccompile.ops.sampling import Case
from mccompile.targets.target import STRICT_WARNINGS, resolve
from tests.support.draw import SeededDraw
from tests.support.opcases import ORT_OPSET, Built, CaseLibrary, case_inputs, case_model, mismatch, ort_outputs

Array = np.ndarray[Any, Any]

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
STATES = {"LSTM": ("h", "c"), "GRU": ("h",), "RNN": ("h",)}
GENERIC = Options(target="generic")


def cell_inputs(op: str, steps: int, hidden: int, seed: int, many: int = 1, batch: int = 2) -> dict[str, Array]:
    """X, W, R, B and the initial states of a cell, by ONNX's letters."""
    rng = np.random.default_rng(seed)
    rows = GATES[op] * hidden

    def draw(*shape: int) -> Array:
        return rng.uniform(-0.4, 0.4, shape).astype(np.float32)

    arrays = {"X": draw(steps, batch, 5), "W": draw(many, rows, 5), "R": draw(many, rows, hidden)}
    arrays["B"] = draw(many, 2 * rows)
    return arrays | {state: draw(many, batch, hidden) for state in STATES[op]}


def node_model(
    op: str, arrays: Mapping[str, Array], inputs: Sequence[str], outputs: Sequence[str], run_time: Sequence[str],
    **attrs: Any,
) -> onnx.ModelProto:  # fmt: skip
    """One node; inputs not named in ``run_time`` are initializers, '' is an absent input or output."""
    node = helper.make_node(op, list(inputs), list(outputs), name="node", **attrs)
    infos = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(arrays[k].dtype), arrays[k].shape)
        for k in run_time
    ]
    initializers = [numpy_helper.from_array(a, k) for k, a in arrays.items() if k not in run_time]
    results = [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs if o]
    graph = helper.make_graph([node], "case", infos, results, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", ORT_OPSET)], ir_version=10)


def cell_model(
    op: str, arrays: Mapping[str, Array], outputs: Sequence[str], lengths: str = "", **attrs: Any
) -> onnx.ModelProto:
    hidden = arrays["R"].shape[2]
    inputs = ["X", "W", "R", "B", lengths, *STATES[op]]
    run_time = ["X", *STATES[op], *([lengths] if lengths else [])]
    return node_model(op, arrays, inputs, outputs, run_time, hidden_size=hidden, **attrs)


def built_from(
    model: onnx.ModelProto, feeds: Mapping[str, Array], folder: Path, name: str = "case0", level: str = "O2"
) -> Built:
    path = folder / f"{name}.onnx"
    path.write_bytes(model.SerializeToString())
    c = import_graph(path, Options(target="generic", name=name, opt_level=level))
    return Built(0, Case(list(feeds.values())), ort_outputs_of(model, feeds), c, compile_program(c))


def ort_outputs_of(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(feeds)))


def library(folder: Path, *built: Built) -> CaseLibrary:
    return CaseLibrary(folder, built, [*resolve("generic").c_flags, *STRICT_WARNINGS]).build()


def feeds_of(op: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {k: arrays[k] for k in ("X", *STATES[op])}


@pytest.mark.parametrize(
    ("op", "outputs"),
    [
        ("LSTM", ["", "", "c_n"]),
        ("LSTM", ["", "h_n"]),
        ("LSTM", ["y", "", "c_n"]),
        ("GRU", ["", "h_n"]),
        ("RNN", ["y"]),
    ],
)
def test_outputs_may_be_absent(op: str, outputs: list[str], tmp_path: Path) -> None:
    arrays = cell_inputs(op, steps=3, hidden=6, seed=1, many=2)
    names = [o + "_out" if o else "" for o in outputs]
    b = built_from(cell_model(op, arrays, names, direction="bidirectional"), feeds_of(op, arrays), tmp_path)
    got = library(tmp_path, b).run(b, feeds_of(op, arrays))
    assert len(got) == len([o for o in outputs if o])
    for g, want in zip(got, b.expected, strict=True):
        assert not mismatch(g, want, 3e-6)


@pytest.mark.parametrize("op", sorted(GATES))
def test_every_run_is_the_first(op: str, tmp_path: Path) -> None:
    """Scratch and states hold nothing over from the arena's past, whatever lies there."""
    arrays = cell_inputs(op, steps=4, hidden=7, seed=2, many=2)
    feeds = feeds_of(op, arrays)
    outputs = ["y", *(f"{s}_n" for s in STATES[op])]
    b = built_from(cell_model(op, arrays, outputs, direction="bidirectional"), feeds, tmp_path)
    lib = library(tmp_path, b)
    runs = [lib.run(b, feeds, poison) for poison in (0xFF, 0x00, 0x7F)]
    for run in runs[1:]:
        for first, other in zip(runs[0], run, strict=True):
            np.testing.assert_array_equal(first, other)
    for got, want in zip(runs[0], b.expected, strict=True):
        assert not mismatch(got, want, 3e-6)


@pytest.mark.parametrize("op", sorted(GATES))
def test_streaming_step_by_step_is_the_whole(op: str, tmp_path: Path) -> None:
    """A model of one time step, fed its own states, computes what the model of all steps computes."""
    arrays = cell_inputs(op, steps=6, hidden=8, seed=3)
    outputs = ["y", *(f"{s}_n" for s in STATES[op])]
    whole = built_from(cell_model(op, arrays, outputs), feeds_of(op, arrays), tmp_path, "whole")
    one = {**arrays, "X": arrays["X"][:1]}
    step = built_from(cell_model(op, one, outputs), feeds_of(op, one), tmp_path, "step")
    lib = library(tmp_path, whole, step)
    y, *last = lib.run(whole, feeds_of(op, arrays))
    state = {s: arrays[s] for s in STATES[op]}
    for t, want in enumerate(y):
        got, *after = lib.run(step, {"X": arrays["X"][t : t + 1], **state})
        np.testing.assert_array_equal(got[0], want)
        state = dict(zip(STATES[op], after, strict=True))
    for s, want in zip(STATES[op], last, strict=True):
        np.testing.assert_array_equal(state[s], want)


@pytest.mark.parametrize("op", sorted(GATES))
def test_long_recurrences_stay_close(op: str, tmp_path: Path) -> None:
    arrays = cell_inputs(op, steps=300, hidden=24, seed=4)
    feeds = feeds_of(op, arrays)
    b = built_from(cell_model(op, arrays, ["y", "h_n"]), feeds, tmp_path)
    for got, want in zip(library(tmp_path, b).run(b, feeds), b.expected, strict=True):
        assert not mismatch(got, want, 1e-5)


def test_cells_that_share_code_are_no_warning(tmp_path: Path) -> None:
    """gcc takes numbers of units that are C parameters for those of one of the calls, and looks at every loop."""
    nodes, initializers, outputs, last, depth = [], [], [], "x", 5
    for i, hidden in enumerate((16, 8)):
        arrays = cell_inputs("GRU", 1, hidden, seed=i, batch=1)
        arrays["W"] = np.full((1, 3 * hidden, depth), 0.1, np.float32)
        initializers += [numpy_helper.from_array(arrays[k], f"{k}{i}") for k in "WRBh"]
        given = [last, *(f"{k}{i}" for k in "WRB"), "", f"h{i}"]
        nodes.append(helper.make_node("GRU", given, [f"q{i}"], hidden_size=hidden, linear_before_reset=1))
        nodes.append(helper.make_node("Squeeze", [f"q{i}", "one"], [f"y{i}"]))
        last, depth = f"y{i}", hidden
        outputs.append(helper.make_tensor_value_info(last, TensorProto.FLOAT, None))
    initializers.append(numpy_helper.from_array(np.array([1]), "one"))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 1, 5))
    graph = helper.make_graph(nodes, "cells", [x], outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", ORT_OPSET)], ir_version=10)
    feeds = {"x": np.ones((1, 1, 5), np.float32)}
    b = built_from(model, feeds, tmp_path, level="Os")
    flags = [*resolve("generic").c_flags, "-O3", *STRICT_WARNINGS]
    assert len(b.facts.kernels) < 4, "they share no code"
    for got, want in zip(CaseLibrary(tmp_path, [b], flags).build().run(b, feeds), b.expected, strict=True):
        assert not mismatch(got, want, 1e-5)


def test_a_length_outside_of_the_input_is_refused(tmp_path: Path) -> None:
    arrays = cell_inputs("GRU", steps=3, hidden=4, seed=5) | {"lengths": np.array([1, 3], dtype=np.int32)}
    feeds = {k: arrays[k] for k in ("X", "h", "lengths")}
    b = built_from(cell_model("GRU", arrays, ["y", "h_n"], "lengths"), feeds, tmp_path)
    lib = library(tmp_path, b)
    for got, want in zip(lib.run(b, feeds), b.expected, strict=True):
        assert not mismatch(got, want, 3e-6)
    for bad in (4, -1):
        with pytest.raises(AssertionError, match="run answered 11"):
            lib.run(b, {**feeds, "lengths": np.array([1, bad], dtype=np.int32)})


@pytest.mark.parametrize(
    ("attrs", "rule"),
    [
        ({"activations": ["Sigmoid", "Swish", "Tanh"]}, "'Swish' is unknown"),
        ({"activations": ["Sigmoid", "ScaledTanh", "Tanh"]}, "ScaledTanh has no default"),
        ({"activations": ["Sigmoid", "Tanh"]}, "2 activations for 1 direction"),
        ({"direction": "backward"}, "direction 'backward' is unknown"),
        ({"direction": "bidirectional"}, "one per direction"),
    ],
)
def test_what_cannot_be_compiled_is_said(attrs: dict[str, Any], rule: str, tmp_path: Path) -> None:
    arrays = cell_inputs("LSTM", steps=2, hidden=4, seed=6)
    path = tmp_path / "bad.onnx"
    path.write_bytes(cell_model("LSTM", arrays, ["y"], **attrs).SerializeToString())
    with pytest.raises(CompileError, match=rule):
        import_graph(path, GENERIC)


def test_the_default_of_two_directions_is_that_of_one(tmp_path: Path) -> None:
    """As onnxruntime writes RNN."""
    arrays = cell_inputs("RNN", steps=3, hidden=4, seed=5)
    feeds = {k: arrays[k] for k in ("X", "h")}
    b = built_from(cell_model("RNN", arrays, ["y", "h_n"], activations=["Tanh", "Tanh"]), feeds, tmp_path)
    for got, want in zip(library(tmp_path, b).run(b, feeds), b.expected, strict=True):
        assert not mismatch(got, want, 3e-6)


@pytest.mark.parametrize(("equation", "rule"), [("ij->ik", "no operand"), ("i", "rank 2")])
def test_einsum_that_cannot_be_rewritten_is_refused(equation: str, rule: str, tmp_path: Path) -> None:
    x = np.ones((3, 3), np.float32)
    model = node_model("Einsum", {"X": x}, ["X"], ["y"], ["X"], equation=equation)
    (tmp_path / "bad.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(CompileError, match=rule):
        import_graph(tmp_path / "bad.onnx", GENERIC)


@pytest.mark.parametrize("largest", [0, 1])
def test_top_of_many_with_ties(largest: int, tmp_path: Path) -> None:
    """A heap of 300 of 5000 elements that take 50 values: most are ties."""
    x = np.random.default_rng(7).integers(-25, 25, (2, 5000)).astype(np.float32)
    case = Case([x, np.array([300], dtype=np.int64)], {"largest": largest}, frozenset({1}), 2)
    model = case_model(front_ends()[("", "TopK")], case)
    (tmp_path / "case0.onnx").write_bytes(model.SerializeToString())
    c = import_graph(tmp_path / "case0.onnx", Options(target="generic", name="case0"))
    b = Built(0, case, ort_outputs(model, case), c, compile_program(c))
    for got, want in zip(library(tmp_path, b).run(b, case_inputs(case)), b.expected, strict=True):
        np.testing.assert_array_equal(got, want)


def test_top_ranks_nan_behind_every_number(tmp_path: Path) -> None:
    x = np.array([[np.nan, 1, np.inf, np.nan, -np.inf, 1]], dtype=np.float32)
    case = Case([x, np.array([6], dtype=np.int64)], {}, frozenset({1}), 2)
    model = case_model(front_ends()[("", "TopK")], case)
    (tmp_path / "case0.onnx").write_bytes(model.SerializeToString())
    c = import_graph(tmp_path / "case0.onnx", Options(target="generic", name="case0"))
    meant = list(c.graph.evaluate(case_inputs(case)).values())
    b = Built(0, case, meant, c, compile_program(c))
    got = library(tmp_path, b).run(b, case_inputs(case))
    assert got[1].tolist() == meant[1].tolist() == [[2, 1, 5, 4, 0, 3]]
    np.testing.assert_array_equal(got[0], meant[0])


@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN", "TopK", "ArgMax", "ArgMin", "Einsum", "MatMulInteger"])
def test_the_meaning_agrees_with_onnxruntime(op: str, tmp_path: Path) -> None:
    front_end = front_ends()[("", op)]
    assert front_end.sample is not None
    for seed in range(20):
        case = front_end.sample(SeededDraw(seed))
        model = case_model(front_end, case)
        path = tmp_path / f"case{seed}.onnx"
        path.write_bytes(model.SerializeToString())
        results = import_graph(path, GENERIC).graph.evaluate(case_inputs(case)).values()
        for got, want in zip(results, ort_outputs(model, case), strict=True):
            assert not mismatch(got, want, 1e-5), f"seed {seed}: {mismatch(got, want, 1e-5)}"
