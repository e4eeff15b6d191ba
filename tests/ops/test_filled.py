"""Tensors of one number whose extents the run says: none has those of the longest run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import mccompile
from mccompile.ops.text import decoded, encoded

N = helper.make_node
TFIDF = {
    "mode": "TF", "min_gram_length": 2, "max_gram_length": 2, "max_skip_count": 0, "ngram_counts": [0, 2],
    "ngram_indexes": [0, 1], "pool_int64s": [1, 2],
}  # fmt: skip
CASES: dict[str, tuple[list[onnx.NodeProto], list[Any], np.dtype[Any], dict[str, Any]]] = {
    "a part of nothing": (
        [N("Split", ["x", "parts"], ["y", "z"], axis=1)], ["n", 2], np.dtype("f4"), {"parts": [2, 0]},
    ),
    "parts of nothing": ([N("Split", ["x"], ["y", "z"], axis=1, num_outputs=2)], ["n", 0], np.dtype("f4"), {}),
    "no n-gram": ([N("TfIdfVectorizer", ["x"], ["y"], **TFIDF)], ["n", 3], np.dtype("i8"), {}),
    "longer text": (
        [
            N("StringConcat", ["x", "x"], ["xx"]), N("Concat", ["x", "xx"], ["y"], axis=0),
            N("Equal", ["x", "xx"], ["z"]),
        ],
        ["n"], np.dtype(object), {},
    ),
    "pieces of no text": ([N("StringSplit", ["x"], ["y", "z"], delimiter=",")], ["n", 0], np.dtype(object), {}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_extents_are_those_of_the_run(case: str, tmp_path: Path) -> None:
    nodes, shape, dtype, constants = CASES[case]
    names = [name for node in nodes for name in node.output if name in "yz"]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(dtype), shape)],
        [helper.make_empty_tensor_value_info(name) for name in names],
        [numpy_helper.from_array(np.array(v), k) for k, v in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.save(model, tmp_path / "n.onnx")
    mccompile.compile(tmp_path / "n.onnx", tmp_path / "out", target="generic", dims={"n": "1..7"})
    network = mccompile.load(tmp_path / "out")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for n in (7, 3):
        x = _drawn([n if e == "n" else e for e in shape], dtype)
        got = network.run({"x": encoded(x, 64) if dtype.kind == "O" else x})
        for name, want in zip(names, session.run(names, {"x": x}), strict=True):
            own = decoded(got[name]) if want.dtype.kind == "O" else got[name]
            assert own.shape == want.shape
            np.testing.assert_array_equal(own, want)


def _drawn(shape: list[int], dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "O":
        return np.full(shape, "ab", object)
    return (np.arange(np.prod(shape)) % 3).reshape(shape).astype(dtype)
