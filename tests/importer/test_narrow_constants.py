"""What is folded of types of less than 16 bits, and of bfloat16, is what a run gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

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


@pytest.mark.parametrize(
    ("dtype", "element"),
    [(TensorProto.BFLOAT16, 1.5), (TensorProto.FLOAT8E5M2, -0.75), (TensorProto.INT4, -3), (TensorProto.FLOAT, 0.1)],
)
@pytest.mark.parametrize("extents", ["known", "of an input", "computed"])
def test_elements_that_are_repeated(dtype: int, element: float, extents: str, tmp_path: Path) -> None:
    """Where there are many, or as many as a run says, one is kept."""
    nodes = [
        helper.make_node("ConstantOfShape", ["s"], ["c"], value=helper.make_tensor("v", dtype, [1], [element])),
        helper.make_node("Cast", ["c"], ["y"], to=FLOAT),
    ]
    shape = [1200, 1100] if extents == "known" else [3, 2]
    ports = [helper.make_tensor_value_info("s", TensorProto.INT64, [2])]
    options: dict[str, object] = {"constants": {"s": np.array(shape)}}
    given: dict[str, object] = {}
    if extents == "of an input":
        nodes.insert(0, helper.make_node("Shape", ["x"], ["s"]))
        ports = [helper.make_tensor_value_info("x", FLOAT, ["n", 2])]
        options, given = {"dims": {"n": "1..4"}}, {"x": np.zeros(shape, np.float32)}
    elif extents == "computed":
        options, given = {"bounds": {"m": 5}}, {"s": np.array(shape)}
    result = helper.make_tensor_value_info("y", FLOAT, ["m", 2] if extents != "known" else shape)
    graph = helper.make_graph(nodes, "g", ports, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    mccompile.compile(model, tmp_path / "out", target="generic", **options)
    (got,) = mccompile.load(tmp_path / "out").run(**given).values()
    np.testing.assert_array_equal(got, np.full(shape, element, np.float32))


def test_weights_of_four_bits_before_opset_21(tmp_path: Path) -> None:
    """onnxruntime's quantizer has operators of its own there, as the types are newer than the opset."""
    w = np.arange(-8, 8, dtype=np.int8).reshape(4, 4)
    kind = helper.make_tensor("w", TensorProto.INT4, [4, 4], w.ravel().tolist())
    zero = helper.make_tensor("z", TensorProto.INT4, [], [2])
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["wf"], domain="com.microsoft"),
        helper.make_node("MatMul", ["x", "wf"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])],
        [kind, zero, numpy_helper.from_array(np.float32(0.5), "s")],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), tmp_path / "net.onnx")
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", target="generic")
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    got = mccompile.load(tmp_path / "out").run({"x": x})["y"]
    np.testing.assert_allclose(got, x @ ((w - 2) * np.float32(0.5)), rtol=1e-5, atol=1e-6)
