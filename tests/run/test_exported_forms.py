"""What exporters and onnxruntime's tools write, in small: against onnxruntime, in ranges of extents."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

import mccompile
from mccompile import driver
from mccompile.ir.errors import CompileError
from mccompile.ops.text import decoded, encoded
from tests.support.runs import compare
from tests.support.small_models import Array, Maker
from tests.support.strict_extents import strict_extents

I64 = TensorProto.INT64


def _model(m: Maker, outputs: Mapping[str, int], opset: int = 18) -> onnx.ModelProto:
    infos = [helper.make_tensor_value_info(name, dtype, None) for name, dtype in outputs.items()]
    graph = helper.make_graph(m.nodes, "form", m.inputs, infos, m.weights)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


_compare = functools.partial(compare, rtol=2e-5, atol=2e-6, target="generic")


def _floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(0, 1, shape).astype(np.float32)


def test_tf_reverse_of_a_batch_of_the_run(tmp_path: Path) -> None:
    """tf2onnx makes of tf.reverse a ReverseSequence whose lengths are the axis, repeated for the batch."""
    m = Maker()
    x = m.input("x", ("time", "batch", 3))  # type: ignore[arg-type]
    shape = m.node("Shape", [x])
    time = m.node("Slice", [shape, m.const(np.array([0])), m.const(np.array([1]))])
    batch = m.node("Slice", [shape, m.const(np.array([1])), m.const(np.array([2]))])
    m.node("ReverseSequence", [x, m.node("Expand", [time, batch])], "y", time_axis=0, batch_axis=1)
    feeds = [{"x": _floats(t, b, 3)} for t, b in ((5, 3), (1, 1), (4, 2))]
    _compare(_model(m, {"y": TensorProto.FLOAT}), tmp_path, feeds, dims={"time": "1..5", "batch": "1..3"})


def _torch_pads(m: Maker, x: str, pads: list[str]) -> str:
    """Pad as PyTorch exports F.pad: begins and ends of the last axis first, turned round as a matrix."""
    turned = [m.const(np.array(a)) for a in ([-1, 2], [-1], [-(2**63) + 1], [0])]
    rows = m.node("Reshape", [m.node("Concat", pads, axis=0), turned[0]])
    back = m.node("Slice", [rows, turned[1], turned[2], turned[3], turned[1]])
    return m.node("Pad", [x, m.node("Reshape", [m.node("Transpose", [back], perm=[1, 0]), turned[1]])])


def test_relative_positions_of_a_length_of_the_run(tmp_path: Path) -> None:
    """VITS, as Piper exports it: embeddings of 5 places before and behind, padded to the length, or cut to it."""
    m = Maker()
    x = m.input("x", ("length", 16))  # type: ignore[arg-type]
    length = m.node("Gather", [m.node("Shape", [x]), m.const(np.array([0]))])
    missing, none = m.node("Sub", [length, m.const(np.array([5]))]), m.const(np.array([0]))
    padded = _torch_pads(m, m.weight((9, 16)), [none, none, missing, missing])
    m.node("MatMul", [x, m.node("Transpose", [padded], perm=[1, 0])], "y")
    feeds = [{"x": _floats(n, 16)} for n in (2, 5, 12)]
    _compare(_model(m, {"y": TensorProto.FLOAT}), tmp_path, feeds, dims={"length": "2..12"})


def test_spectra_of_a_signal_of_the_run(tmp_path: Path) -> None:
    """torch.stft of any length, which no multiple of the hop has to be: its last frame ends within the signal."""
    m = Maker()
    x = m.input("x", (1, "samples"))  # type: ignore[arg-type]
    padded = m.node("Pad", [x, m.const(np.array([0, 20, 0, 20]))], mode="reflect")
    window = m.const(np.hanning(40).astype(np.float32))
    signal = m.node("Unsqueeze", [padded, m.const(np.array([-1]))])
    m.node("STFT", [signal, m.const(np.array(16)), window, m.const(np.array(40))], "y", onesided=1)
    feeds, dims = [{"x": _floats(1, n)} for n in (2900, 801, 800)], {"samples": "800..3000"}
    compare(_model(m, {"y": TensorProto.FLOAT}), tmp_path, feeds, rtol=1e-4, atol=1e-4, target="generic", dims=dims)


def test_normalisation_in_a_file_of_an_older_opset(tmp_path: Path) -> None:
    """onnxruntime's optimiser writes LayerNormalization, of opset 17, into a file of opset 15."""
    m = Maker()
    x = m.input("x", ("n", 8))  # type: ignore[arg-type]
    m.node("LayerNormalization", [x, m.weight((8,)), m.weight((8,))], "y", axis=-1, epsilon=1e-5)
    model = _model(m, {"y": TensorProto.FLOAT}, opset=15)
    _compare(model, tmp_path, [{"x": _floats(n, 8)} for n in (5, 1)], dims={"n": "1..5"})


def test_quantised_rows_of_images_of_a_batch_of_the_run(tmp_path: Path) -> None:
    """Segformer of onnxruntime's quantiser: pixels of an image that is turned are no line of rows with those of the
    next image."""
    m = Maker()
    scales = m.const(np.float32(0.02)), m.const(np.float32(0.05)), m.const(np.float32(0.01))
    zero = m.const(np.int8(0))

    def quantised(x: str, scale: str) -> str:
        return m.node("DequantizeLinear", [m.node("QuantizeLinear", [x, scale, zero]), scale, zero])

    x = quantised(m.input("x", ("b", 64, 256)), scales[0])  # type: ignore[arg-type]
    rows = quantised(m.node("Transpose", [x], perm=[0, 2, 1]), scales[0])
    weights = np.random.default_rng(3).integers(-100, 100, (64, 16)).astype(np.int8)
    product = m.node("MatMul", [rows, m.node("DequantizeLinear", [m.const(weights), scales[2], zero])])
    m.node("Identity", [quantised(m.node("Add", [product, m.weight((16,))]), scales[1])], "y")
    feeds = [{"x": _floats(b, 64, 256, seed=b) * 0.5} for b in (3, 1)]
    for target in ("generic", "x86-64-v3"):
        (tmp_path / target).mkdir()
        model = _model(m, {"y": TensorProto.FLOAT})
        compare(model, tmp_path / target, feeds, rtol=0, atol=0.051, target=target, dims={"b": "1..3"})


def test_images_padded_to_whole_windows_of_the_run(tmp_path: Path) -> None:
    """Swin: (4 - w % 4) % 4 columns are added."""
    m = Maker()
    x = m.input("x", (1, 2, "w"))  # type: ignore[arg-type]
    four, none = m.const(np.array([4])), m.const(np.array([0]))
    width = m.node("Gather", [m.node("Shape", [x]), m.const(np.array([2]))])
    missing = m.node("Mod", [m.node("Sub", [four, m.node("Mod", [width, four])]), four])
    padded = _torch_pads(m, x, [none, missing, none, none, none, none])
    m.node("Reshape", [padded, m.const(np.array([1, 2, -1, 4]))], "y")
    feeds = [{"x": _floats(1, 2, w)} for w in (4, 5, 7, 11)]
    _compare(_model(m, {"y": TensorProto.FLOAT}), tmp_path, feeds, dims={"w": "3..11"})


def test_pads_of_tensorflow_for_images_of_the_run(tmp_path: Path) -> None:
    """timm's layers with SAME padding: max((ceil(w / 2) - 1) * 2 + 3 - w, 0) in floats, of no axes."""
    m = Maker()
    x = m.input("x", (1, 2, "w"))  # type: ignore[arg-type]
    two, none = m.const(np.array(2, np.float32)), m.const(np.array([0]))
    width = m.node("Gather", [m.node("Shape", [x]), m.const(np.array(2))])
    exact = m.node("Cast", [width], to=TensorProto.FLOAT)
    steps = m.node("Sub", [m.node("Ceil", [m.node("Div", [exact, two])]), m.const(np.array(1, np.float32))])
    reach = m.node("Add", [m.node("Mul", [steps, two]), m.const(np.array(3, np.float32))])
    missing = m.node("Clip", [m.node("Sub", [reach, exact]), m.const(np.array(0, np.float32)), ""])
    whole = m.node("Unsqueeze", [m.node("Cast", [missing], to=I64), none])
    padded = _torch_pads(m, x, [none, whole, none, none, none, none])
    m.node("Conv", [padded, m.weight((4, 2, 3))], "y", strides=[2])
    feeds = [{"x": _floats(1, 2, w)} for w in (8, 16, 12)]
    _compare(_model(m, {"y": TensorProto.FLOAT}), tmp_path, feeds, dims={"w": "8..16:4"})


def test_lengths_of_a_batch_of_the_run(tmp_path: Path) -> None:
    m = Maker()
    m.input("x", (4, "batch", 2))  # type: ignore[arg-type]
    m.input("lengths", ("batch",), I64)  # type: ignore[arg-type]
    m.node("ReverseSequence", ["x", "lengths"], "y", time_axis=0, batch_axis=1)
    feeds = [{"x": _floats(4, b, 2), "lengths": np.arange(1, b + 1)} for b in (3, 1, 2)]
    _compare(_model(m, {"y": TensorProto.FLOAT}), tmp_path, feeds, dims={"batch": "1..3"})


def test_a_loop_that_carries_a_batch_of_the_run(tmp_path: Path) -> None:
    """As tf2onnx writes Keras' recurrent layers with a mask: rows that are no words leave the state as it is."""
    m, b = Maker(), Maker()
    m.input("x", ("time", "batch", 4))  # type: ignore[arg-type]
    m.input("mask", ("time", "batch", 1))  # type: ignore[arg-type]
    shape = m.node("Shape", ["x"])
    trips = m.node("Gather", [shape, m.const(np.array(0))])
    batch = m.node("Slice", [shape, m.const(np.array([1])), m.const(np.array([2]))])
    zeros = m.node("Expand", [m.const(np.zeros((1, 1), np.float32)),
                              m.node("Concat", [batch, m.const(np.array([4]))], axis=0)])  # fmt: skip
    row, here = b.node("Gather", ["x", "t"], "x_t", axis=0), b.node("Gather", ["mask", "t"], "mask_t", axis=0)
    sums = b.node("Add", [row, b.node("MatMul", ["h", m.weight((4, 4))], "product")], "sums")
    new = b.node("Mul", [here, b.node("Tanh", [sums], "tanh")], "new")
    other = b.node("Sub", [m.const(np.ones((1, 1), np.float32)), here], "not_here")
    b.node("Add", [new, b.node("Mul", [other, "h"], "old")], "h2")
    b.node("Identity", ["h2"], "row")
    b.node("Identity", ["c"], "c2")
    given = [helper.make_tensor_value_info("t", I64, ()), helper.make_tensor_value_info("c", TensorProto.BOOL, ())]
    given.append(helper.make_tensor_value_info("h", TensorProto.FLOAT, None))
    made = [helper.make_empty_tensor_value_info(name) for name in ("c2", "h2", "row")]
    body = helper.make_graph(b.nodes, "body", given, made)
    m.nodes.append(helper.make_node("Loop", [trips, "", zeros], ["last", "rows"], body=body, name="loop"))
    feeds = [
        {"x": _floats(t, n, 4, seed=t), "mask": (_floats(t, n, 1) > 0).astype(np.float32)}
        for t, n in ((9, 3), (1, 1), (4, 2))
    ]
    outputs = {"last": TensorProto.FLOAT, "rows": TensorProto.FLOAT}
    _compare(_model(m, outputs), tmp_path, feeds, dims={"time": "1..9", "batch": "1..3"})


def test_what_is_expanded_to_the_sum_of_its_mask(tmp_path: Path) -> None:
    """torch.onnx writes x[mask] = v with the number of True in the mask for the shape of v."""
    m = Maker()
    x = m.input("x", [6])
    mask = m.node("Greater", [x, m.const(np.float32(0))])
    count = m.node("ReduceSum", [m.node("Cast", [mask], to=I64), m.const(np.array([0]))], keepdims=1)
    places = m.node("Transpose", [m.node("NonZero", [mask])], perm=[1, 0])
    kept = m.node("Expand", [m.node("Exp", [m.node("GatherND", [x, places])]), count])
    m.node("ScatterND", [x, places, kept], "y")
    feeds = [{"x": _floats(6, seed=s)} for s in range(3)]
    _compare(_model(m, {"y": TensorProto.FLOAT}), tmp_path, feeds)


@pytest.mark.parametrize("rows", [5, "n"])
def test_a_number_is_expanded_to_the_sum_of_a_mask(rows: int | str, tmp_path: Path) -> None:
    """With dynamo, torch.onnx writes x[mask] = -1 so: the sum is as many as NonZero finds."""
    m = Maker()
    x = m.input("x", [rows, 4])  # type: ignore[list-item]
    mask = m.node("Greater", [x, m.const(np.float32(0))])
    places = m.node("Transpose", [m.node("NonZero", [mask])], perm=[1, 0])
    flat, minus = m.node("Reshape", [mask, m.const(np.array([-1]))]), m.const(np.float32(-1))
    count = m.node("ReduceSum", [m.node("Cast", [flat], to=I64)], keepdims=1)
    values = m.node("Reshape", [m.node("Expand", [minus, count]), m.const(np.array([-1]))])
    m.node("ScatterND", [x, places, values], "y")
    feeds = [{"x": _floats(5, 4, seed=s) + s} for s in range(3)]
    feeds += [] if rows == 5 else [{"x": _floats(2, 4)}, {"x": _floats(1, 4) - 9}]
    _compare(_model(m, {"y": TensorProto.FLOAT}), tmp_path, feeds, dims={} if rows == 5 else {"n": "1..5"})


def test_bounds_that_follow_from_how_an_extent_is_computed(tmp_path: Path) -> None:
    """A length that is clipped, one by its remainder, a sum of a mask: nobody need say how large they may be."""
    m = Maker()
    x, n = m.input("x", [6]), m.input("n", [1], I64)
    clipped = m.node("Clip", [n, m.const(np.array(2)), m.const(np.array(9))])
    m.node("Range", [m.const(np.array(1)), m.node("Squeeze", [clipped]), m.const(np.array(2))], "odd")
    rest = m.node("Mod", [m.node("Abs", [n]), m.const(np.array([5]))])
    shape = m.node("Concat", [rest, m.const(np.array([3]))], axis=0)
    m.node("Expand", [m.const(np.zeros((1, 3), np.float32)), shape], "o")
    above = m.node("Cast", [m.node("Greater", [x, m.const(np.float32(0))])], to=TensorProto.INT32)
    count = m.node("Cast", [m.node("ReduceSum", [above], keepdims=1)], to=I64)
    m.node("ConstantOfShape", [count], "z")
    feeds = [{"x": _floats(6, seed=s), "n": np.array([n])} for s, n in enumerate((-7, 0, 3, 9, 2**40))]
    _compare(_model(m, {"odd": I64, "o": TensorProto.FLOAT, "z": TensorProto.FLOAT}), tmp_path, feeds)


def test_rows_of_any_length_are_assigned(tmp_path: Path) -> None:
    """``x[1] = y``, and all rows of it: they are inserted at places that are known."""
    m = Maker()
    x = m.input("x", (3, "n"))  # type: ignore[arg-type]
    y = m.input("row", (1, "n"))  # type: ignore[arg-type]
    one = m.node("ScatterND", [x, m.const(np.array([[1]])), y])
    m.node("ScatterND", [one, m.const(np.array([[0], [1], [2]])), m.node("Exp", [x])], "y")
    m.node("Neg", [one], "z")
    feeds = [{"x": _floats(3, n, seed=n), "row": _floats(1, n, seed=n + 9)} for n in (5, 1, 3)]
    with strict_extents():
        _compare(_model(m, {"y": TensorProto.FLOAT, "z": TensorProto.FLOAT}), tmp_path, feeds, dims={"n": "1..5"})


@pytest.mark.parametrize("bits", [TensorProto.UINT4, TensorProto.INT4])
def test_embeddings_of_four_bits(bits: int, tmp_path: Path) -> None:
    """MatMulNBitsQuantizer writes them so."""
    m = Maker()
    m.input("ids", (2, "n"), I64)  # type: ignore[arg-type]
    random = np.random.default_rng(0)
    low, high = (0, 16) if bits == TensorProto.UINT4 else (-8, 8)
    m.weights += [
        helper.make_tensor("table", bits, [9, 32], random.integers(low, high, 9 * 32)),
        helper.make_tensor("zeros", bits, [9, 2], random.integers(low, high, 18)),
    ]
    scales = m.weight((9, 2))
    m.node("GatherBlockQuantized", ["table", "ids", scales, "zeros"], "y", domain="com.microsoft", block_size=16,
           gather_axis=0, quantize_axis=1)  # fmt: skip
    feeds = [{"ids": random.integers(0, 9, (2, n))} for n in (4, 1)]
    _compare(_model(m, {"y": TensorProto.FLOAT}, 21), tmp_path, feeds, dims={"n": "1..4"})


def _text_session(model: onnx.ModelProto) -> ort.InferenceSession:
    return ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(
    "how", [{"tokenexp": "[a-zA-Z0-9_]+"}, {"tokenexp": r"\w+"}, {"tokenexp": "."}, {"separators": [""]}],
    ids=["class", "word", "any", "characters"],
)  # fmt: skip
def test_words_of_a_vectorizer(how: Mapping[str, object], tmp_path: Path) -> None:
    """sklearn-onnx writes TfidfVectorizer so: reshaped, cut into words, flattened."""
    m = Maker()
    m.input("x", ("n", 1), TensorProto.STRING)  # type: ignore[arg-type]
    rows = m.node("Reshape", ["x", m.const(np.array([-1]))])
    cut = m.node("Tokenizer", [rows], domain="com.microsoft", mark=0, mincharnum=1, pad_value="#", **how)
    m.node("Flatten", [cut], "y")
    model = _model(m, {"y": TensorProto.STRING})
    onnx.save(model, tmp_path / "net.onnx")
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", target="generic", dims={"n": "1..4"}, string_bytes=24)
    network = mccompile.load(tmp_path / "out")
    for texts in (["The cat_2 sat, down!", "", "a d\u00f6g\n x", "..."], ["one"]):
        given = np.array(texts, dtype=object).reshape(-1, 1)
        got = decoded(network.run({"x": encoded(given, 24)})["y"])
        (want,) = _text_session(model).run(None, {"x": given})
        assert got.tolist() == want.tolist()


def test_columns_of_text(tmp_path: Path) -> None:
    """As a ColumnTransformer takes them: moved, chosen, joined; a table of what they are."""
    m = Maker()
    m.input("x", (2, 3), TensorProto.STRING)
    m.input("z", (2, 1), TensorProto.STRING)
    column = m.node("Gather", ["x", m.const(np.array([-1]))], axis=1)
    others = m.node("ArrayFeatureExtractor", ["x", m.const(np.array([0, 1]))], domain="ai.onnx.ml")
    joined = m.node("Concat", [column, "z", others], axis=-1)
    moved = m.node("Transpose", [m.node("Unsqueeze", [joined, m.const(np.array([0]))])], perm=[0, 2, 1])
    m.node("Squeeze", [moved, m.const(np.array([0]))], "y")
    model = _model(m, {"y": TensorProto.STRING})
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    onnx.save(model, tmp_path / "net.onnx")
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", target="generic", string_bytes=8)
    x, z = np.array([["a", "bc", ""], ["d", "efg", "h"]], dtype=object), np.array([["i"], ["jk"]], dtype=object)
    got = mccompile.load(tmp_path / "out").run({"x": encoded(x, 8), "z": encoded(z, 8)})["y"]
    (want,) = _text_session(model).run(None, {"x": x, "z": z})
    assert decoded(got).tolist() == want.tolist()


def test_what_onnxruntime_made_for_its_own_processor_is_refused(tmp_path: Path) -> None:
    m = Maker()
    m.input("x", [1, 8, 4, 4])
    m.node("Conv", ["x", m.weight((8, 8, 3, 3))], "y", domain="com.microsoft.nchwc")
    model = _model(m, {"y": TensorProto.FLOAT})
    model.opset_import.append(helper.make_opsetid("com.microsoft.nchwc", 1))
    onnx.save(model, tmp_path / "net.onnx")
    with pytest.raises(CompileError, match="for one processor") as refused:
        driver.import_graph(tmp_path / "net.onnx", driver.Options(target="generic"))
    assert "ORT_ENABLE_EXTENDED" in refused.value.hint


@pytest.mark.parametrize("form", ["arange", "equal to itself", "pairs", "nothing"])
def test_places_of_what_is_one_number_are_not_counted(form: str, tmp_path: Path) -> None:
    """Before Range, torch.arange(t) was NonZero of t ones: as many positions as there are rows to add them to."""
    m = Maker()
    x = m.input("x", ("t", 3))  # type: ignore[arg-type]
    shape = m.node("Shape", [x])
    if form not in ("pairs", "nothing"):
        shape = m.node("Slice", [shape, m.const(np.array([0])), m.const(np.array([1]))])
    value = helper.make_tensor("value", I64, [1], [int(form != "nothing")])
    same = m.node("ConstantOfShape", [shape], value=value)
    if form == "equal to itself":
        same = m.node("Not", [m.node("Equal", [same, m.const(np.array([2]))])])
    elif form == "pairs":
        same = m.node("Transpose", [m.node("Cast", [same], to=TensorProto.BOOL)], perm=[1, 0])
    found = m.node("NonZero", [same], "found")
    outputs = {"found": I64}
    if form in ("arange", "equal to itself"):
        positions = m.node("Squeeze", [m.node("Transpose", [found], perm=[1, 0]), m.const(np.array([1]))])
        m.node("Add", [x, m.node("Gather", [m.weight((9, 3)), positions])], "y")
        outputs["y"] = TensorProto.FLOAT
    feeds = [{"x": _floats(t, 3)} for t in (1, 4, 8)]
    _compare(_model(m, outputs), tmp_path, feeds, dims={"t": "1..8"})


@pytest.mark.parametrize("stride", [2, 3])
def test_lengths_behind_convolutions_in_floats(stride: int, tmp_path: Path) -> None:
    """NeMo and ESPnet compute floor((t + pads - kernel) / stride + 1) in floats, layer after layer."""
    m = Maker()
    x = m.input("x", (1, 4, "t"))  # type: ignore[arg-type]
    length = m.node("Gather", [m.node("Shape", [x]), m.const(np.array([2]))])
    floats = m.node("Cast", [length], to=TensorProto.FLOAT)
    for _ in range(2):
        x = m.node("Conv", [x, m.weight((4, 4, 3))], strides=[stride], pads=[1, 1])
        less = m.node("Div", [m.node("Sub", [floats, m.const(np.float32([1]))]), m.const(np.float32([stride]))])
        floats = m.node("Floor", [m.node("Add", [less, m.const(np.float32([1]))])])
    number = m.node("Squeeze", [m.node("Cast", [floats], to=I64)])
    steps = m.node("Range", [m.const(np.array(0)), number, m.const(np.array(1))])
    m.node("Add", [x, m.node("Cast", [steps], to=TensorProto.FLOAT)], "y")
    feeds = [{"x": _floats(1, 4, t)} for t in (1, 6, 7, 8, 40)]
    _compare(_model(m, {"y": TensorProto.FLOAT}), tmp_path, feeds, dims={"t": "1..40"})


def test_sizes_of_each_axis_by_its_own_scale(tmp_path: Path) -> None:
    """PyTorch before opset 11: shape[2:] as floats, by one scale for each axis, rounded down."""
    m = Maker()
    x = m.input("x", (1, 2, "h", "w"))  # type: ignore[arg-type]
    shape = m.node("Shape", [x])
    floats = m.node("Cast", [m.node("Slice", [shape, m.const(np.array([2])), m.const(np.array([4]))])], to=1)
    wanted = m.node("Floor", [m.node("Mul", [floats, m.const(np.float32([0.5, 1.25]))])])
    others = m.node("Slice", [shape, m.const(np.array([0])), m.const(np.array([2]))])
    sizes = m.node("Concat", [others, m.node("Cast", [wanted], to=I64)], axis=0)
    m.node("Resize", [x, "", "", sizes], "y", mode="nearest",
           coordinate_transformation_mode="asymmetric", nearest_mode="floor")  # fmt: skip
    feeds = [{"x": _floats(1, 2, h, w)} for h, w in ((2, 4), (5, 8), (8, 5))]
    _compare(_model(m, {"y": TensorProto.FLOAT}), tmp_path, feeds, dims={"h": "2..8", "w": "4..8"})


def test_a_class_token_of_a_batch_of_the_run(tmp_path: Path) -> None:
    """A weight beside extents is no ratio of them, whatever the operator."""
    m = Maker()
    x = m.input("x", ("n", 4, 8))  # type: ignore[arg-type]
    batch = m.node("Slice", [m.node("Shape", [x]), m.const(np.array([0])), m.const(np.array([1]))])
    sizes = m.node("Concat", [batch, m.const(np.array([1, 8]))], axis=0)
    m.node("Concat", [m.node("Expand", [m.weight((1, 1, 8)), sizes]), x], "y", axis=1)
    m.node("Tile", [m.weight((2, 3)), m.node("Concat", [batch, m.const(np.array([1]))], axis=0)], "z")
    outputs = {"y": TensorProto.FLOAT, "z": TensorProto.FLOAT}
    _compare(_model(m, outputs), tmp_path, [{"x": _floats(n, 4, 8)} for n in (1, 3)], dims={"n": "1..3"})


@pytest.mark.parametrize("sign", ["Less", "Sign"])
def test_quotients_of_extents_that_torch_rounds_down(sign: str, tmp_path: Path) -> None:
    """Where the signs differ and something is left, it is one less: of an extent by 2, never."""
    m = Maker()
    x = m.input("x", (1, "t"))  # type: ignore[arg-type]
    two, zero, one = (m.const(np.array(i)) for i in (2, 0, 1))
    t = m.node("Gather", [m.node("Shape", [x]), one])
    if sign == "Less":
        differ = m.node("Xor", [m.node("Less", [t, zero]), m.node("Less", [two, zero])])
    else:
        differ = m.node("Not", [m.node("Equal", [m.node("Sign", [t]), m.node("Sign", [two])])])
    left = m.node("Not", [m.node("Equal", [m.node("Mod", [t, two]), zero])])
    whole = m.node("Div", [t, two])
    half = m.node("Where", [m.node("And", [differ, left]), m.node("Sub", [whole, one]), whole])
    m.node("Range", [zero, half, one], "y")
    _compare(_model(m, {"y": I64}), tmp_path, [{"x": _floats(1, t)} for t in (2, 3, 7)], dims={"t": "2..7"})
