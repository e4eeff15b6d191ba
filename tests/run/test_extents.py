"""Networks with extents that are known at run time only: at both ends and between, on an arena full of 0xFF."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

import mccompile
from mccompile import driver
from mccompile.ir.errors import CompileError, UsageError
from mccompile.report.summary import summary
from mccompile.run.network import Network
from mccompile.targets.target import strict_warnings, targets
from tests.support.judge import plain_session
from tests.support.read_again import is_read_again
from tests.support.small_models import Array, Maker
from tests.support.strict_extents import strict_extents
from tests.support.targets import needs_target

INT = TensorProto.INT64


def _classifier() -> onnx.ModelProto:
    m = Maker()
    x = m.input("x", ["n", 12])
    hidden = m.node("Relu", [m.node("Add", [m.node("MatMul", [x, m.weight((12, 20))]), m.weight((20,))])])
    m.node("Softmax", [m.node("MatMul", [hidden, m.weight((20, 5))])], "y", axis=-1)
    return m.model(["y"])


def _attention(heads: int = 2, width: int = 4) -> onnx.ModelProto:
    """As exporters write it: the shapes of reshapes are made of what Shape says."""
    m = Maker(opset=18)
    size = heads * width
    x = m.input("x", ["n", "s", size])
    shape = m.node("Shape", [x])
    lead = [
        m.node("Unsqueeze", [m.node("Gather", [shape, m.const(np.array(i))]), m.const(np.array([0]))]) for i in (0, 1)
    ]
    split = m.node("Concat", [*lead, m.const(np.array([heads, width]))], axis=0)
    joined = m.node("Concat", [*lead, m.const(np.array([-1]))], axis=0)
    parts = []
    for _ in range(3):
        projected = m.node("Add", [m.node("MatMul", [x, m.weight((size, size))]), m.weight((size,))])
        parts.append(m.node("Transpose", [m.node("Reshape", [projected, split])], perm=[0, 2, 1, 3]))
    scores = m.node("MatMul", [parts[0], m.node("Transpose", [parts[1]], perm=[0, 1, 3, 2])])
    taken = m.node("MatMul", [m.node("Softmax", [scores], axis=-1), parts[2]])
    out = m.node("Reshape", [m.node("Transpose", [taken], perm=[0, 2, 1, 3]), joined])
    out = m.node("Add", [out, x])
    m.node("LayerNormalization", [out, m.weight((size,)), m.weight((size,))], "y", axis=-1)
    m.node("ReduceMean", ["y", m.const(np.array([1]))], "mean", keepdims=0)
    m.node("Slice", ["y", m.const(np.array([-1])), m.const(np.array([2**63 - 1])), m.const(np.array([1]))], "last")
    return m.model(["y", "mean", "last"])


def _windows() -> onnx.ModelProto:
    m = Maker()
    x = m.input("x", [1, 3, "s"])
    y = m.node("Conv", [x, m.weight((4, 3, 3)), m.weight((4,))], pads=[1, 1], strides=[2])
    y = m.node("MaxPool", [m.node("Relu", [y])], kernel_shape=[2], strides=[2], pads=[1, 0])
    m.node("GlobalAveragePool", [y], "mean")
    m.node("Transpose", [y], "y", perm=[0, 2, 1])
    return m.model(["y", "mean"])


def _pooled() -> onnx.ModelProto:
    """Images of one channel that come without it: of n images the first axis may be 1, as the channels are."""
    m = Maker()
    x = m.node("Reshape", [m.input("x", ["n", 24, 9]), m.const(np.array([-1, 1, 24, 9]))])
    y = m.node("Relu", [m.node("Conv", [x, m.weight((8, 1, 3, 3)), m.weight((8,))], pads=[1, 1, 1, 1])])
    y = m.node("MaxPool", [y], kernel_shape=[2, 3], strides=[2, 3])
    m.node("Reshape", [y, m.const(np.array([0, 8, -1]))], "y")
    return m.model(["y"])


def _chunks() -> onnx.ModelProto:
    """Parts of one extent, of which the last is shorter where they do not make up the whole."""
    m = Maker(opset=18)
    x = m.input("x", ["n", 3])
    made = m.model([])
    made.graph.node.append(onnx.helper.make_node("Split", [x], ["a", "b", "rest"], axis=0, num_outputs=3))
    made.graph.output.extend(onnx.helper.make_tensor_value_info(o, 1, None) for o in ("a", "b", "rest"))
    return made


def _skipping() -> onnx.ModelProto:
    """An encoder and a decoder: what was halved twice meets what was not."""
    m = Maker(opset=18)
    x = m.input("x", ["n", 2, "h", "w"])
    whole = m.node("Relu", [m.node("Conv", [x, m.weight((3, 2, 3, 3))], pads=[1, 1, 1, 1])])
    half = m.node("MaxPool", [whole], kernel_shape=[2, 2], strides=[2, 2])
    less = m.node("Conv", [half, m.weight((4, 3, 3, 3)), m.weight((4,))], strides=[2, 2], pads=[1, 1, 1, 1])
    up = m.node("ConvTranspose", [less, m.weight((4, 3, 2, 2))], strides=[2, 2])
    joined = m.node("Concat", [up, half], axis=1)
    scales = m.const(np.float32([1, 1, 2, 2]))
    linear = m.node("Resize", [joined, "", scales], mode="linear", coordinate_transformation_mode="half_pixel")
    near = m.node("Resize", [joined, "", scales], mode="nearest", coordinate_transformation_mode="asymmetric")
    m.node("Concat", [m.node("Add", [linear, near]), whole], "y", axis=1)
    return m.model(["y"])


def _positions() -> onnx.ModelProto:
    """Counters, masks and parts of tables as long as the sequence."""
    m = Maker()
    ids = m.input("ids", ["n", "s"], INT)
    length = m.node("Gather", [m.node("Shape", [ids]), m.const(np.array(1))])
    zero, one = m.const(np.array(0)), m.const(np.array(1))
    places = m.node("Range", [zero, length, one])
    stop = m.node("Unsqueeze", [length, m.const(np.array([0]))])
    table = m.node("Slice", [m.weight((40, 6)), m.const(np.array([0])), stop])
    later = m.node("Greater", [m.node("Unsqueeze", [places, one]), m.node("Unsqueeze", [places, zero])])
    words = m.node("Add", [m.node("Gather", [m.weight((5, 6)), ids]), table])
    scores = m.node("MatMul", [words, m.node("Transpose", [words], perm=[0, 2, 1])])
    m.node("Where", [later, m.const(np.float32(-9)), scores], "y")
    m.node("Expand", [m.node("Cast", [places], to=1), m.node("Shape", [ids])], "rows")
    return m.model(["y", "rows"])


def _nonzero() -> onnx.ModelProto:
    m = Maker()
    x = m.input("x", [3, 7])
    found = m.node("NonZero", [m.node("Relu", [x])])
    pairs = m.node("Transpose", [found], "pairs", perm=[1, 0])
    m.node("Mul", [m.node("Cast", [pairs], to=1), m.const(np.float32(0.5))], "halves")
    m.node("Shape", [found], "shape")
    return m.model(["pairs", "halves", "shape"])


def _boxes() -> onnx.ModelProto:
    m = Maker()
    boxes, scores = m.input("boxes", [1, "k", 4]), m.input("scores", [1, 2, "k"])
    limits = [m.const(np.array([4])), m.const(np.float32([0.3])), m.const(np.float32([0.1]))]
    kept = m.node("NonMaxSuppression", [boxes, scores, *limits], "kept")
    box = m.node("Squeeze", [m.node("Gather", [kept, m.const(np.array([2]))], axis=1), m.const(np.array([1]))])
    m.node("Gather", [m.node("Squeeze", [boxes, m.const(np.array([0]))]), box], "best", axis=0)
    return m.model(["kept", "best"])


def _halves() -> onnx.ModelProto:
    """Floats that go through f16 on purpose, and steps: of whole numbers, as onnxruntime leaves such casts out."""
    m = Maker()
    x = m.node("Round", [m.input("x", ["n", 4])])
    half = m.node("Mul", [m.node("Cast", [x], to=10), m.const(np.float16(3))])
    m.node("Cast", [half], "y", to=1)
    m.node("Cast", [m.node("Floor", [half])], "steps", to=1)
    return m.model(["y", "steps"])



def _rows() -> onnx.ModelProto:
    """What goes by vectors: products whose rows, columns and sums vary, lines of ever other lengths, and copies."""
    m = Maker(opset=18)
    x, z = (m.input(name, ["n", "s", 40]) for name in "xz")
    hidden = m.node("Add", [m.node("MatMul", [x, m.weight((40, 37))]), m.weight((37,))])
    m.node("Tanh", [hidden], "hidden")
    turned = m.node("Transpose", [z], "turned", perm=[0, 2, 1])
    scores = m.node("MatMul", [m.node("Relu", [x]), turned], "scores")
    m.node("MatMul", [m.node("Abs", [scores], "weights"), z], "sums")
    m.node("Softmax", [scores], "along", axis=-1)
    m.node("Softmax", [x], "across", axis=1)
    m.node("MatMul", [m.node("Softmax", [m.node("MatMul", [z, turned])]), x], "attention")
    mean = m.node("ReduceMean", [x, m.const(np.array([1]))], "mean", keepdims=1)
    m.node("MatMul", [mean, turned], "row")
    m.node("ReduceMax", [x, m.const(np.array([1, 2]))], "largest", keepdims=0)
    m.node("ReduceSum", [scores, m.const(np.array([-1]))], "lines", keepdims=0)
    m.node("Mul", [m.node("Sub", [x, mean]), m.weight((40,))], "centred")
    m.node("LayerNormalization", [x, m.weight((40,)), m.weight((40,))], "normal", axis=-1)
    names = "hidden turned scores weights sums along across attention mean row largest lines centred normal"
    return m.model(names.split())


def _times() -> onnx.ModelProto:
    m = Maker()
    x = m.input("x", ["n", 5, "t"])
    y = m.node("Relu", [m.node("Conv", [x, m.weight((16, 5, 5)), m.weight((16,))], pads=[2, 2])])
    y = m.node("Conv", [y, m.weight((24, 16, 3))], "wide", pads=[4, 0], dilations=[2])
    m.node("Conv", [y, m.weight((12, 24, 1))], "points", strides=[2])
    m.node("Conv", [y, m.weight((8, 24, 9))], "far", pads=[4, 4], strides=[3])
    m.node("GlobalAveragePool", [y], "mean")
    return m.model(["wide", "points", "far", "mean"])


def _images() -> onnx.ModelProto:
    m = Maker()
    x = m.input("x", ["n", 3, "h", "w"])
    y = m.node("Relu", [m.node("Conv", [x, m.weight((16, 3, 3, 3)), m.weight((16,))], pads=[1, 1, 1, 1])])
    z = m.node("Add", [m.node("Conv", [y, m.weight((16, 16, 3, 3))], pads=[1, 1, 1, 1]), y])
    z = m.node("Conv", [z, m.weight((16, 1, 3, 3))], "depthwise", group=16, pads=[1, 1, 1, 1], strides=[2, 2])
    m.node("MaxPool", [z], "pool", kernel_shape=[2, 2])
    z = m.node("Conv", [z, m.weight((20, 16, 1, 1))])
    m.node("Conv", [z, m.weight((9, 20, 3, 3))], "small", strides=[2, 1])
    m.node("Flatten", [m.node("GlobalAveragePool", [z])], "mean")
    return m.model(["depthwise", "pool", "small", "mean"])


def _planes() -> onnx.ModelProto:
    """Each channel by itself, by windows whose tiles at the ends of lines all differ."""
    m = Maker(opset=19)
    x = m.input("x", ["n", 12, "h", "w"])
    y = m.node("Conv", [x, m.weight((12, 1, 5, 5)), m.weight((12,))], group=12, pads=[2, 2, 2, 2])
    m.node("Conv", [y, m.weight((12, 1, 3, 3))], "far", group=12, pads=[3, 1, 0, 2], strides=[2, 3], dilations=[2, 2])
    m.node("MaxPool", [y], "most", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    m.node("AveragePool", [y], "mean", kernel_shape=[3, 4], strides=[1, 2], pads=[1, 1, 1, 2])
    m.node("AveragePool", [y], "all", kernel_shape=[3, 4], strides=[1, 2], pads=[1, 1, 1, 2], count_include_pad=1)
    return m.model(["far", "most", "mean", "all"])


def _points() -> onnx.ModelProto:
    """Pixels of channels, and channels of pixels: products along planes, and squares of vectors that are turned."""
    m = Maker()
    x = m.input("x", ["n", 12, "h", "w"])
    y = m.node("Relu", [m.node("Conv", [x, m.weight((19, 12, 1, 1)), m.weight((19,))])], "points")
    m.node("Transpose", [y], "pixels", perm=[0, 2, 3, 1])
    m.node("Transpose", [y], "lines", perm=[0, 3, 1, 2])
    return m.model(["points", "pixels", "lines"])


def _columns() -> onnx.ModelProto:
    """Columns that hold extents, beside columns of an input."""
    m = Maker()
    x = m.input("x", ["n", 5])
    size = m.node("Cast", [m.node("Size", [x])], to=TensorProto.FLOAT)
    column = m.node("Expand", [m.node("Reshape", [size, m.const(np.array([1, 1]))]), m.const(np.array([3, 1]))])
    grid = m.node("Expand", [column, m.const(np.array([3, 2]))])
    m.node("Concat", [grid, m.input("z", [3, 2])], "y", axis=1)
    return m.model(["y"])


CASES: tuple[tuple[Callable[[], onnx.ModelProto], dict[str, str]], ...] = (
    (_columns, {"n": "1..4"}),
    (_classifier, {"n": "1..9"}),
    (_attention, {"n": "1..2", "s": "1..11"}),
    (_windows, {"s": "3..40"}),
    (_positions, {"n": "1..3", "s": "1..12"}),
    (_halves, {"n": "1..5"}),
    (_nonzero, {}),
    (_boxes, {"k": "1..9"}),
)
def _quantised() -> onnx.ModelProto:
    """Rows by weights that stay bytes, each row by all of them."""
    m = Maker()
    x = m.input("x", ["n", "s", 40])
    weights = m.const(m.random.integers(-128, 128, (40, 21)).astype(np.int8))
    scales = m.const(m.random.uniform(0.001, 0.01, 21).astype(np.float32))
    m.node("MatMul", [x, m.node("DequantizeLinear", [weights, scales], axis=1)], "y")
    return m.model(["y"])


VECTORS: tuple[tuple[Callable[[], onnx.ModelProto], dict[str, str], set[str]], ...] = (
    (_rows, {"n": "1..3", "s": "1..70"}, set()),
    (_times, {"n": "1..3", "t": "7..90"}, set()),
    (_quantised, {"n": "1..2", "s": "1..37"}, set()),
    (_images, {"n": "1..9", "h": "12", "w": "11"}, set()),
    (_images, {"n": "1..2", "h": "6..31", "w": "6..24"}, set()),
    (_skipping, {"n": "1..3", "h": "8", "w": "12"}, set()),
    (_skipping, {"n": "1", "h": "4..16:4", "w": "8..12:4"}, {"resize.generic", "map.generic"}),
    (_points, {"n": "1..2", "h": "1..9", "w": "1..13"}, set()),
    (_chunks, {"n": "3..12"}, set()),
    (_planes, {"n": "1", "h": "5..13", "w": "5..31"}, set()),
    (_planes, {"n": "1..2", "h": "7", "w": "6..3000"}, set()),
)
"""Networks, ranges, and the kernels without vectors that they may have beside copies (docs/run-time-extents.md)."""


def _values(dims: Mapping[str, str], seed: int) -> list[dict[str, int]]:
    rng = np.random.default_rng(seed)
    every = {name: _every(text) for name, text in dims.items()}
    drawn = [{n: int(rng.choice(values)) for n, values in every.items()} for _ in range(2)]
    return [{n: values[-1] for n, values in every.items()}, {n: values[0] for n, values in every.items()}, *drawn]


def _every(text: str) -> list[int]:
    """All numbers that an extent may be."""
    ends, _, step = text.partition(":")
    low, dots, high = ends.partition("..")
    return list(range(int(low), int(high) + 1, int(step or 1))) if dots else [int(n) for n in text.split(",")]


def _noise(wanted: Array) -> float:
    """How far results may be off beside the largest: sums in another order."""
    return 2e-6 * float(np.abs(wanted.astype(np.float64)).max(initial=1))


def _inputs(session: ort.InferenceSession, extents: Mapping[str, int], rng: np.random.Generator) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for x in session.get_inputs():
        shape = [extents[e] if isinstance(e, str) else e for e in x.shape]
        whole = x.type == "tensor(int64)"
        found[x.name] = rng.integers(0, 5, shape) if whole else rng.normal(0, 1, shape).astype(np.float32)
    return found


FORMS = (
    (_skipping, {"n": "1..2", "h": "4..16:4", "w": "8..12:4"}),
    (_attention, {"n": "1..2", "s": "4,7,11"}),
)
"""Multiples, and numbers to choose from."""


def _right_runs(
    network: Network, path: Path, dims: Mapping[str, str], seed: int
) -> Iterator[tuple[dict[str, int], dict[str, Array]]]:
    """Runs on an arena full of 0xFF, at both ends of the extents and between, whose results are onnxruntime's."""
    session = plain_session(path.read_bytes())  # its optimisations round operands of weights of bytes to bytes
    rng = np.random.default_rng(seed)
    for extents in _values(dims, seed + 2):
        inputs = _inputs(session, extents, rng)
        network.fill_arenas(0xFF)
        got = network.run(inputs)
        for output, wanted in zip(session.get_outputs(), session.run(None, inputs), strict=True):
            told = f"{output.name} {extents}"
            assert got[output.name].shape == wanted.shape, told
            np.testing.assert_allclose(got[output.name], wanted, 2e-5, _noise(wanted), err_msg=told)
        yield extents, got


@pytest.mark.parametrize(
    ("build", "dims", "target", "level"),
    [
        *((*case, *how) for case in CASES for how in (("generic", "O0"), ("native", "O2"), ("native", "Os"))),
        *((*case, "native", "O2") for case in FORMS),
    ],
    ids=lambda v: v.__name__[1:] if callable(v) else v if isinstance(v, str) else "",
)
def test_every_extent_gives_what_onnxruntime_gives(
    build: Callable[[], onnx.ModelProto], dims: dict[str, str], target: str, level: str, tmp_path: Path
) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(build(), path)
    mccompile.compile(path, tmp_path / "out", target=target, opt_level=level, dims=dims)
    network = mccompile.load(tmp_path / "out")
    assert list(_right_runs(network, path, dims, 3))


@pytest.mark.parametrize(("build", "dims", "scalar"), VECTORS, ids=lambda v: v.__name__[1:] if callable(v) else "")
def test_vectors_stay_within_the_extents(
    build: Callable[[], onnx.ModelProto], dims: dict[str, str], scalar: set[str], tmp_path: Path
) -> None:
    """Results are right, and behind those in the caller's memory nothing is written."""
    path = tmp_path / "net.onnx"
    onnx.save(build(), path)
    given = {name: text if ".." in text else int(text) for name, text in dims.items()}
    artifacts = mccompile.compile(path, tmp_path / "out", target="native", dims=given, io="caller")
    plain = {step["kernel"] for step in artifacts.report["steps"] if step["kernel"].endswith(".generic")}
    assert plain - {"copy.generic", "extents.generic", "fill.generic"} <= scalar
    network = mccompile.load(tmp_path / "out")
    for extents, got in _right_runs(network, path, dims, 4):
        for port in artifacts.report["outputs"]:
            behind = network.tensor_bytes(port)[got[port["name"]].nbytes :]
            assert (behind == 0xFF).all(), (port["name"], extents)


@pytest.mark.parametrize(
    ("build", "dims", "given"),
    [
        (_windows, {"s": "3..40"}, {"stream_rows": "always"}),
        (_classifier, {"n": "1..9"}, {"memory": {"fast": 64, "slow": 8192}}),
        (_pooled, {"n": "1..3"}, {"stream_rows": "always"}),
    ],
    ids=lambda v: v.__name__[1:] if callable(v) else "",
)
def test_strips_and_memories_go_with_extents(
    build: Callable[[], onnx.ModelProto], dims: dict[str, str], given: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(build(), path)
    mccompile.compile(path, tmp_path / "out", target="generic", dims=dims, **given)
    assert list(_right_runs(mccompile.load(tmp_path / "out"), path, dims, 5))


def test_what_is_computed_in_floats_is_put_in_order_by_the_largest_extents(tmp_path: Path) -> None:
    m = Maker()
    step = m.const(np.float32(0.1))
    weights = m.node("DequantizeLinear", [m.const(np.ones((40, 21), np.int8)), step])
    bytes_ = m.node("QuantizeLinear", [m.input("x", ["n", 40]), step])
    m.node("MatMul", [m.node("DequantizeLinear", [bytes_, step]), weights], "y")
    onnx.save(m.model(["y"]), tmp_path / "net.onnx")
    dims: dict[str, int | str] = {"n": "1..9"}
    found = mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", target="generic", opt_level="O0", dims=dims)
    costs = [n["cost"] for n in found.report["quantised"]["floats"]]
    assert (len(costs), max(costs)) == (4, 9 * 40 * 21)
    assert f"{max(costs):,} of the MACs and 4 nodes in floats" in summary(found.report, "out")


PLAINEST = {t.isa: name for name, t in sorted(targets().items(), reverse=True) if t.isa}
"""The first target of each instruction set that has primitives of its own."""


@pytest.mark.parametrize("target", PLAINEST.values())
def test_every_instruction_set_takes_extents(target: str, tmp_path: Path) -> None:
    """Products, lines and copies whose extents vary: what a template decides for one instruction set alone."""
    build, dims, _ = VECTORS[0]
    onnx.save(build(), tmp_path / "net.onnx")
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", target=target, dims=dims)


@pytest.mark.parametrize(("build", "dims"), [*CASES, FORMS[1]], ids=lambda v: v.__name__[1:] if callable(v) else "")
def test_every_form_is_a_text_that_is_read_again(
    build: Callable[[], onnx.ModelProto], dims: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(build(), path)
    compilation = driver.import_graph(path, driver.Options(target="generic", dims=dims))  # type: ignore[arg-type]

    driver.compile_program(compilation, is_read_again(tmp_path))


@pytest.mark.parametrize("seed", range(3))
def test_boxes_are_those_of_onnxruntime(seed: int, tmp_path: Path) -> None:
    """Drawn boxes in both forms, limits that are constants or not, scores that tie."""
    rng = np.random.default_rng(seed)
    for number in range(4):
        batch, classes, count = (int(rng.integers(1, high)) for high in (3, 4, 14))
        m = Maker()
        given: dict[str, np.ndarray] = {
            "boxes": rng.uniform(0, 2, (batch, count, 4)).astype(np.float32),
            "scores": rng.integers(-3, 4, (batch, classes, count)).astype(np.float32) / 4,
        }
        names = [m.input(name, a.shape) for name, a in given.items()]
        limits = [np.array([rng.integers(0, 5)]), np.float32([rng.choice([0, 0.3, 0.7])]), np.float32([-0.4])]
        for i, limit in enumerate(limits[: 2 + number % 2]):
            if number < 2:
                names.append(m.const(limit))
                continue
            given[f"limit{i}"] = limit
            names.append(m.input(f"limit{i}", [1], INT if i == 0 else TensorProto.FLOAT))
        m.node("NonMaxSuppression", names, "kept", center_point_box=int(rng.integers(0, 2)))
        path = tmp_path / f"net{number}.onnx"
        onnx.save(m.model(["kept"]), path)
        mccompile.compile(path, tmp_path / f"out{number}", target=("generic", "native")[number % 2])
        network = mccompile.load(tmp_path / f"out{number}")
        network.fill_arenas(0xFF)
        (wanted,) = ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, given)
        np.testing.assert_array_equal(network.run(given)["kept"], wanted)


def _classifier_of(tmp_path: Path, extents: str) -> mccompile.Network:
    onnx.save(_classifier(), tmp_path / "net.onnx")
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", target="native", dims={"n": extents})
    return mccompile.load(tmp_path / "out")


def test_an_extent_out_of_its_range_is_refused(tmp_path: Path) -> None:
    network = _classifier_of(tmp_path, "2..5")
    with pytest.raises(UsageError, match="the extent n of net may be 2 to 5, not 6"):
        network.run({"x": np.zeros((6, 12), np.float32)})
    assert network.run({"x": np.zeros((2, 12), np.float32)})["y"].shape == (2, 5)
    with pytest.raises(UsageError, match=r"net has no run-time extent 'm'"):
        network.set_extents({"m": 1})


def test_a_refused_extent_changes_no_other(tmp_path: Path) -> None:
    onnx.save(_positions(), tmp_path / "net.onnx")
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", dims={"n": "1..3", "s": "1..12"})
    network = mccompile.load(tmp_path / "out")
    for wrong in ({"n": 2, "s": 13}, {"n": 2, "m": 1}):
        with pytest.raises(UsageError):
            network.set_extents(wrong)
        assert network.inputs["ids"].shape == (3, 12)
        assert network.run({"ids": np.zeros((3, 12), np.int64)})["rows"].shape == (3, 12)


@pytest.mark.parametrize(
    ("given", "rule"),
    [("1..", "leaves open"), ("5..2", "is empty"), ("a..b", "whole number"),
     ("3..9:2", "multiples of its step"), ("4..8:0", "multiples"), ("4,4", "different whole numbers"),
     ("4,x", "different whole numbers")],
)
def test_ranges_that_are_none(given: str, rule: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=rule):
        _classifier_of(tmp_path, given)


def test_numbers_to_choose_from_share_weights_and_arena(tmp_path: Path) -> None:
    onnx.save(_classifier(), tmp_path / "net.onnx")
    made = {n: mccompile.compile(tmp_path / "net.onnx", tmp_path / str(n), target="native", dims={"n": n}).report
            for n in ("3,9,32", 32)}  # fmt: skip
    assert made["3,9,32"]["weights_bytes"] == made[32]["weights_bytes"]
    assert made["3,9,32"]["memory"]["arena_bytes"] <= made[32]["memory"]["arena_bytes"] + 6 * 64
    network = mccompile.load(tmp_path / "3,9,32")
    with pytest.raises(UsageError, match="may be 3, 9 or 32, not 4"):
        network.set_extents({"n": 4})


def test_only_multiples_are_taken(tmp_path: Path) -> None:
    network = _classifier_of(tmp_path, "4..12:4")
    assert network.run({"x": np.zeros((8, 12), np.float32)})["y"].shape == (8, 5)
    with pytest.raises(UsageError, match="may be 4 to 12, multiples of 4, not 6"):
        network.set_extents({"n": 6})


def test_what_is_undecided_says_which_multiples_to_take(tmp_path: Path) -> None:
    onnx.save(_skipping(), tmp_path / "net.onnx")
    with pytest.raises(CompileError, match=r"take only multiples: dims={'h': '4\.\.16:4'}"):
        mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", dims={"n": 1, "h": "4..17", "w": 8})


def _rows(m: Maker, x: str) -> str:
    """How many rows a tensor has, as exporters ask for it."""
    return m.node("Slice", [m.node("Shape", [x]), m.const(np.array([0])), m.const(np.array([1]))])


def _require_narrower(m: Maker, tmp_path: Path, rule: str, narrower: str) -> None:
    """For 1 to 40 rows the error names a narrower range, by a rule, and for that there is no error."""
    onnx.save(m.model(["y"]), tmp_path / "net.onnx")
    with pytest.raises(CompileError, match=re.escape(f"{rule}: dims={{'s': '{narrower}'}}")):
        mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", dims={"s": "1..40"})
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", dims={"s": narrower})


def test_positions_that_are_fewer_than_tokens_say_what_to_take(tmp_path: Path) -> None:
    m = Maker()
    tokens = m.input("x", ["s", 3])
    table = m.const(np.ones((32, 3), np.float32))
    m.node("Add", [tokens, m.node("Slice", [table, m.const(np.array([0])), _rows(m, tokens)])], "y")
    _require_narrower(m, tmp_path, "take no others than", "1..32")


def test_chunks_that_leave_tokens_over_say_which_multiples_to_take(tmp_path: Path) -> None:
    """As of attention in blocks: the count of chunks is computed, and so are their tokens."""
    m = Maker()
    tokens = m.input("x", ["s", 3])
    chunks = m.node("Div", [_rows(m, tokens), m.const(np.array([8]))])
    shape = m.node("Concat", [chunks, m.const(np.array([8])), m.const(np.array([3]))], axis=0)
    m.node("Reshape", [tokens, shape], "y")
    _require_narrower(m, tmp_path, "take only multiples", "8..40:8")


def test_an_expansion_that_is_undecided_says_what_is_equal(tmp_path: Path) -> None:
    """As of the time steps of a diffusion network, which are one, or as many as there are samples."""
    m = Maker()
    x = m.input("x", ["batch", 3])
    m.node("Expand", [m.input("t", ["steps"]), _rows(m, x)], "y")
    onnx.save(m.model(["y"]), tmp_path / "net.onnx")
    with pytest.raises(CompileError, match=r"say that they are equal: dims=\{'steps': 'batch'\}"):
        mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", dims={"batch": "1..2", "steps": "1..2"})


def test_a_window_that_does_not_always_fit(tmp_path: Path) -> None:
    m = Maker()
    m.node("Conv", [m.input("x", [1, 2, "s"]), m.weight((3, 2, 5))], "y")
    onnx.save(m.model(["y"]), tmp_path / "net.onnx")
    with pytest.raises(CompileError, match=r"a window of 5 does not fit .* s = 1\.\.9: begin the range higher"):
        mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", dims={"s": "1..9"})


@pytest.mark.parametrize("target", ["generic", "native"])
def test_what_a_mask_leaves_may_be_nothing(target: str, tmp_path: Path) -> None:
    """Two tensors by one mask have as many columns, of which windows make something, or nothing."""
    m = Maker()
    x, mask = m.input("x", [1, 8, 20]), m.node("Greater", [m.input("m", [20]), m.const(np.float32(0.5))])
    picked = [
        m.node("Gather", [v, m.node("Squeeze", [m.node("NonZero", [mask]), m.const(np.array([0]))])], axis=2)
        for v in (x, m.node("Tanh", [x]))
    ]
    wide = m.node("Conv", [m.node("Mul", picked), m.weight((8, 8, 3))], pads=[1, 1])
    m.node("Conv", [wide, m.weight((16, 8, 1))], "narrow")
    m.node("Conv", [wide, m.weight((4, 8, 3))], "halved", strides=[2], pads=[1, 1])
    m.node("ConvTranspose", [wide, m.weight((8, 4, 8))], "grown", strides=[4], pads=[2, 2])
    path = tmp_path / "net.onnx"
    onnx.save(m.model(["narrow", "halved", "grown"]), path)
    mccompile.compile(path, tmp_path / "out", target=target)
    network = mccompile.load(tmp_path / "out")
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    for count in (3, 0, 20):
        fed = {"x": np.linspace(-1, 1, 160, dtype=np.float32).reshape(1, 8, 20), "m": np.ones(20, np.float32)}
        fed["m"][count:] = 0
        found = network.run(fed)
        if count == 0:  # onnxruntime refuses it
            assert {name: a.shape for name, a in found.items()} == {
                "narrow": (1, 16, 0), "halved": (1, 4, 0), "grown": (1, 4, 0),
            }  # fmt: skip
            continue
        for name, expected in zip(found, session.run(list(found), fed), strict=True):
            np.testing.assert_allclose(found[name], expected, rtol=1e-4, atol=1e-5)


def test_lines_that_never_reach_the_inside_of_a_window(tmp_path: Path) -> None:
    """A code for tiles inside would be used by nothing, which compilers warn of."""
    m = Maker()
    x = m.input("x", [1, 16, "w"])
    m.node("Conv", [x, m.weight((16, 1, 5))], "y", pads=[2, 2], group=16)
    m.node("AveragePool", [x], "z", kernel_shape=[5], pads=[2, 2], count_include_pad=0)
    onnx.save(m.model(["y", "z"]), tmp_path / "net.onnx")
    found = mccompile.check(tmp_path / "net.onnx", target="native", dims={"w": "1..2"})
    assert found.ok, found


def test_a_branch_that_fits_no_extent_answers_where_it_is_taken(tmp_path: Path) -> None:
    """As in networks for two sampling rates: of windows of one length, the other's branch has no meaning."""

    def branch(name: str, rows: int) -> onnx.GraphProto:
        weights = onnx.numpy_helper.from_array(np.ones((rows, 2), np.float32), f"{name}.w")
        product = onnx.helper.make_node("MatMul", ["x", weights.name], [f"{name}.y"])
        result = onnx.helper.make_tensor_value_info(f"{name}.y", TensorProto.FLOAT, None)
        return onnx.helper.make_graph([product], name, [], [result], [weights])

    m = Maker()
    rate = m.node("Equal", [m.input("rate", [], INT), m.const(np.array(16))])
    m.input("x", ["n", "k"])
    m.node("If", [rate], "y", then_branch=branch("fits", 4), else_branch=branch("other", 5))
    onnx.save(m.model(["y"]), tmp_path / "net.onnx")
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", dims={"n": "1..3", "k": 4})
    net = Network(tmp_path / "out", ("-O1",))
    x = np.ones((2, 4), np.float32)
    assert (net.run({"x": x, "rate": np.array(16)})["y"] == 4).all()
    with pytest.raises(CompileError, match="extent over bound"):
        net.run({"x": x, "rate": np.array(8)})


def test_images_of_any_number_are_turned(tmp_path: Path) -> None:
    """The grid of AffineGrid is a table of the image's extents: its batch may vary, these may not."""
    m = Maker(opset=20)
    x = m.input("x", ["n", 1, "h", 4])
    grid = m.node("AffineGrid", [m.input("theta", ["n", 2, 3]), m.node("Shape", [x])], align_corners=0)
    m.node("GridSample", [x, grid], "y")
    path = tmp_path / "net.onnx"
    onnx.save(m.model(["y"]), path)
    mccompile.compile(path, tmp_path / "out", dims={"n": "1..3", "h": 5})
    net, session = Network(tmp_path / "out", ("-O1",)), plain_session(path.read_bytes())
    rng = np.random.default_rng(3)
    for n in (3, 1, 2):
        shapes = {"x": (n, 1, 5, 4), "theta": (n, 2, 3)}
        given = {k: rng.normal(0, 0.7, s).astype(np.float32) for k, s in shapes.items()}
        np.testing.assert_allclose(net.run(given)["y"], session.run(None, given)[0], atol=1e-5)
    with pytest.raises(CompileError, match="a grid of h, 4 is a table"):
        mccompile.compile(path, tmp_path / "refused", dims={"n": 1, "h": "4..5"})


def _single() -> onnx.ModelProto:
    """Products whose batches, rows, terms or columns are none or one, a softmax and sums over as many."""
    m = Maker(opset=18)
    rows, heads = m.input("rows", ["n", 17]), m.input("heads", [2, 3, "n", 20])
    batch = m.input("batch", ["n", 5, 1, 17])
    turned = m.node("Transpose", [rows], perm=[1, 0])
    m.node("MatMul", [turned, rows], "terms")
    m.node("MatMul", [rows, m.weight((17, 20))], "by_weights")
    m.node("MatMul", [batch, m.node("Transpose", [batch], perm=[0, 1, 3, 2])], "dots")
    scores = m.node("MatMul", [heads, m.node("Transpose", [heads], perm=[0, 1, 3, 2])])
    m.node("MatMul", [m.node("Softmax", [scores], axis=-1), heads], "attention")
    m.node("CumSum", [rows, m.const(np.array(0))], "sums")
    m.node("ReduceSum", [rows, m.const(np.array([0]))], "total")
    return m.model(["terms", "by_weights", "dots", "attention", "sums", "total"])


@pytest.mark.parametrize("target", ["generic", "x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("level", ["O0", "O2"])
def test_an_extent_may_be_none_or_one(target: str, level: str, tmp_path: Path) -> None:
    """What runs once at most is a loop, too: there may be nothing to run over."""
    path = tmp_path / "single.onnx"
    onnx.save(_single(), path)
    mccompile.compile(path, tmp_path / "out", target=needs_target(target), opt_level=level, dims={"n": "0..1"})
    network = Network(tmp_path / "out", ["-O1"], emulate=True)
    shapes = {"rows": [-1, 17], "heads": [2, 3, -1, 20], "batch": [-1, 5, 1, 17]}
    rng = np.random.default_rng(1)
    for n in (1, 0, 1):
        drawn = {k: rng.standard_normal([n if e < 0 else e for e in s]).astype(np.float32) for k, s in shapes.items()}
        network.fill_arenas(0xFF)
        got = network.run(drawn)
        want = dict(zip(got, plain_session(path.read_bytes()).run(list(got), drawn), strict=True))
        for name, array in want.items():
            np.testing.assert_allclose(got[name], array, rtol=1e-4, atol=1e-5, err_msg=f"{name} of {n}")


def test_the_range_of_places_is_that_of_the_longest_run(tmp_path: Path) -> None:
    m = Maker()
    pooled = helper.make_node(
        "MaxPool", [m.input("x", ["n", 2, 4, 4])], ["most", "places"], kernel_shape=[2, 2], strides=[2, 2]
    )
    m.nodes.append(pooled)
    onnx.save(m.model(["most", "places"]), tmp_path / "pool.onnx")
    with strict_extents():
        mccompile.compile(tmp_path / "pool.onnx", tmp_path / "out", target="generic", dims={"n": "0..1"})
    got = mccompile.load(tmp_path / "out").run({"x": np.ones((1, 2, 4, 4), np.float32)})
    assert got["places"].shape == (1, 2, 2, 2)


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3"])
def test_sums_have_as_many_terms_as_a_slice_leaves(target: str, tmp_path: Path) -> None:
    """Of rows, every second one from the third-last on, backwards: that number has conditions in it."""
    m = Maker()
    ends = [m.const(np.array([v])) for v in (-3, -100, 0, -2)]
    rows = m.node("Slice", [m.input("x", ["n", 4]), *ends])
    m.node("MatMul", [m.node("Transpose", [rows], perm=[1, 0]), rows], "y")
    path = tmp_path / "net.onnx"
    onnx.save(m.model(["y"]), path)
    mccompile.compile(path, tmp_path / "out", target=needs_target(target), dims={"n": "0..7"})
    network = Network(tmp_path / "out", ["-O1", *strict_warnings("gcc")])
    for n in (7, 0, 2, 3, 6):
        x = np.random.default_rng(n).standard_normal((n, 4)).astype(np.float32)
        (want,) = plain_session(path.read_bytes()).run(None, {"x": x})
        np.testing.assert_allclose(network.run({"x": x})["y"], want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("target", ["generic", "aarch64"])
def test_an_extent_below_zero_is_refused_emulated_or_not(target: str, tmp_path: Path) -> None:
    m = Maker()
    m.node("Relu", [m.input("x", ["n", 2])], "y")
    onnx.save(m.model(["y"]), tmp_path / "net.onnx")
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", target=needs_target(target), dims={"n": "1..4"})
    network = Network(tmp_path / "out", emulate=True)
    for wrong in (-1, 5):
        with pytest.raises(UsageError, match="n"):
            network.set_extents({"n": wrong})
    network.set_extents({"n": 3})


def test_maxima_may_go_back_to_a_batch_of_nothing(tmp_path: Path) -> None:
    m = Maker()
    at = m.input("at", ["n", 1, 2, 2], onnx.TensorProto.INT64)
    m.node("MaxUnpool", [m.input("x", ["n", 1, 2, 2]), at], "y", kernel_shape=[2, 2], strides=[2, 2])
    model = m.model(["y"])
    onnx.save(model, tmp_path / "net.onnx")
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", target="generic", dims={"n": "0..2"})
    network, rng = Network(tmp_path / "out"), np.random.default_rng(0)
    for n in (2, 0, 1):
        given = {"x": rng.standard_normal((n, 1, 2, 2)).astype(np.float32)}
        given["at"] = rng.permutation(16 * n)[: 4 * n].reshape(n, 1, 2, 2)
        want = np.zeros(16 * n, np.float32)
        want[given["at"].ravel()] = given["x"].ravel()
        np.testing.assert_array_equal(network.run(given)["y"], want.reshape(n, 1, 4, 4))


def test_elements_of_a_shape_that_are_known_stay_so_where_minus_one_is_replaced(tmp_path: Path) -> None:
    """Expand by Where(shape == -1, 1, shape) of [1, n, 16], as torch writes it: n alone needs a bound."""
    m = Maker()
    n = m.node("Cast", [m.input("d", [1])], to=onnx.TensorProto.INT64)
    shape = m.node("Concat", [m.const(np.array([1])), n, m.const(np.array([16]))], axis=0)
    asked = m.node("Equal", [shape, m.const(np.full(3, -1))])
    wanted = m.node("Where", [asked, m.const(np.ones(3, np.int64)), shape])
    m.node("Expand", [m.input("x", [1, 1, 16]), wanted], "y")
    onnx.save(m.model(["y"]), tmp_path / "net.onnx")
    with pytest.raises(CompileError, match="extent 1 of the result is computed at run time") as caught:
        mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", target="generic")
    (bound,) = re.findall(r"bounds={'(\w+)': N}", str(caught.value))
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", target="generic", bounds={bound: 5})
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 16)
    got = mccompile.load(tmp_path / "out").run({"x": x, "d": np.float32([3])})["y"]
    np.testing.assert_array_equal(got, np.repeat(x, 3, axis=1))
