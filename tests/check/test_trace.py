"""Views of traced buffers: halos, blocks, reshapes, several writers, memory that is used again."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from mccompile.check.check import check
from mccompile.check.drawn import random_inputs
from mccompile.check.reference import Expected, open_judge
from mccompile.check.trace import TRACE_HOOKS, capture, logical, trace, writers
from mccompile.driver import Options
from mccompile.ir.types import F32, TensorType, blocked, channels_last
from mccompile.ir.views import Buffer, whole
from mccompile.report.report import _view
from mccompile.run.network import Network
from tests.check.conftest import compile_to, save, small_net
from tests.support.small_models import Maker

ORDER = np.arange(2 * 5 * 3 * 4, dtype=np.float32).reshape(2, 5, 3, 4)


def raw_of(buffer: Buffer, array: np.ndarray) -> np.ndarray:
    """The buffer's bytes with ``array`` stored in it, element by element."""
    memory = np.full(buffer.elements, -1, np.float32)
    view = whole(buffer)
    for at in np.ndindex(array.shape):
        place = view.offset
        for f, s in zip(view.factors, view.strides, strict=True):
            position = at[f.axis] // f.div
            place += s * (position % f.mod if f.mod else position)
        memory[place] = array[at]
    return memory.view(np.uint8)


@pytest.mark.parametrize(
    ("layout", "halo"),
    [
        (None, ()),
        (None, ((0, 0), (0, 0), (1, 2), (3, 0))),
        (channels_last(4), ()),
        (blocked(4, 1, 4), ()),
        (blocked(4, 1, 2), ()),
    ],
)
def test_logical_elements_of_any_storage(layout: tuple | None, halo: tuple) -> None:
    buffer = Buffer("t", TensorType(F32, ORDER.shape, layout), "arena", 16, halo=halo)
    np.testing.assert_array_equal(logical(raw_of(buffer, ORDER), _view(whole(buffer))), ORDER)


def test_a_scalar_is_a_view_too() -> None:
    buffer = Buffer("t", TensorType(F32, ()), "arena", 16)
    found = logical(np.array([3.5], np.float32).view(np.uint8), _view(whole(buffer)))
    assert found is not None
    assert found.shape == ()
    assert found == 3.5


def test_a_tensor_is_complete_after_its_last_writer() -> None:
    report = {"steps": [{"writes": ["a", "b"]}, {"writes": ["a"]}, {"writes": ["c"]}]}
    assert list(writers(report).items()) == [("b", [0]), ("a", [0, 1]), ("c", [2])]


def test_every_written_tensor_is_captured_as_the_reference_has_it(tmp_path: Path) -> None:
    model = small_net(tmp_path / "small.onnx")
    c = compile_to(model, tmp_path / "out")
    network = Network(tmp_path / "out", hooks=TRACE_HOOKS)
    network.arena[:] = 0xFF
    inputs = random_inputs({v.name: v.type for v in c.graph.inputs}, 4)
    names = ["relu", "left", "right", "both", "y"]
    written = [n for n in writers(network.report) if n in names]
    assert {"relu", "y", "both"} <= set(written)
    expected = open_judge(model, ["y"], names).run(inputs)
    found = trace(network, inputs, expected)
    assert [layer.name for layer in found.layers] == written
    assert found.ok, [(layer.name, layer.comparison.text()) for layer in found.layers]
    assert [layer.step for layer in found.layers] == sorted(layer.step for layer in found.layers)


def test_values_are_taken_before_their_memory_is_used_again(tmp_path: Path) -> None:
    """A chain in place: each value is gone at the end of the run. O0 keeps the element-wise steps apart."""
    ops = ["Exp", "Neg", "Sigmoid", "Tanh"]
    nodes = [helper.make_node(op, [f"v{i}"], [f"v{i + 1}"]) for i, op in enumerate(ops)]
    ports = {"v0": (TensorProto.FLOAT, [2, 8])}, {"v4": (TensorProto.FLOAT, [2, 8])}
    model = save(tmp_path / "chain.onnx", nodes, *ports)
    compile_to(model, tmp_path / "out", Options(target="generic", passes=()))
    network = Network(tmp_path / "out", hooks=TRACE_HOOKS)
    x = np.linspace(-2, 2, 16, dtype=np.float32).reshape(2, 8)
    found = capture(network, {"v0": x}, ["v1", "v2", "v3", "v4"])
    np.testing.assert_allclose(found["v1"].array, np.exp(x), rtol=1e-6)
    np.testing.assert_allclose(found["v2"].array, -np.exp(x), rtol=1e-6)
    assert not np.shares_memory(found["v4"].array, network.arena)


def test_other_kinds_and_sizes_are_skipped_and_reshapes_compared_flat(tmp_path: Path) -> None:
    model = small_net(tmp_path / "small.onnx")
    compile_to(model, tmp_path / "out")
    network = Network(tmp_path / "out", hooks=TRACE_HOOKS)
    inputs = {"x": np.ones((1, 2, 6, 6), np.float32)}
    y = network.run(inputs)["y"]
    assert trace(network, inputs, Expected({"y": y.reshape(5, 1)}, {})).ok
    assert trace(network, inputs, Expected({"y": y.astype(np.int64)}, {})).skipped == ("y",)
    assert trace(network, inputs, Expected({"y": y[:, :3]}, {})).skipped == ("y",)


def test_what_is_made_of_a_place_that_floats_decide_is_not_judged(tmp_path: Path) -> None:
    """at = int(x), of a table the element at each place, and beside it x * x, which has nothing to do with it."""
    nodes = [
        helper.make_node("Cast", ["x"], ["at"], to=TensorProto.INT64),
        helper.make_node("Gather", ["table", "at"], ["row"]),
        helper.make_node("Exp", ["row"], ["y"]),
        helper.make_node("Mul", ["x", "x"], ["beside"]),
    ]
    table = np.arange(5, dtype=np.float32)
    outputs = {"y": (TensorProto.FLOAT, [4]), "beside": (TensorProto.FLOAT, [4])}
    model = save(tmp_path / "net.onnx", nodes, {"x": (TensorProto.FLOAT, [4])}, outputs, {"table": table})
    compile_to(model, tmp_path / "out")
    network = Network(tmp_path / "out", hooks=TRACE_HOOKS)
    x = np.float32([0.5, 1.5, 2.999999, 0.5])
    places = np.int64([0, 1, 3, 0])  # of 2.999999, which is 3 if the sum is made in another order
    noise = {"at": np.float64([0, 0, 1, 0])}
    expected = {"at": places, "row": table[places], "y": np.exp(table[places]), "beside": x * x}
    found = trace(network, {"x": x}, Expected(expected, noise))
    assert found.ok
    assert found.unsure == tuple(name for name in ("row", "y") if name in writers(network.report))
    assert [layer.comparison.near for layer in found.layers if layer.name == "at"] == [1]
    assert not trace(network, {"x": x}, Expected({**expected, "beside": x}, noise)).ok
    assert not trace(network, {"x": x}, Expected(expected, {})).ok
    # Places of which the code keeps room for more, as of what is counted in a run, cannot be compared themselves.
    some = {**expected, "at": places[1:]}
    found = trace(network, {"x": x}, Expected(some, {"at": np.float64([0, 1, 0])}))
    assert (found.ok, found.skipped) == (True, ("at",))
    assert not trace(network, {"x": x}, Expected(some, {"at": np.zeros(3)})).ok
    assert not trace(network, {"x": x}, Expected({**some, "at": np.float32(places[1:])}, {"at": np.ones(3)})).ok


@pytest.mark.parametrize("io", ["arena", "caller"])
def test_extents_that_are_never_so_large_together_are_skipped(tmp_path: Path, io: str) -> None:
    """x[:, n:] of [n, 4] has [n, 4 - n] elements: 4 at most, and never those of [4, 3]."""
    nodes = [
        helper.make_node("Shape", ["x"], ["n"], end=1),
        helper.make_node("Slice", ["x", "n", "end", "axis"], ["part"]),
        helper.make_node("Exp", ["x"], ["whole"]),
    ]
    inputs = {"x": (TensorProto.FLOAT, ["n", 4])}
    outputs = {"part": (TensorProto.FLOAT, ["n", "rest"]), "whole": (TensorProto.FLOAT, ["n", 4])}
    model = save(tmp_path / "net.onnx", nodes, inputs, outputs, {"end": np.array([2**31 - 1]), "axis": np.array([1])})
    result = check(model, Options(target="generic", dims={"n": "1..4"}, io=io), per_layer=True)
    assert result.ok, result.lines()
    assert result.trace is not None
    assert result.trace.skipped == ("part",)
    assert [layer.name for layer in result.trace.layers] == ["whole"]


def test_a_tensor_of_which_a_part_is_never_made_is_not_compared(tmp_path: Path) -> None:
    """The rest of a join is read where it comes from: a constant."""
    m = Maker()
    x = m.input("x", (1, 4))
    a = m.node("Concat", [m.node("Sin", [x]), m.node("Cos", [x])], axis=1)
    b = m.node("Concat", [a, m.const(np.float32([[0, 0, 0, 0, 1, 1, 1, 1]]))], axis=1)
    m.nodes.append(helper.make_node("Split", [b, m.const(np.array([8, 8]))], ["p", "q"], axis=1))
    w = m.weight((8, 5))
    m.node("Add", [m.node("MatMul", ["p", w]), m.node("MatMul", ["q", w])], "y")
    onnx.save(m.model(["y"]), tmp_path / "m.onnx")
    found = check(tmp_path / "m.onnx", Options(target="generic"), per_layer=True)
    assert found.ok, found.lines()


def test_a_step_that_does_not_report_is_noticed(tmp_path: Path) -> None:
    model = small_net(tmp_path / "small.onnx")
    c = compile_to(model, tmp_path / "out")
    source = tmp_path / "out" / f"{c.graph.name}.c"
    text = re.sub(r"MCC_STEP\([1-9]\d*, (.*?),\s+a->\w+\.v\);", r"\1;", source.read_text(), flags=re.DOTALL)
    source.write_text(text)
    network = Network(tmp_path / "out", hooks=TRACE_HOOKS)
    with pytest.raises(RuntimeError, match="did not report y"):
        capture(network, {"x": np.ones((1, 2, 6, 6), np.float32)}, ["y"])


def test_what_either_branch_makes_is_complete_behind_the_one_taken(tmp_path: Path) -> None:
    """Of y = If(sum(x) > 0, Exp(x), Neg(x)), and of t, which the import computes in the one branch that reads it."""
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])
    yes = helper.make_graph([helper.make_node("Exp", ["t"], ["y"])], "yes", [], [out])
    no = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "no", [], [out])
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["positive"]),
        helper.make_node("Sin", ["x"], ["t"]),
        helper.make_node("If", ["positive"], ["y"], then_branch=yes, else_branch=no),
    ]
    weights = {"zero": np.zeros((), np.float32)}
    ports = {"x": (TensorProto.FLOAT, [4])}, {"y": (TensorProto.FLOAT, [4])}
    model = save(tmp_path / "if.onnx", nodes, *ports, weights)
    compile_to(model, tmp_path / "out", Options(target="generic", opt_level="O0"))
    network = Network(tmp_path / "out", hooks=TRACE_HOOKS)
    on_condition = [s["onnx"][0] for s in network.report["steps"] if s.get("conditional")]
    assert {"Exp_0", "Neg_0"} <= set(on_condition)
    judge = open_judge(model, ["y"], ["t"])
    for x in (np.ones(4, np.float32), -np.ones(4, np.float32)):
        network.fill_arenas(0xFF)
        found = trace(network, {"x": x}, judge.run({"x": x}))
        last = next(layer for layer in found.layers if layer.name == "y")
        assert found.ok
        assert last.nodes == (("Exp_0",) if x[0] > 0 else ("Neg_0",))


@pytest.mark.parametrize("turns", [0, 2])
def test_a_loop_without_a_turn_leaves_what_it_was_given(tmp_path: Path, turns: int) -> None:
    """What a turn alone writes is not there to be compared then; the loop's result is."""
    ports = [helper.make_tensor_value_info(n, t, s) for n, t, s in (("i", 7, []), ("go", 9, []), ("a", 1, [4]))]
    outs = [helper.make_tensor_value_info("go2", 9, []), helper.make_tensor_value_info("b", 1, [4])]
    steps = [("Sin", "a", "s"), ("Exp", "s", "b"), ("Identity", "go", "go2")]
    body = helper.make_graph([helper.make_node(op, [x], [y]) for op, x, y in steps], "body", ports, outs)
    nodes = [helper.make_node("Loop", ["count", "", "x"], ["y"], body=body)]
    given = {"count": (TensorProto.INT64, []), "x": (TensorProto.FLOAT, [4])}
    model = save(tmp_path / "loop.onnx", nodes, given, {"y": (TensorProto.FLOAT, [4])})
    options = Options(target="generic", opt_level="O0", bounds={"Loop_0": 3})
    compile_to(model, tmp_path / "out", options)
    network = Network(tmp_path / "out", hooks=TRACE_HOOKS)
    inputs = {"count": np.array(turns), "x": np.ones(4, np.float32)}
    names = list(writers(network.report))
    found = capture(network, inputs, names)
    left_out = {name for name in names if name not in found}
    assert bool(left_out) == (turns == 0)
    want = inputs["x"]
    for _ in range(turns):
        want = np.exp(np.sin(want))
    np.testing.assert_allclose(found["y"].array, want, rtol=1e-6)
