"""Loops whose conditions count, as tf2onnx writes them of Keras: how many turns they make is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile.backend
from mccompile.driver import Options, import_graph
from mccompile.ir.dims import span
from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Graph
from mccompile.ops.loop import Loop

N = helper.make_node
TESTS = {
    "Less": np.less, "LessOrEqual": np.less_equal, "Greater": np.greater, "GreaterOrEqual": np.greater_equal,
}  # fmt: skip


def _value(name: str, shape: list[int | str] | None, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def _const(name: str, number: object, dtype: str = "int32") -> onnx.NodeProto:
    return N("Constant", [], [name], value=numpy_helper.from_array(np.asarray(number, dtype)))


def _while(path: Path, test: str, start: int, step: int, limit: int | None, most: int = 1000) -> Path:
    """``for (k = start; ...; k += step) s = s / 2 + x[.. turn ..]``, going on while k after the turn, as a float, and
    ``limit`` (None: the first extent of x) pass the test, and the turn is below ``most``."""
    nodes = [
        N("Add", ["k", "step"], ["k2"]), N("Cast", ["k2"], ["kf"], to=1), N(test, ["kf", "limit"], ["c1"]),
        N("Cast", ["i"], ["if"], to=1), N("Less", ["if", "most"], ["c2"]), N("And", ["c2", "c1"], ["more"]),
        N("Mul", ["s", "half"], ["h"]), N("Gather", ["x", "i"], ["row"]), N("Add", ["h", "row"], ["s2"]),
        N("Identity", ["s2"], ["all"]),
    ]  # fmt: skip
    given = [
        _value("i", [], TensorProto.INT64), _value("going", [], TensorProto.BOOL), _value("k", [], TensorProto.INT32),
        _value("s", [3]),
    ]  # fmt: skip
    made = [helper.make_empty_tensor_value_info(name) for name in ("more", "k2", "s2", "all")]
    body = helper.make_graph(nodes, "body", given, made)
    outer = [
        _const("k0", start), _const("step", step), _const("half", 0.5, "float32"), _const("most", most, "float32"),
        _const("yes", True, "bool"), _const("s0", [0, 0, 0], "float32"), _const("zero", 0, "int64"),
        N("Shape", ["x"], ["shape"]), N("Gather", ["shape", "zero"], ["rows"]),
        _const("limit", limit, "float32") if limit is not None else N("Cast", ["rows"], ["limit"], to=1),
        N("Loop", ["rows", "yes", "k0", "s0"], ["k", "s", "all"], body=body, name="loop"),
        _const("last", [-1], "int64"), _const("end", [2**31 - 1], "int64"), _const("axis", [0], "int64"),
        N("Slice", ["all", "last", "end", "axis"], ["tail"]), N("Squeeze", ["tail", "axis"], ["y"]),
    ]  # fmt: skip
    graph = helper.make_graph(outer, "while", [_value("x", ["n", 3])], [_value("y", [3])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def _loop(graph: Graph) -> Loop:
    (op,) = [node.op for node in graph.nodes if isinstance(node.op, Loop)]
    return op


@pytest.mark.parametrize(
    ("test", "start", "step", "limit"),
    [
        ("Less", 0, 1, 60), ("Less", 0, 1, 1000), ("LessOrEqual", 0, 1, 60), ("Less", 3, 7, 360),
        ("LessOrEqual", 3, 7, 360), ("Greater", 50, -1, 0), ("GreaterOrEqual", 80, -1, 0), ("Greater", 5, 1, 0),
        ("Less", -4, 2, 101), ("Less", 60, 1, 60), ("Less", 59, 1, 60), ("Less", 61, 3, 60), ("Less", 2000, -1, 1000),
        ("Greater", 0, -1, 0), ("Greater", 1, -1, 0), ("LessOrEqual", 60, 1, 60), ("GreaterOrEqual", 1, -3, 0),
    ],
)  # fmt: skip
def test_turns_are_counted(test: str, start: int, step: int, limit: int, tmp_path: Path) -> None:
    path, rows = _while(tmp_path / "net.onnx", test, start, step, limit), 90
    graph = import_graph(path, Options(target="generic", dims={"n": rows})).graph
    turns = 1
    while turns < rows and TESTS[test](start + step * turns, limit):
        turns += 1
    assert _loop(graph).trips == turns
    x = np.random.default_rng(0).standard_normal((rows, 3)).astype(np.float32)
    (expected,) = ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    np.testing.assert_allclose(graph.evaluate({"x": x})["y"], expected, rtol=1e-5, atol=1e-6)


def test_the_turn_itself_may_end_it(tmp_path: Path) -> None:
    """The turn is compared before it is counted, as tf2onnx does, and so allows one more."""
    path = _while(tmp_path / "net.onnx", "Less", 0, 1, 1000, most=40)
    assert _loop(import_graph(path, Options(target="generic", dims={"n": 90})).graph).trips == 41


def test_turns_are_an_extent(tmp_path: Path) -> None:
    path = _while(tmp_path / "net.onnx", "Less", 0, 1, None)
    loop = _loop(import_graph(path, Options(target="generic", dims={"n": "1..90"})).graph)
    assert str(loop.trips) == str(loop.extent) == "n"


def _same_for_any_rows(path: Path) -> None:
    network = mccompile.backend.prepare(onnx.load(path), target="generic", dims={"n": "1..90"})
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    for rows in (1, 39, 40, 41, 42, 90):
        x = np.random.default_rng(rows).standard_normal((rows, 3)).astype(np.float32)
        np.testing.assert_allclose(network.run([x])[0], session.run(None, {"x": x})[0], rtol=1e-5, atol=1e-6)


def test_an_extent_may_allow_one_turn_alone(tmp_path: Path) -> None:
    """``k = 40; do k += 1 while k < n`` makes one for each n up to 41."""
    path = _while(tmp_path / "net.onnx", "Less", 40, 1, None)
    graph = import_graph(path, Options(target="generic", dims={"n": "1..90"})).graph
    assert span(_loop(graph).trips) == (1, 50)
    _same_for_any_rows(path)


def test_a_condition_that_may_fail_at_once_stays(tmp_path: Path) -> None:
    """Of ``k > n`` where k grows nothing follows from the first turn: the loop keeps its condition."""
    path = _while(tmp_path / "net.onnx", "Greater", 40, 1, None)
    graph = import_graph(path, Options(target="generic", dims={"n": "1..90"})).graph
    assert str(_loop(graph).extent) != "n"
    _same_for_any_rows(path)


def test_what_is_made_of_nothing_counts_nothing(tmp_path: Path) -> None:
    nodes = [
        N("RandomUniform", [], ["draw"], shape=[2]), N("Add", ["s", "draw"], ["s2"]), N("Identity", ["c"], ["more"]),
        N("RandomUniform", [], ["t2"], shape=[2]),
    ]  # fmt: skip
    given = [_value("i", [], TensorProto.INT64), _value("c", [], TensorProto.BOOL)]
    given += [_value("s", [2]), _value("t", [2])]
    made = [helper.make_empty_tensor_value_info(name) for name in ("more", "s2", "t2")]
    loop = N("Loop", ["many", "", "x", "x"], ["y", "z"], body=helper.make_graph(nodes, "body", given, made))
    graph = helper.make_graph([_const("many", 3, "int64"), loop], "g", [_value("x", [2])], [_value("y", [2])])
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    with pytest.raises(CompileError, match="RandomUniform in a loop"):
        import_graph(path, Options(target="generic", random="input"))


def _same_shapes(path: Path, nodes: list[onnx.NodeProto]) -> None:
    outputs = [helper.make_empty_tensor_value_info(name) for name in ("y", "z")]
    graph = helper.make_graph(nodes, "g", [_value("x", [3])], outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model), path)
    got = import_graph(path, Options(target="generic")).graph.evaluate({"x": np.ones(3, np.float32)})
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    for name, want in zip(("y", "z"), session.run(None, {"x": np.ones(3, np.float32)}), strict=True):
        assert got[name].shape == want.shape
        np.testing.assert_allclose(got[name], want, rtol=1e-5)


@pytest.mark.parametrize("turns", [3, 60], ids=["unrolled", "kept"])
@pytest.mark.parametrize("number", [[], [1]], ids=["number", "one number"])
@pytest.mark.parametrize("condition", [[], [1]], ids=["truth", "one truth"])
def test_the_turn_has_the_axis_that_the_body_states(
    number: list[int | str], condition: list[int | str], turns: int, tmp_path: Path
) -> None:
    nodes = [
        N("Cast", ["i"], ["f"], to=1), N("Add", ["s", "f"], ["s2"]), N("Cast", ["c"], ["truth"], to=1),
        N("Identity", ["c"], ["more"]),
    ]  # fmt: skip
    given = [_value("i", number, TensorProto.INT64), _value("c", condition, TensorProto.BOOL), _value("s", [3])]
    made = [helper.make_empty_tensor_value_info(name) for name in ("more", "s2", "f", "truth")]
    body = helper.make_graph(nodes, "body", given, made)
    loop = N("Loop", ["turns", "", "x"], ["sum", "y", "z"], body=body)
    _same_shapes(tmp_path / "net.onnx", [_const("turns", turns, "int64"), loop])


@pytest.mark.parametrize("limit", [3, 60], ids=["unrolled", "kept"])
@pytest.mark.parametrize(
    ("start", "step", "behind"),
    [
        (0, [1], []), ([0], 1, []), ([0], [1], []), ([[0]], [1], []),
        (0, 1, [N("Reshape", ["k1", "vector"], ["k2"])]), ([0], 1, [N("Squeeze", ["k1"], ["k2"])]),
        (0, [1], [N("Squeeze", ["k1", "axis"], ["k2"])]), (0, [1], [N("Reshape", ["k1", "none"], ["k2"])]),
    ],
)  # fmt: skip
def test_a_counter_has_the_axes_that_its_step_gives_it(
    start: object, step: object, behind: list[onnx.NodeProto], limit: int, tmp_path: Path
) -> None:
    nodes = [
        N("Add", ["k", "step"], ["k1" if behind else "k2"]), *behind, N("Less", ["k2", "limit"], ["less"]),
        N("Squeeze", ["less"], ["more"]), N("Mul", ["s", "half"], ["s2"]),
    ]  # fmt: skip
    given = [_value("i", [], TensorProto.INT64), _value("c", [], TensorProto.BOOL)]
    given += [_value("k", None, TensorProto.INT64), _value("s", [3])]
    made = [helper.make_empty_tensor_value_info(name) for name in ("more", "k2", "s2")]
    consts = [
        _const(name, number, "int64")
        for name, number in {
            "k0": start, "step": step, "limit": limit, "vector": [1], "axis": [0], "none": np.zeros(0)
        }.items()
    ]  # fmt: skip
    loop = N("Loop", ["", "yes", "k0", "x"], ["y", "z"], body=helper.make_graph(nodes, "body", given, made))
    path = tmp_path / "net.onnx"
    _same_shapes(path, [*consts, _const("half", 0.5, "float32"), _const("yes", True, "bool"), loop])


def _decoding(path: Path, counter_first: bool, other: str = "no", names: tuple[str, str] = ("t", "e")) -> Path:
    """``while i < 7 and sum(s) < 4: s += x``, by an If as torch.jit.script has it; ``other`` is what stands where the
    first one does not hold, of a loop without another end."""
    def test(kind: str, name: str) -> list[onnx.NodeProto]:
        if kind == "counts":
            return [N("Less", ["k2", "seven"], [name])]
        return [N("ReduceSum", ["s2"], ["sum"], keepdims=0), N("Less", ["sum", "four"], [name])]

    first, right = ("counts", "found") if counter_first else ("found", "counts")
    branches = [
        helper.make_graph(nodes, "b", [], [_value(name, [], TensorProto.BOOL)])
        for nodes, name in ((test(right, names[0]), names[0]), ([N("Identity", [other], [names[1]])], names[1]))
    ]
    nodes = [
        N("Add", ["k", "one"], ["k2"]), N("Add", ["s", "x"], ["s2"]), *test(first, "left"),
        N("If", ["left"], ["more"], then_branch=branches[0], else_branch=branches[1]),
    ]  # fmt: skip
    given = [_value("i", [], TensorProto.INT64), _value("c", [], TensorProto.BOOL)]
    given += [_value("k", [], TensorProto.INT64), _value("s", [2])]
    made = [helper.make_empty_tensor_value_info(name) for name in ("more", "k2", "s2")]
    body = helper.make_graph(nodes, "body", given, made)
    loop = N("Loop", ["endless", "yes", "k0", "x"], ["y", "z"], body=body, name="l")
    outer = [
        _const("k0", 0, "int64"), _const("one", 1, "int64"), _const("seven", 7, "int64"), _const("no", False, "bool"),
        _const("endless", 2**63 - 1, "int64"), _const("yes", True, "bool"), _const("four", 4, "float32"),
        loop,
    ]  # fmt: skip
    graph = helper.make_graph(outer, "g", [_value("x", [2])], [_value("y", [], TensorProto.INT64), _value("z", [2])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("names", [("t", "e"), ("t", "t")])
@pytest.mark.parametrize("counter_first", [True, False])
def test_a_condition_of_two_in_an_if(counter_first: bool, names: tuple[str, str], tmp_path: Path) -> None:
    """As scripted decoders have it, of at most so many tokens until one ends the text."""
    path = _decoding(tmp_path / "net.onnx", counter_first, names=names)
    assert _loop(import_graph(path, Options(target="generic")).graph).trips == 7
    network = mccompile.backend.prepare(onnx.load(path), target="generic")
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    for x in (np.full(2, x, np.float32) for x in (0.1, 0.5, 3.0)):
        for got, want in zip(network.run([x]), session.run(None, {"x": x}), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5)


def test_a_condition_of_one_or_another_asks_for_a_bound(tmp_path: Path) -> None:
    """It is an If as well. The count of turns in the file is none: it is that of a loop without one."""
    path = _decoding(tmp_path / "net.onnx", True, "yes")
    with pytest.raises(CompileError, match="nothing says how many turns") as caught:
        import_graph(path, Options(target="generic"))
    assert "--bound l=N" in caught.value.hint
