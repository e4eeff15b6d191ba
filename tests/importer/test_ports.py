"""Inputs and outputs of types that C has not: bytes as ONNX packs them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference.ops.op_cast import cast_to

from mccompile import backend
from mccompile.ir.errors import UsageError
from mccompile.onnxio import OnnxValue
from mccompile.run.values import gather, stored

INTEGERS = {
    "i4": (ml_dtypes.int4, -8, 8), "u4": (ml_dtypes.uint4, 0, 16), "i2": (ml_dtypes.int2, -2, 2),
    "u2": (ml_dtypes.uint2, 0, 4),
}  # fmt: skip
ROUNDED = (
    ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz,
    ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e8m0fnu,
)  # fmt: skip
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


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", [*ROUNDED, ml_dtypes.bfloat16])
def test_floats_are_rounded(dtype: type) -> None:
    """All values of the type, what lies between two of them, ties, what is beyond, as onnx.reference casts."""
    to = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    bits = np.arange(1 << (16 if dtype == ml_dtypes.bfloat16 else 8)).astype(np.uint16 if to == 16 else np.uint8)
    own = bits.view(dtype).astype(np.float32)
    with np.errstate(all="ignore"):
        ordered = np.unique(own[np.isfinite(own)])
        between = [(ordered[1:] + ordered[:-1]) / 2, np.nextafter(ordered, np.inf), np.nextafter(ordered, -np.inf)]
    x = np.concatenate([ordered, *between, [-0.0, np.inf, -np.inf, 1e-30, 1e30, -1e30]]).astype(np.float32)
    for saturate in (1, 0) if to != 16 else (1,):
        node = helper.make_node("Cast", ["x"], ["y"], to=to, saturate=saturate)
        (y,) = backend.run_node(node, [x], target="generic")
        with np.errstate(all="ignore"):
            wanted = cast_to(x, to, bool(saturate))
        assert y.dtype == wanted.dtype
        np.testing.assert_array_equal(y.astype(np.float32), wanted.astype(np.float32))


@pytest.mark.thorough
def test_bfloat16_is_computed_in_f32() -> None:
    """Results are rounded once at the end, but where something depends on the last digit: 256 + 1 is 256."""
    rng = np.random.default_rng(0)
    x, w = (rng.normal(size=(8, 8)).astype(ml_dtypes.bfloat16) for _ in range(2))
    (y,) = backend.run_node(helper.make_node("MatMul", ["x", "w"], ["y"]), [x, w], target="native")
    wanted = (x.astype(np.float32) @ w.astype(np.float32)).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(y.view(np.uint16), wanted.view(np.uint16))
    nodes = [helper.make_node("Add", ["a", "b"], ["c"]), helper.make_node("Equal", ["a", "c"], ["y"])]
    infos = [helper.make_tensor_value_info(n, TensorProto.BFLOAT16, (2,)) for n in "ab"]
    output = helper.make_tensor_value_info("y", TensorProto.BOOL, (2,))
    model = helper.make_model(helper.make_graph(nodes, "g", infos, [output]))
    a, b = (np.array(v, ml_dtypes.bfloat16) for v in ([256, 128], [1, 1]))
    (y,) = backend.run_model(model, [a, b], target="native")
    assert y.tolist() == [True, False]


def test_text_has_an_axis_of_bytes() -> None:
    x = np.array([["on", ""], ["日", "off"]], dtype=object)
    (y,) = backend.run_node(helper.make_node("Identity", ["x"], ["y"]), [x], target="generic", string_bytes=3)
    assert y.tolist() == x.tolist()
    with pytest.raises(UsageError, match="--string-bytes 4"):
        stored(np.array(["four"], dtype=object), 3)
