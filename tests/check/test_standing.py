"""What floats of an optimised graph stand for that have no name of the model's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mccompile import driver
from mccompile.check.standing import carried, standing_for
from mccompile.driver import Options
from mccompile.ir.graph import Value
from mccompile.ir.graph_text import parse_graph
from mccompile.ir.types import F32, TensorType
from mccompile.ops.registry import lookup

GRAPH = """graph @g(%q: i8[2,3]) {
  %y = map(%q) {expr={(f32(x0) * 0.5)}} : f32[2,3]
  return %y
}"""
THEIRS = {"q": np.array([[7, -4, 6], [1, 2, 3]], np.int8)}
SURE = np.tile(THEIRS["q"], (50, 1))


def test_whole_numbers_stand_for_what_was_rounded_less_its_zero_point() -> None:
    """What is one step apart is told, and no zero point is looked for where shapes differ."""
    graph = parse_graph(GRAPH, lookup)
    got = (THEIRS["q"] - 2).astype(np.float32)
    got[0, 0] += 1
    found = standing_for(Value("q.whole", TensorType(F32, (2, 3))), got, graph, THEIRS, {"q"}, {})
    assert found is not None
    name, stands, floats, places = found
    assert name == "q"
    assert stands.tolist() == [[8, -4, 6], [1, 2, 3]]
    assert floats.tolist() == (THEIRS["q"] - 2.0).tolist()
    assert places.tolist() == [[0, 1, 2], [3, 4, 5]]
    turned = Value("q.whole", TensorType(F32, (3, 2)))
    assert standing_for(turned, got.T, graph, THEIRS, {"q"}, {}) is None
    assert standing_for(turned, got, graph, THEIRS, set(), {}) is None
    paired = Value("q.whole.paired", TensorType(F32, (2, 3)))  # channels are in another order
    assert standing_for(paired, got, graph, THEIRS, {"q"}, {}) is None
    assert standing_for(Value("q.whole.2", TensorType(F32, (2, 3))), got, graph, THEIRS, {"q"}, {}) is not None


@pytest.mark.parametrize(("wrong", "told"), [(1, True), (9, False)])
def test_a_copy_of_another_shape_stands_for_it_where_ties_explain_what_differs(wrong: int, told: bool) -> None:
    graph = parse_graph(GRAPH.replace("[2,3]", "[100,3]"), lookup)
    got = (SURE * 0.5).astype(np.float32).reshape(300)
    got[:wrong] += 0.5
    found = standing_for(Value("y.2", TensorType(F32, (300,))), got, graph, {"q": SURE}, {"q"}, {})
    assert (found is not None) == told
    if found is not None:
        name, stands, floats, _ = found
        assert name == "q"
        assert floats.shape == (300,)
        assert np.argwhere(stands != SURE).tolist() == [[0, 0]]


def test_nothing_is_carried_by_what_has_counted_extents(tmp_path: Path) -> None:
    """As many indices are found as there are: no run is given their extent."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("NonZero", ["x"], ["i"]),
        helper.make_node("Gather", ["d", "i"], ["g"]),
        helper.make_node("Neg", ["d"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [4]) for n in "xy")
    g = helper.make_tensor_value_info("g", TensorProto.FLOAT, [1, "found"])
    stored = [numpy_helper.from_array(np.float32(0.5), "s"), numpy_helper.from_array(np.int8(3), "z")]
    graph = helper.make_graph(nodes, "g", [x], [g, y], stored)
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    imported = driver.import_graph(path, Options(target="generic")).graph
    q = next(v for n in imported.nodes for v in n.results if v.name == "q")
    mask = np.array([True, False, False, True])
    assert carried(mask, q, "g", imported.nodes, {}) is None
    found = carried(mask, q, "y", imported.nodes, {})
    assert found is not None
    assert found.tolist() == mask.tolist()


def test_what_is_carried_goes_by_the_extents_of_the_run() -> None:
    """Reshapes of a batch that is not the largest, and the places of what a chain of these moves."""
    graph = parse_graph("""graph @g extents(b=1..3) (%q: i8[b,4]) {
      %d = map(%q) {expr={(f32(x0) * 0.5)}} : f32[b,4]
      %r = reshape(%d) {shape=(2 * b, 2)} : f32[2 * b,2]
      %y = transpose(%r) {perm=(1, 0)} : f32[2,2 * b]
      return %y
    }""", lookup)
    (q,) = graph.inputs
    mask = np.arange(8).reshape(2, 4) == 5
    found = carried(mask, q, "y", graph.nodes, {"b": 2})
    assert found is not None
    assert np.array_equal(found, mask.reshape(4, 2).T)
    bytes_ = np.arange(8).astype(np.int8).reshape(2, 4)
    got = (bytes_ * np.float32(0.5)).reshape(4, 2).T
    stands = standing_for(Value("y.2", TensorType(F32, (2, 4))), got, graph, {"q": bytes_}, {"q"}, {"b": 2})
    assert stands is not None
    assert np.array_equal(stands[3], np.arange(8).reshape(4, 2).T)


def test_a_window_carries_what_one_of_its_elements_is() -> None:
    """One that reaches beyond the axis, which has the least number of its type there: no bool is that."""
    graph = parse_graph("""graph @g(%q: f32[1,1,5]) {
      %y = pool(%q) {mode='max', kernel=(2,), strides=(2,), pads=(0, 1), dilations=(1,)} : f32[1,1,3]
      return %y
    }""", lookup)
    (q,) = graph.inputs
    found = carried(np.array([[[0, 0, 0, 1, 0]]], bool), q, "y", graph.nodes, {})
    assert found is not None
    assert found.tolist() == [[[False, True, False]]]


def test_strips_of_whole_numbers_are_rows_of_what_was_rounded() -> None:
    graph = parse_graph(GRAPH, lookup)
    want = np.random.default_rng(0).integers(-900, 900, (2, 3, 5, 4), np.int16)
    got = (want[:, :, 2:4] - 30).astype(np.float32)
    got[1, 1, 0, 3] += 1
    strip = Value("q.whole.rows.2", TensorType(F32, got.shape))
    found = standing_for(strip, got, graph, {"q": want}, set(), {})
    assert found is not None
    name, stands, floats, places = found
    assert name == "q"
    assert np.argwhere(stands != want[:, :, 2:4]).tolist() == [[1, 1, 0, 3]]
    assert np.array_equal(floats, want[:, :, 2:4] - 30.0)
    assert np.array_equal(places.reshape(-1), np.arange(got.size))
    assert standing_for(strip, got[:, :2], graph, {"q": want}, set(), {}) is None
    assert standing_for(strip, np.zeros((2, 3, 6, 4), np.float32), graph, {"q": want}, set(), {}) is None


@pytest.mark.parametrize("away", [1, 11, 3000])
def test_floats_stand_for_numbers_many_steps_away(away: int) -> None:
    """Of 16 bits floats may be off by many steps; at the end of the type, of which one is in reach to one side."""
    graph = parse_graph(GRAPH.replace("i8", "u16"), lookup)
    want = np.array([[0, 7000, 6], [40000, 65535, 3]], np.uint16)
    stands = want.astype(np.int64)
    stands[0, 0], stands[1, 1] = away, 65535 - away
    y = Value("y", TensorType(F32, (2, 3)))
    found = standing_for(y, (stands * 0.5).astype(np.float32), graph, {"q": want}, {"q"}, {})
    assert found is not None
    assert found[1].tolist() == stands.tolist()
