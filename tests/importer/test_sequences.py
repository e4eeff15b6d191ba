"""Sequences as inputs and outputs: one port for each tensor."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper

from mccompile import backend
from mccompile.driver import Options, import_graph
from mccompile.ir.errors import CompileError, UsageError
from tests.support.runs import compare

FLOATS = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
SEQUENCE = helper.make_sequence_type_proto(FLOATS)


def _model() -> onnx.ModelProto:
    """y, the tensors of x with a constant of 2 behind them; n, whether there are any."""
    nodes = [
        helper.make_node("Constant", [], ["two"], value_floats=[2.0]),
        helper.make_node("SequenceInsert", ["x", "two"], ["y"]),
        helper.make_node("OptionalHasElement", ["x"], ["n"]),
    ]
    inputs = [helper.make_value_info("x", SEQUENCE)]
    flag = helper.make_tensor_value_info("n", TensorProto.BOOL, [])
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_value_info("y", SEQUENCE), flag])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.mark.thorough
def test_each_tensor_of_a_sequence_is_a_port() -> None:
    given = [np.arange(3, dtype=np.float32), np.ones((2, 2), np.float32)]
    y, n = backend.prepare(_model(), target="generic").run([given])
    assert n
    assert len(y) == 3
    for got, want in zip(y, [*given, np.array([2], np.float32)], strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_sequence_needs_the_shapes_of_its_tensors(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(_model().SerializeToString())
    with pytest.raises(CompileError, match="not known") as caught:
        import_graph(path, Options(target="generic"))
    assert "--input-shape x_0=" in caught.value.hint
    shapes = {"x_0": [3], "x_1": [2, 2]}
    graph = import_graph(path, Options(target="generic", input_shapes=shapes)).graph
    assert [v.name for v in graph.outputs] == ["y_0", "y_1", "y_2", "n"]


def test_another_input_called_like_a_part_of_it_does_not_make_it_present() -> None:
    optional = helper.make_value_info("x", helper.make_optional_type_proto(FLOATS))
    tensors = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in ("x_1", "y")]
    flag = helper.make_tensor_value_info("n", TensorProto.BOOL, [])
    nodes = [helper.make_node("OptionalHasElement", ["x"], ["n"]), helper.make_node("Relu", ["x_1"], ["y"])]
    graph = helper.make_graph(nodes, "g", [optional, tensors[0]], [flag, tensors[1]])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    present, y = backend.prepare(model, target="generic").run([None, np.array([-1, 2], np.float32)])
    assert (bool(present), y.tolist()) == (False, [0, 2])


def test_an_optional_input_may_be_absent(tmp_path: Path) -> None:
    optional = helper.make_optional_type_proto(FLOATS)
    nodes = [helper.make_node("OptionalHasElement", ["x"], ["n"])]
    flag = helper.make_tensor_value_info("n", TensorProto.BOOL, [])
    graph = helper.make_graph(nodes, "g", [helper.make_value_info("x", optional)], [flag])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    assert not backend.prepare(model, target="generic").run([None])[0]
    assert backend.prepare(model, target="generic").run([np.ones(2, np.float32)])[0]
    path = tmp_path / "m.onnx"
    path.write_bytes(_model().SerializeToString())
    with pytest.raises(UsageError, match="'x', which alone may be absent"):
        import_graph(path, Options(target="generic", constants={"x": None}))


def test_the_tensor_of_a_sequence_cannot_be_called_as_another_input() -> None:
    text = """<ir_version: 9, opset_import: ["" : 18]>
        g (seq(float) x, float[n] x_0) => (float[n] y) { i = Constant <value_int = 0> ()
        a = SequenceAt (x, i)  y = Add (a, x_0) }"""
    one = np.ones(2, np.float32)
    with pytest.raises(CompileError, match="the first tensor of input 'x' would be called 'x_0'"):
        backend.run_model(onnx.parser.parse_model(text), [[one], one], target="generic")


def test_a_number_is_an_input() -> None:
    text = """<ir_version: 9, opset_import: ["" : 18]> g (float x) => (float y) { y = Neg (x) }"""
    (y,) = backend.run_model(onnx.parser.parse_model(text), np.float32(3), target="generic")
    assert y == -3


IF_OF_SEQUENCES = """<ir_version: 9, opset_import: ["" : 18]>
    either (bool which, float[3] x, float[2] z) => (seq(float) y) {
        y = If (which)
            <then_branch = yes () => (seq(float) a) { m = Neg (x)  a = SequenceConstruct (x, m, z) },
             else_branch = no () => (seq(float) b) { w = Neg (z)  b = SequenceConstruct (x, x, w) }>
    }"""


def test_a_branch_may_give_a_sequence() -> None:
    model = onnx.parser.parse_model(IF_OF_SEQUENCES)
    x, z = np.arange(3, dtype=np.float32), np.ones(2, np.float32)
    ready = backend.prepare(model, target="generic")
    for which, wanted in ((True, [x, -x, z]), (False, [x, x, -z])):
        (got,) = ready.run([np.array(which), x, z])
        for a, b in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(a, b)
    shorter = onnx.parser.parse_model(IF_OF_SEQUENCES.replace("(x, x, w)", "(x, w)"))
    with pytest.raises(CompileError, match="different lengths") as caught:
        backend.prepare(shorter, target="generic")
    assert "--constant which=VALUE" in caught.value.hint


LISTS_OF_SIZES = {
    "joined": "q = SequenceConstruct (three, rows, t) z = ConcatFromSequence <axis = 0, new_axis = 1> (q)",
    "parts": """q = SplitToSequence (s) l = SequenceAt (q, zero) m = SequenceAt (q, two)
        z = Concat <axis = 0> (m, l, k)""",
    "items": """q = SplitToSequence <keepdims = 0> (s) l = SequenceAt (q, two) u = SequenceInsert (q, l, zero)
        v = SequenceErase (u) z = ConcatFromSequence <axis = 0, new_axis = 1> (v)""",
    "rows": """z = Scan <num_scan_inputs = 1, scan_output_directions = [1], body = each (int64 e) => (int64 f) {
        f = Identity (e) }> (s)""",
    "turns": """z = Loop <body = turn (int64 i, bool c) => (bool d, int64 f) {
        d = Identity (c) j = Sub (two, i) f = Gather (s, j) }> (three, yes)""",
    "parts by sizes": """l = Sub (w, t) m = Unsqueeze (l, first) p = Concat <axis = 0> (k, m)
        q = SplitToSequence <axis = 1> (x, p) y0 = SequenceAt (q, zero) z = Identity (s)""",
}


@pytest.mark.parametrize("form", LISTS_OF_SIZES)
def test_sizes_in_lists_are_extents_of_the_run(form: str, tmp_path: Path) -> None:
    """What is made of them is a shape again: three axes of the elements of ``x[n, t, 3]``."""
    read = "y0" if form == "parts by sizes" else "x"
    model = onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 18]> lists (float[n, t, 3] x) => (float[a, b, c] y)
        <int64 zero = {{0}}, int64 two = {{2}}, int64 three = {{3}}, int64[1] first = {{0}}, int64[1] last = {{-1}},
         bool yes = {{1}}> {{
            s = Shape (x) rows = Gather (s, zero) one = Sub (three, two) t = Gather (s, one) k = Unsqueeze (t, first)
            w = Add (t, zero) {LISTS_OF_SIZES[form]} y = Reshape ({read}, z) }}"""
    )
    feeds = [{"x": np.random.default_rng(n).normal(0, 1, (n, t, 3)).astype(np.float32)} for n, t in ((2, 5), (1, 1))]
    compare(model, tmp_path, feeds, 0, 0, target="generic", dims={"n": "1..2", "t": "1..5"})


@pytest.mark.parametrize("other", ["float[2, 1] b = {1, 2}", "int64[2] b = {1, 2}"])
def test_constants_of_a_list_that_cannot_be_joined(other: str) -> None:
    text = f"""<ir_version: 9, opset_import: ["" : 18]> lists (float[2] x) => (float[4] y)
        <float[2] a = {{1, 2}}, {other}> {{
            q = SequenceConstruct (a, b) z = ConcatFromSequence <axis = 0> (q) y = Concat <axis = 0> (x, z) }}"""
    with pytest.raises(CompileError, match="cannot be joined along axis 0"):
        backend.prepare(onnx.parser.parse_model(text), target="generic")
