"""Recurrent cells that multiply what they read in blocks of turns: the same results in less memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import mccompile
from mccompile import driver
from mccompile.driver import Options
from mccompile.ir.errors import CompileError
from mccompile.ir.graph_text import parse_graph
from mccompile.ops.registry import lookup
from mccompile.passes.rows.turns import gates
from tests.support.judge import plain_session
from tests.support.small_models import Maker

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def _network(
    kind: str, direction: str, turns: int | str, batch: int | str = 2, states: bool = False
) -> onnx.ModelProto:
    """A cell of 12 units on 9 features; ``states``: those of the start are inputs, those of the end outputs."""
    m = Maker()
    many, rows = 2 if direction == "bidirectional" else 1, GATES[kind] * 12
    names = [m.input("x", [turns, batch, 9]), m.weight((many, rows, 9)), m.weight((many, rows, 12))]  # type: ignore[list-item]
    names.append(m.weight((many, 2 * rows)))
    outputs = ["y"]
    if states:
        own = ("h", "c") if kind == "LSTM" else ("h",)
        names += ["", *(m.input(f"{s}0", [many, batch, 12]) for s in own)]
        outputs += own
    m.nodes.append(helper.make_node(kind, names, outputs, hidden_size=12, direction=direction))
    return m.model(outputs)


def _saved(model: onnx.ModelProto, folder: Path) -> Path:
    onnx.save(model, folder / "net.onnx")
    return folder / "net.onnx"


@pytest.mark.parametrize(
    ("kind", "direction", "turns", "batch", "states"),
    [
        ("LSTM", "forward", 24, 2, True), ("LSTM", "bidirectional", 24, 1, False), ("GRU", "reverse", 31, 2, True),
        ("RNN", "forward", 2, 1, False), ("LSTM", "reverse", "t", 1, True), ("GRU", "forward", 24, "n", False),
        ("LSTM", "reverse", "t", "n", True),
    ],
)  # fmt: skip
def test_blocks_give_what_all_turns_give(
    kind: str, direction: str, turns: int | str, batch: int | str, states: bool, tmp_path: Path
) -> None:
    """On an arena full of 0xFF; where turns or sequences are given at run time, at both ends and between."""
    path = _saved(_network(kind, direction, turns, batch, states), tmp_path)
    ranges = {"t": "1..24", "n": "1..3"}
    dims: dict[str, int | str] = {name: ranges[name] for name in (turns, batch) if isinstance(name, str)}
    artifacts = mccompile.compile(path, tmp_path / "out", target="generic", dims=dims)
    assert kind == "RNN" or any("in blocks of" in note for note in artifacts.notes)
    network, session = mccompile.load(tmp_path / "out"), plain_session(path.read_bytes())
    rng = np.random.default_rng(4)
    for made in ({"t": 24, "n": 3}, {"t": 1, "n": 1}, {"t": 7, "n": 2}):
        shapes = {x.name: [made.get(e, e) for e in x.shape] for x in session.get_inputs()}
        inputs = {name: rng.normal(0, 1, shape).astype(np.float32) for name, shape in shapes.items()}
        network.fill_arenas(0xFF)
        got = network.run(inputs)
        for output, wanted in zip(session.get_outputs(), session.run(None, inputs), strict=True):
            assert got[output.name].shape == wanted.shape
            np.testing.assert_allclose(got[output.name], wanted, atol=2e-6)


@pytest.mark.parametrize(("kind", "direction", "batch"), [("LSTM", "bidirectional", 2), ("GRU", "reverse", "n")])
def test_the_graph_of_blocks_can_be_evaluated(kind: str, direction: str, batch: int | str, tmp_path: Path) -> None:
    """Checks of narrow weights judge by it."""
    path = _saved(_network(kind, direction, 24, batch), tmp_path)
    dims = {"n": "1..3"} if isinstance(batch, str) else {}
    graph = driver.compile_files(path, Options(target="generic", dims=dims))[0].graph
    assert any(node.op.name == "loop" for node in graph.nodes)
    x = np.random.default_rng(4).normal(0, 1, (24, 2, 9)).astype(np.float32)
    (wanted,) = plain_session(path.read_bytes()).run(None, {"x": x})
    got = graph.evaluate({"x": x}, extents=graph.extents_of({"x": x}))["y"]
    np.testing.assert_allclose(got, wanted, atol=2e-6)


@pytest.mark.parametrize("kind", GATES)
def test_states_of_halves_go_from_block_to_block(kind: str, tmp_path: Path) -> None:
    """Gates are floats there."""
    model = _network(kind, "bidirectional", 24, 1)
    wanted_of = plain_session(model.SerializeToString())
    for tensor in model.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), tensor.name))
    for port in (*model.graph.input, *model.graph.output):
        port.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    artifacts = mccompile.compile(_saved(model, tmp_path), tmp_path / "out", target="generic")
    assert any("in blocks of" in note for note in artifacts.notes)
    x = np.random.default_rng(4).normal(0, 1, (24, 1, 9)).astype(np.float16)
    (got,) = mccompile.load(tmp_path / "out").run({"x": x}).values()
    (wanted,) = wanted_of.run(None, {"x": x.astype(np.float32)})
    assert got.dtype == np.float16
    np.testing.assert_allclose(got.astype(np.float32), wanted, atol=4e-3)


def test_gates_of_all_turns_never_exist_where_memory_is_short(tmp_path: Path) -> None:
    """A microcontroller takes blocks at once, a computer where --ram asks for it, and else multiplies all at once."""
    path = _saved(_network("LSTM", "forward", 64), tmp_path)
    gates, rest = 64 * 2 * 4 * 12 * 4, 64 * 2 * (9 + 12) * 4
    wide = mccompile.compile(path, tmp_path / "wide", target="x86-64-v3")
    assert wide.report["memory"]["peak_bytes"] > gates
    assert not wide.notes
    for name, given in (("small", {"target": "cortex-m4"}), ("short", {"target": "x86-64-v3", "ram": 2 * rest})):
        peak = mccompile.compile(path, tmp_path / name, **given).report["memory"]["peak_bytes"]  # type: ignore[arg-type]
        assert peak < rest + gates / 8


GATES_OF_ONE_NODE = """graph @g(%x: f32[8,1,4]) {
  %r = const : f32[2,2] ; sha256=0
  %a, %b = split(%x) {axis=2, sizes=(2, 2)} : f32[8,1,2], f32[8,1,2]
  %y = rnn(%a, %r, _, _) {outputs=("y",), reverse=False, f={tanh(x0)}} : f32[8,1,2]
  %z = rnn(%b, %r, _, _) {outputs=("y",), reverse=False, f={tanh(x0)}} : f32[8,1,2]
  return %y, %z
}
"""


def test_gates_of_several_cells_that_one_node_makes_are_no_product_of_rows() -> None:
    assert list(gates(parse_graph(GATES_OF_ONE_NODE, lookup))) == []


def test_what_was_tried_in_vain_is_told_where_blocks_are_the_smallest_form(tmp_path: Path) -> None:
    """The cell is gone then, whose turns were put into blocks."""
    path = _saved(_network("LSTM", "bidirectional", 40, 2), tmp_path)
    with pytest.raises(CompileError, match=r"tried in vain: .*recurrent cells in blocks of turns"):
        mccompile.compile(path, tmp_path / "out", target="generic", ram=6000)
