"""If whose condition is computed at run time: one branch is run, on either course."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

import mccompile
from mccompile import driver
from mccompile.ir.errors import CompileError
from tests.support.read_again import is_read_again
from tests.support.small_models import Array, Maker


def _body(m: Maker, outputs: Sequence[str], shape: Sequence[int]) -> onnx.GraphProto:
    infos = [helper.make_tensor_value_info(o, TensorProto.FLOAT, shape) for o in outputs]
    return helper.make_graph(m.nodes, "body", [], infos, m.weights)


def _branching() -> onnx.ModelProto:
    """A branch with a branch inside; one that gives what it captured; a value that both and the rest read."""
    m = Maker()
    x = m.input("x", [2, 8])
    shared = m.node("Neg", [x], "shared")
    total = m.node("ReduceSum", [x], "total", keepdims=0)
    yes = Maker(seed=1)
    yes.node("MatMul", [x, yes.weight((8, 8))], "product")
    inner_yes, inner_no = Maker(seed=2), Maker(seed=3)
    inner_yes.node("Relu", ["product"], "inner_then")
    inner_no.node("Sub", ["product", "shared"], "inner_else")
    inner = {
        "then_branch": _body(inner_yes, ["inner_then"], [2, 8]),
        "else_branch": _body(inner_no, ["inner_else"], [2, 8]),
    }
    large = yes.node("Greater", [total, yes.const(np.float32(3))])
    yes.node("If", [large], "then_out", **inner)
    yes.node("Add", ["then_out", shared], "then_sum")
    no = Maker(seed=4)
    rows = no.node("Reshape", [x, no.const(np.array([1, 2, 8]))])
    no.node("Conv", [rows, no.weight((2, 2, 3))], "rows", pads=[1, 1])
    no.node("Reshape", ["rows", no.const(np.array([2, 8]))], "else_sum")
    no.node("Identity", [shared], "else_out")
    then, other = _body(yes, ["then_sum", "product"], [2, 8]), _body(no, ["else_sum", "else_out"], [2, 8])
    condition = m.node("Greater", [total, m.const(np.float32(0))])
    m.nodes.append(helper.make_node("If", [condition], ["a", "b"], then_branch=then, else_branch=other))
    m.node("Mul", ["a", shared], "y")
    infos = [helper.make_tensor_value_info(o, TensorProto.FLOAT, [2, 8]) for o in ("y", "b")]
    graph = helper.make_graph(m.nodes, "branching", m.inputs, infos, m.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _inputs() -> list[Array]:
    drawn = np.random.default_rng(5).normal(0, 1, (2, 8)).astype(np.float32)
    return [drawn + shift for shift in (np.float32(1), np.float32(0.1), np.float32(-1), np.float32(0.5))]


@pytest.mark.parametrize(("target", "level"), [("generic", "O0"), ("native", "O2"), ("native", "Os")])
def test_the_branch_that_the_condition_says_is_run(target: str, level: str, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(_branching(), path)
    mccompile.compile(path, tmp_path / "out", target=target, opt_level=level)
    network = mccompile.load(tmp_path / "out")
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    taken = set()
    for x in _inputs():
        network.fill_arenas(0xFF)
        got = network.run({"x": x})
        taken.add((x.sum() > 0, x.sum() > 3))
        for name, wanted in zip(("y", "b"), session.run(None, {"x": x}), strict=True):
            np.testing.assert_allclose(got[name], wanted, rtol=2e-5, atol=2e-6)
    assert len(taken) == 3


def test_every_form_is_a_text_that_is_read_again(tmp_path: Path) -> None:
    onnx.save(_branching(), tmp_path / "net.onnx")
    compilation = driver.import_graph(tmp_path / "net.onnx", driver.Options(target="generic"))
    meant = compilation.graph.evaluate({"x": _inputs()[0]})

    driver.compile_program(compilation, is_read_again(tmp_path))
    for name, array in compilation.graph.evaluate({"x": _inputs()[0]}).items():
        np.testing.assert_allclose(array, meant[name], rtol=1e-4, atol=1e-5)


def test_a_branch_that_cannot_be_computed_ends_the_run(tmp_path: Path) -> None:
    """As in networks for two sampling rates, whose windows are of different lengths."""
    m = Maker()
    m.input("x", [1, 4])
    flag = m.input("flag", [], TensorProto.BOOL)
    yes, no = Maker(), Maker(seed=2)
    yes.node("MatMul", ["x", yes.weight((4, 3))], "then_out")
    no.node("MatMul", ["x", no.weight((5, 3))], "else_out")
    m.nodes.append(helper.make_node(
        "If", [flag], ["y"], name="rate", then_branch=_body(yes, ["then_out"], [1, 3]),
        else_branch=_body(no, ["else_out"], [1, 3]),
    ))  # fmt: skip
    info = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])
    graph = helper.make_graph(m.nodes, "rates", m.inputs, [info], m.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "net.onnx")
    made = mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", target="native")
    assert any("else branch of 'rate' cannot be computed" in note for note in made.notes)
    network = mccompile.load(tmp_path / "out")
    assert network.run({"x": np.ones((1, 4), np.float32), "flag": np.array(True)})["y"].shape == (1, 3)
    with pytest.raises(CompileError, match="status 12"):
        network.run({"x": np.ones((1, 4), np.float32), "flag": np.array(False)})


def test_a_branch_with_an_output_of_two_ranks_is_refused(tmp_path: Path) -> None:
    """That is no matter of shapes: the branch could be run, and no program would be one that only refuses it."""
    m = Maker()
    x, flag, deep = m.input("x", [1, 4]), m.input("flag", [], TensorProto.BOOL), m.input("deep", [], TensorProto.BOOL)
    flat, wide, yes, no = Maker(), Maker(), Maker(), Maker()
    flat.node("Reshape", [x, flat.const(np.array([4]))], "flat")
    wide.node("Neg", [x], "wide")
    inner = {"then_branch": _body(flat, ["flat"], [4]), "else_branch": _body(wide, ["wide"], [1, 4])}
    yes.node("ReduceSum", [yes.node("If", [deep], **inner)], "then_out", keepdims=0)
    no.node("ReduceSum", [x], "else_out", keepdims=0)
    bodies = {"then_branch": _body(yes, ["then_out"], []), "else_branch": _body(no, ["else_out"], [])}
    m.nodes.append(helper.make_node("If", [flag], ["y"], **bodies))
    graph = helper.make_graph(m.nodes, "ranks", m.inputs, [helper.make_tensor_value_info("y", 1, [])], m.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(CompileError, match=r"an output that is f32\[4\] or f32\[1,4\], .* is not supported"):
        mccompile.compile(model, tmp_path / "out", target="generic")


def _extents_differ(kind: str) -> onnx.ModelProto:
    """As detectors are exported: no rows where nothing is left, else as many as are kept; rows of known numbers; rows
    that one branch counts, where the other cannot be computed."""
    m = Maker()
    x = m.input("x", [6, 2])
    flag = m.input("flag", [], TensorProto.BOOL)
    yes, no = Maker(), Maker()
    most = yes.node("ReduceMax", [x, yes.const(np.array([1]))], keepdims=0)
    large = yes.node("Greater", [most, yes.const(np.float32(0))])
    yes.node("Compress", [x, large], "kept", axis=0)
    if kind == "counted":
        no.node("Identity", [no.const(np.zeros((0, 2), np.float32))], "other")
    elif kind == "known":
        no.node("Concat", [x, x], "other", axis=0)
    else:
        no.node("MatMul", [x, no.weight((5, 2))], "other")
    branches = {"then_branch": _body(yes, ["kept"], [None, 2]), "else_branch": _body(no, ["other"], [None, 2])}
    m.nodes.append(helper.make_node("If", [flag], ["rows"], name="rows", **branches))
    m.node("Neg", ["rows"], "y")
    m.node("ReduceSum", ["rows", m.const(np.array([0]))], "sums", keepdims=0)
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("y", [None, 2]), ("sums", [2]))]
    graph = helper.make_graph(m.nodes, "rows", m.inputs, infos, m.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.mark.parametrize("kind", ["counted", "known", "refused"])
def test_branches_may_give_other_extents(kind: str, tmp_path: Path) -> None:
    onnx.save(_extents_differ(kind), tmp_path / "net.onnx")
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", target="generic")
    network = mccompile.load(tmp_path / "out")
    for seed, flag in ((0, True), (1, False), (2, True)):
        x = np.random.default_rng(seed).normal(-0.5, 1, (6, 2)).astype(np.float32)
        given = {"x": x, "flag": np.array(flag)}
        network.fill_arenas(0xFF)
        if kind == "refused" and not flag:
            with pytest.raises(CompileError, match="status 12"):
                network.run(given)
            continue
        got = network.run(given)
        other = np.zeros((0, 2), np.float32) if kind == "counted" else np.concatenate([x, x])
        rows = x[x.max(axis=1) > 0] if flag else other
        np.testing.assert_array_equal(got["y"], -rows)
        np.testing.assert_allclose(got["sums"], rows.sum(axis=0), rtol=1e-5, atol=1e-6)


def test_a_condition_that_is_the_same_for_every_extent_leaves_one_branch(tmp_path: Path) -> None:
    """The sum of a causal mask is never above 0; so much is known where its table is."""
    m = Maker()
    x = m.input("x", ["n"])
    at = m.node("Range", [m.const(np.int64(0)), m.node("Size", [x]), m.const(np.int64(1))])
    behind = m.node("GreaterOrEqual", [at, m.node("Unsqueeze", [at, m.const(np.array([1]))])])
    mask = m.node("Where", [behind, m.const(np.float32(0)), m.const(np.float32(-10000))], "mask")
    above = m.node("Greater", [m.node("ReduceSum", [mask], keepdims=0), m.const(np.float32(0))])
    yes, no = Maker(), Maker()
    yes.node("Tanh", [mask], "tanh")
    no.node("Exp", [mask], "exp")
    branches = {"then_branch": _body(yes, ["tanh"], [None, None]), "else_branch": _body(no, ["exp"], [None, None])}
    m.nodes.append(helper.make_node("If", [above], ["rows"], name="rows", **branches))
    m.node("Mul", ["rows", x], "y")
    onnx.save(m.model(["y"]), tmp_path / "net.onnx")
    made = mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", target="generic", dims={"n": "1..7"})
    assert "tanh" not in (tmp_path / "out" / f"{made.name}.c").read_text()
    network = mccompile.load(tmp_path / "out")
    for n in (7, 1, 4):
        given = np.arange(1, n + 1, dtype=np.float32)
        np.testing.assert_array_equal(network.run({"x": given})["y"], np.triu(np.ones((n, n), np.float32)) * given)
