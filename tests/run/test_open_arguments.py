"""Arguments of the run beside extents of the run (pads, repeats, shapes, parts, depths), against onnxruntime."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, RuntimeException

import mccompile
from mccompile.importer.bounds import UnknownBoundError
from mccompile.ir.errors import CompileError
from tests.support.judge import plain_session
from tests.support.opcases import mismatch
from tests.support.open_arguments import DRAWS, Open, drawn
from tests.support.runs import compare
from tests.support.small_models import Array, Maker

F32, I64 = TensorProto.FLOAT, TensorProto.INT64
Outputs = Mapping[str, Sequence[int | str] | None]
Case = tuple[Maker, Outputs, list[dict[str, Array]], dict[str, int]]
"""A network, the shapes of its results as far as they are stated, what it is given, bounds."""


def _model(m: Maker, outputs: Outputs) -> onnx.ModelProto:
    infos = [helper.make_tensor_value_info(name, F32, shape) for name, shape in outputs.items()]
    graph = helper.make_graph(m.nodes, "open", m.inputs, infos, m.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def _floats(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).normal(0, 1, shape).astype(np.float32)


def _rows(m: Maker, width: int = 4) -> str:
    return m.input("x", ("n", width))  # type: ignore[arg-type]


def _ints(m: Maker, *numbers: int) -> str:
    return m.const(np.array(numbers))


def _feeds(**given: Sequence[tuple[int, ...] | int]) -> list[dict[str, Array]]:
    """Rows as many as ``n`` says, and numbers by name."""
    count = len(next(iter(given.values())))
    feeds = []
    for i in range(count):
        numbers = {name: np.array(of[i]) for name, of in given.items() if name != "n"}
        (n,) = np.array(given["n"][i]).reshape(1)
        feeds.append({"x": _floats(int(n), 4), **numbers})
    return feeds


def _pads_of_all_axes(mode: str) -> Case:
    m = Maker()
    m.node("Pad", [_rows(m), m.input("p", (4,), I64)], "y", mode=mode)
    pads = [(0, 2, 0, 3), (1, 2, 2, 3), (-1, 2, -3, 3)]
    return m, {"y": ["n", 9]}, _feeds(n=[3, 5, 8], p=pads), {}


def _pads_of_one_axis(mode: str) -> Case:
    """The rows stay as many as those of another operand."""
    m = Maker()
    x = _rows(m)
    padded = m.node("Pad", [x, m.input("p", (2,), I64), "", _ints(m, 1)], "wide", mode=mode)
    m.node("MatMul", [m.node("Transpose", [x]), padded], "y")
    return m, {"y": None}, _feeds(n=[3, 8, 1], p=[(2, 3), (1, 0), (0, 0)]), {"wide_1": 9}


def _pads_as_torch_writes_them(_: str) -> Case:
    """F.pad with one number of the run: zeros for what it does not say, turned from last axis first."""
    m = Maker()
    x = _rows(m)
    last = m.node("Concat", [_ints(m, 0), m.node("Unsqueeze", [m.input("p", (), I64), _ints(m, 0)])], axis=0)
    zeros = m.node("ConstantOfShape", [_ints(m, 2)], value=numpy_helper.from_array(np.array([0])))
    pairs = m.node("Reshape", [m.node("Concat", [last, zeros], axis=0), _ints(m, -1, 2)])
    turned = m.node("Slice", [pairs, *(_ints(m, i) for i in (-1, -(2**63), 0, -1))])
    pads = m.node("Reshape", [m.node("Transpose", [turned]), _ints(m, -1)])
    padded = m.node("Pad", [x, m.node("Cast", [pads], to=I64)], "wide")
    m.node("MatMul", [m.node("Transpose", [padded]), x], "y")
    return m, {"y": None}, _feeds(n=[3, 8], p=[2, 0]), {"wide_1": 9}


def _what_is_around_no_rows(_: str) -> Case:
    m = Maker()
    m.node("Pad", [_rows(m), m.input("p", (4,), I64)], "all")
    m.node("Pad", ["x", _ints(m, 1, 0, 2, 1), m.input("v", ())], "y")
    feeds = [{**feed, "v": np.array(3, np.float32)} for feed in _feeds(n=[0, 2], p=[(1, 2, 2, 3), (0, 0, 1, 5)])]
    return m, {"y": None, "all": ["n", 9]}, feeds, {}


def _repeats(_: str) -> Case:
    m = Maker()
    x = _rows(m)
    ones, r = _ints(m, 1), m.input("r", (1,), I64)
    m.node("Tile", [m.node("Unsqueeze", [x, ones]), m.node("Concat", [ones, r, ones], axis=0)], "times")
    m.node("Reshape", ["times", _ints(m, -1, 4)], "rows")
    m.node("Tile", [x, m.node("Concat", [r, _ints(m, 2)], axis=0)], "y")
    return m, {"rows": None, "y": ["k", 8]}, _feeds(n=[3, 8, 2], r=[(2,), (1,), (3,)]), {"times_1": 3, "k": 24}


def _shape_with_an_extent(_: str) -> Case:
    m = Maker()
    x = _rows(m)
    rows = m.node("Shape", [x], start=0, end=1)
    m.node("Reshape", [x, m.node("Concat", [rows, _ints(m, 2), m.input("r", (1,), I64)], axis=0)], "halves")
    m.node("Relu", ["halves"], "y")
    return m, {"y": None}, _feeds(n=[3, 8], r=[(2,), (-1,)]), {}


def _shape_as_stated(_: str) -> Case:
    m = Maker()
    m.node("Relu", [m.node("Reshape", [_rows(m), m.input("r", (2,), I64)])], "y")
    m.node("Relu", [m.node("Reshape", ["x", m.input("s", (3,), I64)])], "z")
    shapes = [(3, 4), (-1, 4), (0, 0), (0, -1)]
    others = [(3, 2, 2), (-1, 2, 2), (0, 2, -1), (5, -1, 2)]
    return m, {"y": ["n", 4], "z": ["k", 2, 2]}, _feeds(n=[3, 8, 5, 5], r=shapes, s=others), {}


def _parts(_: str) -> Case:
    m = Maker()
    m.nodes.append(helper.make_node("Split", [_rows(m), m.input("r", (3,), I64)], ["a", "b", "c"], axis=0))
    for part in "abc":
        m.node("Relu", [part], f"{part}.y")
    parts = [(1, 1, 1), (3, 4, 1), (0, 5, 0), (1, 0, 4)]
    return m, dict.fromkeys(("a.y", "b.y", "c.y")), _feeds(n=[3, 8, 5, 5], r=parts), {}


def _depth(_: str) -> Case:
    """As many classes as there are rows; and a number of the run of them."""
    m = Maker()
    rows = m.node("Shape", [_rows(m)], start=0, end=1)
    values = m.const(np.array([0.5, 2], np.float32))
    m.node("OneHot", [m.input("at", (3,), I64), rows, values], "y", axis=0)
    m.node("OneHot", ["at", m.input("d", (1,), I64), values], "z")
    return m, {"y": None, "z": None}, _feeds(n=[3, 8], at=[(2, -3, 3), (7, 0, -9)], d=[(3,), (1,)]), {"z_1": 7}


CASES: list[tuple[Callable[[str], Case], str]] = [
    *((pads, mode) for pads in (_pads_of_all_axes, _pads_of_one_axis) for mode in ("constant", "edge", "reflect")),
    *((form, "") for form in (
        _pads_as_torch_writes_them, _what_is_around_no_rows, _repeats, _shape_with_an_extent, _shape_as_stated,
        _parts, _depth,
    )),
]  # fmt: skip


@pytest.mark.parametrize(("form", "mode"), CASES)
def test_arguments_of_the_run(form: Callable[[str], Case], mode: str, tmp_path: Path) -> None:
    m, outputs, feeds, bounds = form(mode)
    least = min(len(feed["x"]) for feed in feeds)
    dims = {"n": f"{least}..8"}
    compare(_model(m, outputs), tmp_path, feeds, 2e-5, 2e-6, dims=dims, bounds=bounds, target="generic")


def test_parts_that_are_not_those_of_the_axis(tmp_path: Path) -> None:
    m, outputs, _, _ = _parts("")
    onnx.save(_model(m, outputs), tmp_path / "net.onnx")
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", dims={"n": "1..8"})
    network = mccompile.load(tmp_path / "out")
    for parts in ((3, 2, 2), (6, -2, 1), (6, 1, -2), (1, 2, 1)):
        with pytest.raises(CompileError, match="extent over bound"):
            network.run({"x": _floats(5, 4), "r": np.array(parts)})


def test_a_shape_that_does_not_follow(tmp_path: Path) -> None:
    m = Maker()
    m.node("Reshape", [_rows(m), m.input("r", (2,), I64)], "y")
    onnx.save(_model(m, {"y": None}), tmp_path / "net.onnx")
    with pytest.raises(CompileError, match="does not follow") as error:
        mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", dims={"n": "1..8"})
    assert "'node_y' Reshape" in str(error.value)
    assert "state the shape of the result" in str(error.value)


def test_a_reshape_in_halves_says_which_multiples_would_do(tmp_path: Path) -> None:
    """As F.pixel_unshuffle is exported: lengths that are odd in some run leave a rest."""
    m = Maker()
    m.node("Reshape", [m.input("x", ("b", 4, "h", 1, 8), F32), m.const(np.array([0, 0, -1, 2, 0]))], "y")
    onnx.save(_model(m, {"y": None}), tmp_path / "net.onnx")
    options = {"b": "1..4", "h": "2..16"}
    with pytest.raises(CompileError, match=r"take only multiples: dims={'h': '2\.\.16:2'}"):
        mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", dims=options)
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", dims={**options, "h": "2..16:2"})


def _fault(case: Open, folder: Path, runs: int = 8) -> str:
    """Empty if the network gives what onnxruntime gives, and ends with a status where that fails."""
    path, bounds = folder / "net.onnx", dict(case.bounds)
    onnx.save(case.model, path)
    out = None
    while out is None:
        try:
            out = mccompile.compile(path, folder / "out", target="generic", dims=case.dims(), bounds=bounds)
        except UnknownBoundError as e:
            del bounds[e.name]
    network, session = mccompile.load(folder / "out"), plain_session(case.model.SerializeToString())
    for seed in range(runs):
        feed = case.feed(seed)
        network.fill_arenas(0xFF)
        try:
            wanted = session.run(None, feed)
        except (Fail, InvalidArgument, RuntimeException):
            wanted = None
        try:
            got = network.run(feed)
        except CompileError as e:
            if wanted is not None:
                return f"{case.label}, run {seed}: {e}"
            continue
        if wanted is None and not any(0 in a.shape for a in got.values()):
            return f"{case.label}, run {seed}: onnxruntime fails"
        for output, want in zip(case.model.graph.output, wanted or (), strict=wanted is not None):
            if fault := mismatch(got[output.name], want, 0):
                return f"{case.label}, run {seed}: {fault}"
    return ""


@pytest.mark.parametrize("op", DRAWS)
def test_a_drawn_node(op: str, tmp_path: Path) -> None:
    assert not _fault(drawn(op, 1), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("op", DRAWS)
def test_drawn_nodes(op: str, tmp_path: Path) -> None:
    faults = []
    for seed in range(2, 2 + int(os.environ.get("MCC_CASES", "12"))):
        folder = tmp_path / f"{seed}"
        folder.mkdir()
        faults.append(_fault(drawn(op, seed), folder))
    assert not [fault for fault in faults if fault]
