"""Integer inputs whose elements follow from the shapes that the model states of its outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import mccompile
from mccompile.importer.bounded import require_value
from mccompile.importer.solved import Unknown, solve
from mccompile.ir.dims import symbol
from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Graph
from mccompile.ir.limits import sketched
from mccompile.ir.types import F32, TensorType
from mccompile.onnxio import OnnxValue

Array = np.ndarray[Any, np.dtype[Any]]

CROPPED = """<ir_version: 9, opset_import: ["" : 18]>
    cropped (float[5,7] x, int64[2] wanted) => (float[4,9] y) {
        two = Constant <value_ints: ints = [2]> ()
        own = Shape (x)
        large = Max (own, wanted)
        missing = Sub (large, own)
        left = Div (missing, two)
        right = Sub (missing, left)
        pads = Concat <axis: int = 0> (left, right)
        padded = Pad (x, pads)
        extents = Shape (padded)
        rest = Sub (extents, wanted)
        start = Div (rest, two)
        end = Add (start, wanted)
        y = Slice (padded, start, end)
    }"""

PARTLY = """<ir_version: 9, opset_import: ["" : 18]>
    partly (float[1] x, int64[3] size) => (float[2,3] y, int64[3] twice) {
        one = Constant <value_int: int = 1> ()
        two = Constant <value_int: int = 2> ()
        n, any, m = Split <num_outputs: int = 3> (size)
        shape = Concat <axis: int = 0> (n, m)
        y = Expand (x, shape)
        twice = Add (size, size)
    }"""

UNTOLD = """<ir_version: 9, opset_import: ["" : 18]>
    untold (float[1] x, int64[2] size) => (float[6] y) {
        all = Constant <value_ints: ints = [-1]> ()
        wide = Expand (x, size)
        y = Reshape (wide, all)
    }"""


def _network(text: str, folder: Path) -> mccompile.Network:
    onnx.save(onnx.parser.parse_model(text), folder / "net.onnx")
    mccompile.compile(folder / "net.onnx", folder / "out", target="generic")
    return mccompile.load(folder / "out")


def test_a_function_written_out(tmp_path: Path) -> None:
    network = _network(CROPPED, tmp_path)
    x = np.arange(35, dtype=np.float32).reshape(5, 7)
    got = network.run({"x": x, "wanted": np.array([4, 9])})
    np.testing.assert_array_equal(got["y"], np.pad(x, ((0, 0), (1, 1)))[:4])
    for other in ([4, 8], [5, 9], [9, 4], [-4, 9], [2**40, 9]):
        with pytest.raises(CompileError, match="extent over bound"):
            network.run({"x": x, "wanted": np.array(other)})


def test_what_is_tried_may_be_larger_than_any_tensor(tmp_path: Path) -> None:
    """Three elements of up to 2,047 each: only their shapes are looked at."""
    cube = CROPPED.replace("[5,7]", "[5,7,3]").replace("int64[2]", "int64[3]").replace("[4,9]", "[4,9,2]")
    network = _network(cube, tmp_path)
    x = np.arange(105, dtype=np.float32).reshape(5, 7, 3)
    got = network.run({"x": x, "wanted": np.array([4, 9, 2])})
    np.testing.assert_array_equal(got["y"], np.pad(x, ((0, 0), (1, 1), (0, 0)))[:4, :, :2])


def test_what_is_tried_has_no_other_tensors_than_a_network() -> None:
    """Of an input of 2^34 elements front ends would make as many numbers."""
    graph = Graph("tried")
    fixed = graph.value("fixed", TensorType(F32, (2**31, 8)))
    tried = graph.value("tried", TensorType(F32, (symbol("a", 0, 2**15), symbol("b", 0, 2**15))))
    with sketched():
        require_value(tried, "input")
        with pytest.raises(CompileError, match="'fixed' has 17,179,869,184 elements"):
            require_value(fixed, "input")
    with pytest.raises(CompileError, match="'tried' has 1,073,741,824 elements"):
        require_value(tried, "input")


def test_what_the_outputs_do_not_tell_stays_an_input(tmp_path: Path) -> None:
    network = _network(PARTLY, tmp_path)
    for any_number in (7, -3, 2**40):
        size = np.array([2, any_number, 3])
        got = network.run({"x": np.ones(1, np.float32), "size": size})
        np.testing.assert_array_equal(got["y"], np.ones((2, 3)))
        np.testing.assert_array_equal(got["twice"], 2 * size)
    with pytest.raises(CompileError, match="extent over bound"):
        network.run({"x": np.ones(1, np.float32), "size": np.array([3, 7, 2])})


def test_several_answers_are_none(tmp_path: Path) -> None:
    """6 is 2 by 3 as well as 6 by 1."""
    with pytest.raises(CompileError, match="nothing says how large"):
        _network(UNTOLD, tmp_path)


def test_solve() -> None:
    a, b = symbol("a", 0, 99), symbol("b", 0, 99)
    assert solve([(a * 2 + 1, 9), (a * b, 12)]) == {"a": 4, "b": 3}
    assert solve([(a // 4, 3)]) == {}
    assert solve([(a * 2, 9)]) == {}
    assert solve([(a + b, 12), (a // 4, 3), (b // 4, 0), (a, 12)]) == {"a": 12, "b": 0}


def test_inputs_whose_names_c_spells_alike_are_told_apart() -> None:
    dotted, plain = (Unknown.of(OnnxValue(name, "i64", (2,))) for name in ("a.b", "a_b"))
    assert dotted is not None
    assert plain is not None
    assert dotted.names.isdisjoint(plain.names)
