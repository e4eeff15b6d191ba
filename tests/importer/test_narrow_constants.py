"""What is folded of types of less than 16 bits, and of bfloat16, is what a run gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper

import mccompile

X = np.array([-200, -9, -3, -0.5, 0.1, 0.26, 7.6, 9, 15.5, 16, 200], np.float32)
FLOAT = TensorProto.FLOAT


def same(path: Path, nodes: list[NodeProto], constants: list[TensorProto]) -> np.ndarray:
    """The result of X as a constant, which has to be that of X as an input."""
    ports = [helper.make_tensor_value_info(n, FLOAT, X.shape) for n in ("x", "y")]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11), path)
    mccompile.compile(path, path.parent / "run", target="generic")
    mccompile.compile(path, path.parent / "folded", target="generic", constants={"x": X})
    (run,) = mccompile.load(path.parent / "run").run(x=X).values()
    (folded,) = mccompile.load(path.parent / "folded").run().values()
    np.testing.assert_array_equal(folded, run)
    return run


@pytest.mark.parametrize(
    ("kind", "least", "most"), [("UINT4", 0, 15), ("INT4", -8, 7), ("FLOAT4E2M1", -6, 6), ("FLOAT8E4M3FN", -384, 384)]
)
def test_quantised_constants_saturate(kind: str, least: float, most: float, tmp_path: Path) -> None:
    constants = [
        helper.make_tensor("s", FLOAT, [], [0.5]),
        helper.make_tensor("z", getattr(TensorProto, kind), [], [0]),
    ]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    got = same(tmp_path / "m.onnx", nodes, constants)
    assert (got.min(), got.max()) == (least * 0.5, most * 0.5)


def test_sums_of_constants_of_bfloat16_are_rounded(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["q"], to=TensorProto.BFLOAT16),
        helper.make_node("Mul", ["q", "q"], ["r"]),
        helper.make_node("Cast", ["r"], ["y"], to=FLOAT),
    ]
    got = same(tmp_path / "m.onnx", nodes, [])
    assert got[-1] == 39936  # of 40,000: eight bits


@pytest.mark.parametrize(
    ("given", "stated", "made"),
    [(FLOAT, TensorProto.BFLOAT16, TensorProto.BFLOAT16), (TensorProto.BFLOAT16, 0, TensorProto.BFLOAT16),
     (TensorProto.BFLOAT16, FLOAT, FLOAT)],
)  # fmt: skip
def test_eyes_of_bfloat16(given: int, stated: int, made: int, tmp_path: Path) -> None:
    ports = [helper.make_tensor_value_info("x", given, [2, 3]), helper.make_tensor_value_info("y", made, [2, 3])]
    node = helper.make_node("EyeLike", ["x"], ["y"], **({"dtype": stated} if stated else {}))
    graph = helper.make_graph([node], "g", ports[:1], ports[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    onnx.save(model, tmp_path / "m.onnx")
    mccompile.compile(tmp_path / "m.onnx", tmp_path / "out", target="generic")
    network = mccompile.load(tmp_path / "out")
    (got,) = network.run(x=np.zeros((2, 3), network.inputs["x"].dtype)).values()
    one = 0x3F80 if made == TensorProto.BFLOAT16 else 1  # the bits
    np.testing.assert_array_equal(got, one * np.eye(2, 3))
    assert got.dtype == (np.uint16 if made == TensorProto.BFLOAT16 else np.float32)
