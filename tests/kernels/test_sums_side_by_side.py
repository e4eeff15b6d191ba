"""Sums of bytes of four channels at a time: gcc 12 -O2 made other sums of them than were written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile


def averaged(path: Path, kernel: tuple[int, int], dtype: str) -> Path:
    """The averages of windows of bytes whose channels are innermost."""
    zero = np.array(-20 if dtype == "int8" else 108, dtype)
    numbers = {"s": np.array(0.02, np.float32), "z": zero}
    stored = [numpy_helper.from_array(array, name) for name, array in numbers.items()]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["bytes"]),
        helper.make_node("DequantizeLinear", ["bytes", "s", "z"], ["floats"]),
        helper.make_node("Transpose", ["floats"], ["first"], perm=(0, 3, 1, 2)),
        helper.make_node("AveragePool", ["first"], ["averages"], kernel_shape=kernel, strides=(2, 2)),
        helper.make_node("Transpose", ["averages"], ["last"], perm=(0, 2, 3, 1)),
        helper.make_node("QuantizeLinear", ["last", "s", "z"], ["y"]),
    ]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 9, 9, 8])
    kind = helper.np_dtype_to_tensor_dtype(zero.dtype)
    result = helper.make_tensor_value_info("y", kind, [1, (11 - kernel[0]) // 2, (11 - kernel[1]) // 2, 8])
    graph = helper.make_graph(nodes, "averaged", [given], [result], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("level", ["1", "2", "3"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("kernel", [(2, 2), (1, 4)], ids=["2x2", "1x4"])
def test_averages_of_bytes_are_right_as_compilers_see_fit(
    kernel: tuple[int, int], dtype: str, level: str, tmp_path: Path
) -> None:
    found = mccompile.check(averaged(tmp_path / "averaged.onnx", kernel, dtype), target="generic", opt_level=level)
    assert found.ok, found
