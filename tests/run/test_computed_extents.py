"""Networks that compute extents of others, where several axes are open: padded, halved, cut off and joined."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from tests.support.runs import compare
from tests.support.small_models import Array, Maker

END = 2**31


def _ints(m: Maker, *numbers: int) -> str:
    return m.const(np.array(numbers))


def _extent(m: Maker, of: str, axis: int) -> str:
    return m.node("Shape", [of], start=axis, end=axis + 1)


def _tokens() -> onnx.ModelProto:
    """Words, zeros up to 32 of them, and a constant for each place."""
    m = Maker()
    length = _extent(m, m.input("ids", [1, "n"], TensorProto.INT64), 1)
    words = m.node("MatMul", [m.node("Gather", [m.weight((5, 8)), "ids"]), m.weight((8, 8))])
    rest = m.node("Concat", [_ints(m, 1), m.node("Sub", [_ints(m, 32), length]), _ints(m, 8)], axis=0)
    padded = m.node("Concat", [words, m.node("ConstantOfShape", [rest])], axis=1)
    m.node("Add", [padded, m.weight((1, 32, 8))], "y")
    return m.model(["y"])


def _scores(m: Maker, x: str, keys: str) -> list[str]:
    """Each row of x by all rows of others: results, and sums."""
    shares = m.node("Sigmoid", [m.node("MatMul", [x, m.node("Transpose", [keys])])])
    m.node("ReduceSum", [shares, _ints(m, 1)], "sums")
    m.node("MatMul", [shares, keys], "y")
    return ["y", "sums"]


def _new(keep: str = "") -> onnx.ModelProto:
    """What is behind the past, by itself or by a memory of extent ``keep`` and itself: there may be nothing."""
    m = Maker()
    start = _extent(m, m.input("past", ["past", 4]), 0)
    x = m.node("Slice", [m.input("x", ["total", 4]), start, _ints(m, END), _ints(m, 0)])
    keys = m.node("Concat", [m.input("memory", [keep, 4]) if keep != "past" else "past", x], axis=0) if keep else x
    return m.model(_scores(m, x, keys))


CASES: dict[str, tuple[Callable[[], onnx.ModelProto], dict[str, str]]] = {
    "words up to 32": (_tokens, {"n": "1..31"}),
    "new by new": (_new, {"past": "1..60", "total": "1..60"}),
    "new by all": (lambda: _new("past"), {"past": "1..60", "total": "1..60"}),
    "new by a memory": (lambda: _new("kept"), {"past": "1..60", "total": "1..60", "kept": "1..60"}),
}


def _feeds(model: onnx.ModelProto, dims: Mapping[str, str]) -> list[dict[str, Array]]:
    """Inputs for all corners of the ranges, and for what is between."""
    rng = np.random.default_rng(0)
    ends = {name: [int(e) for e in text.split("..")] for name, text in dims.items()}
    between = {name: [(3 * low + high) // 4] for name, (low, high) in ends.items()}
    feeds = []
    for at in [*itertools.product(*ends.values()), *itertools.product(*between.values())]:
        given, feed = dict(zip(dims, at, strict=True)), dict[str, Array]()
        for x in model.graph.input:
            shape = [given[d.dim_param] if d.dim_param else d.dim_value for d in x.type.tensor_type.shape.dim]
            whole = x.type.tensor_type.elem_type == TensorProto.INT64
            feed[x.name] = rng.integers(0, 5, shape) if whole else rng.normal(size=shape).astype(np.float32)
        feeds.append(feed)
    return feeds


@pytest.mark.parametrize("level", ["O0", "O2"])
@pytest.mark.parametrize("name", CASES)
def test_extents_that_a_network_computes(name: str, level: str, tmp_path: Path) -> None:
    build, dims = CASES[name]
    model = build()
    feeds = _feeds(model, dims)
    compare(model, tmp_path, feeds, 1e-4, 1e-5, target="generic", opt_level=level, dims=dims)
