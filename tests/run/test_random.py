"""``--random input``: operators that draw take what the caller gives; onnxruntime is given the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mccompile
from mccompile.check.check import check
from mccompile.driver import Options, import_graph
from mccompile.ir.errors import CompileError
from mccompile.onnxio import DRAWING

N = helper.make_node


def _value(name: str, shape: list[int | str | None], dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def _save(path: Path, nodes: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto],
          outputs: list[onnx.ValueInfoProto]) -> Path:  # fmt: skip
    graph = helper.make_graph(nodes, "random", inputs, outputs)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8), path)
    return path


def _all_kinds(path: Path) -> Path:
    """Every operator that draws; one result is computed from two of them, one drawn where the run says how many."""
    nodes = [
        N("RandomNormalLike", ["x"], ["n"], mean=1.0, scale=2.0), N("Add", ["x", "n"], ["moved"]),
        N("RandomUniform", [], ["u"], shape=[4], low=-1.0, high=3.0), N("Mul", ["moved", "u"], ["y"]),
        N("Bernoulli", ["p"], ["b"], dtype=TensorProto.INT64), N("Multinomial", ["x"], ["m"], sample_size=5),
        N("RandomNormal", [], ["raw"], shape=[2, 3]), N("RandomUniformLike", ["x"], ["v"], dtype=TensorProto.DOUBLE),
        N("NonZero", ["p"], ["at"]), N("Cast", ["at"], ["atf"], to=TensorProto.FLOAT),
        N("RandomNormalLike", ["atf"], ["k"]), N("Mul", ["k", "atf"], ["counted"]),
    ]  # fmt: skip
    outputs = [
        _value("y", [None, 4]), _value("b", [3], TensorProto.INT64), _value("m", [None, 5], TensorProto.INT32),
        _value("raw", [2, 3]), _value("v", [None, 4], TensorProto.DOUBLE), _value("counted", [1, None]),
    ]  # fmt: skip
    return _save(path / "net.onnx", nodes, [_value("x", ["n", 4]), _value("p", [3])], outputs)


def test_draws_are_inputs(tmp_path: Path) -> None:
    path = _all_kinds(tmp_path)
    assert {n.op_type for n in onnx.load(path).graph.node} >= set(DRAWING)
    result = check(path, Options(target="generic", random="input", dims={"n": "1..3"}))
    assert result.ok, result
    graph = import_graph(path, Options(target="generic", random="input", dims={"n": 3})).graph
    assert {v.name: v.shape for v in graph.fed} == {
        "x": (3, 4), "p": (3,), "n.normal": (3, 4), "u.uniform": (4,), "b.uniform": (3,), "m.uniform": (3, 5, 4),
        "raw.normal": (2, 3), "v.uniform": (3, 4), "k.normal": (1, 3),
    }  # fmt: skip


def test_draws_have_names_of_their_own(tmp_path: Path) -> None:
    taken = ("y.normal", "y.drawn0", "y.drawn1")
    nodes = [N("Abs", ["x"], [name]) for name in taken]
    nodes += [N("RandomNormalLike", ["x"], ["y"], mean=3.0, scale=0.5), N("Sum", ["y", *taken], ["z"])]
    path = _save(tmp_path / "net.onnx", nodes, [_value("x", [2])], [_value("z", [2])])
    options = Options(target="generic", random="input")
    assert check(path, options).ok
    graph = import_graph(path, options).graph
    found = graph.evaluate({"x": np.array([1, -2], "f4"), "y.normal_2": np.array([0, -2], "f4")})
    np.testing.assert_array_equal(found["z"], np.array([6, 8], "f4"))


def test_scale_and_mean_are_the_networks(tmp_path: Path) -> None:
    path = _save(
        tmp_path / "net.onnx", [N("RandomNormalLike", ["x"], ["y"], mean=3.0, scale=0.5)], [_value("x", [2])],
        [_value("y", [2])],
    )  # fmt: skip
    mccompile.compile(path, tmp_path / "out", target="generic", random="input")
    found = mccompile.load(tmp_path / "out").run({"x": np.zeros(2, "f4"), "y.normal": np.array([0, -2], "f4")})
    np.testing.assert_array_equal(found["y"], np.array([3, 2], "f4"))


def test_multinomial_draws_what_softmax_says(tmp_path: Path) -> None:
    path = _save(
        tmp_path / "net.onnx", [N("Multinomial", ["x"], ["y"], sample_size=4000)], [_value("x", [1, 3])],
        [_value("y", [1, 4000], TensorProto.INT32)],
    )  # fmt: skip
    graph = import_graph(path, Options(target="generic", random="input")).graph
    x = np.log(np.array([[1, 2, 5]], "f4"))
    drawn = np.random.default_rng(0).random((1, 4000, 3), np.float32)
    counts = np.bincount(graph.evaluate({"x": x, "y.uniform": drawn})["y"].ravel(), minlength=3) / 4000
    np.testing.assert_allclose(counts, [1 / 8, 2 / 8, 5 / 8], atol=0.03)


def test_they_are_refused_unasked(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"RandomNormalLike draws other numbers in every run") as e:
        import_graph(_all_kinds(tmp_path), Options(target="generic", dims={"n": 2}))
    assert "--random input" in e.value.hint


def test_not_in_each_turn_of_a_loop(tmp_path: Path) -> None:
    body = helper.make_graph(
        [N("RandomNormalLike", ["s"], ["r"]), N("Add", ["s", "r"], ["s2"]), N("Identity", ["c"], ["c2"])], "body",
        [_value("i", [], TensorProto.INT64), _value("c", [], TensorProto.BOOL), _value("s", [2])],
        [_value("c2", [], TensorProto.BOOL), _value("s2", [2])],
    )  # fmt: skip
    for trips in (3, 300):
        nodes = [N("Constant", [], ["n"], value_int=trips), N("Loop", ["n", "", "x"], ["y"], body=body)]
        path = _save(tmp_path / f"{trips}.onnx", nodes, [_value("x", [2])], [_value("y", [2])])
        with pytest.raises(CompileError, match="draws anew each time"):
            import_graph(path, Options(target="generic", random="input"))
