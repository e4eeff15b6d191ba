"""Recurrent cells of bf16: the C of every target computes what numpy makes of weights that are, and of states that
are rounded at each step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mccompile import driver
from mccompile.codegen.folder import write_folder
from mccompile.driver import Compilation, Options
from mccompile.run.network import Network
from tests._skips import needs_sanitizers
from tests.support.harness import SANITIZERS, SPLIT, build
from tests.support.targets import needs_target, quick

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
CASES = [
    ("LSTM", 1, 1, 32, {}),
    ("LSTM", 4, 2, 5, {}),
    ("LSTM", 3, 1, 33, {"direction": "reverse"}),
    ("LSTM", 1, 1, 1100, {}),
    ("GRU", 1, 1, 70, {"linear_before_reset": 1}),
    ("GRU", 4, 2, 21, {"linear_before_reset": 1, "direction": "bidirectional"}),
    ("GRU", 1, 3, 9, {}),
    ("GRU", 4, 1, 48, {"direction": "reverse"}),
    ("RNN", 1, 2, 17, {}),
    ("RNN", 3, 1, 40, {}),
]
"""Operator, steps, batch, units, attributes."""


def drawn(op: str, steps: int, batch: int, hidden: int, attrs: dict[str, object]) -> onnx.ModelProto:
    """One cell from states that are given."""
    r = np.random.default_rng(hidden)
    rows, many = GATES[op] * hidden, 2 if attrs.get("direction") == "bidirectional" else 1
    shapes = {"w": (many, rows, 7), "r": (many, rows, hidden), "b": (many, 2 * rows)}
    weights = {n: (r.standard_normal(s) / np.sqrt(s[-1])).astype(np.float32) for n, s in shapes.items()}
    names = ["x", "w", "r", "b", "", "h"] + (["c"] if op == "LSTM" else [])
    node = helper.make_node(op, names, ["y", "last"], hidden_size=hidden, name="cell", **attrs)
    given = {"x": (steps, batch, 7), "h": (many, batch, hidden)}
    given |= {"c": (many, batch, hidden)} if op == "LSTM" else {}
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in given.items()]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("y", "last")]
    constants = [numpy_helper.from_array(a, n) for n, a in weights.items()]
    graph = helper.make_graph([node], "cell", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("target", ["generic", "aarch64-bf16", "x86-64-v4-bf16"])
@pytest.mark.parametrize(("op", "steps", "batch", "hidden", "attrs"), CASES)
def test_states_are_rounded_at_each_step(
    op: str, steps: int, batch: int, hidden: int, attrs: dict[str, object], target: str, tmp_path: Path
) -> None:
    """After one step sums differ by what sums of f32 do. Behind that a state that lies at a tie may be rounded the
    other way, by a bf16's last place."""
    onnx.save(drawn(op, steps, batch, hidden, attrs), tmp_path / "n.onnx")
    options = Options(target=target, precision={"*": "bf16"})
    c, network = as_numpy(options, tmp_path, 3e-6 if steps == 1 else 4e-3)
    (rounding,) = [record for record in c.passes if record.name == "narrow-products"]
    assert rounding.changes
    assert {miss.reason for miss in rounding.misses} <= {"matmul.packed of f32 is faster"}  # of what the cell reads
    scaled = op == "GRU" and not attrs.get("linear_before_reset")
    if target != "generic":  # where cells may be in a loop
        assert ("gru.scaled" if scaled else f"{op.lower()}.vector") in network.report["kernels"]


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize(("op", "steps", "batch", "hidden", "attrs"), CASES)
def test_stored_words_are_the_weights_they_hold(
    op: str, steps: int, batch: int, hidden: int, attrs: dict[str, object], target: str, tmp_path: Path
) -> None:
    """Where weights alone are of bf16, two of an even number of units lie in a word; states are not rounded."""
    onnx.save(drawn(op, steps, batch, hidden, attrs), tmp_path / "n.onnx")
    as_numpy(Options(target=target, weights={"*": "bf16"}), tmp_path, 3e-6)
    assert (b"mcc_vsecond_bf16" in (tmp_path / "c" / "n.c").read_bytes()) == (hidden % 2 == 0)


def test_rounded_states_stay_in_their_memory(tmp_path: Path) -> None:
    """With scratch memory of its own, to the last float."""
    target = needs_target("x86-64-v4-bf16")
    compiler = needs_sanitizers("gcc")
    onnx.save(drawn("GRU", 1, 2, 63, {}), tmp_path / "n.onnx")
    c, files = driver.compile_files(tmp_path / "n.onnx", Options(target=target, precision={"*": "bf16"}))
    write_folder(tmp_path / "c", files)
    r = np.random.default_rng(7)
    given = {v.name: r.standard_normal(v.shape).astype(np.float32) for v in c.graph.inputs}
    (got,) = build(tmp_path / "c", [*SANITIZERS, SPLIT, "-O0"], compiler).run("odd", [given])
    for name, want in c.graph.evaluate(given).items():
        np.testing.assert_allclose(got[name], want, rtol=0, atol=3e-6 * np.abs(want).max(), err_msg=name)


def as_numpy(options: Options, folder: Path, atol: float) -> tuple[Compilation, Network]:
    """Compares the C of a network with numpy: by so much of the largest element."""
    needs_target(options.target)
    c, files = driver.compile_files(folder / "n.onnx", options)
    write_folder(folder / "c", files)
    network = Network(folder / "c", tuple(quick(options.target)), emulate=True)
    r = np.random.default_rng(7)
    given = {v.name: r.standard_normal(v.shape).astype(np.float32) for v in c.graph.inputs}
    got = network.run(given)
    for name, want in c.graph.evaluate(given).items():
        np.testing.assert_allclose(got[name], want, rtol=0, atol=atol * np.abs(want).max(), err_msg=name)
    return c, network


def test_rounding_is_more_than_what_is_tolerated(tmp_path: Path) -> None:
    """Otherwise states that nobody rounds would pass above."""
    onnx.save(drawn("GRU", 1, 3, 9, {}), tmp_path / "n.onnx")
    r, found = np.random.default_rng(7), []
    given: dict[str, np.ndarray] = {}
    for precision in ({"*": "bf16"}, {"*": "bf16", "gru": "f32"}):
        c, _ = driver.compile_files(tmp_path / "n.onnx", Options(target="generic", precision=precision))
        given = given or {v.name: r.standard_normal(v.shape).astype(np.float32) for v in c.graph.inputs}
        found.append(c.graph.evaluate(given)["y"])
    assert np.abs(found[0] - found[1]).max() > 1e-4 * np.abs(found[1]).max()
