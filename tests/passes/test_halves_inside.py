"""f16 in graphs inside of nodes: kernels of f32 there, and numbers of f16 where a step depends on them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from tests.support.judge import plain_session
from tests.support.small_models import Array, Maker

N = helper.make_node
F16 = TensorProto.FLOAT16
SHAPE = (6, 32)


def _port(name: str, shape: tuple[int, ...] | None = SHAPE, dtype: int = F16) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def _const(name: str, array: object, dtype: str = "float16") -> onnx.NodeProto:
    return N("Constant", [], [name], value=numpy_helper.from_array(np.asarray(array, dtype)))


def _model(m: Maker, outputs: list[onnx.ValueInfoProto]) -> onnx.ModelProto:
    graph = helper.make_graph(m.nodes, "halves", m.inputs, outputs, m.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _branches() -> onnx.ModelProto:
    """Products, norms and softmax in and around branches, one of which has a branch of its own, or gives what it
    is given; whole numbers of what is made on the other side of a branch's border."""
    m = Maker()
    x, flag = m.input("x", SHAPE, F16), m.input("flag", (1,), TensorProto.BOOL)
    product = m.node("MatMul", [x, m.weight((32, 32), "float16")])
    h = m.node("LayerNormalization", [product, m.weight((32,), "float16")], "h")
    yes, deep, no = Maker(seed=1), Maker(seed=2), Maker(seed=3)
    deep.node("Mul", ["p", h], "deep_out")
    given = helper.make_graph([N("Identity", [h], ["same"])], "given", [], [_port("same")])
    inside = helper.make_graph(deep.nodes, "deep", [], [_port("deep_out")])
    yes.node("Softmax", [yes.node("MatMul", [h, yes.weight((32, 32), "float16")], "q")], "p")
    yes.node("If", [flag], "then_out", then_branch=inside, else_branch=given)
    yes.node("Cast", [yes.node("Mul", [h, yes.const(np.float16(77.7))], "many")], "then_whole", to=TensorProto.INT32)
    no.node("Relu", [h], "else_out")
    no.node("Cast", [h], "else_whole", to=TensorProto.INT32)
    bodies = {}
    for side, body in (("then", yes), ("else", no)):
        results = [_port(f"{side}_out"), _port(f"{side}_whole", dtype=TensorProto.INT32)]
        bodies[f"{side}_branch"] = helper.make_graph(body.nodes, side, [], results, body.weights)
    m.nodes.append(N("If", [flag], ["r", "whole"], **bodies))
    m.node("MatMul", ["r", m.weight((32, 32), "float16")], "y")
    m.node("Cast", [m.node("Mul", ["r", m.const(np.float16(900))])], "steps", to=TensorProto.INT32)
    return _model(m, [_port("y"), _port("whole", dtype=TensorProto.INT32), _port("steps", dtype=TensorProto.INT32)])


def _turns() -> onnx.ModelProto:
    """A state of halves that is multiplied and normalised 50 times, its rows, and what is counted of it."""
    m = Maker()
    x, times = m.input("x", SHAPE, F16), m.input("times", (), TensorProto.INT64)
    w = (np.random.default_rng(8).normal(0, 0.3, (32, 32))).astype(np.float16)
    nodes = [
        _const("w", w), _const("third", 0.3),
        N("MatMul", ["s", "w"], ["product"]), N("Add", ["product", x], ["sum"]),
        N("Softmax", ["sum"], ["soft"]), N("Add", ["soft", "third"], ["next"]),
        N("ReduceMax", ["next"], ["row"], axes=[1], keepdims=0), N("Identity", ["c"], ["more"]),
    ]  # fmt: skip
    inputs = [_port("i", (), TensorProto.INT64), _port("c", (), TensorProto.BOOL), _port("s")]
    outputs = [_port("more", (), TensorProto.BOOL), _port("next"), _port("row", (6,))]
    body = helper.make_graph(nodes, "body", inputs, outputs)
    m.nodes.append(N("Loop", [times, "", x], ["y", "rows"], name="turns", body=body))
    m.node("ReduceMean", ["y"], "mean", axes=[1])
    return _model(m, [_port("y"), _port("rows", None), _port("mean", (6, 1))])


def _drawn(**others: Array) -> dict[str, Array]:
    return {"x": np.random.default_rng(5).normal(0, 1, SHAPE).astype(np.float16), **others}


def _compare(
    model: onnx.ModelProto, feeds: list[dict[str, Array]], folder: Path, target: str, level: str
) -> set[str]:
    """Run it beside onnxruntime, which rounds to f16 behind each operator; gives the kernels."""
    path = folder / "net.onnx"
    onnx.save(model, path)
    bounds = {n.name: 50 for n in model.graph.node if n.op_type == "Loop"}
    made = mccompile.compile(path, folder / "out", target=target, opt_level=level, bounds=bounds)
    network = mccompile.load(folder / "out")
    session = plain_session(model.SerializeToString())
    for feed in feeds:
        network.fill_arenas(0xFF)
        got = network.run(feed)
        for port, want in zip(session.get_outputs(), session.run(None, feed), strict=True):
            assert got[port.name].dtype == want.dtype
            assert got[port.name].shape == want.shape
            atol = 4e-3 if want.dtype == np.float16 else 2
            np.testing.assert_allclose(got[port.name].astype(float), want.astype(float), rtol=4e-3, atol=atol)
    return {step["kernel"] for step in made.report["steps"]}


FORMS = [("native", "O2"), ("x86-64-v2", "O2"), ("native", "Os"), ("generic", "O2"), ("native", "O0")]


@pytest.mark.parametrize(("target", "level"), FORMS)
def test_branches_of_halves_are_as_fast_as_those_of_floats(target: str, level: str, tmp_path: Path) -> None:
    feeds = [_drawn(flag=np.array([flag])) for flag in (True, False)]
    kernels = _compare(_branches(), feeds, tmp_path, target, level)
    if target != "generic" and level == "O2":
        assert not {"matmul.generic", "normalize.generic", "softmax.generic"} & kernels


@pytest.mark.parametrize(("target", "level"), FORMS)
def test_turns_of_halves_are_as_fast_as_those_of_floats(target: str, level: str, tmp_path: Path) -> None:
    feeds = [_drawn(times=np.array(times)) for times in (0, 1, 50)]
    kernels = _compare(_turns(), feeds, tmp_path, target, level)
    if target != "generic" and level == "O2":
        assert not {"matmul.generic", "softmax.generic", "reduce.generic"} & kernels


def _border(given: bool) -> onnx.ModelProto:
    """2048 + 1 is 2048 in f16: added outside of a branch that asks for whole numbers, or inside of one, which gives
    the sum to who asks outside."""
    m = Maker()
    x, flag = m.input("x", (4,), F16), m.input("flag", (), TensorProto.BOOL)
    one, port = m.const(np.float16(1)), _port("r", (4,), TensorProto.INT32 if given else F16)
    outside = m.node("Add", [x, one], "sum") if given else x
    whole = N("Cast", [outside], ["r"], to=TensorProto.INT32) if given else N("Add", [outside, one], ["r"])
    bodies = [helper.make_graph([whole], name, [], [port]) for name in ("yes", "no")]
    m.nodes.append(N("If", [flag], ["r"], then_branch=bodies[0], else_branch=bodies[1]))
    m.node("Identity" if given else "Cast", ["r"], "y", **({} if given else {"to": TensorProto.INT32}))
    return _model(m, [_port("y", (4,), TensorProto.INT32)])


@pytest.mark.parametrize("given", [True, False])
def test_steps_beyond_a_border_see_numbers_of_f16(given: bool, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(_border(given), path)
    compiled = mccompile.compile(path, tmp_path / "out", target="native")
    assert compiled.report["steps"]
    feed = {"x": np.array([2048, 2050, -3, 0.5], np.float16), "flag": np.array(True)}
    np.testing.assert_array_equal(mccompile.load(tmp_path / "out").run(feed)["y"], [2048, 2052, -2, 1])


def _rotated(rows: int, heads: int, width: int) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Positions that turn the two halves of each head of a product, which is of f32 inside."""
    m, r, f = Maker(), np.random.default_rng(0), np.float16
    x = m.input("x", (rows, 5), F16)
    w = m.const((r.normal(size=(5, heads * 2 * width)) * 0.5).astype(f))
    angles = np.arange(rows * width).reshape(rows, 1, width)
    cosine, sine = (m.const(g(angles).astype(f)) for g in (np.cos, np.sin))
    product = m.node("Reshape", [m.node("MatMul", [x, w], "p"), m.const(np.array([rows, heads, 2 * width]))], "v")
    m.nodes.append(N("Split", [product], ["a", "b"], axis=2))
    first = m.node("Sub", [m.node("Mul", ["a", cosine], "ac"), m.node("Mul", ["b", sine], "bs")], "first")
    second = m.node("Add", [m.node("Mul", ["b", cosine], "bc"), m.node("Mul", ["a", sine], "as")], "second")
    m.node("Concat", [first, second], "y", axis=2)
    return _model(m, [_port("y", (rows, heads, 2 * width))]), {"x": r.normal(size=(rows, 5)).astype(f)}


@pytest.mark.parametrize("target", ["native", "x86-64-v2", "generic"])
def test_halves_are_not_written_over_floats_that_are_read(target: str, tmp_path: Path) -> None:
    """C lets compilers suppose that elements of the two types lie apart: gcc stored eight halves before it loaded the
    floats below them."""
    for rows, heads, width in ((3, 3, 2), (4, 2, 2), (5, 3, 3), (1, 12, 2), (2, 3, 4)):
        model, feed = _rotated(rows, heads, width)
        folder = tmp_path / f"{rows}{heads}{width}"
        folder.mkdir()
        _compare(model, [feed], folder, target, "O2")
