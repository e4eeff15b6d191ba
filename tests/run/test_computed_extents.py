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


def _to_multiple(m: Maker, size: str) -> str:
    """How much has to be added for a multiple of 8, as exporters write it."""
    return m.node("Mod", [m.node("Sub", [_ints(m, 8), m.node("Mod", [size, _ints(m, 8)])]), _ints(m, 8)])


def _by_division(m: Maker, size: str) -> str:
    whole = m.node("Div", [m.node("Add", [size, _ints(m, 7)]), _ints(m, 8)])
    return m.node("Sub", [m.node("Mul", [whole, _ints(m, 8)]), size])


def _padded(how: Callable[[Maker, str], str]) -> onnx.ModelProto:
    """An image that is padded below and on the right, in windows."""
    m = Maker()
    size = m.node("Shape", [m.input("x", [1, 1, "h", "w"])], start=2, end=4)
    padded = m.node("Pad", ["x", m.node("Concat", [_ints(m, *[0] * 6), how(m, size)], axis=0)])
    pooled = m.node("MaxPool", [padded], kernel_shape=[2, 2], strides=[2, 2])
    m.node("Conv", [m.node("Relu", [pooled]), m.weight((2, 1, 4, 4))], "y", strides=[4, 4])
    return m.model(["y"])


def _even() -> onnx.ModelProto:
    """An odd line and column once more, and windows of two by two."""
    m = Maker()
    size = m.node("Shape", [m.input("x", [1, 3, "h", "w"])], start=2, end=4)
    more = m.node("Concat", [_ints(m, *[0] * 6), m.node("Mod", [size, _ints(m, 2)])], axis=0)
    m.node("MaxPool", [m.node("Pad", ["x", more], mode="edge")], "y", kernel_shape=[2, 2], strides=[2, 2])
    return m.model(["y"])


def _local() -> onnx.ModelProto:
    """Attention within windows of 8 tokens."""
    m = Maker()
    x = m.input("x", ["b", "n", 4])
    more = _to_multiple(m, _extent(m, x, 1))
    padded = m.node("Pad", [x, m.node("Concat", [_ints(m, *[0] * 4), more, _ints(m, 0)], axis=0)])
    shape = m.node("Concat", [_extent(m, x, 0), _ints(m, -1, 8, 4)], axis=0)
    windows = m.node("Reshape", [padded, shape])
    scores = m.node("MatMul", [windows, m.node("Transpose", [windows], perm=[0, 1, 3, 2])])
    m.node("MatMul", [m.node("Softmax", [scores], axis=-1), windows], "y")
    return m.model(["y"])


def _halves() -> onnx.ModelProto:
    """The upper and the lower half of an image by weights of their own."""
    m = Maker()
    rows = m.node("Add", [_extent(m, m.input("x", [1, 1, "h", "w"]), 2), _ints(m, 1)])
    half, axis = m.node("Div", [rows, _ints(m, 2)]), _ints(m, 2)
    parts = [m.node("Slice", ["x", *ends, axis]) for ends in ((_ints(m, 0), half), (half, _ints(m, END)))]
    made = [m.node("Conv", [part, m.weight((2, 1, 3, 3))], pads=[1, 1, 1, 1]) for part in parts]
    m.node("Concat", made, "y", axis=2)
    return m.model(["y"])


CASES: dict[str, tuple[Callable[[], onnx.ModelProto], dict[str, str]]] = {
    "words up to 32": (_tokens, {"n": "1..31"}),
    "new by new": (_new, {"past": "1..60", "total": "1..60"}),
    "new by all": (lambda: _new("past"), {"past": "1..60", "total": "1..60"}),
    "new by a memory": (lambda: _new("kept"), {"past": "1..60", "total": "1..60", "kept": "1..60"}),
    "padded": (lambda: _padded(_to_multiple), {"h": "1..60", "w": "1..60"}),
    "padded by division": (lambda: _padded(_by_division), {"h": "1..60", "w": "1..60"}),
    "even": (_even, {"h": "1..60", "w": "1..60"}),
    "local attention": (_local, {"b": "1..30", "n": "1..80"}),
    "halves": (_halves, {"h": "2..60", "w": "1..60"}),
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
