"""Regions in strips of rows: the same results to the last bit in less memory, and no row computed twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from mccompile.ir.graph import Graph
from mccompile.ir.graph_text import parse_graph, print_graph
from mccompile.ops.registry import lookup
from mccompile.ops.scatter_elements import ScatterElements
from mccompile.passes.rows.regions import in_strips, regions, smallest
from mccompile.passes.rows.strips import plan_strips, streamed
from mccompile.passes.rows.windows import row_windows
from tests.support.graphs import difference, fill_constants, random_inputs
from tests.support.judge import plain_session
from tests.support.runs import compare
from tests.support.small_models import Maker

CONV = "strides=({s}, 1), pads=({p}, 1, {q}, 1), dilations=({d}, 1)"


def _chain(height: int, kernel: int, stride: int, dilation: int, pads: tuple[int, int]) -> Graph:
    """1x1, depthwise, 1x1 with a residual of another branch, rows of ``height``."""
    out = (height + sum(pads) - (kernel - 1) * dilation - 1) // stride + 1
    window = CONV.format(s=stride, p=pads[0], q=pads[1], d=dilation)
    plain = "strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)"
    graph = parse_graph(
        f"""graph @g(%x: f32[1,3,{height},5], %z: f32[1,2,{out},5]) {{
          %v = const : f32[4,3,1,1] ; sha256=00
          %w = const : f32[4,1,{kernel},3] ; sha256=01
          %u = const : f32[2,4,1,1] ; sha256=02
          %a = conv(%x, %v) {{{plain}}} post0{{ relu(acc) }} : f32[1,4,{height},5]
          %b = conv(%a, %w) {{{window}, groups=4}} : f32[1,4,{out},5]
          %y = conv(%b, %u) {{{plain}}} with(%z) post0{{ (acc + x0) }} : f32[1,2,{out},5]
          return %y }}""",
        lookup,
    )
    fill_constants(graph, 1)
    return graph


def _parsed(text: str, seed: int) -> Graph:
    graph = parse_graph(text, lookup)
    fill_constants(graph, seed)
    return graph


MIXED = """graph @g(%x: f32[1,2,11,6]) {
  %v = const : f32[4,2,3,3] ; sha256=00
  %w = const : f32[4,4,3,3] ; sha256=01
  %a = conv(%x, %v) {strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)} : f32[1,4,11,6]
  %p = pool(%a) {mode='max', kernel=(3, 3), strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)} : f32[1,4,11,6]
  %b = conv(%a, %w) {strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)} with(%p) post0{ (acc + x0) } : f32[1,4,11,6]
  %m = map(%b, %a) {expr={ max(x0, x1) }} : f32[1,4,11,6]
  %c = concat(%m, %p) {axis=1} : f32[1,8,11,6]
  %y = pool(%c) {mode='average', kernel=(2, 2), strides=(2, 2), pads=(0, 0, 1, 0), dilations=(1, 1)} : f32[1,8,6,3]
  return %y
}"""


def _mixed() -> Graph:
    return _parsed(MIXED, 2)


LINES = """graph @g(%x: f32[1,2,9,6]) {
  %v = const : f32[4,2,3,3] ; sha256=00
  %w = const : f32[6,5] ; sha256=01
  %a = conv(%x, %v) {strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)} : f32[1,4,9,6]
  %s = softmax(%a) {axis=1} : f32[1,4,9,6]
  %n = normalize(%s) {axes=(3,), epsilon=0.01} : f32[1,4,9,6]
  %m = matmul(%n, %w) : f32[1,4,9,5]
  %c = cum_sum(%m) {axis=3} : f32[1,4,9,5]
  %r = reduce(%c) {mode='max', axes=(1,)} : f32[1,1,9,5]
  %y = pool(%r) {mode='max', kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1), dilations=(1, 1)} : f32[1,1,5,3]
  return %y
}"""
"""Operators that keep rows apart, whatever they are."""


def _lines() -> Graph:
    return _parsed(LINES, 3)


BYTES = """graph @g(%x: i8[1,3,14,6]) {
  %v = const : i8[4,3,3,3] ; sha256=00
  %w = const : i8[4,1,3,3] ; sha256=01
  %z = const : i8[4,1,1,1] ; sha256=02
  %t = const : i32[1,4,1,1] ; sha256=03
  %a = conv(%x, %v) {strides=(2, 1), pads=(0, 1, 1, 1), dilations=(1, 1)} with(%t)
      pre0{ (i32(acc) - i32(5)) } pre1{ i32(acc) } post0{ sat_i8(asr((acc + x0), i32(7))) } : i8[1,4,7,6]
  %y = conv(%a, %w) {strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1), groups=4} with(%z)
      pre0{ (i32(acc) - i32(-7)) } pre1{ (i32(acc) - i32(x0)) } post0{ sat_i8(asr(acc, i32(6))) } : i8[1,4,7,6]
  return %y
}"""
"""Zero points, of which padding is at the value, one of them another for each channel of weights."""


def _bytes() -> Graph:
    return _parsed(BYTES, 4)


LOOKED_UP = """graph @g(%x: f32[1,2,9,6], %k: f32[1,4,5,6], %u: f32[1,4,5,3]) {
  %v = const : f32[4,2,3,3] ; sha256=00
  %l = const : i32[1,4,9,2] ; sha256=01
  %a = conv(%x, %v) {strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)} : f32[1,4,9,6]
  %s = attention(%a, %k, %u) {score={x0}, trans_k=True} : f32[1,4,9,3]
  %e = gather_elements(%s, %l) {axis=3} : f32[1,4,9,2]
  %y = pool(%e) {mode='max', kernel=(3, 1), strides=(2, 1), pads=(1, 0, 1, 0), dilations=(1, 1)} : f32[1,4,5,2]
  return %y
}"""
"""Rows that say themselves what is read of the other operands, which stay whole."""


def _looked_up() -> Graph:
    return _parsed(LOOKED_UP, 5)


GRAPHS = {
    "odd height": _chain(13, 3, 1, 1, (1, 1)),
    "stride 2": _chain(12, 3, 2, 1, (0, 1)),
    "five rows": _chain(11, 5, 1, 1, (2, 2)),
    "five rows, stride 2": _chain(14, 5, 2, 1, (1, 2)),
    "dilated": _chain(15, 3, 1, 2, (2, 2)),
    "no padding": _chain(9, 3, 1, 1, (0, 0)),
    "stride beyond the window": _chain(13, 2, 3, 1, (0, 0)),
    "branches, pools, a join": _mixed(),
    "operators along lines": _lines(),
    "bytes": _bytes(),
    "looked up": _looked_up(),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_strips_of_every_height_mean_the_same(name: str) -> None:
    graph = GRAPHS[name]
    inputs = random_inputs(graph, 3)
    want = graph.evaluate(inputs, wide=True)
    found = list(regions(graph))
    assert any(len(r.nodes) == len(graph.nodes) for r in found)
    for region in found:
        for height in region.heights():
            made = streamed(graph, region.nodes, height)
            if isinstance(made, str):
                assert made == "a strip would lie in the padding"
                continue
            made.graph.verify()
            assert in_strips(made.graph) >= {n for n in made.graph.nodes if n.op.name == "conv"} - set(graph.nodes)
            assert difference(want, made.graph.evaluate(inputs, wide=True)) < 1e-14, (region.what, height)


@pytest.mark.parametrize("name", GRAPHS)
def test_no_row_is_computed_twice(name: str) -> None:
    nodes = GRAPHS[name].nodes
    strips = plan_strips(nodes, 2)
    assert not isinstance(strips, str)
    for node in nodes:
        rows = [r for s in strips if node in s.rows for r in s.rows[node]]
        assert rows == sorted(set(rows))
        assert len(rows) <= node.result.shape[2]


def test_a_prologue_with_rows_of_its_own_is_left_whole() -> None:
    text = BYTES.replace("%z = const : i8[4,1,1,1]", "%z = const : i8[4,1,3,1]")
    graph = parse_graph(text, lookup)
    assert row_windows(graph.nodes[1]) == "the prologue of an operand differs from row to row"
    assert not list(regions(graph))


def test_what_is_broadcast_to_more_axes_is_in_no_region_of_its_reader() -> None:
    """Its rows lie along another axis there than where it is made."""
    graph = _parsed(
        """graph @g(%x: f32[4,24,1], %z: f32[2,1,24,1]) {
          %w = const : f32[1,24] ; sha256=00
          %a = matmul(%x, %w) : f32[4,24,24]
          %b = map(%a, %z) {expr={ (x0 + x1) }} : f32[2,4,24,24]
          %y = reduce(%b) {mode='sum', axes=(3,)} : f32[2,4,24,1]
          return %y }""",
        6,
    )
    assert [[n.result.name for n in r.nodes] for r in regions(graph)] == [["b", "y"]]


SCATTERED = """graph @g(%x: f32[1,3,8,8], %u: f32[1,4,6,3]) {{
  %w = const : f32[4,3,3,3] ; sha256=00
  %i = const : i32[{indices}] ; sha256=01
  %a = conv(%x, %w) {{strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)}} : f32[1,4,8,8]
  %b = {scatter} : f32[1,4,8,8]
  %y = map(%b) {{expr={{tanh(x0)}}}} : f32[1,4,8,8]
  return %y
}}"""


@pytest.mark.parametrize(
    ("scatter", "indices"),
    [("scatter_elements(%a, %i, %u) {axis=3}", "1,4,6,3"), ("scatter_nd(%a, %i, %u)", "1,4,6,3,4")],
)
def test_what_is_addressed_by_indices_is_left_whole(scatter: str, indices: str) -> None:
    graph = parse_graph(SCATTERED.format(scatter=scatter, indices=indices), lookup)
    node = graph.nodes[1]
    assert row_windows(node) == f"{node.op.name} does not work row by row"
    assert not list(regions(graph))


def test_strips_in_which_an_operator_cannot_be_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Updates of six rows have room in seven, of which the operator is asked, but not in four."""
    monkeypatch.setattr(ScatterElements, "addresses_result", False)
    text = SCATTERED.format(scatter="scatter_elements(%a, %i, %u) {axis=3}", indices="1,4,6,3")
    graph = parse_graph(text, lookup)
    before = print_graph(graph)
    made = streamed(graph, graph.nodes, 4)
    assert isinstance(made, str)
    assert made.startswith("an operator cannot be put on 4 rows: indices i32[1,4,6,3] do not fit")
    assert print_graph(graph) == before


def test_a_value_with_other_readers_ends_a_region() -> None:
    graph = _chain(12, 3, 1, 1, (1, 1))
    graph.outputs.append(graph.nodes[1].result)
    assert [(r.start, r.stop) for r in regions(graph)] == [(0, 2)]


def test_the_region_of_the_largest_values_is_taken_first() -> None:
    graph = _chain(64, 3, 2, 1, (1, 1))
    region, height = smallest(graph, 1, overlaps=False)[0]
    assert (region.start, region.stop) == (0, 3)
    assert height <= 4


# -- compiled ----------------------------------------------------------------------------------------------------
def _model(folder: Path, height: int = 37) -> Path:
    """Inverted residuals as in mobilenets, and a max pool: strides 1 and 2, kernels of 3 and 5."""
    rng = np.random.default_rng(0)
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []

    def conv(x: str, cin: int, cout: int, kernel: int, stride: int = 1, groups: int = 1) -> str:
        name = f"c{len(nodes)}"
        w = (rng.standard_normal((cout, cin // groups, kernel, kernel)) / np.sqrt(cin * kernel)).astype(np.float32)
        b = rng.standard_normal(cout).astype(np.float32)
        weights.extend([numpy_helper.from_array(w, f"{name}.w"), numpy_helper.from_array(b, f"{name}.b")])
        nodes.append(helper.make_node("Conv", [x, f"{name}.w", f"{name}.b"], [name], name, group=groups,
                                      strides=[stride] * 2, pads=[kernel // 2] * 4))  # fmt: skip
        return name

    def after(op: str, *inputs: str, **attributes: object) -> str:
        name = f"{op.lower()}{len(nodes)}"
        nodes.append(helper.make_node(op, list(inputs), [name], name, **attributes))
        return name

    x = after("Relu", conv("x", 3, 8, 3, 2))
    x = after("MaxPool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    for kernel, stride in ((3, 1), (5, 2)):
        wide = after("Relu", conv(x, 8, 48, 1))
        wide = after("Relu", conv(wide, 48, 48, kernel, stride, 48))
        narrow = conv(wide, 48, 8, 1)
        x = after("Add", narrow, x) if stride == 1 else narrow
    y = after("GlobalAveragePool", x)
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, height, 29])],
        [helper.make_tensor_value_info(y, TensorProto.FLOAT, [1, 8, 1, 1])], weights,
    )  # fmt: skip
    path = folder / "strips.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_a_scatter_between_convolutions_in_strips(tmp_path: Path) -> None:
    m = Maker()
    x = m.node("Conv", [m.input("x", [1, 3, 16, 8]), m.weight((16, 3, 3, 3))], pads=[1, 1, 1, 1])
    columns, places = np.array([[[[1, 5, 6]]] * 16]), np.array([[0, 3, 14, 2], [0, 1, 0, 7], [0, 2, 9, 0]])
    x = m.node("ScatterElements", [x, m.const(columns), m.weight((1, 16, 1, 3))], axis=3)
    x = m.node("ScatterND", [x, m.const(places), m.weight((3,))])
    x = m.node("Conv", [m.node("Relu", [x]), m.weight((2, 16, 3, 3))], pads=[1, 1, 1, 1])
    feed = {"x": np.random.default_rng(3).normal(size=(1, 3, 16, 8)).astype(np.float32)}
    compare(m.model([x]), tmp_path, [feed], 1e-5, 1e-5, target="generic", stream_rows="always")


@pytest.mark.thorough
@pytest.mark.parametrize("target", ["generic", "native"])
@pytest.mark.parametrize("level", ["O2", "Os"])
def test_a_compiled_network_in_strips_gives_the_same_bits_in_less_memory(
    tmp_path: Path, target: str, level: str
) -> None:
    path = _model(tmp_path)
    rng = np.random.default_rng(1)
    inputs = [{"x": rng.standard_normal((1, 3, 37, 29)).astype(np.float32)} for _ in range(2)]
    results, arenas = {}, {}
    for how in ("never", "always"):
        made = mccompile.compile(path, tmp_path / how, target=target, opt_level=level, stream_rows=how)
        network = mccompile.load(made.out_dir)
        results[how] = [{n: np.array(v) for n, v in network.run(x).items()} for x in inputs]
        arenas[how] = made.report["memory"]["arena_bytes"]
        assert any("in strips of" in note for note in made.notes) == (how == "always")
    assert arenas["always"] < 0.75 * arenas["never"]
    for want, got in zip(results["never"], results["always"], strict=True):
        assert all(np.array_equal(want[n], got[n]) for n in want)


@pytest.mark.thorough
def test_memory_that_is_short_is_met_by_strips(tmp_path: Path) -> None:
    path = _model(tmp_path)
    whole = mccompile.compile(path, tmp_path / "whole", target="generic").report["memory"]["arena_bytes"]
    room = whole * 3 // 4
    with pytest.raises(mccompile.CompileError, match="does not fit in RAM"):
        mccompile.compile(path, tmp_path / "never", target="generic", ram=room, stream_rows="never")
    made = mccompile.compile(path, tmp_path / "auto", target="generic", ram=room)
    assert made.report["memory"]["arena_bytes"] <= room
    assert any("convolutions in strips of rows brought it to" in note for note in made.notes)


def test_a_band_of_attention_counts_from_the_first_query(tmp_path: Path) -> None:
    """Causal attention of 8 heads and a product behind it: a strip of queries would have the keys of the first."""
    m, rng = Maker(), np.random.default_rng(0)
    q, kt, v = m.input("q", [1, 8, 64, 4]), m.input("kt", [1, 1, 4, 64]), m.input("v", [1, 1, 64, 32])
    scores = m.node("Mul", [m.node("MatMul", [q, kt]), m.const(np.float32(0.5))])
    masked = m.node("Add", [scores, m.const(np.triu(np.full((64, 64), -1e9, np.float32), 1))])
    attended = m.node("MatMul", [m.node("Softmax", [masked], axis=-1), v])
    m.node("MatMul", [attended, m.weight((8, 32, 2))], "y")
    path = tmp_path / "net.onnx"
    onnx.save(m.model(["y"]), path)
    mccompile.compile(path, tmp_path / "out", target="generic", stream_rows="always")
    x = {i.name: rng.standard_normal([d.dim_value for d in i.type.tensor_type.shape.dim]) for i in m.inputs}
    x = {name: a.astype(np.float32) for name, a in x.items()}
    want = plain_session(path.read_bytes()).run(None, x)[0]
    np.testing.assert_allclose(mccompile.load(tmp_path / "out").run(x)["y"], want, rtol=1e-4, atol=1e-5)
