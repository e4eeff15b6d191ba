"""Operators that onnxruntime has on no CPU, and forms that samples do not draw: numpy is the judge."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from mccompile.check.check import check
from mccompile.driver import Options, import_graph
from mccompile.ir.errors import CompileError
from tests.support.runs import compare

Array = np.ndarray[Any, np.dtype[Any]]
CONTRIB = "com.microsoft"


def floats(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(np.float32)


def evaluated(
    folder: Path, op: str, inputs: list[Array | None], constants: tuple[int, ...] = (), domain: str = CONTRIB,
    outputs: int = 1, version: int = 1, **attrs: Any,
) -> list[Array]:  # fmt: skip
    """The answers of the graph that a node becomes."""
    names = ["" if a is None else f"x{i}" for i, a in enumerate(inputs)]
    given = {f"x{i}": np.asarray(a) for i, a in enumerate(inputs) if a is not None}
    fixed = [numpy_helper.from_array(given[f"x{i}"], f"x{i}") for i in constants]
    infos = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for k, a in given.items() if int(k[1:]) not in constants
    ]  # fmt: skip
    node = helper.make_node(op, names, [f"y{i}" for i in range(outputs)], name="node", domain=domain, **attrs)
    results = [onnx.ValueInfoProto(name=f"y{i}") for i in range(outputs)]
    graph = helper.make_graph([node], "g", infos, results, fixed)
    opsets = [helper.make_opsetid("", 21), *([helper.make_opsetid(domain, version)] if domain else [])]
    path = folder / "m.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString())
    made = import_graph(path, Options(target="generic")).graph
    values = {v: made.array(v) for v in made.constants} | {v: given[v.name] for v in made.inputs}
    for n in made.nodes:
        values |= dict(zip(n.results, n.evaluate(values), strict=True))
    return [np.asarray(values[v]) for v in made.outputs]


def gelu(x: Array) -> Array:
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def close(got: Array, want: Array) -> None:
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


def test_fused_activations(tmp_path: Path) -> None:
    x, bias, skip = floats(1, 2, 3, 8), floats(2, 8), floats(3, 2, 3, 8)
    both = x + bias
    close(evaluated(tmp_path, "BiasSplitGelu", [x, bias])[0], both[..., :4] * gelu(both[..., 4:]))
    close(evaluated(tmp_path, "BiasAdd", [x, bias, skip])[0], both + skip)
    close(evaluated(tmp_path, "BiasDropout", [x, bias, skip])[0], both + skip)
    close(evaluated(tmp_path, "BiasSoftmax", [x, skip[:1]], axis=2, is_inner_broadcast=0)[0], softmax(x + skip[:1]))


def test_fused_products(tmp_path: Path) -> None:
    a, b, bias = floats(1, 3, 4), floats(2, 4, 5), floats(3, 5)
    relu = evaluated(tmp_path, "FusedMatMulActivation", [a, b], activation="Relu", alpha=0.5)[0]
    close(relu, np.maximum(a @ b / 2, 0))
    y = a @ b + bias
    tanh = 0.5 * y * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))
    close(evaluated(tmp_path, "GemmFastGelu", [a, b, bias])[0], tanh)


@pytest.mark.parametrize("op", ["NhwcConv", "NhwcFusedConv"])
def test_convolution_with_channels_last(op: str, tmp_path: Path) -> None:
    x, w, bias = floats(1, 1, 5, 6, 2), floats(2, 3, 2, 3, 3), floats(3, 3)
    attrs = {"activation": "Relu"} if op == "NhwcFusedConv" else {}
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))
    want = np.einsum("nhwcij,mcij->nhwm", windows, w) + bias
    got = evaluated(tmp_path, op, [x, w, bias], (1, 2), kernel_shape=[3, 3], **attrs)[0]
    close(got, np.maximum(want, 0) if attrs else want)


def test_group_norm(tmp_path: Path) -> None:
    x, gamma, beta, skip = floats(1, 2, 3, 4, 6), floats(2, 6), floats(3, 6), floats(4, 2, 6)
    total = x + skip[:, None, None]
    parts = total.reshape(2, 3, 4, 2, 3)
    mean, var = (f(parts, axis=(1, 2, 4), keepdims=True) for f in (np.mean, np.var))
    y = ((parts - mean) / np.sqrt(var + 1e-5)).reshape(x.shape) * gamma + beta
    attrs = {"groups": 2, "activation": 1, "epsilon": 1e-5, "channels_last": 1}
    got = evaluated(tmp_path, "SkipGroupNorm", [x, gamma, beta, skip], (1, 2), outputs=2, **attrs)
    close(got[0], y / (1 + np.exp(-y)))
    close(got[1], total)
    first = [np.moveaxis(total, -1, 1), gamma, beta]
    plain = evaluated(tmp_path, "GroupNorm", first, (1, 2), groups=2, activation=0, epsilon=1e-5, channels_last=0)[0]
    close(plain, np.moveaxis(y, -1, 1))


def test_attention_with_keys_of_calls_before(tmp_path: Path) -> None:
    """And heads of keys packed beside those of values."""
    q, packed = floats(1, 1, 2, 8), floats(2, 1, 3, 2, 2, 4)
    past = [floats(3, 1, 2, 5, 4), floats(4, 1, 2, 5, 4)]
    got = evaluated(
        tmp_path, "MultiHeadAttention", [q, packed, None, None, None, None, *past], num_heads=2, outputs=3
    )
    k, v = (np.concatenate([p, packed[:, :, :, i].swapaxes(1, 2)], 2) for i, p in enumerate(past))
    heads = q.reshape(1, 2, 2, 4).swapaxes(1, 2)
    y = softmax(heads @ k.swapaxes(2, 3) / 2) @ v
    for a, b in zip(got, (y.swapaxes(1, 2).reshape(1, 2, 8), k, v), strict=True):
        close(a, b)


def test_values_of_another_length_than_keys(tmp_path: Path) -> None:
    """Which no tensor of both could hold, so that nobody asks for it."""
    x, w = floats(1, 2, 3, 6), floats(2, 6, 18)
    given = [x, w, np.zeros(18, np.float32)]
    (got,) = evaluated(tmp_path, "Attention", given, (1, 2), num_heads=2, qkv_hidden_sizes=[4, 4, 10])
    q, k, v = (part.reshape(2, 3, 2, -1).swapaxes(1, 2) for part in np.split(x @ w, [4, 8], axis=2))
    y = softmax(q @ k.swapaxes(2, 3) / math.sqrt(2)) @ v
    close(got, y.swapaxes(1, 2).reshape(2, 3, 10))


def test_numbers_for_what_is_masked_where_nothing_is(tmp_path: Path) -> None:
    q, k = floats(1, 1, 2, 8), floats(2, 1, 3, 8)
    got = evaluated(tmp_path, "MultiHeadAttention", [q, k, k], num_heads=1, mask_filter_value=-1e9)[0]
    close(got, softmax(q @ k.swapaxes(1, 2) / math.sqrt(8)) @ k)
    given = [q, np.eye(8, 24, dtype=np.float32), np.zeros(24, np.float32)]
    alone = evaluated(tmp_path, "Attention", given, (1, 2), num_heads=1, mask_filter_value=-1e9)[0]
    assert not alone.any()  # there are queries alone: keys and values are 0


def test_lengths_of_keys_have_to_be_known(tmp_path: Path) -> None:
    q, k = floats(1, 1, 2, 16), floats(2, 1, 2, 16)
    ends, total = np.array([3], np.int32), np.array(4, np.int32)
    two = [np.concatenate([a, a]) for a in (q, k, k, ends)]
    with pytest.raises(CompileError, match="seqlens_k"):
        evaluated(tmp_path, "GroupQueryAttention", [*two[:3], None, None, two[3], total], (6,), num_heads=1,
                  kv_num_heads=1)  # fmt: skip
    with pytest.raises(CompileError, match="4 keys, of which samples have"):
        evaluated(tmp_path, "GroupQueryAttention", [q, k, k, None, None, ends, total], (5, 6), num_heads=1,
                  kv_num_heads=1)  # fmt: skip


def _turned(x: Array, places: Array, tables: tuple[Array, Array]) -> Array:
    """[B, 1, S, H] of [B, S, H] whose first elements, twice as many as a row of a table has, are turned."""
    apart = x[:, None].copy()
    cos, sin = (table[places][:, None] for table in tables)
    half = cos.shape[-1]
    a, b = apart[..., :half].copy(), apart[..., half : 2 * half].copy()
    apart[..., :half], apart[..., half : 2 * half] = a * cos - b * sin, a * sin + b * cos
    return apart


@pytest.mark.parametrize("turned", [8, 16])
@pytest.mark.parametrize("past", [0, 3])
@pytest.mark.parametrize(("batch", "queries"), [(1, 1), (1, 3), (2, 1), (2, 3)])
def test_keys_are_turned_by_the_places_that_are_stated(
    batch: int, queries: int, past: int, turned: int, tmp_path: Path
) -> None:
    """Of a first prompt by the first of all places and those behind it; and as many elements as the tables have."""
    keys, size = past + queries, 16
    q, k, v = (floats(i, batch, queries, size) for i in range(3))
    old = [floats(i, batch, 1, past, size) if past else None for i in (3, 4)]
    angles = floats(5, 12, turned // 2)
    tables = np.cos(angles), np.sin(angles)
    places = np.random.default_rng(6).integers(1, 9, (batch, queries))
    ends, total = np.full(batch, keys - 1, np.int32), np.array(keys, np.int32)
    given = [q, k, v, *old, ends, total, *tables, places]
    got = evaluated(tmp_path, "GroupQueryAttention", given, (5, 6, 7, 8), outputs=3, num_heads=1, kv_num_heads=1,
                    do_rotary=1)  # fmt: skip
    known = places if past else np.broadcast_to(places[0, 0] + np.arange(queries), places.shape)
    want = _turned(k, known, tables)
    close(got[1], want if old[0] is None else np.concatenate([old[0], want], axis=2))


@pytest.mark.parametrize("queries", [1, 3])
def test_whether_a_prompt_is_the_first_is_known_at_run_time(queries: int, tmp_path: Path) -> None:
    size, rng = 16, np.random.default_rng(7)
    angles = floats(5, 40, size // 2)
    given: list[tuple[str, Any, list[int | str]]] = [
        *((f"x{i}", np.float32, [1, queries, size]) for i in range(3)),
        *((f"x{i}", np.float32, [1, 1, "past", size]) for i in (3, 4)),
        ("x5", np.int32, [1]), ("x6", np.int32, []), ("x9", np.int64, [1, queries]),
    ]  # fmt: skip
    infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(np.dtype(t)), s) for n, t, s in given]
    tables = [numpy_helper.from_array(f(angles), f"x{i}") for i, f in ((7, np.cos), (8, np.sin))]
    outputs = [helper.make_tensor_value_info(f"y{i}", 1, None) for i in range(3)]
    node = helper.make_node("GroupQueryAttention", [f"x{i}" for i in range(10)], ["y0", "y1", "y2"], domain=CONTRIB,
                            num_heads=1, kv_num_heads=1, do_rotary=1)  # fmt: skip
    graph = helper.make_graph([node], "g", infos, outputs, tables)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(CONTRIB, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def feed(past: int) -> dict[str, Array]:
        shapes = {n: [past if e == "past" else int(e) for e in s] for n, _, s in given}
        found = {n: rng.uniform(-1, 1, shapes[n]).astype(t) for n, t, _ in given}
        last = past + queries - 1
        return found | {"x5": np.array([last], np.int32), "x6": np.array(last + 1, np.int32),
                        "x9": rng.integers(0, 9, (1, queries))}  # fmt: skip

    feeds = [feed(past) for past in (0, 1, 5, 0, 20)]
    compare(model, tmp_path, feeds, 1e-5, 1e-5, target="generic", dims={"past": "0..20"})


def test_dilated_columns(tmp_path: Path) -> None:
    """Which onnxruntime 1.31 adds up at other places."""
    x = floats(1, 1, 2, 3)
    attrs = {"dilations": [2], "pads": [0, 0], "strides": [1]}
    got = evaluated(tmp_path, "Col2Im", [x, np.array([5]), np.array([2])], (1, 2), "", **attrs)[0]
    want = np.zeros((1, 1, 5), np.float32)
    want[0, 0, :3] += x[0, 0]
    want[0, 0, 2:] += x[0, 1]
    close(got, want)


def test_what_draws_numbers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="every run") as error:
        evaluated(tmp_path, "RandomNormal", [], domain="", shape=[2, 3])
    assert "input of the network" in error.value.hint


def _number(value: float, dtype: type[Any] = np.float32) -> Array:
    return np.array(value, dtype)


def test_a_quantised_result_without_a_zero_point_has_its_operands_type(tmp_path: Path) -> None:
    """Without one QuantizeLinear makes u8: of i8, -6 would be 0."""
    x = np.array([-128, -10, -1, 0, 3, 127], np.int8)
    inputs = [x, _number(0.5), None, _number(0.25), None]
    (y,) = evaluated(tmp_path, "QLinearLeakyRelu", inputs, (1, 3), alpha=0.25)
    want = np.clip(np.rint(np.where(x < 0, x * 0.25, x) * 2.0), -128, 127)
    assert y.dtype == np.int8
    np.testing.assert_array_equal(y, want)
    (z,) = evaluated(tmp_path, "QLinearSigmoid", [x.view(np.uint8), _number(0.5), None, _number(0.25), None], (1, 3))
    assert z.dtype == np.uint8


def test_a_result_with_half_its_quantisation_is_refused(tmp_path: Path) -> None:
    """QGemm's text has a float result without the scale, and without the zero point."""
    a, zero = np.ones((2, 3), np.uint8), _number(3, np.uint8)
    inputs = [a, _number(0.5), zero, np.ones((3, 2), np.uint8), _number(0.5), zero, None, _number(0.25)]
    with pytest.raises(CompileError, match="belong together"):
        evaluated(tmp_path, "QGemm", inputs, (1, 2, 4, 5, 7))


def test_parameters_of_activations_are_told_by_name(tmp_path: Path) -> None:
    """Beta alone is not alpha, and what an activation does not have is left out."""
    a, b = floats(1, 2, 3), floats(2, 3, 4)
    total = a @ b
    (y,) = evaluated(tmp_path, "FusedGemm", [a, b], activation="HardSigmoid", activation_beta=0.25)
    close(y, np.clip(total * np.float32(0.2) + np.float32(0.25), 0, 1))
    more: dict[str, Any] = {"activation_alpha": 1.5, "activation_beta": 9.0, "activation_gamma": 2.0}
    (y,) = evaluated(tmp_path, "FusedGemm", [a, b], activation="Selu", **more)
    close(y, np.where(total > 0, 2 * total, 3 * (np.exp(total) - 1)))
    (y,) = evaluated(tmp_path, "FusedGemm", [a, b], activation="ThresholdedRelu", **more)
    close(y, np.where(total > 1.5, total, 0))
    for name, curve in (("Softplus", np.log1p(np.exp(total))), ("Softsign", total / (1 + np.abs(total)))):
        (y,) = evaluated(tmp_path, "FusedGemm", [a, b], activation=name)
        close(y, curve)


def test_what_moves_have_only_in_onnxruntime(tmp_path: Path) -> None:
    """Range without a step, and places of int32."""
    (y,) = evaluated(tmp_path, "Range", [_number(2, np.int64), _number(6, np.int64), None], (0, 1))
    np.testing.assert_array_equal(y, [2, 3, 4, 5])
    x, places = floats(1, 3, 4), np.array([[0, -1], [2, 1]], np.int32)
    (y,) = evaluated(tmp_path, "GatherND", [x, places])
    np.testing.assert_array_equal(y, x[[0, 2], [-1, 1]])


def test_zero_points_of_f16_that_are_no_whole_numbers(tmp_path: Path) -> None:
    """The weights are floats of f16 then, as what they multiply is."""
    a, packed = floats(1, 2, 16).astype(np.float16), np.random.default_rng(2).integers(0, 256, (3, 1, 8), np.uint8)
    scales, zeros = np.array([0.5, 0.25, 1], np.float16), np.array([7.5, 3.25, 8], np.float16)
    (y,) = evaluated(tmp_path, "MatMulNBits", [a, packed, scales, zeros], (1, 2, 3), K=16, N=3, bits=4, block_size=16)
    whole = np.stack([packed & 15, packed >> 4], -1).reshape(3, 16)
    want = a.astype(np.float32) @ ((whole - zeros[:, None]) * scales[:, None]).astype(np.float32).T
    assert y.dtype == np.float16
    np.testing.assert_allclose(y, want, rtol=4e-3, atol=0.05)


MASKS = [np.array([[1, -1, 2], [0, 3, -5]], np.int32), np.array([[[1, 0, -1]] * 3, [[-2, 2, 0]] * 3], np.int32)]
"""What counts is above 0: other numbers than 0 and 1 are allowed."""


@pytest.mark.parametrize("mask", [*MASKS, np.array([2, 3, 1, 0], np.int32)], ids=["keys", "queries", "ranges"])
@pytest.mark.parametrize("op", ["Attention", "MultiHeadAttention", "QAttention"])
def test_keys_count_by_numbers_above_nothing(op: str, mask: Array, tmp_path: Path) -> None:
    given: dict[str, Array] = {}
    if op == "MultiHeadAttention":
        if mask.ndim == 1:
            pytest.skip("it has lengths alone")
        given |= {k: floats(i, 2, 3, 4) for i, k in enumerate("qkv")}
        names = ["q", "k", "v", "", "mask"]
    else:
        given |= {"x": floats(1, 2, 3, 5), "w": floats(2, 5, 12), "b": floats(3, 12)}
        names = ["x", "w", "b", "mask"]
    if op == "QAttention":
        given |= {name: (given[name] * 20 + 128).astype(np.uint8) for name in "xw"}
        given |= {"s": np.array(0.02, np.float32), "z": np.array(128, np.uint8)}
        names = ["x", "w", "b", "s", "s", "mask", "z", "z"]
    given["mask"] = mask
    fed = [name for name in given if name not in ("w", "b", "s", "z")]
    node = helper.make_node(op, names, ["y"], domain=CONTRIB, num_heads=2)
    infos = [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(given[k].dtype), given[k].shape)
             for k in fed]  # fmt: skip
    fixed = [numpy_helper.from_array(a, k) for k, a in given.items() if k not in fed]
    result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2, 3, 4])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(CONTRIB, 1)]
    model = helper.make_model(helper.make_graph([node], "g", infos, [result], fixed), opset_imports=opsets,
                              ir_version=10)  # fmt: skip
    compare(model, tmp_path, [{k: given[k] for k in fed}], 1e-4, 1e-5)


@pytest.mark.parametrize("op", ["QAttention", "MatMulIntegerToFloat"])
def test_scales_and_bias_of_products_of_bytes_may_be_of_16_bits(op: str, tmp_path: Path) -> None:
    """The result has their type then."""
    halves = {"s": np.array(0.05, np.float16), "b": floats(3, 12).astype(np.float16)}
    given = {k: (a * 20 + 128).astype(np.uint8) for k, a in (("x", floats(1, 2, 3, 5)), ("w", floats(2, 5, 12)))}
    given |= {**halves, "z": np.array(128, np.uint8)}
    names = ["x", "w", "b", "s", "s", "", "z", "z"] if op == "QAttention" else ["x", "w", "s", "s", "z", "z", "b"]
    node = helper.make_node(op, names, ["y"], domain=CONTRIB, **({"num_heads": 2} if op == "QAttention" else {}))
    info = helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, [2, 3, 5])
    result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT16, None)
    fixed = [numpy_helper.from_array(a, k) for k, a in given.items() if k != "x"]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(CONTRIB, 1)]
    model = helper.make_model(helper.make_graph([node], "g", [info], [result], fixed), opset_imports=opsets,
                              ir_version=10)  # fmt: skip
    onnx.save(model, tmp_path / "m.onnx")
    found = check(tmp_path / "m.onnx", Options(target="generic"), inputs={"x": given["x"]})
    assert found.ok, "\n".join(found.lines())
    assert found.runs[0].comparisons[0].type.startswith("float16")


@pytest.mark.parametrize("quantised", [False, True])
def test_words_that_the_mask_lets_through_are_its_ones(quantised: bool, tmp_path: Path) -> None:
    ids, mask = np.zeros((2, 3), np.int32), np.array([[1, 0, 1], [2, 1, -1]], np.int32)
    rows: list[Array | None] = [floats(1, 2, 4), floats(2, 3, 4), None, np.ones(4, np.float32), floats(3, 4)]
    op, more = "EmbedLayerNormalization", list[Array | None]()
    if quantised:
        op, more = "QEmbedLayerNormalization", [np.array(0.1, np.float32)] * 5 + [np.array(3, np.uint8)] * 5
        rows = [None if a is None else (a * 20 + 60).astype(np.uint8) for a in rows]
        more[2] = more[7] = None
    constants = tuple(i for i, a in enumerate([ids, None, *rows, None, *more]) if a is not None and i > 1)
    counts = evaluated(tmp_path, op, [ids, None, *rows, mask, *more], constants, outputs=2)[1]
    assert counts.tolist() == [2, 1]


@pytest.mark.parametrize("op", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
def test_what_is_skipped_has_the_shape_of_the_input(op: str, tmp_path: Path) -> None:
    """It may be one for all of a batch, but not the other way round."""
    x, gamma = floats(1, 2, 3, 4), floats(2, 4)
    (y,) = evaluated(tmp_path, op, [x, x[:1], gamma], (2,))
    assert y.shape == x.shape
    with pytest.raises(CompileError, match="does not broadcast to the"):
        evaluated(tmp_path, op, [x[:1], x, gamma], (2,))


def test_words_without_segments_are_of_the_first(tmp_path: Path) -> None:
    words = np.array([[1, 0, 2]], np.int32)
    tables = [floats(1, 4, 8), floats(2, 3, 8), floats(3, 2, 8), floats(4, 8), floats(5, 8)]
    fixed = (2, 3, 4, 5, 6)
    (left,) = evaluated(tmp_path, "EmbedLayerNormalization", [words, None, *tables], fixed)
    (right,) = evaluated(tmp_path, "EmbedLayerNormalization", [words, np.zeros_like(words), *tables], fixed)
    close(left, right)
    with pytest.raises(CompileError, match="no table of segments"):
        evaluated(tmp_path, "EmbedLayerNormalization", [words, words, *tables[:2], None, *tables[3:]], (2, 3, 5, 6))


@pytest.mark.parametrize("constant", [(), (1,)], ids=["of the run", "constant"])
@pytest.mark.parametrize(
    ("op", "shape", "attrs"), [("GatherND", (1, 5, 1), {"batch_dims": 1}), ("GatherElements", (6, 1), {"axis": 1})]
)
def test_indices_that_do_not_fit_are_refused(
    op: str, shape: tuple[int, ...], attrs: dict[str, int], constant: tuple[int, ...], tmp_path: Path
) -> None:
    with pytest.raises(CompileError, match=r"do not (share|fit)"):
        evaluated(tmp_path, op, [floats(1, 5, 1), np.zeros(shape, np.int64)], constant, "", **attrs)
