"""Bodies of loops that are walked more than once: in each turn of a loop around, or to no end, before the loop stays
one. What an earlier walk found out is not taken for what the next one reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mccompile.driver import Options, import_graph
from mccompile.ops.loop import Loop
from tests.support.judge import plain_session

Array = np.ndarray[Any, np.dtype[Any]]
N = helper.make_node
FLOAT, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
Info = helper.make_tensor_value_info
TURN = [Info("i", I64, []), Info("c", BOOL, [])]
LONG = 60
"""Turns that are too many to be unrolled."""


def _list(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_sequence_value_info(name, FLOAT, None)


def _same(
    folder: Path, nodes: Sequence[onnx.NodeProto], outputs: Mapping[str, int], consts: Mapping[str, Any],
    rows: int | str = 2,
) -> list[Loop]:  # fmt: skip
    """The loops of the model of x[rows, 2], which has to compute what onnxruntime does."""
    weights = [numpy_helper.from_array(np.asarray(array), name) for name, array in consts.items()]
    infos = [Info(name, dtype, None) for name, dtype in outputs.items()]
    graph = helper.make_graph(list(nodes), "g", [Info("x", FLOAT, ["n", 2])], infos, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(model, folder / "net.onnx")
    made = import_graph(folder / "net.onnx", Options(target="generic", dims={"n": rows})).graph
    session = plain_session(model.SerializeToString())
    for n in (2, 3) if isinstance(rows, str) else (rows,):
        x = np.linspace(0.5, 1, 2 * n, dtype=np.float32).reshape(n, 2)
        got = made.evaluate({"x": x}, extents=made.extents_of({"x": x}))
        for name, want in zip(outputs, session.run(None, {"x": x}), strict=True):
            np.testing.assert_allclose(got[name], want, rtol=1e-4, err_msg=name)
            assert got[name].shape == want.shape
    return [node.op for node, _ in made.everywhere() if isinstance(node.op, Loop)]


@pytest.mark.parametrize("turns", [1, 2])
def test_a_while_inside_of_a_loop_counts_by_no_numbers_of_its_last_walk(turns: int, tmp_path: Path) -> None:
    """``k += i + 1`` is no step of 1, though i was 0 when its turns were looked at."""
    inner = helper.make_graph(
        [N("Add", ["i", "one"], ["step"]), N("Add", ["k", "step"], ["k2"]), N("Less", ["k2", "limit"], ["c2"]),
         N("Mul", ["a", "near"], ["a2"])],
        "inner", [*TURN, Info("k", I64, []), Info("a", FLOAT, [2])],
        [Info("c2", BOOL, []), Info("k2", I64, []), Info("a2", FLOAT, [2])],
    )  # fmt: skip
    outer = helper.make_graph(
        [N("Loop", ["", "yes", "zero", "b"], ["last", "b2"], body=inner), N("Identity", ["oc"], ["oc2"])],
        "outer", [Info("oi", I64, []), Info("oc", BOOL, []), Info("b", FLOAT, [2])],
        [Info("oc2", BOOL, []), Info("b2", FLOAT, [2]), Info("last", I64, [])],
    )  # fmt: skip
    nodes = [
        N("Gather", ["x", "zero"], ["row"]), N("Loop", ["turns", "", "row"], ["y", "k"], body=outer),
    ]  # fmt: skip
    consts = {"one": 1, "limit": 2000, "zero": 0, "yes": True, "near": np.float32(1.01), "turns": turns}
    _same(tmp_path, nodes, {"y": FLOAT, "k": I64}, consts)


@pytest.mark.parametrize("large", [False, True], ids=["long", "large"])
@pytest.mark.parametrize("read", ["s", "s2", "", "given back"])
def test_a_list_that_is_read_inside_of_a_branch_or_given_back_is_no_row(
    read: str, large: bool, tmp_path: Path
) -> None:
    """The branch asks how long the list is, before or behind the insertion: then it is more than what is stacked."""
    held = [N("SequenceLength", [read], ["l"]), N("Cast", ["l"], ["yes"], to=FLOAT)]
    if read in ("", "given back"):
        held = [N("Neg", ["a"], ["yes"])]
    sides = {
        "then_branch": helper.make_graph(held, "then", [], [Info("yes", FLOAT, [])]),
        "else_branch": helper.make_graph([N("Abs", ["a"], ["no"])], "else", [], [Info("no", FLOAT, [])]),
    }
    nodes = [
        N("Identity", ["c"], ["c2"]), N("Cast", ["i"], ["f"], to=FLOAT), N("Add", ["first", "f"], ["e"]),
        N("SequenceInsert", ["s", "e"], ["s2"]), N("Greater", ["first", "nought"], ["some"]),
        N("If", ["some"], ["q"], **sides), N("Add", ["a", "q"], ["a2"]),
    ]  # fmt: skip
    if large:  # what is folded in each turn takes more than the turns may
        nodes = [N("Mul", ["w", "two"], ["w2"]), N("ReduceSum", ["w2"], ["ws"], keepdims=0), *nodes[:-1],
                 N("Add", ["a", "q"], ["a1"]), N("Add", ["a1", "ws"], ["a2"])]  # fmt: skip
    twice = read == "given back"
    given = [_list("s"), *[_list("p")] * twice, Info("a", FLOAT, [])]
    body = helper.make_graph(
        nodes, "body", [*TURN, *given],
        [Info("c2", BOOL, []), _list("s2"), *[_list("s")] * twice, Info("a2", FLOAT, [])],
    )  # fmt: skip
    carried, last = ["none", *["none"] * twice, "nought"], ["all", *["other"] * twice, "z"]
    outer = [
        N("SequenceEmpty", [], ["none"]), N("ReduceMax", ["x"], ["first"], keepdims=0),
        N("Loop", ["turns", "", *carried], last, body=body),
        N("ConcatFromSequence", [last[twice]], ["y"], axis=0, new_axis=1),
    ]  # fmt: skip
    consts = {"turns": 5 if large else LONG, "nought": np.float32(0), "two": np.float32(2)}
    loops = _same(tmp_path, outer, {"y": FLOAT, "z": FLOAT}, {**consts, "w": np.full(30000, 1e-5, np.float32)})
    assert bool(loops) == (read == "")


@pytest.mark.parametrize("form", ["a while", "a tensor that grows"])
def test_extents_that_a_branch_reads_stay_where_a_walk_is_dropped(form: str, tmp_path: Path) -> None:
    """The first that reads the number of rows is a turn that is walked again; another one is behind the loop."""
    head = [N("Mul", ["a", "rows"], ["a1"])]
    if form == "a while":
        nodes = [*head, N("Sigmoid", ["a1"], ["a2"]), N("Add", ["i", "one"], ["step"]),
                 N("Add", ["k", "step"], ["k2"]), N("Less", ["k2", "limit"], ["c2"])]  # fmt: skip
        given, made, first = [Info("k", I64, [])], [Info("k2", I64, [])], ["", "true", "zero", "row"]
    else:
        nodes = [*head, N("Slice", ["a1", "begin", "end"], ["one1"]), N("Concat", ["a", "one1"], ["a2"], axis=0),
                 N("Identity", ["c"], ["c2"])]  # fmt: skip
        given, made, first = [], [], ["turns", "", "row"]
    body = helper.make_graph(
        nodes, "body", [*TURN, *given, Info("a", FLOAT, None)], [Info("c2", BOOL, []), *made, Info("a2", FLOAT, None)]
    )
    names = [*["last"] * len(made), "all"]
    inside = [
        N("Loop", first, names, body=body), N("ReduceSum", ["all"], ["sum"], keepdims=0),
        N("Mul", ["sum", "rows"], ["yes"]),
    ]  # fmt: skip
    sides = {
        "then_branch": helper.make_graph(inside, "then", [], [Info("yes", FLOAT, [])]),
        "else_branch": helper.make_graph([N("Neg", ["most"], ["no"])], "else", [], [Info("no", FLOAT, [])]),
    }
    outer = [
        N("Shape", ["x"], ["shape"], start=0, end=1), N("Squeeze", ["shape"], ["count"]),
        N("Cast", ["count"], ["rows"], to=FLOAT), N("Gather", ["x", "zero"], ["row"]),
        N("ReduceMax", ["x"], ["most"], keepdims=0), N("Greater", ["most", "nought"], ["some"]),
        N("If", ["some"], ["y"], **sides),
    ]  # fmt: skip
    consts = {
        "one": 1, "limit": 2000, "zero": 0, "true": True, "turns": LONG, "nought": np.float32(0), "begin": [0],
        "end": [1],
    }  # fmt: skip
    _same(tmp_path, outer, {"y": FLOAT}, consts, rows="1..8")
