"""Bags and parts whose ends the run tells, in the loops that exporters write of them, against onnxruntime."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from mccompile.ir.errors import CompileError
from tests.support.runs import compare
from tests.support.small_models import Array, Maker

F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
N = helper.make_node
TABLE = np.random.default_rng(0).normal(0, 1, (9, 4)).astype(np.float32)

_compare = functools.partial(compare, rtol=2e-5, atol=2e-6)


def _value(name: str, shape: Sequence[int | str] | None, dtype: int = F32) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def _const(name: str, array: object, dtype: str = "int64") -> onnx.NodeProto:
    return N("Constant", [], [name], value=numpy_helper.from_array(np.asarray(array, dtype)))


def _model(
    nodes: Sequence[onnx.NodeProto], inputs: Sequence[onnx.ValueInfoProto], outputs: Mapping[str, int]
) -> onnx.ModelProto:
    infos = [_value(name, None, dtype) for name, dtype in outputs.items()]
    graph = helper.make_graph(list(nodes), "bags", list(inputs), infos)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def _of(m: Maker, outputs: Mapping[str, int]) -> onnx.ModelProto:
    constants = {w.name: numpy_helper.to_array(w) for w in m.weights}
    return _model([*(_const(name, a, a.dtype.name) for name, a in constants.items()), *m.nodes], m.inputs, outputs)


def _scripted_bags() -> onnx.ModelProto:
    """EmbeddingBag of torch.onnx without dynamo: each turn takes the words from its offset to the next one."""
    body = helper.make_graph(
        [
            N("Gather", ["begins", "t"], ["s"]), N("Gather", ["ends", "t"], ["e"]),
            N("Unsqueeze", ["s", "zero"], ["s1"]),
            N("Unsqueeze", ["e", "zero"], ["e1"]), N("Slice", ["words", "s1", "e1", "zero"], ["own"]),
            N("Gather", ["table", "own"], ["rows"]), N("ReduceMean", ["rows", "zero"], ["mean"], keepdims=0),
            N("Identity", ["c"], ["c2"]),
        ],
        "body", [_value("t", (), I64), _value("c", (), BOOL)], [_value("c2", (), BOOL), _value("mean", None)],
    )  # fmt: skip
    nodes = [
        _const("zero", [0]), _const("one", [1]), _const("far", [2**62]), _const("first", 0),
        _const("yes", True, "bool"),
        _const("table", TABLE, "float32"), N("Shape", ["words"], ["count"]),
        N("Concat", ["offsets", "count"], ["begins"], axis=0),
        N("Slice", ["begins", "one", "far", "zero"], ["ends"]), N("Shape", ["ends"], ["bags"]),
        N("Gather", ["bags", "first"], ["trips"]), N("Loop", ["trips", "yes"], ["y"], body=body, name="loop"),
    ]  # fmt: skip
    return _model(nodes, [_value("words", ("n",), I64), _value("offsets", ("bags",), I64)], {"y": F32})


def _traced_bags() -> onnx.ModelProto:
    """EmbeddingBag of torch.onnx with dynamo: the loop counts by CastLike, its slices have one element each, empty
    bags are a branch, and the rows are a list."""
    empty = helper.make_graph([_const("none", np.zeros((1, 4)), "float32")], "empty", [], [_value("none", None)])
    full = helper.make_graph(
        [N("Slice", ["rows", "start", "end"], ["own"]), N("ReduceSum", ["own", "zero"], ["sum"])], "full", [],
        [_value("sum", None)],
    )  # fmt: skip
    body = helper.make_graph(
        [
            N("Reshape", ["i", "minus"], ["at"]), N("CastLike", ["step", "at"], ["by"]),
            N("Add", ["at", "by"], ["at2"]),
            N("Slice", ["begins", "at", "at2"], ["start"]), N("CastLike", ["two", "at"], ["by2"]),
            N("Add", ["at", "by2"], ["at3"]),
            N("Slice", ["begins", "at2", "at3"], ["end"]), N("Equal", ["start", "end"], ["nothing"]),
            N("If", ["nothing"], ["row"], then_branch=empty, else_branch=full),
            N("SequenceInsert", ["list", "row"], ["list2"]),
            N("CastLike", ["step", "i"], ["by3"]), N("Add", ["i", "by3"], ["i2"]),
            N("Less", ["i2", "bags"], ["going"]),
        ],
        "body",
        [_value("t", (), I64), _value("c", (), BOOL), _value("i", (), I64),
        helper.make_tensor_sequence_value_info("list", F32, None)],
        [_value("going", (), BOOL), _value("i2", (), I64),
        helper.make_tensor_sequence_value_info("list2", F32, None)],
    )  # fmt: skip
    nodes = [
        _const("zero", [0]), _const("minus", [-1]), _const("step", 1), _const("two", 2), _const("first", 0),
        _const("table", TABLE, "float32"), N("Gather", ["table", "words"], ["rows"]),
        N("Shape", ["words"], ["count"]),
        N("Concat", ["offsets", "count"], ["begins"], axis=0), N("Size", ["offsets"], ["bags"]),
        N("SequenceEmpty", [], ["none0"]),
        N("Less", ["first", "bags"], ["some"]),
        N("Loop", ["", "some", "first", "none0"], ["last", "all"], body=body, name="loop"),
        N("ConcatFromSequence", ["all"], ["y"], axis=0),
    ]  # fmt: skip
    return _model(nodes, [_value("words", ("n",), I64), _value("offsets", ("bags",), I64)], {"y": F32})


@pytest.mark.parametrize("target", ["generic", "native"])
@pytest.mark.parametrize("made", [_scripted_bags, _traced_bags], ids=["scripted", "traced"])
def test_bags_of_words(made: functools.partial[onnx.ModelProto], target: str, tmp_path: Path) -> None:
    """Ranges too wide to try all numbers; some bags are empty: the mean of nothing is 0, as onnxruntime has it."""
    rng = np.random.default_rng(1)
    ends = ((20, [0, 3, 3, 11, 20]), (3, [0]), (7, [0, 7]))
    feeds = [{"words": rng.integers(0, 9, n), "offsets": np.array(offsets)} for n, offsets in ends]
    _compare(made(), tmp_path, feeds, dims={"n": "3..20", "bags": "1..5"}, target=target)


def test_bags_of_one_size(tmp_path: Path) -> None:
    """Their offsets are Range(0, b * k, k), of which there are b."""
    m = Maker()
    m.input("words", ("b", "k"), I64)  # type: ignore[arg-type]
    sizes = m.node("Shape", ["words"])
    b, k = (m.node("Gather", [sizes, m.const(np.array(i))]) for i in (0, 1))
    m.node("Range", [m.const(np.array(0)), m.node("Mul", [b, k]), k], "y")
    feeds = [{"words": np.zeros(shape, np.int64)} for shape in ((4, 8), (1, 1), (3, 2))]
    _compare(_of(m, {"y": I64}), tmp_path, feeds, dims={"b": "1..4", "k": "1..8"}, target="generic")


def _crops() -> onnx.ModelProto:
    """tf.image.crop_and_resize of tf2onnx: the box of each turn is a slice of all, without its axis of one."""
    body = helper.make_graph(
        [
            N("Unsqueeze", ["t", "zero"], ["at"]), N("Add", ["at", "one"], ["behind"]),
            N("Slice", ["boxes", "at", "behind", "zero"], ["part"]), N("Mul", ["part", "image"], ["scaled"]),
            N("Squeeze", ["scaled", "zero"], ["row"]), N("Identity", ["c"], ["c2"]),
        ],
        "body", [_value("t", (), I64), _value("c", (), BOOL)], [_value("c2", (), BOOL), _value("row", None)],
    )  # fmt: skip
    nodes = [
        _const("zero", [0]), _const("one", [1]), _const("yes", True, "bool"), N("Shape", ["boxes"], ["sizes"]),
        _const("first", 0),
        N("Gather", ["sizes", "first"], ["trips"]), N("Loop", ["trips", "yes"], ["y"], body=body, name="loop"),
    ]  # fmt: skip
    return _model(nodes, [_value("boxes", ("n", 4)), _value("image", (1, 4))], {"y": F32})


def test_parts_of_one_element(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    feeds = [{"boxes": rng.random((n, 4), np.float32), "image": rng.random((1, 4), np.float32)} for n in (6, 1)]
    _compare(_crops(), tmp_path, feeds, dims={"n": "1..6"}, target="generic")


def test_a_part_that_is_to_be_one_element_and_is_none(tmp_path: Path) -> None:
    m = Maker()
    x, at = m.input("x", (5, 3)), m.input("at", (1,), I64)
    zero, one = m.const(np.array([0])), m.const(np.array([1]))
    part = m.node("Slice", [x, at, m.node("Add", [at, one]), zero])
    m.node("Squeeze", [part, zero], "y")
    onnx.save(_of(m, {"y": F32}), tmp_path / "net.onnx")
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "out")
    network, rows = mccompile.load(tmp_path / "out"), np.arange(15, dtype=np.float32).reshape(5, 3)
    np.testing.assert_array_equal(network.run({"x": rows, "at": np.array([4])})["y"], rows[4])
    with pytest.raises(CompileError, match="extent over bound"):
        network.run({"x": rows, "at": np.array([5])})


def test_sizes_by_a_scale_that_is_no_whole_number(tmp_path: Path) -> None:
    """F.interpolate(recompute_scale_factor=True) of torch.onnx, and the frames of a network with strides: extents are
    floats until they are rounded."""
    m = Maker()
    x = m.input("x", (1, 2, "h", "w"))  # type: ignore[arg-type]
    sizes = [m.node("Gather", [m.node("Shape", [x]), m.const(np.array(i))]) for i in range(4)]
    h, w = (m.node("Cast", [s], to=F32) for s in sizes[2:])
    less = m.node("Cast", [m.node("Mul", [h, m.const(np.float32(0.75))])], to=I64)
    thirds = m.node("Cast", [m.node("Ceil", [m.node("Div", [w, m.const(np.float32(3))])])], to=I64)
    parts = [m.node("Unsqueeze", [s, m.const(np.array([0]))]) for s in (*sizes[:2], less, thirds)]
    m.node("Resize", [x, "", "", m.node("Concat", parts, axis=0)], "y", mode="linear")
    feeds: list[dict[str, Array]] = [
        {"x": np.random.default_rng(h).random((1, 2, h, w), np.float32)} for h, w in ((41, 40), (8, 9), (9, 8),
        (16, 7))
    ]
    _compare(_of(m, {"y": F32}), tmp_path, feeds, dims={"h": "8..41", "w": "7..40"}, target="generic")
