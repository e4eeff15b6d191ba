"""Rows that the run picks out of as many as it is given, against onnxruntime: Compress, Unique, what reads them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mccompile
from mccompile.ir.errors import CompileError
from tests.support.runs import compare
from tests.support.small_models import Array, Maker

F32, I64 = TensorProto.FLOAT, TensorProto.INT64
TARGETS = ["generic", "native"]

_compare = functools.partial(compare, rtol=2e-5, atol=2e-6)


def _model(m: Maker, outputs: Mapping[str, int], opset: int = 18) -> onnx.ModelProto:
    infos = [helper.make_tensor_value_info(name, dtype, None) for name, dtype in outputs.items()]
    graph = helper.make_graph(m.nodes, "picked", m.inputs, infos, m.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def _floats(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).normal(0, 1, shape).astype(np.float32)


def _mask(*bits: int) -> Array:
    return np.array(bits, np.float32)


@pytest.mark.parametrize("target", TARGETS)
def test_rows_that_a_mask_leaves_of_an_axis_of_the_run(target: str, tmp_path: Path) -> None:
    """Two tensors by one mask have as many rows; the mask may end before the axis does."""
    m = Maker()
    x = m.input("x", ("n", 3))  # type: ignore[arg-type]
    mask = m.node("Cast", [m.input("m", ("k",))], to=TensorProto.BOOL)  # type: ignore[arg-type]
    rows = [m.node("Compress", [v, mask], axis=0) for v in (x, m.node("Tanh", [x]))]
    m.node("Softmax", [m.node("MatMul", [m.node("Add", rows), m.weight((3, 4))])], "y", axis=0)
    m.node("Compress", [x, mask], "flat")
    m.node("Compress", [m.node("Transpose", [x], perm=[1, 0]), mask], "columns", axis=-1)
    feeds = [
        {"x": _floats(7, 3), "m": _mask(0, 1, 1, 0, 1, 0, 1)}, {"x": _floats(7, 3), "m": _mask(1, 0, 1)},
        {"x": _floats(1, 3), "m": _mask(0)}, {"x": _floats(0, 3), "m": _mask()},
    ]  # fmt: skip
    model = _model(m, {"y": F32, "flat": F32, "columns": F32})
    _compare(model, tmp_path, feeds, dims={"n": "0..7", "k": "0..7"}, target=target)


@pytest.mark.parametrize("known", [False, True])
def test_elements_by_a_mask_of_two_axes(known: bool, tmp_path: Path) -> None:
    """A masked_select of PaddlePaddle: the elements of a mask are taken in a line, as in onnxruntime."""
    m = Maker()
    x = m.input("x", (3, 4) if known else ("n", 4))  # type: ignore[arg-type]
    mask = m.const(np.eye(3, 4) > 0) if known else m.node("Greater", [x, m.const(np.float32([[0.1]]))])
    m.node("Compress", [x, mask], "y")
    feeds = [{"x": _floats(n, 4)} for n in ((3,) if known else (1, 3, 4))]
    dims = {} if known else {"dims": {"n": "1..4"}}
    _compare(_model(m, {"y": F32}), tmp_path, feeds, target="generic", **dims)


def test_rows_by_a_mask_that_is_known(tmp_path: Path) -> None:
    """All are there in every run, or the run is told where they are not."""
    m = Maker()
    x = m.input("x", ("n", 3))  # type: ignore[arg-type]
    m.node("Compress", [x, m.const(np.array([1, 0, 0, 1], bool))], "y", axis=0)
    model = _model(m, {"y": F32})
    _compare(model, tmp_path, [{"x": _floats(n, 3)} for n in (4, 6)], dims={"n": "4..6"}, target="generic")
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "short", dims={"n": "1..6"})
    network = mccompile.load(tmp_path / "short")
    assert network.run({"x": _floats(5, 3)})["y"].shape == (2, 3)
    with pytest.raises(CompileError, match="index out of range"):
        network.run({"x": _floats(2, 3)})
    with pytest.raises(CompileError, match="behind an axis of extent 3"):
        mccompile.compile(tmp_path / "net.onnx", tmp_path / "never", dims={"n": "1..3"})


@pytest.mark.parametrize("attributes", [{}, {"axis": 0}, {"axis": 1}, {"axis": 1, "sorted": 0}], ids=str)
def test_what_differs_among_as_many_as_there_are(attributes: Mapping[str, int], tmp_path: Path) -> None:
    m = Maker()
    m.node("Round", [m.input("x", ("n", "m"))], "rounded")  # type: ignore[arg-type]
    m.nodes.append(helper.make_node("Unique", ["rounded"], ["y", "first", "places", "times"], **attributes))
    feeds = [{"x": np.round(_floats(*shape))} for shape in ((6, 5), (2, 5), (6, 1), (1, 1), (4, 3))]
    model = _model(m, {"y": F32, "first": I64, "places": I64, "times": I64})
    _compare(model, tmp_path, feeds, dims={"n": "1..6", "m": "1..5"}, target="generic")


@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize("axis", [1, 2])
def test_a_cache_takes_as_many_rows_as_there_are(axis: int, mode: str, tmp_path: Path) -> None:
    m = Maker()
    cache, more = ["b", 6, 4], ["b", 6, 4]
    cache[axis], more[axis] = 9, "n"
    places = m.input("at", ("b",), I64)  # type: ignore[arg-type]
    given = [m.input("cache", tuple(cache)), m.input("more", tuple(more))]  # type: ignore[arg-type]
    m.node("TensorScatter", [*given, places], "y", axis=axis, mode=mode)
    feeds = []
    for b, n, at in ((3, 4, [0, 5, 2]), (1, 1, [8]), (2, 3, [6, 1])):
        shapes = [[b if e == "b" else n if e == "n" else int(e) for e in shape] for shape in (cache, more)]
        feeds.append({"cache": _floats(*shapes[0]), "more": _floats(*shapes[1]), "at": np.array(at)})
    _compare(_model(m, {"y": F32}, 24), tmp_path, feeds, dims={"b": "1..3", "n": "1..4"}, target="generic")


def test_places_of_a_cache_at_the_ends(tmp_path: Path) -> None:
    """A linear one has none in front of its first row, a circular one goes on behind the largest i64."""
    def model(mode: str) -> onnx.ModelProto:
        m = Maker()
        ports = [("cache", (1, 6, 1), F32), ("more", (1, "n", 1), F32), ("at", (1,), I64)]
        m.node("TensorScatter", [m.input(*port) for port in ports], "y", axis=1, mode=mode)  # type: ignore[arg-type]
        return _model(m, {"y": F32}, 24)

    def feed(at: int) -> Mapping[str, Array]:
        return {"cache": _floats(1, 6, 1), "more": _floats(1, 2, 1), "at": np.array([at])}

    ends = [0, 5, 2**63 - 1, 2**63 - 2]
    _compare(model("circular"), tmp_path, [feed(at) for at in ends], dims={"n": "0..3"}, target="generic")
    _compare(model("linear"), tmp_path, [feed(4)], dims={"n": "0..3"}, target="generic")
    network = mccompile.load(tmp_path / "out")
    for at in (-1, -2, -6, 5, 2**63 - 1):
        with pytest.raises(CompileError, match="index out of range"):
            network.run(dict(feed(at)))


def test_a_deformed_convolution_of_a_batch_of_the_run(tmp_path: Path) -> None:
    m = Maker()
    x, offsets = m.input("x", ("b", 4, 5, 6)), m.input("offsets", ("b", 18, 5, 6))  # type: ignore[arg-type]
    m.node("DeformConv", [x, m.weight((3, 4, 3, 3)), offsets], "y", pads=[1, 1, 1, 1])
    feeds = [{"x": _floats(b, 4, 5, 6), "offsets": _floats(b, 18, 5, 6)} for b in (3, 1)]
    _compare(_model(m, {"y": F32}, 22), tmp_path, feeds, dims={"b": "1..3"}, target="generic")
    for value in m.inputs:
        value.type.tensor_type.shape.dim[2].dim_param = "h"
    onnx.save(_model(m, {"y": F32}, 22), tmp_path / "tall.onnx")
    with pytest.raises(CompileError, match="where the image's extents are known at run time only"):
        mccompile.compile(tmp_path / "tall.onnx", tmp_path / "out", dims={"b": 1, "h": "3..5"})


@pytest.mark.parametrize("op", ["Range", "Expand", "Compress", "ConstantOfShape", "Tile"])
def test_the_name_of_an_input_s_extent_at_a_result_says_only_how_large_it_may_be(op: str, tmp_path: Path) -> None:
    """Exporters are told one word for several axes: the result has the extent that the run finds out."""
    m = Maker()
    m.node("Relu", [m.input("x", ("n", 4), F32)], "z")  # type: ignore[arg-type]
    wide = m.input("w", (8, 4), F32) if op == "Compress" else m.weight((1, 4))
    if op == "Compress":
        m.node(op, [wide, m.input("r", (8,), TensorProto.BOOL)], "y", axis=0)
    elif op == "Range":
        m.node(op, [m.const(np.array(0)), m.input("r", (), I64), m.const(np.array(1))], "y")
    else:
        m.node(op, [*([] if op == "ConstantOfShape" else [wide]), m.input("r", (2,), I64)], "y")
    model = _model(m, {"z": F32, "y": I64 if op == "Range" else F32})
    shape = ["n"] if op == "Range" else ["n", 4]
    model.graph.output[1].CopyFrom(
        helper.make_tensor_value_info("y", model.graph.output[1].type.tensor_type.elem_type, shape)
    )

    def feed(n: int, count: int) -> Mapping[str, Array]:
        r = {"Range": np.array(count), "Compress": np.arange(8) < count, "Tile": np.array([count, 1])}
        given = {"x": _floats(n, 4), "r": r.get(op, np.array([count, 4]))}
        return given | ({"w": _floats(8, 4)} if op == "Compress" else {})

    _compare(model, tmp_path, [feed(5, 5), feed(5, 2), feed(3, 8)], dims={"n": "1..8"}, target="generic")


def test_shapes_with_an_extent_that_follows_from_the_number_of_rows(tmp_path: Path) -> None:
    """[k, -1], as exporters write it of boxes. Of no rows onnxruntime refuses it: we give none."""
    m = Maker()
    mask = m.node("Cast", [m.input("m", ("n",))], to=TensorProto.BOOL)  # type: ignore[arg-type]
    rows = m.node("Compress", [m.input("x", ("n", 2, 6)), mask], axis=0)  # type: ignore[arg-type]
    count = m.node("Shape", [rows], start=0, end=1)
    left, three = m.const(np.array([-1])), m.const(np.array([3]))
    m.node("Softmax", [m.node("Reshape", [rows, m.node("Concat", [count, left], axis=0)])], "flat")
    m.node("Transpose", [m.node("Reshape", [rows, m.node("Concat", [count, left, three], axis=0)])], "threes")
    twice = m.node("Mul", [count, m.const(np.array([2]))])
    m.node("Relu", [m.node("Reshape", [rows, m.node("Concat", [left, twice], axis=0)])], "columns")
    m.node("Relu", [m.node("Reshape", [rows, m.const(np.array([0, -1]))])], "copied")
    outputs = dict.fromkeys(("flat", "threes", "columns", "copied"), F32)
    feeds = [{"x": _floats(n, 2, 6), "m": _mask(*bits)} for n, bits in ((3, (1, 0, 1)), (1, (1,)))]
    _compare(_model(m, outputs), tmp_path, feeds, dims={"n": "1..7"}, target="generic")
    none = mccompile.load(tmp_path / "out").run({"x": _floats(2, 2, 6), "m": _mask(0, 0)})
    assert [none[name].shape for name in outputs] == [(0, 12), (3, 4, 0), (6, 0), (0, 12)]


def test_as_many_of_the_best_as_a_constant_says_of_an_axis_that_may_be_shorter(tmp_path: Path) -> None:
    """The results have that many, so that constants fit them; a run with fewer ends."""
    m = Maker()
    x = m.input("x", ("n", 3))  # type: ignore[arg-type]
    m.nodes.append(helper.make_node("TopK", [x, m.const(np.array([4]))], ["best", "at"], axis=0))
    m.node("Add", ["best", m.weight((4, 3))], "y")
    wanted = m.input("k", (1,), I64)
    m.nodes.append(helper.make_node("TopK", [m.node("Transpose", [x]), wanted], ["stated", "unused"]))
    model = _model(m, {"y": F32, "at": I64, "stated": F32})
    model.graph.output[2].CopyFrom(helper.make_tensor_value_info("stated", F32, [3, 2]))
    feeds = [{"x": _floats(n, 3), "k": np.array([2])} for n in (4, 8)]
    _compare(model, tmp_path, feeds, dims={"n": "0..8"}, target="generic")
    network = mccompile.load(tmp_path / "out")
    with pytest.raises(CompileError, match="index out of range"):
        network.run({"x": _floats(3, 3), "k": np.array([2])})
    with pytest.raises(CompileError, match="extent over bound"):
        network.run({"x": _floats(5, 3), "k": np.array([3])})
    with pytest.raises(CompileError, match="k = 4 elements cannot be taken along axis 0"):
        mccompile.compile(tmp_path / "net.onnx", tmp_path / "never", dims={"n": "0..3"})


def test_no_option_gives_an_extent_that_the_run_finds_out(tmp_path: Path) -> None:
    m = Maker()
    mask = m.node("Cast", [m.input("m", ("n",))], to=TensorProto.BOOL)  # type: ignore[arg-type]
    rows = m.node("Compress", [m.input("x", ("n", 3)), mask], "rows", axis=0)  # type: ignore[arg-type]
    m.node("Add", ["x", rows], "y")
    onnx.save(_model(m, {"y": F32}), tmp_path / "net.onnx")
    with pytest.raises(CompileError, match="whether rows_count is n depends") as error:
        mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", dims={"n": "1..8"})
    assert error.value.hint.startswith("the run finds out rows_count")


@pytest.mark.parametrize("target", TARGETS)
def test_the_places_of_what_differs_in_columns_of_another_tensor(target: str, tmp_path: Path) -> None:
    """Of a kernel that stores them one behind the other; the products make the peak, so that a copy may be spared."""
    m = Maker()
    columns = []
    for name in ("a", "b"):
        made = [f"{name}.u", f"{name}.first", f"{name}.at"]
        m.nodes.append(helper.make_node("Unique", [m.input(name, (8,))], made, name=name))
        columns.append(m.node("Unsqueeze", [f"{name}.at", m.const(np.array([1]))]))
    m.node("Concat", columns, "y", axis=1)
    big = m.node("Sigmoid", [m.node("MatMul", [m.input("x", (32, 32)), m.weight((32, 32))])])
    m.node("MatMul", [big, m.weight((32, 32))], "z")
    rng = np.random.default_rng(0)
    feed = {name: rng.integers(-4, 5, 8).astype(np.float32) for name in "ab"} | {"x": _floats(32, 32)}
    _compare(_model(m, {"y": I64, "z": F32}), tmp_path, [feed], target=target)


def test_a_reshape_by_numbers_of_the_run_whose_result_is_stated_by_another_extent_s_name(tmp_path: Path) -> None:
    """That leaves an extent that follows from the others."""
    m = Maker()
    m.node("Relu", [m.input("ids", ("n",), F32)], "z")  # type: ignore[arg-type]
    m.node("Reshape", [m.input("x", (2, 12), F32), m.input("r", (2,), I64)], "y")
    model = _model(m, {"z": F32, "y": F32})
    model.graph.output[1].CopyFrom(helper.make_tensor_value_info("y", F32, ["n", 4]))
    runs = [{"ids": _floats(n), "x": _floats(2, 12), "r": np.array([6, 4])} for n in (6, 2)]
    _compare(model, tmp_path, runs, dims={"n": "1..8"}, target="generic")


def test_a_slice_by_numbers_of_the_run_has_the_extent_that_is_stated_beside_one_of_the_run(tmp_path: Path) -> None:
    """A free batch is no reason to count a window of a stated width."""
    m = Maker()
    x = m.input("x", ("n", 10), F32)  # type: ignore[arg-type]
    ends = [m.input(name, (1,), I64) for name in ("s", "e")]
    m.node("Slice", [x, *ends, m.const(np.array([1]))], "p")
    m.node("MatMul", ["p", m.weight((4, 3))], "y")
    model = _model(m, {"y": F32})
    model.graph.value_info.append(helper.make_tensor_value_info("p", F32, ["n", 4]))
    runs = [{"x": _floats(n, 10), "s": np.array([s]), "e": np.array([s + 4])} for n, s in ((3, 2), (8, 6), (1, 0))]
    _compare(model, tmp_path, runs, dims={"n": "1..8"}, target="generic")


def test_sequences_of_a_time_axis_of_the_run_are_reversed_by_lengths_of_the_run(tmp_path: Path) -> None:
    m = Maker()
    x = m.input("x", ("t", 2, 3), F32)  # type: ignore[arg-type]
    m.node("ReverseSequence", [x, m.input("l", (2,), I64)], "y", time_axis=0, batch_axis=1)
    runs = [{"x": _floats(t, 2, 3), "l": np.array(lengths)} for t, lengths in ((5, [3, 5]), (1, [1, 1]), (6, [1, 6]))]
    _compare(_model(m, {"y": F32}), tmp_path, runs, dims={"t": "1..6"}, target="generic")


def _rows_of_a_number(m: Maker, *before: str, of: str) -> str:
    """Zeros, four columns wide, of as many rows as a number of the run says."""
    shape = m.node("Concat", [*before, of, m.const(np.array([4]))], axis=0)
    return m.node("ConstantOfShape", [shape])


def test_two_shapes_with_one_number_of_the_run_have_one_extent(tmp_path: Path) -> None:
    """As graph networks pool by the batch that each node is in: sums and maxima of as many rows as there are graphs,
    which the largest number in the batch says; and the second shape has it at another place."""
    m = Maker()
    x, batch = m.input("x", (6, 4), F32), m.input("b", (6, 4), I64)
    most = m.node("Add", [m.node("ReduceMax", [batch], keepdims=0), m.const(np.array(1))])
    graphs = m.node("Reshape", [most, m.const(np.array([-1]))])
    sums = m.node("ScatterElements", [_rows_of_a_number(m, of=graphs), batch, x], axis=0, reduction="add")
    one = m.const(np.array([1]))
    zeros = m.node("Squeeze", [_rows_of_a_number(m, one, of=graphs), m.const(np.array([0]))])
    maxima = m.node("ScatterElements", [zeros, batch, x], axis=0, reduction="max")
    m.node("Add", [sums, maxima], "y")
    rows = [(0, 0, 1, 1, 2, 2), (0, 1, 0, 1, 0, 0), (0,) * 6, (4, 3, 2, 1, 0, 0)]
    runs = [{"x": _floats(6, 4), "b": np.repeat(np.array(r)[:, None], 4, 1)} for r in rows]
    model = _model(m, {"y": F32})
    shapes = [node.output[0] for node in m.nodes if node.op_type == "ConstantOfShape"]
    _compare(model, tmp_path, runs, bounds={f"{shape}_0": 5 for shape in shapes}, target="generic")


ASKED_INSIDE = {
    "If": """y = If(c) <then_branch = t () => (float[a] u) { u = ConstantOfShape<value = float[1] {2.0}>(many) },
                 else_branch = e () => (float[b] v) { v = ConstantOfShape<value = float[1] {1.0}>(three) }>""",
    "Loop": """last, y = Loop(turns, , zeros) <body = turn (int64 i, bool go, float[d] before)
                 => (bool on, float[d] after, float[a] row) {
                   on = Identity(go)
                   row = Expand(x0, many)
                   grown = ReduceSum<keepdims = 0>(row)
                   after = Add(before, grown) }>""",
}


@pytest.mark.parametrize("op", ASKED_INSIDE)
def test_what_is_counted_outside_and_asked_for_inside_alone(op: str, tmp_path: Path) -> None:
    """Nothing reads what NonZero found but a graph inside, and that as an extent."""
    text = """<ir_version: 8, opset_import: ["": 17]>
    net (float[2,5] x, bool c, int64 turns) => (float y)
    <int64[1] one = {1}, int64[1] three = {3}, int64[1] two = {2}, float[2] zeros = {0, 0}, float x0 = {0.5}>
    {
      found = NonZero(x)
      shape = Shape(found)
      many = Slice(shape, one, two)
      NODE
    }"""
    model = onnx.parser.parse_model(text.replace("NODE", ASKED_INSIDE[op]))
    model.graph.output[0].type.tensor_type.ClearField("shape")
    values = {"x": _floats(2, 5) * (_floats(2, 5) > 0), "c": np.array(True), "turns": np.array(20)}
    feeds = [{i.name: value for i, value in zip(model.graph.input, values.values(), strict=True)}]
    feeds.append({**feeds[0], "x": np.zeros((2, 5), np.float32)})
    _compare(model, tmp_path, feeds, target="generic", bounds={"Loop_3": 30} if op == "Loop" else {})


def test_a_traced_loop_over_what_was_found_wants_as_many_again(tmp_path: Path) -> None:
    """torch.jit.trace unrolls ``for e in hit.nonzero()`` as often as it was gone through: a Split into as many."""
    m = Maker()
    x = m.input("x", (4,))
    rows = m.node("Transpose", [m.node("NonZero", [x])], perm=[1, 0])
    first = m.node("Split", [rows, m.const(np.array([1, 2, 0]))], "a")
    m.nodes[-1].output.extend(["b", "none"])
    for name, part in (("y", first), ("z", "b"), ("w", "none")):
        m.node("Cast", [part], name, to=F32)
    model = _model(m, {"y": F32, "z": F32, "w": F32})
    _compare(model, tmp_path, [{"x": _mask(0, 1, 1, 1)}, {"x": _mask(1, 1, 0, 1)}], target="generic")
    network = mccompile.load(tmp_path / "out")
    for other in (_mask(0, 1, 1, 0), _mask(1, 1, 1, 1), _mask(0, 0, 0, 0)):
        with pytest.raises(CompileError, match="extent over bound"):
            network.run({"x": other})


@pytest.mark.parametrize("rows", ["1..8", "5..8"])
def test_a_split_of_what_the_caller_gives_is_not_supposed_to_fit(rows: str, tmp_path: Path) -> None:
    m = Maker()
    m.node("Split", [m.input("x", ("n", 3)), m.const(np.array([1, 2]))], "y")  # type: ignore[arg-type]
    m.nodes[-1].output.append("z")
    onnx.save(_model(m, {"y": F32, "z": F32}), tmp_path / "net.onnx")
    with pytest.raises(CompileError, match="Split"):
        mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", dims={"n": rows})
