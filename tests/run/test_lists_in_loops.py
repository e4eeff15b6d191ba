"""Loops that make a list or a tensor longer in each turn, as `torch.jit.script` writes `append` and `cat`: against
onnxruntime."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from mccompile.run.network import Network
from tests.support.runs import compare

N = helper.make_node
FLOAT, I64 = TensorProto.FLOAT, TensorProto.INT64


def _value(name: str, shape: Sequence[int | str] | None, dtype: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def _const(name: str, array: object, dtype: str = "float32") -> onnx.NodeProto:
    return N("Constant", [], [name], value=numpy_helper.from_array(np.asarray(array, dtype)))


def _list(new_axis: int, axis: int) -> onnx.ModelProto:
    """h = tanh(x[t] + h), of each t; all h in one tensor, the one before the last, and how many there are."""
    body = helper.make_graph(
        [
            N("SequenceAt", ["parts", "t"], ["part"]), N("Add", ["part", "h"], ["sum"]), N("Tanh", ["sum"], ["h2"]),
            N("SequenceInsert", ["items", "h2"], ["items2"]), N("Identity", ["c"], ["c2"]),
        ],
        "body",
        [_value("t", (), I64), _value("c", (), TensorProto.BOOL), _value("h", None),
         helper.make_tensor_sequence_value_info("items", FLOAT, None)],
        [_value("c2", (), TensorProto.BOOL), _value("h2", None),
         helper.make_tensor_sequence_value_info("items2", FLOAT, None)],
    )  # fmt: skip
    nodes = [
        _const("zeros", np.zeros((2, 3))), N("SequenceEmpty", [], ["none"]), _const("back", -2, "int64"),
        N("SplitToSequence", ["x"], ["parts"], axis=1, keepdims=0), N("SequenceLength", ["parts"], ["trips"]),
        N("Loop", ["trips", "", "zeros", "none"], ["last", "all"], body=body, name="loop"),
        N("ConcatFromSequence", ["all"], ["y"], axis=axis, new_axis=new_axis),
        N("SequenceAt", ["all", "back"], ["z"]),
    ]  # fmt: skip
    graph = helper.make_graph(nodes, "lists", [_value("x", (2, "n", 3))], [_value("y", None), _value("z", None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _words() -> onnx.ModelProto:
    """Greedy decoding: each word is made of all words before, and joined to them, until a word is large."""
    body = helper.make_graph(
        [
            N("Cast", ["words"], ["real"], to=FLOAT), N("ReduceSum", ["real", "along"], ["total"], keepdims=1),
            N("Mul", ["total", "half"], ["less"]), N("Cast", ["less"], ["halved"], to=I64),
            N("Add", ["halved", "one"], ["word"]), N("Concat", ["words", "word"], ["words2"], axis=1),
            N("ReduceMax", ["word"], ["most"], keepdims=0), N("Less", ["most", "limit"], ["c2"]),
        ],
        "body",
        [_value("t", (), I64), _value("c", (), TensorProto.BOOL), _value("words", None, I64)],
        [_value("c2", (), TensorProto.BOOL), _value("words2", None, I64)],
    )  # fmt: skip
    nodes = [
        _const("along", [1], "int64"), _const("half", 0.5), _const("one", 1, "int64"),
        N("Loop", ["most_words", "", "begin"], ["words_made"], body=body, name="decode"),
        N("Neg", ["words_made"], ["y"]),
    ]  # fmt: skip
    inputs = [_value("begin", ("batch", "n"), I64), _value("most_words", (), I64), _value("limit", (), I64)]
    graph = helper.make_graph(nodes, "words", inputs, [_value("y", None, I64)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


_compare = functools.partial(compare, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("new_axis", "axis", "length"), [(1, 0, "2..200"), (0, 1, "2..200"), (1, 2, 150)])
def test_a_list_is_what_the_loop_stacks(new_axis: int, axis: int, length: str | int, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    lengths = (200, 2, 7) if isinstance(length, str) else (length,)
    feeds = [{"x": random.normal(0, 1, (2, n, 3)).astype(np.float32)} for n in lengths]
    _compare(_list(new_axis, axis), tmp_path, feeds, dims={"n": length}, target="generic")


def test_rows_behind_a_list_need_no_name(tmp_path: Path) -> None:
    """Outputs at the end of a loop may be left away: here the list itself, of which nothing is read.
    onnxruntime wants them named."""
    model = _list(1, 0)
    graph = model.graph
    (loop,) = (node for node in graph.node if node.op_type == "Loop")
    del loop.output[1:]
    readers = [node for node in graph.node if "all" in node.input]
    for node in readers:
        graph.node.remove(node)
    graph.node.append(N("Neg", ["last"], ["y"]))
    del graph.output[1:]
    onnx.save(model, tmp_path / "net.onnx")
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", dims={"n": 5}, target="generic")
    x = np.random.default_rng(0).normal(0, 1, (2, 5, 3)).astype(np.float32)
    h = np.zeros((2, 3), np.float32)
    for t in range(5):
        h = np.tanh(x[:, t] + h)
    np.testing.assert_allclose(Network(tmp_path / "out").run({"x": x})["y"], -h, rtol=1e-5)


@pytest.mark.parametrize("dims", [{"batch": 2, "n": 1}, {"batch": "1..3", "n": "1..4"}], ids=["fixed", "ranges"])
def test_a_tensor_that_grows_lies_where_its_longest_fits(dims: Mapping[str, str | int], tmp_path: Path) -> None:
    free = dims["batch"] != 2
    drawn = [(3, 4, 12, 10**6), (1, 1, 12, 20), (2, 3, 0, 9)] if free else [(2, 1, 12, 10**6), (2, 1, 5, 1)]
    feeds = [
        {"begin": np.full((b, n), 3, np.int64), "most_words": np.array(most), "limit": np.array(limit)}
        for b, n, most, limit in drawn
    ]
    _compare(_words(), tmp_path, feeds, dims=dims, bounds={"decode": 12}, target="generic")
