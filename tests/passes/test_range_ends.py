"""Ranges at their ends: integers that wrap or that float64 has not, and NaN around what is cast."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.support.runs import compare

INTEGERS = ("int32", "int64", "uint32", "uint64")


def _network(
    nodes: Sequence[onnx.NodeProto], x: Any, y: Sequence[Any], constants: dict[str, Any]
) -> onnx.ModelProto:
    """A network of input x and outputs y0, y1, ..., of elements and shapes like these arrays."""
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for name, a in (("x", x), *((f"y{i}", a) for i, a in enumerate(y)))
    ]
    weights = [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize(("constant", "weight"), [(5000, 1 << 20), (3, -1), (-1, 3), (5, 2)])
def test_constant_channels_of_integers_wrap(dtype: str, constant: int, weight: int, tmp_path: Path) -> None:
    """What a channel of one number adds to each sum is more than the type holds: folded, it wraps as the sum does."""
    number = np.dtype(dtype).type
    most = np.iinfo(dtype).max
    constant, weight = (n if n > 0 else int(most) for n in (constant, weight))
    w = np.array([[weight, weight, 0, 0], [1, 0, 2, 3], [0, 1, 2, 1]], dtype)
    nodes = [
        helper.make_node("MatMul", ["x", "z"], ["a"]),
        helper.make_node("Add", ["a", "b"], ["c"]),
        helper.make_node("MatMul", ["c", "w"], ["d"]),
        helper.make_node("Add", ["d", "p"], ["e"]),
        helper.make_node("MatMul", ["e", "v"], ["y0"]),
    ]
    x = np.arange(6, dtype=dtype).reshape(2, 3)
    constants = {
        "z": np.diag(np.array([0, 1, 1], dtype)), "b": np.array([number(constant), 0, 0], dtype), "w": w,
        "p": np.array([1, 2, 0, 1], dtype), "v": np.arange(1, 9, dtype=dtype).reshape(4, 2),
    }  # fmt: skip
    model = _network(nodes, x, [np.empty((2, 2), dtype)], constants)
    compare(model, tmp_path, [{"x": x}], 0, 0, target="generic", opt_level="O2")


def test_constant_channels_cancel_exactly(tmp_path: Path) -> None:
    """2^60 + 1 less 2^60 is 1, which sums in float64 have lost."""
    nodes = [
        helper.make_node("MatMul", ["x", "z"], ["a"]),
        helper.make_node("Add", ["a", "b"], ["c"]),
        helper.make_node("MatMul", ["c", "w"], ["d"]),
        helper.make_node("MatMul", ["d", "v"], ["y0"]),
    ]
    x = np.arange(6).reshape(2, 3)
    constants = {
        "z": np.diag([0, 0, 1]), "b": np.array([1, 1, 0]), "v": np.arange(1, 5).reshape(2, 2),
        "w": np.array([[2**60 + 1, 1], [-(2**60), 0], [0, 3]]),
    }  # fmt: skip
    model = _network(nodes, x, [np.empty((2, 2), np.int64)], constants)
    compare(model, tmp_path, [{"x": x}], 0, 0, target="generic", opt_level="O2")


@pytest.mark.parametrize("padding", [2**53 + 1, 2**62 + 1, 5])
def test_channels_of_padding_are_the_number_itself(padding: int, tmp_path: Path) -> None:
    """2^53 + 1 is no float64."""
    nodes = [
        helper.make_node("MatMul", ["x", "z"], ["a"]),
        helper.make_node("Pad", ["a", "pads", "padding"], ["b"]),
        helper.make_node("MatMul", ["b", "w"], ["y0"]),
    ]
    x = np.arange(6).reshape(2, 3)
    constants = {
        "z": np.diag([1, 1, 1]), "pads": np.array([0, 1, 0, 0]), "padding": np.array(padding),
        "w": np.arange(1, 9).reshape(4, 2),
    }  # fmt: skip
    model = _network(nodes, x, [np.empty((2, 2), np.int64)], constants)
    compare(model, tmp_path, [{"x": x}], 0, 0, target="generic", opt_level="O2")


def test_a_cast_of_what_nan_is_put_around_does_not_fit_fewer_bits(tmp_path: Path) -> None:
    """The range of what is padded by NaN is not that of NaN alone, of which a cast makes 0."""
    nodes = [
        helper.make_node("Pad", ["x", "pads", "padding"], ["a"]),
        helper.make_node("Cast", ["a"], ["b"], to=onnx.TensorProto.INT64),
        helper.make_node("Slice", ["b", "first", "last"], ["c"]),
        helper.make_node("Add", ["c", "row"], ["y0"]),
        helper.make_node("Transpose", ["c"], ["d"], perm=[1, 0]),
        helper.make_node("Sub", ["d", "one"], ["y1"]),
    ]
    x = np.array([[3e9, -3e9, 5], [1e12, 7, -1e10]], np.float32)
    constants = {
        "pads": np.array([0, 0, 1, 0]), "padding": np.array(np.nan, np.float32), "first": np.array([0]),
        "last": np.array([2]), "row": np.arange(3).reshape(1, 3), "one": np.array(1),
    }  # fmt: skip
    model = _network(nodes, x, [np.empty((2, 3), np.int64), np.empty((3, 2), np.int64)], constants)
    compare(model, tmp_path, [{"x": x}], 0, 0, target="generic", opt_level="O2")
