"""What networks compute of their own extents, beside onnxruntime: in each type, at both ends of wide ranges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support.runs import compare

N = helper.make_node
BOOL, I64, F32 = TensorProto.BOOL, TensorProto.INT64, TensorProto.FLOAT
FIRST = [N("Shape", ["x"], ["shape"]), N("Gather", ["shape", "at"], ["n"])]


def _model(nodes: list[onnx.NodeProto], kind: int, **constants: Any) -> onnx.ModelProto:
    """A graph of x, bool[n], and of n, i64[1]."""
    x = helper.make_tensor_value_info("x", BOOL, ["n"])
    stored = [numpy_helper.from_array(np.array(v), name) for name, v in {"at": [0], **constants}.items()]
    y = helper.make_tensor_value_info("y", kind, None)
    graph = helper.make_graph([*FIRST, *nodes], "numbers", [x], [y], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _by(op: str, number: Any, *then: onnx.NodeProto, kind: int = I64, **attrs: Any) -> onnx.ModelProto:
    return _model([N(op, ["n", "k"], ["d" if then else "y"], **attrs), *then], kind, k=[number])


def _cast(to: int, number: Any = None, back: int = I64) -> onnx.ModelProto:
    """n in another type, times a number of it."""
    if number is None:
        return _model([N("Cast", ["n"], ["c"], to=to), N("Cast", ["c"], ["y"], to=back)], back)
    nodes = [N("Cast", ["n"], ["c"], to=to), N("Mul", ["c", "k"], ["d"]), N("Cast", ["d"], ["y"], to=back)]
    return _model(nodes, back, k=np.array([number], helper.tensor_dtype_to_np_dtype(to)))


NUMBERS: dict[str, onnx.ModelProto] = {
    "n * n": _model([N("Mul", ["n", "n"], ["y"])], I64),
    "n * 70000 / 3": _by("Mul", 70_000, N("Div", ["d", "at3"], ["y"])),
    "n + 2^31": _by("Add", 2**31 - 5),
    "n * 2^60": _by("Mul", 2**60),
    "most(n * n - 5e9; 0)": _model(
        [N("Mul", ["n", "n"], ["d"]), N("Sub", ["d", "k"], ["e"]), N("Max", ["e", "at"], ["y"])], I64, k=[5 * 10**9]
    ),
    "u8": _cast(TensorProto.UINT8), "i8": _cast(TensorProto.INT8), "i16": _cast(TensorProto.INT16),
    "bool": _cast(BOOL), "i32 * 70000": _cast(TensorProto.INT32, 70_000),
    "u32 * 2^31": _cast(TensorProto.UINT32, 2**31),
    "f32 * 1e6": _cast(F32, 1e6), "f32 * 0.7": _cast(F32, 0.7), "f64 * 2^40": _cast(TensorProto.DOUBLE, 2.0**40),
    **{f"{op} 1": _by(op, 1, kind=BOOL) for op in ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")},
    "where n is 1": _model(
        [N("Equal", ["n", "k"], ["c"]), N("Where", ["c", "seven", "n"], ["y"])], I64, k=[1], seven=[7]
    ),
    "mod of what is below 0": _model(
        [N("Concat", ["n", "k"], ["v"], axis=0), N("Mod", ["v", "by"], ["y"])], I64, k=[-7], by=[3, 3]
    ),
    "sum of no axes": _model(
        [N("Concat", ["n", "k"], ["v"], axis=0), N("ReduceSum", ["v"], ["y"], noop_with_empty_axes=1)], I64, k=[-7]
    ),
}  # fmt: skip
NUMBERS["n * 70000 / 3"].graph.initializer.append(numpy_helper.from_array(np.array([3]), "at3"))


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_made_of_extents(name: str, tmp_path: Path) -> None:
    feeds = [{"x": np.zeros(n, bool)} for n in (100_000, 1, 255, 256, 99_999)]
    compare(NUMBERS[name], tmp_path, feeds, 0, 0, target="generic", dims={"n": "1..100000"})


PARTS = {
    "v[-n:]": ["minus", "end"], "v[:-n]": ["at", "minus"], "v[n:]": ["n", "end"], "v[n - 3:]": ["less", "end"],
    "v[n::-1]": ["n", "first", "at", "back"],
}  # fmt: skip


@pytest.mark.parametrize("name", PARTS)
def test_slices_from_an_end_that_the_run_decides(name: str, tmp_path: Path) -> None:
    """Of no elements, too: -0 counts from the beginning."""
    nodes = [N("Neg", ["n"], ["minus"]), N("Sub", ["n", "three"], ["less"]), N("Slice", ["v", *PARTS[name]], ["y"])]
    constants = {"three": [3], "end": [2**63 - 1], "first": [-(2**63)], "back": [-1]}
    model = _model(nodes, F32, **constants)
    model.graph.input.append(helper.make_tensor_value_info("v", F32, ["m"]))
    feeds = [{"x": np.zeros(n, bool), "v": np.arange(m, dtype=np.float32)} for n in (5, 0, 3, 1) for m in (9, 5)]
    compare(model, tmp_path, feeds, 0, 0, target="generic", dims={"n": "0..5", "m": "5..9"})


def _branch(name: str, *nodes: onnx.NodeProto) -> onnx.GraphProto:
    out = helper.make_tensor_value_info(nodes[-1].output[0], F32, None)
    return helper.make_graph(list(nodes), name, [], [out])


def _if(then: onnx.NodeProto) -> onnx.ModelProto:
    branches = {"then_branch": _branch("then", then), "else_branch": _branch("else", N("Identity", ["v"], ["b"]))}
    asked = [N("Equal", ["n", "one"], ["c"]), N("Not", ["c"], ["d"]), N("Not", ["d"], ["e"])]
    model = _model([*asked, N("If", ["e"], ["y"], **branches)], F32, one=[1])
    model.graph.input.append(helper.make_tensor_value_info("v", F32, ["n", 3]))
    return model


def _rows(n: int) -> dict[str, Any]:
    return {"x": np.zeros(n, bool), "v": np.arange(n * 3, dtype=np.float32).reshape(n, 3)}


def test_both_branches_of_what_is_asked_of_an_extent(tmp_path: Path) -> None:
    feeds = [_rows(n) for n in (5, 1, 2)]
    compare(_if(N("Neg", ["v"], ["a"])), tmp_path, feeds, 0, 0, target="generic", dims={"n": "1..5"})


def test_branches_of_other_extents(tmp_path: Path) -> None:
    feeds = [_rows(n) for n in (5, 1, 2)]
    twice = N("Concat", ["v", "v"], ["a"], axis=0)
    compare(_if(twice), tmp_path, feeds, 0, 0, target="generic", dims={"n": "1..5"})


def test_an_axis_of_the_run_is_not_squeezed(tmp_path: Path) -> None:
    """Exporters ask whether it can be; both cannot be had, and it is one of several elements."""
    feeds = [_rows(n) for n in (5, 2)]
    compare(_if(N("Squeeze", ["v", "at"], ["a"])), tmp_path, feeds, 0, 0, target="generic", dims={"n": "1..5"})
