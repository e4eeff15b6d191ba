"""Weights that hold infinity, or scales whose product is infinite: no warning, and answers as onnxruntime's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import mccompile
from tests.support.small_models import Maker, ort_run

Array = np.ndarray[Any, np.dtype[Any]]
CONTRIB = "com.microsoft"
INFINITE = np.float32(np.inf)


def _window(m: Maker) -> tuple[Array, str]:
    """An infinite number of a window times the zeros of a Fourier matrix."""
    x = np.arange(32, dtype=np.float32).reshape(1, 32, 1)
    window = m.const(np.array([1, 2, INFINITE, 3, 1, 2, 3, 1], np.float32))
    return x, m.node("STFT", [m.input("x", x.shape), m.const(np.array(4)), window], "y")


def _four_bits(m: Maker) -> tuple[Array, str]:
    """Code 7 is zero; times an infinite scale it is no number."""
    x = np.arange(32, dtype=np.float32).reshape(2, 16)
    scales = m.const(np.array([INFINITE, 1], np.float32))
    given = [m.input("x", x.shape), m.const(np.full(16, 0x79, np.uint8)), scales]
    return x, m.node("MatMulBnb4", given, "y", domain=CONTRIB, K=16, N=2, block_size=16, quant_type=1)


def _scales(m: Maker) -> tuple[Array, str]:
    """Each scale is finite, and zero times either is zero; their product is infinite."""
    x = np.array([[0, 0], [1, 0]], np.int8)
    scale = m.const(np.array(3e19, np.float32))
    real = m.node("DequantizeLinear", [m.input("x", x.shape, onnx.TensorProto.INT8), scale], "a")
    weights = m.node("DequantizeLinear", [m.const(np.array([[1], [2]], np.int8)), scale], "b")
    return x, m.node("MatMul", [real, weights], "y")


def _looked_up(m: Maker) -> tuple[Array, str]:
    """Rows of a table that becomes floats: of zeros by an infinite scale, and of halves that are too large."""
    x = np.array([1, 0], np.int64)
    table, scales = np.array([[0] * 16, [7] * 16], np.uint8), np.array([[INFINITE], [3e38]], np.float32)
    zeros = m.const(np.array([[0], [0]], np.uint8))
    given = [m.const(table), m.input("x", x.shape, onnx.TensorProto.INT64), m.const(scales), zeros]
    how = {"gather_axis": 0, "quantize_axis": 1, "block_size": 32, "bits": 8}
    return x, m.node("GatherBlockQuantized", given, "y", domain=CONTRIB, **how)


def _real_zero_points(m: Maker) -> tuple[Array, str]:
    """Zero points that are no whole numbers, and one that is: zeros by an infinite scale, and a huge scale."""
    x = np.arange(16, dtype=np.float32).reshape(1, 16)
    scales, zeros = (m.const(np.array(a, np.float32)) for a in ((INFINITE, 3e38, 1), (5, 2.5, 2.5)))
    given = [m.input("x", x.shape), m.const(np.full((3, 1, 8), 0x75, np.uint8)), scales, zeros]
    return x, m.node("MatMulNBits", given, "y", domain=CONTRIB, K=16, N=3, bits=4, block_size=16)


def _spread(m: Maker) -> tuple[Array, str]:
    """Every other result has no part of the infinite weight."""
    x = np.arange(1, 65, dtype=np.float32).reshape(1, 1, 1, 64)
    weights = m.const(np.array([1, 2, INFINITE], np.float32).reshape(1, 1, 1, 3))
    return x, m.node("ConvTranspose", [m.input("x", x.shape), weights], "y", strides=[1, 2], pads=[0, 2, 0, 2])


@pytest.mark.parametrize("target", ["generic", "native"])
@pytest.mark.parametrize("build", [_window, _four_bits, _scales, _looked_up, _real_zero_points, _spread])
def test_infinite_weights(build: Callable[[Maker], tuple[Array, str]], target: str, tmp_path: Path) -> None:
    m = Maker()
    x, last = build(m)
    path = tmp_path / "infinite.onnx"
    onnx.save(_model(m, last), path)
    mccompile.compile(path, tmp_path / "out", target=target)
    (got,) = mccompile.load(tmp_path / "out").run({"x": x}).values()
    (want,) = ort_run(path, {"x": x}).values()
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))
    np.testing.assert_allclose(got[np.isfinite(want)], want[np.isfinite(want)], rtol=1e-4, atol=1e-3)


def _model(m: Maker, last: str) -> onnx.ModelProto:
    y = helper.make_tensor_value_info(last, onnx.TensorProto.FLOAT, None)
    graph = helper.make_graph(m.nodes, "infinite", m.inputs, [y], m.weights)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(CONTRIB, 1)], ir_version=10
    )
