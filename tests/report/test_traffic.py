"""Kernel launches and bytes moved: counted on modules whose numbers are known, and less after fusion."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

import mccompile
from mccompile.ir.graph import Graph
from mccompile.ir.graph_text import parse_graph
from mccompile.ir.types import F32, TensorType, row_major
from mccompile.ir.views import Buffer, View, whole
from mccompile.lower.lower import lower
from mccompile.ops.registry import lookup
from mccompile.passes.manager import run_passes
from mccompile.passes.pipeline import PIPELINES
from mccompile.report.traffic import traffic, view_bytes
from mccompile.targets.target import resolve
from tests.support.small_models import Maker

TEXT = """graph @g(%x: f32[4,6], %b: f32[6]) {
  %t = transpose(%x) {perm=(1, 0)} : f32[6,4]
  %m = matmul(%x, %t) : f32[4,4]
  %r = map(%m) {expr={relu(x0)}} : f32[4,4]
  %a = map(%x, %b) {expr={(x0 + x1)}} : f32[4,6]
  return %r, %a
}"""


def _graph() -> Graph:
    return parse_graph(TEXT, lookup)


def test_reads_and_writes_of_each_call_are_counted_once() -> None:
    t = traffic(lower(_graph(), resolve("generic")).module)
    assert t.launches == 4
    assert t.transposes == 1
    assert t.moved_bytes == 2 * 24 * 4
    # transpose 24; matmul 24 + 24; relu 16; sum 24 + 6, whose second operand is repeated
    assert t.read_bytes == 4 * (24 + 48 + 16 + 30)
    assert t.written_bytes == 4 * (24 + 16 + 16 + 24)
    assert t.bytes == t.read_bytes + t.written_bytes


def test_of_two_branches_the_one_with_more_work_counts(tmp_path: Path) -> None:
    """A run computes one of them: 4 x 8 by 8 x 16, or by 8 x 4 and 4 x 4."""
    node, value = helper.make_node, helper.make_tensor_value_info
    weights = {"v": (8, 16), "w": (8, 4), "u": (4, 4)}
    large = helper.make_graph([node("MatMul", ["x", "v"], ["a"]), node("ReduceMax", ["a"], ["p"])], "large", [],
                              [value("p", 1, [1, 1])])  # fmt: skip
    small = [node("MatMul", ["x", "w"], ["b"]), node("MatMul", ["b", "u"], ["d"]), node("ReduceMax", ["d"], ["q"])]
    either = node("If", ["c"], ["y"], then_branch=large,
                  else_branch=helper.make_graph(small, "small", [], [value("q", 1, [1, 1])]))  # fmt: skip
    held = [numpy_helper.from_array(np.ones(shape, np.float32), name) for name, shape in weights.items()]
    ports = [value("c", 9, []), value("x", 1, [4, 8])], [value("y", 1, [1, 1])]
    graph = helper.make_graph([either], "g", *ports, held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    told = mccompile.compile(tmp_path / "m.onnx", tmp_path / "o", target="x86-64-v3").report
    assert told["macs"] == 4 * 8 * 16
    assert told["estimate"]["flop_per_cycle"] > 0
    assert told["traffic"]["read_bytes"] < sum(step["read_bytes"] for step in told["steps"])


def test_a_broadcast_counts_its_elements_once_and_no_view_counts_more_than_its_buffer() -> None:
    buffer = Buffer("b", TensorType(F32, (5,)), "arena", 16)
    assert view_bytes(whole(buffer).broadcast((7, 5))) == 20
    assert view_bytes(View(buffer, (3, 3), row_major(2), (1, 1))) == 20  # windows that overlap
    assert view_bytes(View(buffer, (2,), row_major(1), (2,))) == 8


def test_fusion_moves_fewer_bytes() -> None:
    graph = _graph()
    before = traffic(lower(graph, resolve("generic")).module)
    run_passes(graph, PIPELINES["O2"])
    after = traffic(lower(graph, resolve("generic")).module)
    assert after.launches < before.launches
    assert after.bytes <= before.bytes - 4 * 2 * 16


def test_of_several_extents_the_largest_count(tmp_path: Path) -> None:
    """The graph for each of them has values of the same names."""
    weights = numpy_helper.from_array(np.ones((16, 16), np.float32), "w")
    x, y = (helper.make_tensor_value_info(n, 1, ["n", 16]) for n in "xy")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "g.onnx")
    several, largest = (
        mccompile.compile(tmp_path / "g.onnx", tmp_path / "o", target="x86-64-v3", dims={"n": n}).report
        for n in ("8,4,2", 8)
    )
    assert several["macs"] == largest["macs"] == 8 * 16 * 16
    assert several["traffic"]["written_bytes"] < 1.5 * largest["traffic"]["written_bytes"]
    choosing = several["estimate"]["cycles"] - largest["estimate"]["cycles"]
    assert 0 < choosing < 10


def test_each_direction_of_a_cell_counts_its_own(tmp_path: Path) -> None:
    """All of its steps come from one node of the model."""
    rng = np.random.default_rng(0)
    arrays = {"w": rng.uniform(-1, 1, (2, 4 * 8, 6)), "r": rng.uniform(-1, 1, (2, 4 * 8, 8))}
    weights = [numpy_helper.from_array(a.astype(np.float32), name) for name, a in arrays.items()]
    x = helper.make_tensor_value_info("x", 1, [5, 1, 6])
    y = helper.make_tensor_value_info("y", 1, [5, 2, 1, 8])
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=8, direction="bidirectional")
    model = helper.make_model(helper.make_graph([node], "g", [x], [y], weights),
                              opset_imports=[helper.make_opsetid("", 17)], ir_version=8)  # fmt: skip
    onnx.save(model, tmp_path / "g.onnx")
    report = mccompile.compile(tmp_path / "g.onnx", tmp_path / "o", target="x86-64-v3").report
    found: dict[str, list[int]] = {}
    for step in report["steps"]:
        found.setdefault(step["kernel"].partition(".")[0], []).append(step["macs"])
    assert found["lstm"] == [5 * 32 * 8] * 2
    assert found["matmul"] == [5 * 32 * 6] * 2
    assert sum(map(sum, found.values())) == report["macs"]


def test_products_count_at_the_product_not_at_the_copy_behind_it(tmp_path: Path) -> None:
    """A convolution of 1 by 1 whose channels are last inside, and first in the output."""
    m = Maker()
    y = m.node("Conv", [m.input("x", [1, 16, 6, 6]), m.weight((24, 16, 1, 1))], "y")
    m.node("Conv", [m.node("Relu", [y]), m.weight((24, 1, 3, 3))], "z", group=24, pads=[1] * 4)
    onnx.save(m.model(["y", "z"]), tmp_path / "net.onnx")
    report = mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", target="x86-64-v3").report
    macs = [(step["kernel"], step["macs"]) for step in report["steps"]]
    assert macs[:2] == [("matmul.packed", 36 * 16 * 24), ("copy.generic", 0)]
