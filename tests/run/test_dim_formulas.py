"""Extents that are said by others: equal ones, sums, names in shapes, inputs that are an extent."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mccompile
from mccompile.check.check import check
from mccompile.driver import Options
from mccompile.ir.errors import CompileError, UsageError
from tests.support.runs import compare
from tests.support.small_models import Maker

INT = TensorProto.INT64


def _sum() -> onnx.ModelProto:
    m = Maker()
    m.node("Relu", [m.node("Add", [m.input("x", ["s0", 4]), m.input("y", ["s1", 4])])], "z")
    return m.model(["z"])


def _cache(mask: str = "total") -> onnx.ModelProto:
    m = Maker()
    joined = m.node("Concat", [m.input("past", [1, "past", 4]), m.input("new", [1, 1, 4])], "all", axis=1)
    m.node("Mul", [joined, m.node("Unsqueeze", [m.input("mask", [1, mask]), m.const(np.array([2]))])], "y")
    return m.model(["all", "y"])


def _unnamed() -> onnx.ModelProto:
    m = Maker()
    x, state = m.input("x", [None, None]), m.input("state", [2, None, 3])
    m.node("Relu", [x], "y")
    m.node("Tanh", [state], "next")
    return m.model(["y", "next"])


def _squeezed() -> onnx.ModelProto:
    m = Maker()
    m.node("Squeeze", [m.node("MatMul", [m.input("x", ["n", 6]), m.weight((6, 1))])], "y")
    return m.model(["y"])


def _merged() -> onnx.ModelProto:
    """Rows of two axes that become one, between kernels that want their channels innermost."""
    m = Maker()
    x = m.node("Conv", [m.input("x", ["n", 3, 10, 8]), m.weight((8, 3, 3, 3))], pads=[1, 1, 1, 1])
    rows = m.node("Reshape", [m.node("Transpose", [x], perm=[0, 2, 3, 1]), m.const(np.array([-1, 10, 8]))])
    m.node("Relu", [rows], "y")
    return m.model(["y"])


def _turns() -> onnx.ModelProto:
    """A loop over rows, whose number is an input beside them."""
    m = Maker(opset=18)
    length, x = m.input("length", [], INT), m.input("x", ["length", 5])
    one = helper.make_tensor("one", INT, [1], [1])
    nodes = [
        helper.make_node("Unsqueeze", ["turn", "zeros"], ["first"]),
        helper.make_node("Add", ["first", "one"], ["end"]),
        helper.make_node("Slice", ["x", "first", "end", "zeros"], ["row"]),
        helper.make_node("Add", ["row", "sum"], ["next"]),
        helper.make_node("Identity", ["next"], ["out"]),
        helper.make_node("Identity", ["going"], ["on"]),
    ]
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        nodes, "body",
        [value("turn", INT, []), value("going", TensorProto.BOOL, []), value("sum", TensorProto.FLOAT, [1, 5])],
        [value("on", TensorProto.BOOL, []), value("next", TensorProto.FLOAT, [1, 5]),
         value("out", TensorProto.FLOAT, [1, 5])],
        [one, helper.make_tensor("zeros", INT, [1], [0])],
    )  # fmt: skip
    begin = m.const(np.zeros((1, 5), np.float32))
    made = [helper.make_node("Loop", [length, "", begin], ["last", "rows"], body=body, name="loop")]
    model = m.model([])
    model.graph.node.extend(made)
    model.graph.output.extend(value(name, TensorProto.FLOAT, None) for name in ("last", "rows"))
    assert x == "x"
    return model


def _alike(counted: bool = True) -> onnx.ModelProto:
    """Dims that C spells alike, and as an extent that a kernel counts."""
    m = Maker()
    x, y = m.input("x", ["a.b", 4]), m.input("y", [4, "a_b"])
    m.node("Softmax", [m.node("MatMul", [x, y])], "z", axis=-1)
    m.node("NonZero" if counted else "Sqrt", [m.node("Relu", [m.input("w", ["a-b", "full_count"])])], "full")
    return m.model(["z", "full"])


def _saved(tmp_path: Path, build: Callable[[], onnx.ModelProto]) -> Path:
    path = tmp_path / "net.onnx"
    onnx.save(build(), path)
    return path


@pytest.mark.parametrize(
    ("build", "options"),
    [
        (_sum, {"dims": {"s0": "1..6", "s1": "s0"}}),
        (_sum, {"dims": {"s0": "3,5", "s1": "s0"}}),
        (_cache, {"dims": {"past": "0..5", "total": "past+1"}}),
        (lambda: _cache("past + 1"), {"dims": {"past": "1..5"}}),
        (_unnamed, {"dims": {"b": "1..4"}, "input_shapes": {"x": ["b", 7], "state": [2, "2*b", 3]}}),
        (_squeezed, {"dims": {"n": "1..4"}}),
        (_merged, {"dims": {"n": "1..3"}, "target": "native"}),
        (_turns, {"dims": {"length": "1..60"}, "constants": {"length": "length"}}),
        (_alike, {"dims": {"a.b": "1..6", "a_b": "1..8", "a-b": "2..3", "full_count": "2..5"}}),
        (_alike, {"dims": {"a.b": "1..6", "a_b": "1..6", "a-b": "2", "full_count": "1..4"}}),
    ],
    ids=["equal", "list", "sum", "name", "shape", "squeeze", "merged", "number", "alike", "alike, of one range"],
)
def test_both_ends_give_what_onnxruntime_gives(
    build: Callable[[], onnx.ModelProto], options: Mapping[str, Any], tmp_path: Path
) -> None:
    result = check(_saved(tmp_path, build), Options(**{"target": "generic", **options}))
    assert result.ok, result.lines()
    assert len(result.runs) >= 2


def test_dims_that_are_spelled_alike(tmp_path: Path) -> None:
    """Each has an extent of its own, also where all have one range, or one is a list."""
    dims = {"a.b": "1..6", "a_b": "1..6", "a-b": 2, "full_count": 3}
    for number, given in enumerate((dims, {**dims, "a.b": "3,6"})):
        out = tmp_path / f"out{number}"
        mccompile.compile(_saved(tmp_path, lambda: _alike(counted=False)), out, target="generic", dims=given)
        arrays = np.ones((3, 4), np.float32), np.ones((4, 5), np.float32), np.ones((2, 3), np.float32)
        assert mccompile.load(out).run(*arrays)["z"].shape == (3, 5)


def test_extents_that_do_not_meet_are_named(tmp_path: Path) -> None:
    """The model is right: of 9 rows that are halved and doubled 10 come back."""
    m = Maker()
    x = m.input("x", [1, 2, "h", 8])
    half = m.node("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    m.node("Add", [x, m.node("Resize", [half, "", m.const(np.float32([1, 1, 2, 2]))], mode="nearest")], "y")
    path = _saved(tmp_path, lambda: m.model(["y"]))
    with pytest.raises(CompileError, match=r"shapes \[1, 2, 9, 8\], \[1, 2, 10, 8\] do not broadcast$"):
        mccompile.compile(path, tmp_path / "out", target="generic", dims={"h": 9})


def test_names_of_a_shape_are_dims(tmp_path: Path) -> None:
    path = _saved(tmp_path, _unnamed)
    shapes: dict[str, list[int | str]] = {"x": [1, 7], "state": [2, "b+1", 3]}
    with pytest.raises(UsageError, match="no graph input has a dim named 'b'"):
        mccompile.compile(path, tmp_path / "out", target="generic", dims={"b": "1..4"}, input_shapes=shapes)
    shapes["x"] = ["b", 7]
    mccompile.compile(path, tmp_path / "out", target="generic", dims={"b": "1..4"}, input_shapes=shapes)
    network = mccompile.load(tmp_path / "out")
    x, state = np.ones((3, 7), np.float32), np.ones((2, 4, 3), np.float32)
    assert network.run({"x": x, "state": state})["next"].shape == (2, 4, 3)
    with pytest.raises(UsageError):
        network.run({"x": x, "state": state[:, :3]})


@pytest.mark.parametrize(
    ("build", "dims", "hint"),
    [(_sum, {"s0": "1..8", "s1": "1..9"}, "dims={'s1': 's0'}"),
     (_cache, {"past": "0..7", "total": "1..9"}, "dims={'total': 'past+1'}")],
)  # fmt: skip
def test_what_has_to_be_equal_is_said(
    build: Callable[[], onnx.ModelProto], dims: dict[str, int | str], hint: str, tmp_path: Path
) -> None:
    with pytest.raises(CompileError, match="depends on") as raised:
        mccompile.compile(_saved(tmp_path, build), tmp_path / "out", target="generic", dims=dims)
    assert hint in raised.value.hint


@pytest.mark.parametrize(
    ("dims", "words"),
    [
        ({"s0": "s1", "s1": "s0"}, "computed of each other: s0=s1, s1=s0"),
        ({"s0": "k", "s1": 2}, "nothing says what 'k' is"),
        ({"s0": "s1//0", "s1": 2}, "divides by 0"),
        ({"s0": "s1-2", "s1": "1..4"}, "may be -1"),
        ({"s0": "s1*", "s1": 4}, "no sum, product or whole quotient"),
        ({"s0": "4,8", "s1": "4,8"}, "several dims are lists"),
    ],
)
def test_formulas_that_are_none(dims: dict[str, int | str], words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        mccompile.compile(_saved(tmp_path, _sum), tmp_path / "out", target="generic", dims=dims)


def test_a_dim_that_is_called_1_is_no_number(tmp_path: Path) -> None:
    m = Maker()
    m.node("Concat", [m.input("x", ["1", 2]), m.input("y", ["n", 2]), m.input("z", ["m", 2])], "out", axis=0)
    path = tmp_path / "net.onnx"
    onnx.save(m.model(["out"]), path)
    mccompile.compile(path, tmp_path / "out", target="generic", dims={"1": 5, "n": np.int64(3), "m": "n+1"})
    assert mccompile.load(tmp_path / "out").input_types["z"].shape == (4, 2)


@pytest.mark.parametrize(
    ("x", "y", "dim", "options"),
    [
        ("x", "y", "pool", {"threads": 2}),
        ("x", "y", "input_x", {"io": "caller"}),
        ("x", "y", "output_y", {"io": "caller"}),
        ("x", "x_dims", "n", {}),
    ],
)
def test_each_function_has_a_name_of_its_own(
    x: str, y: str, dim: str, options: dict[str, Any], tmp_path: Path
) -> None:
    """What sets an extent and what sets an input, what tells an input and what tells its extents."""
    m = Maker()
    m.node("Sub", [m.input(x, [dim, 2]), m.input("b" if y == "y" else y, [dim, 2])], "y")
    path = tmp_path / "net.onnx"
    onnx.save(m.model(["y"]), path)
    mccompile.compile(path, tmp_path / "out", target="generic", dims={dim: "1..4"}, **options)
    a, b = np.full((3, 2), 5, np.float32), np.ones((3, 2), np.float32)
    assert np.array_equal(mccompile.load(tmp_path / "out").run(a, b)["y"], a - b)


def test_outputs_of_several_numbers_keep_their_names(tmp_path: Path) -> None:
    m = Maker()
    m.node("Relu", [m.input("n.now", ["n", 2])], "n.is_1")
    path = tmp_path / "net.onnx"
    onnx.save(m.model(["n.is_1"]), path)
    mccompile.compile(path, tmp_path / "out", target="generic", dims={"n": "1,3"})
    network = mccompile.load(tmp_path / "out")
    assert (list(network.inputs), list(network.outputs)) == (["n.now"], ["n.is_1"])


def test_numbers_beside_a_range(tmp_path: Path) -> None:
    """Extents that a number of a list and an extent of the run make together, and halves of odd numbers."""
    m = Maker()
    past, new = m.input("past", ["b", 3]), m.input("new", ["n", 3])
    joined = m.node("Concat", [past, new], "all", axis=0)
    products = m.node("MatMul", [new, m.node("Transpose", [joined])], "products")
    m.node("Relu", [products], "positive")
    m.node("Reshape", [m.node("MatMul", [new, m.node("Transpose", [past])]), m.const(np.array([-1]))], "less")
    every = [m.const(np.array([v])) for v in (0, 2**31, 0, 2)]
    m.node("Concat", [m.node("Slice", [new, *every]), past], "half", axis=0)
    outputs = ["all", "positive", "less", "half"]
    rng = np.random.default_rng(0)
    feeds = [{"past": rng.normal(size=(b, 3)).astype(np.float32), "new": rng.normal(size=(n, 3)).astype(np.float32)}
             for n in (64, 1, 7, 64) for b in (0, 4, 1)]  # fmt: skip
    compare(m.model(outputs), tmp_path, feeds, 1e-5, 1e-6, target="generic", dims={"n": "1,7,64", "b": "0..4"})


@pytest.mark.parametrize("extent", [2**31, 2**40, -(2**40), 2.5, "2", None])
def test_extents_that_are_none_are_refused_and_change_nothing(extent: Any, tmp_path: Path) -> None:
    m = Maker()
    m.node("MatMul", [m.input("x", ["n", 3]), m.input("y", [3, "m"])], "z")
    path = tmp_path / "net.onnx"
    onnx.save(m.model(["z"]), path)
    mccompile.compile(path, tmp_path / "out", target="generic", dims={"n": "1..4", "m": "1..4"})
    network = mccompile.load(tmp_path / "out")
    with pytest.raises(UsageError):
        network.set_extents({"n": 2, "m": extent})
    network.set_extents({})
    assert (network.inputs["x"].shape, network.inputs["y"].shape) == ((4, 3), (3, 4))
