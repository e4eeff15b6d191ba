"""Windows over two axes of the run, of whose pads or extents none is known to be the lesser."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from mccompile.ir.dims import UndecidedError
from mccompile.ir.errors import CompileError
from mccompile.ir.views import View
from mccompile.kernels.conv.channels import ConvChannels
from tests.support.runs import compare
from tests.support.small_models import Maker

F32 = TensorProto.FLOAT
EXTENTS = [(1, 1), (2, 5), (3, 4), (9, 6), (8, 8)]


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 2), (3, 3), (2, 3), (3, 4)])
def test_same_pads_of_two_axes(kernel: int, stride: int, auto_pad: str, tmp_path: Path) -> None:
    attrs = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "auto_pad": auto_pad}
    rng = np.random.default_rng(0)
    w = rng.standard_normal((4, 3, kernel, kernel)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], **attrs)], "g",
        [helper.make_tensor_value_info("x", F32, [1, 3, "n", "m"])],
        [helper.make_tensor_value_info("y", F32, None)], [numpy_helper.from_array(w, "w")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    # Of windows with gaps the pads are none: docs/conformance.md.
    sizes = [s for s in EXTENTS if all((-(-e // stride) - 1) * stride + kernel >= e for e in s)]
    feeds = [{"x": rng.standard_normal((1, 3, *s)).astype(np.float32)} for s in sizes]
    compare(model, tmp_path, feeds, 2e-5, 2e-5, target="generic", dims={"n": "1..500", "m": "1..300"})


SMALL: list[tuple[str, dict[str, object]]] = [
    ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ("MaxPool", {"kernel_shape": [3, 2], "strides": [3, 4], "dilations": [1, 2], "pads": [1, 0, 0, 0]}),
    ("AveragePool", {"kernel_shape": [3, 3], "strides": [3, 4], "count_include_pad": 1, "pads": [1, 0, 0, 1]}),
    ("AveragePool", {"kernel_shape": [2, 3], "strides": [2, 3], "auto_pad": "VALID"}),
    ("LpPool", {"kernel_shape": [2, 2], "strides": [2, 2], "p": 1}),
]


@pytest.mark.parametrize("extents", [(1, 1), (2, 1), ("n", "m")])
@pytest.mark.parametrize(("op", "attrs"), SMALL)
def test_windows_larger_than_the_image_by_less_than_a_stride(
    op: str, attrs: dict[str, object], extents: tuple[int | str, ...], tmp_path: Path
) -> None:
    graph = helper.make_graph(
        [helper.make_node(op, ["x"], ["y"], ceil_mode=1, **attrs)], "g",
        [helper.make_tensor_value_info("x", F32, [1, 3, *extents])],
        [helper.make_tensor_value_info("y", F32, None)],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    rng = np.random.default_rng(0)
    sizes = EXTENTS if "n" in extents else [extents]
    feeds = [{"x": rng.standard_normal((1, 3, *s)).astype(np.float32)} for s in sizes]
    dims = {"n": "1..50", "m": "1..40"} if "n" in extents else {}
    compare(model, tmp_path, feeds, 1e-6, 1e-6, target="generic", dims=dims)


@pytest.mark.parametrize("stride", [1, 2])
def test_images_of_two_extents(stride: int, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "flat"], ["columns"]),
        helper.make_node("Shape", ["x"], ["extents"], start=2, end=4),
        helper.make_node("Mul", ["extents", "stride"], ["starts"]),
        helper.make_node("Add", ["starts", "more"], ["image"]),
        helper.make_node("Col2Im", ["columns", "image", "block"], ["y"], strides=[stride] * 2),
    ]
    constants = {"flat": [1, 8, -1], "stride": [stride] * 2, "more": [2 - stride] * 2, "block": [2, 2]}
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", F32, [1, 8, "n", "m"])],
        [helper.make_tensor_value_info("y", F32, None)],
        [numpy_helper.from_array(np.array(v), k) for k, v in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    rng = np.random.default_rng(0)
    feeds = [{"x": rng.standard_normal((1, 8, *s)).astype(np.float32)} for s in EXTENTS]
    compare(model, tmp_path, feeds, 1e-6, 1e-6, target="generic", dims={"n": "1..50", "m": "1..40"})


LINES = [(16, 17), (33, 40), (64, 63), (17, 64)]
DIMS = {"h": "16..64", "w": "16..64"}


def _backbone(levels: int, depthwise: bool = False) -> onnx.ModelProto:
    """Levels, each of half the lines and columns, as TensorFlow pads them."""
    m = Maker(opset=13)
    v = m.input("x", [1, 3, "h", "w"])
    for level in range(levels):
        groups, read = (8 if depthwise and level else 1), (8 if level else 3)
        weights = m.weight((8, read // groups, 3, 3))
        auto_pad = "SAME_LOWER" if level == 2 else "SAME_UPPER"
        v = m.node("Relu", [m.node("Conv", [v, weights], group=groups, strides=[2, 2], auto_pad=auto_pad)])
    return m.model([v])


def _pools() -> onnx.ModelProto:
    m = Maker(opset=13)
    same = {"strides": [2, 2], "auto_pad": "SAME_UPPER"}
    v = m.node("Conv", [m.input("x", [1, 3, "h", "w"]), m.weight((8, 3, 3, 3))], **same)
    for op, kernel in (("AveragePool", [3, 3]), ("MaxPool", [5, 7])):
        v = m.node(op, [v], kernel_shape=kernel, **same)
    return m.model([v])


def _padded(levels: int) -> onnx.ModelProto:
    """The same pads, computed of shapes."""
    m = Maker(opset=13)
    v = m.input("x", [1, 3, "h", "w"])
    none, one, two, three = (m.const(np.array([n] * 2)) for n in range(4))
    for _ in range(levels):
        extents = m.node("Slice", [m.node("Shape", [v]), m.const(np.array([2])), m.const(np.array([4]))])
        half = m.node("Div", [m.node("Add", [extents, one]), two])
        seen = m.node("Add", [m.node("Mul", [m.node("Sub", [half, one]), two]), three])
        more = m.node("Max", [m.node("Sub", [seen, extents]), none])
        before = m.node("Div", [more, two])
        pads = m.node("Concat", [none, before, none, m.node("Sub", [more, before])], axis=0)
        v = m.node("Conv", [m.node("Pad", [v, pads]), m.weight((3, 3, 3, 3))], strides=[2, 2])
    return m.model([v])


CHAINS = {
    "convolutions": _backbone(5),
    "depthwise": _backbone(3, depthwise=True),
    "pools": _pools(),
    "computed": _padded(3),
}


@pytest.mark.parametrize("target", ["generic", "native"])
@pytest.mark.parametrize("name", CHAINS)
def test_windows_behind_each_other_keep_extents_but_for_strides(name: str, target: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    feeds = [{"x": rng.standard_normal((1, 3, *s)).astype(np.float32)} for s in LINES]
    compare(CHAINS[name], tmp_path, feeds, 2e-4, 2e-4, target=target, dims=DIMS)


def test_pads_of_the_run_go_by_vectors(tmp_path: Path) -> None:
    used: set[str] = set()
    for name in ("convolutions", "depthwise", "pools"):
        made = mccompile.compile(CHAINS[name], tmp_path / name, target="x86-64-v3", dims=DIMS)
        used |= {step["kernel"] for step in made.report["steps"]}
    assert {"conv.channels", "conv.depthwise", "pool.channels"} <= used
    assert not {"conv.generic", "pool.generic"} & used


@pytest.mark.parametrize(("least", "kernel"), [(2, "pool.generic"), (3, "pool.channels")])
def test_taps_on_both_sides_of_an_axis_need_what_asks_for_each(least: int, kernel: str, tmp_path: Path) -> None:
    """Of a window at -1 the two taps, three apart, lie at -1 and 2: an axis of 2 has neither."""
    m = Maker(opset=13)
    v = m.node("Conv", [m.input("x", [1, 8, "n", "n"]), m.weight((8, 8, 1, 1))])
    v = m.node("Relu", [m.node("MaxPool", [v], kernel_shape=[2, 2], dilations=[3, 3], pads=[1] * 4)])
    model = m.model([m.node("Conv", [v, m.weight((8, 8, 1, 1))])])
    dims = {"n": f"{least}..9"}
    made = mccompile.compile(model, tmp_path / "v3", target="x86-64-v3", dims=dims)
    assert kernel in {step["kernel"] for step in made.report["steps"]}
    feeds = [{"x": np.random.default_rng(n).random((1, 8, n, n), np.float32)} for n in (least, 3, 4, 9)]
    compare(model, tmp_path, feeds, 2e-5, 2e-5, target="native", dims=dims)


def test_what_cannot_be_planned_is_left_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def undecided(*_: object) -> str:
        raise UndecidedError("it depends")

    monkeypatch.setattr(ConvChannels, "offer", undecided)
    made = mccompile.compile(CHAINS["convolutions"], tmp_path, target="x86-64-v3", dims=DIMS)
    assert "conv.generic" in {step["kernel"] for step in made.report["steps"]}


def test_a_view_that_may_be_outside_names_its_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(View, "_is_inside_by_axes", lambda view: False)
    with pytest.raises(CompileError, match="it is not known for all extents") as e:
        mccompile.compile(CHAINS["computed"], tmp_path, target="generic", dims=DIMS)
    assert e.value.where.startswith("pad (node_")


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "Conv"])
def test_extents_too_small_for_a_window_are_refused(op: str, tmp_path: Path) -> None:
    """Behind a stride of 2 there is one row of two, over which onnxruntime has a window of 2 that is cut off."""
    m = Maker()
    x = m.input("x", [1, 3, "h", "w"])
    x = m.node("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2])
    window = {"kernel_shape": [2, 2], "strides": [2, 2]}
    x = m.node(op, [x, m.weight((3, 3, 2, 2))] if op == "Conv" else [x], **window)
    onnx.save(m.model([x]), tmp_path / "net.onnx")
    with pytest.raises(CompileError, match=r"a window of 2 does not fit .* h = 2\.\.9: begin the range higher"):
        mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", dims={"h": "2..9", "w": "4..9"})
    feeds = [{"x": np.random.default_rng(0).random((1, 3, *s), np.float32)} for s in ((4, 4), (9, 5), (7, 9))]
    compare(m.model([x]), tmp_path, feeds, 1e-5, 1e-5, target="generic", dims={"h": "4..9", "w": "4..9"})


def test_computed_pads_of_images_that_may_have_no_row(tmp_path: Path) -> None:
    """Whether a view is inside is not asked of an extent that may be 0, but of its ends."""
    sizes = ((1, 1), (6, 5), (64, 33))
    feeds = [{"x": np.random.default_rng(h).normal(0, 1, (1, 3, h, w)).astype(np.float32)} for h, w in sizes]
    compare(_padded(2), tmp_path, feeds, 2e-4, 2e-4, dims={"h": "0..64", "w": "0..64"}, target="generic")
