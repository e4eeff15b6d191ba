"""Pads that repeat an operand in many stretches: around an axis many times, or around many axes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from mccompile.ir.dims import symbol
from mccompile.ir.op import TypeRuleError
from mccompile.ir.types import F32, TensorType
from mccompile.ops.pad import MOST_STRETCHES, Pad
from tests.support.runs import compare

CASES = {
    "many turns": ("wrap", (2, 3), (1000, 0, 7, 1)),
    "many turns of two axes": ("wrap", (2, 3), (1, 50, 60, 0)),
    "few turns": ("wrap", (2, 3), (4, 1, 3, 0)),
    "many axes": ("edge", (1, 2, 1, 1, 2, 1, 1), (1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2)),
    "many axes, reflected": ("reflect", (2, 2, 2, 2, 2, 2, 3), (1, 1, 1, 1, 1, 1, 2, 1, 0, 1, 1, 1, 1, 1)),
}


@pytest.mark.parametrize(("mode", "shape", "pads"), CASES.values(), ids=CASES)
def test_stretches(mode: str, shape: tuple[int, ...], pads: tuple[int, ...], tmp_path: Path) -> None:
    node = helper.make_node("Pad", ["x", "pads"], ["y"], mode=mode)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array(pads), "pads")],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 19)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "pad.onnx")
    mccompile.compile(tmp_path / "pad.onnx", tmp_path / "out")
    assert len((tmp_path / "out" / "pad.c").read_text()) < 150_000
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    (got,) = mccompile.load(tmp_path / "out").run({"x": x}).values()
    around = list(zip(pads[: x.ndim], pads[x.ndim :], strict=True))
    np.testing.assert_array_equal(got, np.pad(x, around, mode=mode))  # type: ignore[call-overload]


@pytest.mark.parametrize(("op", "by", "behind"), [("Div", 2, "part"), ("Sub", 1, "none"), ("Sub", 1, "part")])
def test_reflections_by_parts_of_an_axis_of_the_run(op: str, by: int, behind: str, tmp_path: Path) -> None:
    """They are narrower than the axis in each run, though not all of them than the least extent."""
    constants = {"by": [by, by], "none": [0, 0]}
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node(op, ["shape", "by"], ["part"]),
        helper.make_node("Concat", ["part", behind], ["p"], axis=0),
        helper.make_node("Pad", ["x", "p"], ["y"], mode="reflect"),
    ]
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "m"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array(v), k) for k, v in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    feeds = [{"x": np.arange(np.prod(s), dtype=np.float32).reshape(s)} for s in ((1, 1), (2, 3), (6, 7))]
    compare(model, tmp_path, feeds, 0, 0, target="generic", dims={"n": "1..6", "m": "1..7"})


def test_a_reflection_by_the_whole_axis_is_refused() -> None:
    n = symbol("n", 1, 9)
    for pads in ((n - 1, 0), (0, n // 2), (n // 2, n - 1)):
        Pad(pads, "reflect").infer(TensorType(F32, (n,)))
    for pads in ((n, 0), (0, n - n // 2), (n - 1, 1)):
        with pytest.raises(TypeRuleError, match="is wider than"):
            Pad(pads, "reflect").infer(TensorType(F32, (n,)))


def test_text_that_asks_for_more_is_refused() -> None:
    x = TensorType(F32, (3,))
    Pad((MOST_STRETCHES, 0), "wrap").infer(x)
    with pytest.raises(TypeRuleError, match="stretches"):
        Pad((3 * MOST_STRETCHES, 0), "wrap").infer(x)


def test_what_may_crop_more_than_there_is(tmp_path: Path) -> None:
    """Of n = 0..1 an element less is none at best, and less than none where n is 0; of n = 0..3 it is some."""
    node = helper.make_node("Pad", ["x", "pads"], ["y"])
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array([-1, 0, 0, 1]), "pads")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    feeds = [{"x": np.arange(2 * n, dtype=np.float32).reshape(n, 2)} for n in (1, 2, 3)]
    compare(model, tmp_path, feeds, 0, 0, target="generic", dims={"n": "0..3"})
    with pytest.raises(mccompile.CompileError, match="extent over bound"):
        mccompile.load(tmp_path / "out").run({"x": np.zeros((0, 2), np.float32)})
    with pytest.raises(mccompile.CompileError, match="take more than there is"):
        mccompile.compile(tmp_path / "net.onnx", tmp_path / "never", dims={"n": "0..1"})
