"""Operands that opset 7 aligns otherwise: a slope [C] of PRelu, and what states `axis`, begin at an axis of the first
one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mccompile.driver import Options, import_graph
from mccompile.ir.errors import CompileError

N = helper.make_node
Info = helper.make_tensor_value_info
FLOAT = TensorProto.FLOAT
SHAPE = [1, 4, 4, 4]
SLOPE = np.arange(1, 5, dtype=np.float32)
UPSAMPLE = N("Upsample", ["x"], ["r"], width_scale=1.0, height_scale=1.0)
"""Inference does not know its result below opset 7."""


def _save(
    folder: Path, nodes: Sequence[onnx.NodeProto], opset: int, inputs: Sequence[onnx.ValueInfoProto] = (),
    slope: np.ndarray[Any, Any] = SLOPE,
) -> Path:  # fmt: skip
    weights = [numpy_helper.from_array(slope, "b"), numpy_helper.from_array(np.array(2), "n")]
    weights += [numpy_helper.from_array(np.array(True), "yes")]
    graph = helper.make_graph(nodes, "g", [Info("x", FLOAT, SHAPE), *inputs], [Info("y", FLOAT, None)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=4)
    onnx.save(model, folder / "m.onnx")
    return folder / "m.onnx"


def _run(path: Path, x: float = -2, **constants: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    graph = import_graph(path, Options(target="generic", constants=constants)).graph
    return graph.evaluate({"x": np.full(SHAPE, x, np.float32)})["y"]


@pytest.mark.parametrize("opset", [1, 5, 6])
@pytest.mark.parametrize("before", [N("Relu", ["x"], ["r"]), N("Abs", ["x"], ["r"]), UPSAMPLE])
def test_a_slope_is_of_the_channels_whatever_inference_knows(
    before: onnx.NodeProto, opset: int, tmp_path: Path
) -> None:
    path = _save(tmp_path, [before, N("Neg", ["r"], ["q"]), N("PRelu", ["q", "b"], ["y"])], opset)
    np.testing.assert_array_equal(_run(path, 2), np.broadcast_to(-2 * SLOPE[:, None, None], SHAPE))


def test_a_value_may_be_called_as_what_is_added(tmp_path: Path) -> None:
    nodes = [N("Neg", ["x"], ["y/second"]), N("PRelu", ["y/second", "b"], ["y"])]
    found = _run(_save(tmp_path, nodes, 6), 2)
    np.testing.assert_array_equal(found, np.broadcast_to(-2 * SLOPE[:, None, None], SHAPE))


@pytest.mark.parametrize("op", ["PRelu", "Greater"])
@pytest.mark.parametrize("inside", [N("Neg", ["a"], ["r"]), N("Abs", ["a"], ["r"])], ids=lambda n: n.op_type)
def test_operands_inside_of_a_loop(op: str, inside: onnx.NodeProto, tmp_path: Path) -> None:
    attrs = {} if op == "PRelu" else {"broadcast": 1, "axis": 1}
    own = numpy_helper.from_array(SLOPE - 3, "own")
    nodes = [
        inside, N("Neg", ["r"], ["q"]), N(op, ["q", "own"], ["o"], **attrs), N("Cast", ["o"], ["a2"], to=FLOAT),
        N("Identity", ["c"], ["c2"]),
    ]  # fmt: skip
    given = [Info("i", TensorProto.INT64, []), Info("c", TensorProto.BOOL, []), Info("a", FLOAT, SHAPE)]
    made = [Info("c2", TensorProto.BOOL, []), Info("a2", FLOAT, SHAPE)]
    body = helper.make_graph(nodes, "body", given, made, [own])
    path = _save(tmp_path, [N("Loop", ["n", "yes", "x"], ["y"], body=body)], 6)
    channel, want = (SLOPE - 3)[:, None, None], np.full(SHAPE, -2, np.float32)
    for _ in range(2):
        q = -abs(want) if inside.op_type == "Abs" else want
        want = (np.where(q < 0, q * channel, q) if op == "PRelu" else q > channel).astype(np.float32)
    np.testing.assert_array_equal(_run(path), want)


UNTOLD: dict[str, list[onnx.NodeProto]] = {
    "Concat": [N("Split", ["x"], ["c", "d"], axis=1), N("Concat", ["d", "c"], ["r"], axis=1)],
    "Sum": [N("Sum", ["x"], ["r"])],
    "Max": [N("Max", ["x", "x"], ["e"]), N("Transpose", ["e"], ["f"], perm=[0, 1, 3, 2]),
            N("ReduceMean", ["f"], ["r"], axes=[2])],
    "Relu": [N("Relu", ["x"], ["r"])],
}  # fmt: skip
"""Results of which inference knows nothing in opset 3, and what reads them."""


@pytest.mark.parametrize("opset", [3, 6])
@pytest.mark.parametrize("before", UNTOLD.values(), ids=UNTOLD)
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Pow", "Greater"])
def test_operands_behind_what_inference_does_not_know(
    op: str, before: list[onnx.NodeProto], opset: int, tmp_path: Path
) -> None:
    nodes = [*before, N(op, ["r", "b"], ["s"], broadcast=1, axis=1), N("Neg", ["s"], ["y"])]
    if op == "Greater":
        nodes[-1:] = [N("Not", ["s"], ["y"])]
    compute = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Pow": np.power}
    found = _run(_save(tmp_path, nodes, opset), 3)
    channel = SLOPE[:, None, None]
    want = ~(channel < 3) if op == "Greater" else -compute[op](np.float32(3), channel)
    np.testing.assert_allclose(found, np.broadcast_to(want, found.shape), 1e-6)


def test_other_operators_of_which_the_converter_asks_for_shapes(tmp_path: Path) -> None:
    """A matrix product with a row, and an image that is made larger."""
    eye = N("Constant", [], ["eye"], value=numpy_helper.from_array(np.eye(4, dtype=np.float32)))
    nodes = [
        N("Sum", ["x"], ["s"]), N("Reshape", ["s", "flat"], ["m"]), eye,
        N("Gemm", ["m", "eye", "b"], ["g"], broadcast=1, alpha=2.0), N("Reshape", ["g", "image"], ["i"]),
        N("Add", ["i", "b"], ["a"], broadcast=1, axis=-1),
        N("Upsample", ["a"], ["y"], width_scale=2.0, height_scale=1.0),
    ]  # fmt: skip
    shapes = {"flat": np.array([16, 4]), "image": np.array([1, 4, 4, 4])}
    nodes[:0] = [N("Constant", [], [name], value=numpy_helper.from_array(a)) for name, a in shapes.items()]
    found = _run(_save(tmp_path, nodes, 5), 3)
    np.testing.assert_array_equal(found, np.broadcast_to(np.repeat(6 + 2 * SLOPE, 2), (1, 4, 4, 8)))
    nodes[-1] = N("Upsample", ["a"], ["y"], width_scale=2.0)
    with pytest.raises(CompileError, match=r"m\.onnx: node 8 \(Upsample\).*'height_scale' is missing"):
        _run(_save(tmp_path, nodes, 5))


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("opset", [3, 6])
def test_a_value_stated_without_extents_may_have_axes(opset: int, inside: bool, tmp_path: Path) -> None:
    """As exporters wrote what they did not know, of outputs or of values inside; another node reads it."""
    path = _save(tmp_path, [N("Abs", ["x"], ["q"]), N("Mul", ["q", "b"], ["y"], broadcast=1, axis=1)], opset)
    model = onnx.load(path)
    del model.graph.output[:]
    model.graph.output.append(Info("y", FLOAT, []))
    (model.graph.value_info if inside else model.graph.output).append(Info("q", FLOAT, []))
    onnx.save(model, path)
    np.testing.assert_array_equal(_run(path, -2), np.broadcast_to(2 * SLOPE[:, None, None], SHAPE))


def test_what_nothing_tells_is_refused(tmp_path: Path) -> None:
    """Of one slope nothing has to be known."""
    nodes = [
        N("Reshape", ["x", "shape"], ["r"]), N("PRelu", ["r", "b"], ["s"]), N("Reshape", ["s", "shape"], ["y"]),
    ]  # fmt: skip
    inputs = [Info("shape", TensorProto.INT64, ["r"])]
    with pytest.raises(CompileError, match=r"m\.onnx: node 1 \(PRelu\).*nothing tells how many axes"):
        import_graph(_save(tmp_path, nodes, 6, inputs=inputs), Options(target="generic"))
    one = _save(tmp_path, nodes, 6, inputs=inputs, slope=SLOPE[1:2])
    np.testing.assert_array_equal(_run(one, shape=np.array([4, 16], np.int64)), np.full((4, 16), -4))
