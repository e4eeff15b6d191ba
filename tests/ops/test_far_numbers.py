"""Arguments at the ends of their types, and steps that leave 32 bits, beside onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from mccompile.ir.errors import CompileError
from tests.support.runs import compare

N = helper.make_node
FLOAT, I64 = TensorProto.FLOAT, TensorProto.INT64
Info = helper.make_tensor_value_info
ENDS = np.iinfo(np.int64)


def _model(nodes: list[onnx.NodeProto], inputs: list[Any], outputs: list[Any], **weights: Any) -> onnx.ModelProto:
    held = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


LENGTH = [N("Shape", ["x"], ["length"], start=0, end=1), N("Squeeze", ["length"], ["n"])]
ROWS = Info("x", FLOAT, ["n"])


def _feeds(*extents: int) -> list[dict[str, Any]]:
    return [{"x": np.zeros(n, np.float32)} for n in extents]


def test_numbers_in_steps_leave_32_bits(tmp_path: Path) -> None:
    nodes = [*LENGTH, N("Mul", ["n", "step"], ["end"]), N("Range", ["zero", "end", "step"], ["y"])]
    model = _model(nodes, [ROWS], [Info("y", I64, ["p"])], zero=np.int64(0), step=np.int64(10**9))
    compare(model, tmp_path, _feeds(0, 5, 12), 0, 0, target="generic", dims={"n": "0..12"})


def test_steps_that_are_not_whole_are_counted(tmp_path: Path) -> None:
    nodes = [*LENGTH, N("Cast", ["n"], ["end"], to=FLOAT), N("Range", ["zero", "end", "step"], ["y"])]
    model = _model(nodes, [ROWS], [Info("y", FLOAT, ["p"])], zero=np.float32(0), step=np.float32(0.75))
    compare(model, tmp_path, _feeds(0, 1, 3, 8), 0, 0, target="generic", dims={"n": "0..8"}, bounds={"p": 16})


@pytest.mark.parametrize(
    ("kind", "ranges"),
    [
        (np.float32, [(0, 0.3, 0.1), (0, 0.6, 0.2), (0, 1.2, 0.1), (1, 0, -0.1), (2, 2, 1), (0, 1, -1)]),
        (np.int64, [(0, ENDS.max, ENDS.max), (0, ENDS.min + 1, ENDS.min + 1), (ENDS.max - 5, ENDS.max, 2),
                    (ENDS.min, ENDS.min + 5, 2), (5, 0, -2), (0, 5, -1)]),
    ],
)  # fmt: skip
def test_how_many_numbers_a_range_has(kind: Any, ranges: list[Any], tmp_path: Path) -> None:
    code = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    model = _model([N("Range", ["a", "b", "c"], ["y"])], [Info(c, code, []) for c in "abc"], [Info("y", code, ["p"])])
    feeds = [{name: np.array(v, kind) for name, v in zip("abc", numbers, strict=True)} for numbers in ranges]
    compare(model, tmp_path, feeds, 1e-6, 0, target="generic", bounds={"p": 32})


@pytest.mark.parametrize("k", [2**40, ENDS.max, ENDS.min])
def test_a_diagonal_far_away_is_not_there(k: int, tmp_path: Path) -> None:
    image = Info("x", FLOAT, ["n", 4])
    model = _model([N("EyeLike", ["x"], ["y"], k=k)], [image], [Info("y", FLOAT, ["n", 4])])
    feeds = [{"x": np.ones((n, 4), np.float32)} for n in (1, 5)]
    compare(model, tmp_path, feeds, 0, 0, target="generic", dims={"n": "1..5"})


@pytest.mark.parametrize("upper", [0, 1])
def test_a_triangle_up_to_a_diagonal_far_away(upper: int, tmp_path: Path) -> None:
    ports = [Info("x", FLOAT, ["n", 4]), Info("k", I64, [])]
    model = _model([N("Trilu", ["x", "k"], ["y"], upper=upper)], ports, [Info("y", FLOAT, ["n", 4])])
    far = (ENDS.max, ENDS.max - 2, ENDS.min, 2**32, -(2**32), 1, -1)
    feeds = [{"x": np.ones((5, 4), np.float32), "k": np.array(k)} for k in far]
    compare(model, tmp_path, feeds, 0, 0, target="generic", dims={"n": "1..5"})


def test_repeats_need_no_order(tmp_path: Path) -> None:
    joined = N("Concat", ["length", "two"], ["repeats"], axis=0)
    nodes = [LENGTH[0], joined, N("Tile", ["column", "repeats"], ["y"])]
    column = np.arange(3, dtype=np.float32).reshape(3, 1)
    model = _model(nodes, [ROWS], [Info("y", FLOAT, ["p", "q"])], column=column, two=np.array([2]))
    compare(model, tmp_path, _feeds(0, 1, 2, 8), 0, 0, target="generic", dims={"n": "0..8"})


def test_samples_that_32_bits_do_not_count_are_refused(tmp_path: Path) -> None:
    """Those of a bin are as many along each of two axes."""
    node = N("RoiAlign", ["x", "r", "i"], ["y"], sampling_ratio=32768)
    inputs = [Info("x", FLOAT, [1, 2, 5, 5]), Info("r", FLOAT, [1, 4])]
    onnx.save(_model([node], inputs, [Info("y", FLOAT, None)], i=np.zeros(1, np.int64)), tmp_path / "m.onnx")
    with pytest.raises(CompileError, match=r"32768 samples in .* are not supported"):
        mccompile.compile(tmp_path / "m.onnx", tmp_path / "out", target="generic")


@pytest.mark.parametrize("value", [np.inf, np.nan, 3e9, -300.5, 2e9])
def test_what_lies_outside_is_a_number_of_the_type(value: float, tmp_path: Path) -> None:
    how = {"coordinate_transformation_mode": "tf_crop_and_resize", "mode": "nearest", "axes": [0]}
    node = N("Resize", ["x", "roi", "", "s"], ["y"], extrapolation_value=value, **how)
    constants = {"roi": np.array([-1, 2], np.float32), "s": np.array([7])}
    model = _model([node], [Info("x", TensorProto.INT32, [3])], [Info("y", TensorProto.INT32, None)], **constants)
    if abs(value) < 2**31:
        compare(model, tmp_path, [{"x": np.array([5, 6, 7], np.int32)}], 0, 0, target="generic")
        return
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(CompileError, match=r"extrapolation_value .* is no number of i32"):
        mccompile.compile(tmp_path / "m.onnx", tmp_path / "out", target="generic")
