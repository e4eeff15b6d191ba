"""Inputs and outputs of types that C has not: bytes as ONNX packs them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import helper, numpy_helper

from mccompile import backend
from mccompile.ir.errors import CompileError
from mccompile.onnxio import OnnxValue
from mccompile.run.values import gather, stored

INTEGERS = {
    "i4": (ml_dtypes.int4, -8, 8), "u4": (ml_dtypes.uint4, 0, 16), "i2": (ml_dtypes.int2, -2, 2),
    "u2": (ml_dtypes.uint2, 0, 4),
}  # fmt: skip
FLOATS = (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float4_e2m1fn)


@pytest.mark.parametrize("name", INTEGERS)
def test_packing_is_that_of_onnx(name: str) -> None:
    dtype, low, high = INTEGERS[name]
    x = np.random.default_rng(0).integers(low, high, (3, 5)).astype(dtype)
    assert stored(x).tobytes() == numpy_helper.from_array(x).raw_data
    (back,) = gather([OnnxValue("x", name, (3, 5))], {"x": stored(x)})
    np.testing.assert_array_equal(back, x)


@pytest.mark.thorough
@pytest.mark.parametrize("name", INTEGERS)
def test_integers_below_a_byte(name: str) -> None:
    dtype, low, high = INTEGERS[name]
    x = np.random.default_rng(1).integers(low, high, (3, 5)).astype(dtype)
    for perm in ([0, 1], [1, 0]):
        transposed = helper.make_node("Transpose", ["x"], ["y"], perm=perm)
        (y,) = backend.run_node(transposed, [x], target="generic")
        assert y.dtype == x.dtype
        np.testing.assert_array_equal(y, x.transpose(perm))
    wide = np.linspace(-20, 20, 16, dtype=np.float32)
    cast = helper.make_node("Cast", ["x"], ["y"], to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    (y,) = backend.run_node(cast, [wide], target="generic")
    np.testing.assert_array_equal(y, wide.astype(np.int32).astype(dtype))


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_of_a_byte_are_read(dtype: type) -> None:
    bits = np.arange(256 if ml_dtypes.finfo(dtype).bits == 8 else 16, dtype=np.uint8)
    x = bits.view(dtype)
    (y,) = backend.run_node(helper.make_node("Cast", ["x"], ["y"], to=1), [x], target="generic")
    np.testing.assert_array_equal(y, x.astype(np.float32))


def test_what_nothing_is_rounded_to_is_refused() -> None:
    x = np.ones(3, ml_dtypes.float8_e5m2)
    with pytest.raises(CompileError, match="f8e5m2"):
        backend.run_node(helper.make_node("Identity", ["x"], ["y"]), [x], target="generic")
