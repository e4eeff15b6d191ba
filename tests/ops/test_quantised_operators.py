"""Quantised operators beyond what samples draw: types of few bits, onnxruntime's dynamic networks, refusals."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from mccompile.ir.errors import CompileError
from tests.ops.test_exact_answers import Array, N, answers
from tests.support.judge import plain_session

RNG = np.random.default_rng


def expected(folder: Path, feeds: dict[str, Array]) -> list[Array]:
    """onnxruntime's answers to the model that `answers` wrote, in the order of its outputs."""
    session = plain_session((folder / "m.onnx").read_bytes())
    return [np.asarray(a) for a in session.run(None, feeds)]


def bytes_of(seed: int, *shape: int, dtype: str = "int8") -> Array:
    info = np.iinfo(dtype)
    return RNG(seed).integers(info.min, info.max + 1, shape).astype(dtype)


def floats(seed: int, *shape: int) -> Array:
    return RNG(seed).uniform(-1, 1, shape).astype(np.float32)


def test_filters_may_have_their_own_zero_points(tmp_path: Path) -> None:
    x, w = bytes_of(1, 1, 2, 5, 5, dtype="uint8"), bytes_of(2, 3, 2, 3, 3)
    zeros = np.array([-3, 0, 9], np.int8)
    nodes = [N("ConvInteger", ["x", "w", "xz", "wz"], ["y"], pads=[1, 1, 1, 1])]
    got = answers(tmp_path, nodes, {"x": x}, "generic", "O2", {"w": w, "xz": np.uint8(7), "wz": zeros})["y"]
    padded = np.pad(x.astype(np.int64) - 7, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    want = np.einsum("nchwij,mcij->nmhw", windows, w.astype(np.int64) - zeros[:, None, None, None])
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("opset", "precision", "divided"), [(21, 0, "f4"), (23, 0, "f2"), (23, 1, "f4"), (25, 10, "f2")]
)
@pytest.mark.parametrize("level", ["O0", "O2"])
def test_quotients_have_the_precision_of_their_scale(
    level: str, opset: int, precision: int, divided: str, tmp_path: Path
) -> None:
    """Since opset 23. Every fifth float16 below 256 scales; some are ties in the one type, and none in the other."""
    scale = np.float16(0.0172)
    x = np.arange(0, 0x4465, 5, dtype=np.uint16).view(np.float16)
    attrs = {"precision": precision} if precision else {}
    nodes = [N("QuantizeLinear", ["x", "s", "z"], ["y"], **attrs)]
    constants = {"s": scale, "z": np.uint8(0)}
    got = answers(tmp_path, nodes, {"x": x}, "generic", level, constants, opset=opset)["y"]
    quotients = {dtype: x.astype(dtype) / scale.astype(dtype) for dtype in ("f2", "f4")}
    want = {dtype: np.clip(np.rint(q.astype(np.float32)), 0, 255).astype(np.uint8) for dtype, q in quotients.items()}
    assert (want["f2"] != want["f4"]).any()
    np.testing.assert_array_equal(got, want[divided])
    np.testing.assert_array_equal(got, expected(tmp_path, {"x": x})[0])


@pytest.mark.parametrize("target", ["generic", "native"])
def test_long_sums_of_bytes_wrap_as_32_bits_do(target: str, tmp_path: Path) -> None:
    """34,000 * 255 * 255 is more than 2**31: signed overflow would be undefined in C."""
    a, b = np.full((1, 34000), 255, np.uint8), np.full((34000, 2), 255, np.uint8)
    got = answers(tmp_path, [N("MatMulInteger", ["a", "b"], ["y"])], {"a": a, "b": b}, target, "O2")["y"]
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, np.full((1, 2), 34000 * 255 * 255 - 2**32))


@pytest.mark.parametrize("known", [True, False])
def test_zero_points_of_columns_of_several_matrices(known: bool, tmp_path: Path) -> None:
    """Of two matrices, by which as many of each of three pairs are multiplied."""
    a, b, z = bytes_of(1, 3, 2, 6, 4, dtype="uint8"), bytes_of(2, 2, 4, 5), bytes_of(3, 2, 1, 5)
    constants = {"az": np.uint8(3), "bz": z, **({"b": b} if known else {})}
    nodes = [N("MatMulInteger", ["a", "b", "az", "bz"], ["y"])]
    got = answers(tmp_path, nodes, {"a": a, **({} if known else {"b": b})}, "generic", "O2", constants)["y"]
    np.testing.assert_array_equal(got, (a.astype(np.int32) - 3) @ (b.astype(np.int32) - z))


@pytest.mark.parametrize("target", ["generic", "native"])
@pytest.mark.parametrize("groups", [1, 2])
def test_transposed_convolution_between_quantised_tensors(groups: int, target: str, tmp_path: Path) -> None:
    constants = {
        "w": bytes_of(3, 4, 6 // groups, 3, 3), "s": np.float32(0.05), "z": np.int8(4), "ws": np.float32(0.01),
        "ys": np.float32(0.11), "wz": np.int8(0),
    }  # fmt: skip
    nodes = [
        N("DequantizeLinear", ["x", "s", "z"], ["xr"]), N("DequantizeLinear", ["w", "ws", "wz"], ["wr"]),
        N("ConvTranspose", ["xr", "wr"], ["yr"], strides=[2, 2], pads=[1, 1, 0, 0], group=groups),
        N("QuantizeLinear", ["yr", "ys", "z"], ["y"]),
    ]  # fmt: skip
    feeds = {"x": bytes_of(4, 1, 4, 5, 6)}
    got = answers(tmp_path, nodes, feeds, target, "O2", constants)["y"].astype(np.int32)
    apart = np.abs(got - expected(tmp_path, feeds)[0])
    assert apart.max() <= 1
    assert (apart > 0).mean() < 0.02  # ties, which float sums break


@pytest.mark.parametrize("pads", [[0, 0, 1, 0], [0, 0, 0, 2], [1, 0, 0, 0]])
def test_single_taps_with_padding_on_one_side(pads: list[int], tmp_path: Path) -> None:
    constants = {
        "s": np.float32(0.05), "z": np.uint8(29), "w": bytes_of(20, 2, 2, 1, 1), "ws": np.float32(0.01),
        "wz": np.int8(0), "ys": np.float32(0.0413),  # no sum is a tie
    }  # fmt: skip
    node = N("QLinearConv", ["x", "s", "z", "w", "ws", "wz", "ys", "z"], ["y"], pads=pads)
    feeds = {"x": bytes_of(21, 1, 2, 7, 7, dtype="uint8")}
    got = answers(tmp_path, [node], feeds, "generic", "O2", constants)["y"]
    np.testing.assert_array_equal(got, expected(tmp_path, feeds)[0])


def test_mean_of_quantised_tensors(tmp_path: Path) -> None:
    """onnxruntime has no kernel of it."""
    x = bytes_of(5, 2, 3, 4, dtype="uint8")
    constants = {"s": np.float32(0.5), "z": np.uint8(9), "ys": np.float32(0.25), "yz": np.uint8(3)}
    node = N("QLinearReduceMean", ["x", "s", "z", "ys", "yz"], ["y"], axes=[1], keepdims=0, domain="com.microsoft")
    got = contrib_answers(tmp_path, [node], {"x": x}, constants)["y"]
    mean = ((x.astype(np.float32) - 9) * np.float32(0.5)).mean(1, dtype=np.float32)
    np.testing.assert_array_equal(got, np.clip(np.rint(mean / np.float32(0.25)) + 3, 0, 255).astype(np.uint8))


@pytest.mark.parametrize(("opset", "axis", "shape"), [
    (11, 1, (1, 10, 1, 1)), (11, 1, (2, 3, 4)), (12, -2, (2, 3, 4)), (11, 0, (2, 3, 4)), (11, 2, (2, 3, 4)),
    (13, 1, (2, 3, 4)),
])  # fmt: skip
def test_axes_of_a_quantised_softmax(opset: int, axis: int, shape: tuple[int, ...], tmp_path: Path) -> None:
    """Before opset 13 all axes from ``axis`` on are one."""
    constants = {"s": np.float32(0.05), "z": np.uint8(128), "ys": np.float32(1 / 256), "yz": np.uint8(0)}
    node = N("QLinearSoftmax", ["x", "s", "z", "ys", "yz"], ["y"], axis=axis, opset=opset, domain="com.microsoft")
    feeds = {"x": bytes_of(22, *shape, dtype="uint8")}
    got = contrib_answers(tmp_path, [node], feeds, constants)["y"].astype(int)
    apart = np.abs(got - expected(tmp_path, feeds)[0])
    assert apart.max() <= 1  # onnxruntime rounds down
    assert (apart > 0).mean() < 0.5


def contrib_answers(folder: Path, nodes: list[Any], feeds: dict[str, Array], constants: dict[str, Any]) -> Any:
    inputs = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in feeds.items()
    ]
    weights = [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, [onnx.ValueInfoProto(name="y")], weights)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), folder / "m.onnx")
    mccompile.compile(folder / "m.onnx", folder / "out", target="generic")
    return mccompile.load(folder / "out").run(feeds)


@pytest.mark.parametrize("shape", [(4, 4), (1, 4), (4,), (4, 1), ()])
@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_biases_have_the_scales_of_columns(alpha: float, shape: tuple[int, ...], tmp_path: Path) -> None:
    """A bias of QGemm of any shape, beside as many rows as columns: its scale is alpha times those of a and b."""
    a, b = bytes_of(1, 4, 4, dtype="uint8"), bytes_of(2, 4, 4)
    c = RNG(3).integers(-9999, 9999, shape).astype(np.int32)
    scales = np.array([0.01, 0.02, 0.04, 0.08], np.float32)
    constants = {"sa": np.float32(0.5), "za": np.uint8(7), "b": b, "sb": scales, "zb": np.zeros(4, np.int8), "c": c}
    inputs = ["a", "sa", "za", "b", "sb", "zb", "c"]
    node = helper.make_node("QGemm", inputs, ["y"], domain="com.microsoft", alpha=alpha)
    want = ((a.astype(np.int64) - 7) @ b.astype(np.int64) + c) * (alpha * 0.5 * scales.astype(np.float64))
    np.testing.assert_allclose(contrib_answers(tmp_path, [node], {"a": a}, constants)["y"], want, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
@pytest.mark.parametrize("blocked", [False, True])
def test_weights_of_four_bits(dtype: str, blocked: bool, tmp_path: Path) -> None:
    low, high = (-8, 7) if dtype == "int4" else (0, 15)
    small = getattr(ml_dtypes, dtype)
    w = RNG(6).integers(low, high + 1, (32, 6)).astype(np.int8).astype(small)
    shape = (2, 6) if blocked else (6,)
    constants = {
        "w": w, "s": np.abs(floats(7, *shape)) + np.float32(0.1),
        "z": RNG(8).integers(low, high + 1, shape).astype(np.int8).astype(small),
    }  # fmt: skip
    how = {"axis": 0, "block_size": 16} if blocked else {"axis": 1}
    nodes = [N("DequantizeLinear", ["w", "s", "z"], ["r"], **how), N("MatMul", ["x", "r"], ["y"])]
    feeds = {"x": floats(9, 3, 32)}
    got = answers(tmp_path, nodes, feeds, "generic", "O2", constants)["y"]
    np.testing.assert_allclose(got, expected(tmp_path, feeds)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", ["generic", "native"])
def test_weights_of_a_float_product_stay_integers(target: str, tmp_path: Path) -> None:
    """A quarter, and an eighth, of the bytes, beside the scales of blocks."""
    for dtype, low, block, share in (("int8", -128, 0, 0.26), ("int4", -8, 32, 0.17)):
        w = RNG(6).integers(low, -low, (256, 64)).astype(np.int8).astype(getattr(ml_dtypes, dtype, dtype))
        scales = np.abs(floats(7, *((256 // block, 64) if block else (64,)))) + np.float32(0.1)
        how = {"axis": 0, "block_size": block} if block else {"axis": 1}
        nodes = [N("DequantizeLinear", ["w", "s"], ["r"], **how), N("MatMul", ["x", "r"], ["y"])]
        feeds, folder = {"x": floats(9, 2, 256)}, tmp_path / dtype
        folder.mkdir()
        got = answers(folder, nodes, feeds, target, "O2", {"w": w, "s": scales})["y"]
        spread = np.repeat(scales, block, 0) if block else scales
        want = feeds["x"].astype(np.float64) @ (w.astype(np.float64) * spread)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6 * np.abs(want).max())
        assert next(folder.rglob("*.mcb")).stat().st_size < share * 4 * w.size


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "uint2"])
def test_activations_of_few_bits(dtype: str, tmp_path: Path) -> None:
    """They saturate to the ends of their type, whether that is told by a zero point or by an attribute."""
    info = ml_dtypes.iinfo(getattr(ml_dtypes, dtype))
    scale, x, zero = np.float32(0.3), floats(5, 4, 9) * np.float32(3), np.asarray(1).astype(info.dtype)
    number = getattr(TensorProto, dtype.upper())
    nodes = [N("QuantizeLinear", ["x", "s", "z"], ["q"]), N("Transpose", ["q"], ["t"], perm=[1, 0]),
             N("DequantizeLinear", ["t", "s", "z"], ["y"]),
             N("QuantizeLinear", ["x", "s"], ["p"], output_dtype=number),
             N("DequantizeLinear", ["p", "s"], ["u"])]  # fmt: skip
    got = answers(tmp_path, nodes, {"x": x}, "generic", "O2", {"s": scale, "z": zero})
    low, high = int(info.min), int(info.max)
    whole = np.rint(x / scale)
    np.testing.assert_array_equal(got["y"], ((np.clip(whole + 1, low, high) - 1).astype(np.float32) * scale).T)
    np.testing.assert_array_equal(got["u"], np.clip(whole, low, high).astype(np.float32) * scale)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_weights_of_8_bit_floats(dtype: str, tmp_path: Path) -> None:
    small = getattr(ml_dtypes, dtype)
    w, scales = floats(10, 5, 4).astype(small), np.abs(floats(11, 4)) + np.float32(0.1)
    nodes = [N("DequantizeLinear", ["w", "s", "z"], ["r"], axis=1), N("Transpose", ["w"], ["t"], perm=[1, 0]),
             N("DequantizeLinear", ["t", "s", "z"], ["q"], axis=0), N("Add", ["x", "r"], ["y"]),
             N("Transpose", ["q"], ["p"], perm=[1, 0]), N("Add", ["x", "p"], ["u"])]  # fmt: skip
    x = floats(12, 5, 4)
    got = answers(tmp_path, nodes, {"x": x}, "generic", "O2", {"w": w, "s": scales, "z": np.zeros(4, small)})
    for name in ("y", "u"):
        np.testing.assert_array_equal(got[name], x + w.astype(np.float32) * scales)


def test_sixteen_bit_activations(tmp_path: Path) -> None:
    """int16 times int8 in sums that 32 bits do not hold."""
    constants = {
        "w": bytes_of(13, 6, 20, 3, 3), "ws": np.abs(floats(14, 6)) * np.float32(0.01) + np.float32(0.001),
        "s": np.float32(1e-4), "z": np.uint16(30000), "ys": np.float32(1e-3),
    }  # fmt: skip
    nodes = [
        N("DequantizeLinear", ["x", "s", "z"], ["xr"]), N("DequantizeLinear", ["w", "ws"], ["wr"], axis=0),
        N("Conv", ["xr", "wr"], ["yr"], pads=[1, 1, 1, 1]), N("QuantizeLinear", ["yr", "ys", "z"], ["y"]),
    ]  # fmt: skip
    feeds = {"x": bytes_of(15, 1, 20, 6, 6, dtype="uint16")}
    got = answers(tmp_path, nodes, feeds, "generic", "O2", constants)["y"].astype(np.int64)
    want = expected(tmp_path, feeds)[0].astype(np.int64)
    assert got.std() > 100
    assert np.abs(got - want).max() <= 1  # float sums of onnxruntime round


def test_network_of_dynamic_quantisation(tmp_path: Path) -> None:
    """onnxruntime's quantize_dynamic: DynamicQuantizeLinear, ConvInteger or MatMulInteger, Cast, Mul."""
    quantization = pytest.importorskip("onnxruntime.quantization")
    constants = {
        "w": floats(16, 4, 2, 3, 3),
        "b": floats(17, 4),
        "m": floats(18, 4 * 36, 5),
        "shape": np.array([1, -1]),
    }
    nodes = [N("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]), N("Relu", ["c"], ["r"]),
             N("Reshape", ["r", "shape"], ["f"]), N("MatMul", ["f", "m"], ["y"])]  # fmt: skip
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 2, 6, 6))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 5))],
        [numpy_helper.from_array(a, k) for k, a in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "float.onnx")
    quantization.quantize_dynamic(
        tmp_path / "float.onnx", tmp_path / "m.onnx", op_types_to_quantize=["Conv", "MatMul"]
    )
    found = {n.op_type for n in onnx.load(tmp_path / "m.onnx").graph.node}
    assert {"DynamicQuantizeLinear", "ConvInteger", "MatMulInteger"} <= found
    mccompile.compile(tmp_path / "m.onnx", tmp_path / "out", target="generic")
    network = mccompile.load(tmp_path / "out")
    for x in (floats(19, 1, 2, 6, 6), np.zeros((1, 2, 6, 6), np.float32)):
        want = expected(tmp_path, {"x": x})[0]
        np.testing.assert_allclose(
            network.run({"x": x})["y"], want, rtol=1e-5, atol=1e-5 * max(1, np.abs(want).max())
        )


def refusal(folder: Path, nodes: list[Any], feeds: dict[str, Array], constants: dict[str, Any]) -> str:
    with pytest.raises(CompileError) as caught:
        contrib_answers(folder, nodes, feeds, constants)
    return re.sub(r"\s+", " ", str(caught.value))


FOUR = np.zeros((), ml_dtypes.int4)
X = np.zeros((1, 32), np.float32)
NBITS = {"b": np.zeros((2, 2, 8), np.uint8), "s": np.ones(4, np.float32), "g": np.zeros(32, np.int32)}


def nbits(inputs: list[str], **attrs: int) -> Any:
    return N(
        "MatMulNBits",
        inputs,
        ["y"],
        domain="com.microsoft",
        **{"K": 32, "N": 2, "bits": 4, "block_size": 16, **attrs},
    )


@pytest.mark.parametrize(("node", "constants", "says"), [
    (N("Add", ["z", "z"], ["y"]), {"z": FOUR}, "Add of i4 is not supported"),
    (N("DequantizeLinear", ["w", "s", "z"], ["y"]), {"w": FOUR, "s": np.float32(1), "z": np.int8(0)},
     "a zero point of i8 for elements of i4"),
    (nbits(["x", "b", "s", "", "g"]), {**NBITS, "g": np.full(32, 2, np.int32)}, "g_idx"),
    (nbits(["x", "b", "s"], bits=3), NBITS, "weights of 3 bits are not supported"),
    (nbits(["x", "b", "s"], block_size=24), NBITS, "block_size 24"),
    (nbits(["x", "b", "s"], block_size=32), NBITS, "scales"),
    (N("ConvInteger", ["x", "b"], ["y"]), NBITS, "input 0 is f32; ConvInteger takes i8, u8"),
])  # fmt: skip
def test_refusals_say_what_is_missing(node: Any, constants: dict[str, Any], says: str, tmp_path: Path) -> None:
    assert says in refusal(tmp_path, [node], {"x": X}, constants)


def test_a_matrix_of_no_columns_may_have_a_zero_point_for_each(tmp_path: Path) -> None:
    w = {"w": np.zeros((4, 0), np.int8), "xz": np.uint8(3), "wz": np.zeros(0, np.int8)}
    nodes = [N("MatMulInteger", ["x", "w", "xz", "wz"], ["y"])]
    got = answers(tmp_path, nodes, {"x": bytes_of(1, 2, 4, dtype="uint8")}, "generic", "O2", w)["y"]
    assert (got.shape, got.dtype) == ((2, 0), np.int32)
