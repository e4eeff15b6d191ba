"""Views of traced buffers: halos, blocks, reshapes, several writers, memory that is used again."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from mccompile.check.reference import Expected, open_judge, random_inputs
from mccompile.check.trace import TRACE_HOOKS, capture, last_writes, logical, trace
from mccompile.ir.types import F32, TensorType, blocked, channels_last
from mccompile.ir.views import Buffer, whole
from mccompile.report.report import _view
from mccompile.run.network import Network
from tests.check.conftest import compile_to, save, small_net

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
    assert found.shape == ()
    assert found == 3.5


def test_a_tensor_is_complete_after_its_last_writer() -> None:
    report = {"steps": [{"writes": ["a", "b"]}, {"writes": ["a"]}, {"writes": ["c"]}]}
    assert list(last_writes(report).items()) == [("b", 0), ("a", 1), ("c", 2)]


def test_every_written_tensor_is_captured_as_the_reference_has_it(tmp_path: Path) -> None:
    model = small_net(tmp_path / "small.onnx")
    c = compile_to(model, tmp_path / "out")
    network = Network(tmp_path / "out", hooks=TRACE_HOOKS)
    network.arena[:] = 0xFF
    inputs = random_inputs({v.name: v.type for v in c.graph.inputs}, 4)
    names = ["relu", "left", "right", "both", "y"]
    written = [n for n in last_writes(network.report) if n in names]
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
    from mccompile.driver import Options

    compile_to(model, tmp_path / "out", Options(target="generic", passes=()))
    network = Network(tmp_path / "out", hooks=TRACE_HOOKS)
    x = np.linspace(-2, 2, 16, dtype=np.float32).reshape(2, 8)
    found = capture(network, {"v0": x}, ["v1", "v2", "v3", "v4"])
    np.testing.assert_allclose(found["v1"], np.exp(x), rtol=1e-6)
    np.testing.assert_allclose(found["v2"], -np.exp(x), rtol=1e-6)
    assert not np.shares_memory(found["v4"], network.arena)


def test_other_kinds_and_sizes_are_skipped_and_reshapes_compared_flat(tmp_path: Path) -> None:
    model = small_net(tmp_path / "small.onnx")
    compile_to(model, tmp_path / "out")
    network = Network(tmp_path / "out", hooks=TRACE_HOOKS)
    inputs = {"x": np.ones((1, 2, 6, 6), np.float32)}
    y = network.run(inputs)["y"]
    assert trace(network, inputs, Expected({"y": y.reshape(5, 1)}, {})).ok
    assert trace(network, inputs, Expected({"y": y.astype(np.int64)}, {})).skipped == ("y",)
    assert trace(network, inputs, Expected({"y": y[:, :3]}, {})).skipped == ("y",)


def test_a_step_that_does_not_report_is_noticed(tmp_path: Path) -> None:
    model = small_net(tmp_path / "small.onnx")
    c = compile_to(model, tmp_path / "out")
    source = tmp_path / "out" / f"{c.graph.name}.c"
    text = re.sub(r"MCC_STEP\([1-9]\d*, (.*?),\s+a->\w+\.v\);", r"\1;", source.read_text(), flags=re.DOTALL)
    source.write_text(text)
    network = Network(tmp_path / "out", hooks=TRACE_HOOKS)
    with pytest.raises(RuntimeError, match="did not report y"):
        capture(network, {"x": np.ones((1, 2, 6, 6), np.float32)}, ["y"])
