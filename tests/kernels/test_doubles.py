"""Products of doubles by tiles: extents around them, batches, transposed operands, epilogues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from mccompile.ir.scalar import Array
from mccompile.run.network import Network
from mccompile.targets.target import STRICT_WARNINGS
from tests.support.targets import needs_target

TARGETS = ["x86-64-v2", "x86-64-v4"]
RNG = np.random.default_rng(5)


def _model(op: str, a: Array, w: Array, constant: bool, bias: Array | None = None, **attrs: Any) -> onnx.ModelProto:
    given = {"a": a} | ({} if constant else {"w": w})
    weights = ({"w": w} if constant else {}) | ({} if bias is None else {"c": bias})
    node = helper.make_node(op, ["a", "w"] + (["c"] if bias is not None else []), ["y"], **attrs)
    ports = [helper.make_tensor_value_info(k, TensorProto.DOUBLE, v.shape) for k, v in given.items()]
    results = [helper.make_empty_tensor_value_info("y")]
    stored = [numpy_helper.from_array(v, k) for k, v in weights.items()]
    graph = helper.make_graph([node], "p", ports, results, stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    return onnx.shape_inference.infer_shapes(model)


def _agrees(model: onnx.ModelProto, given: list[Array], wanted: Array, target: str, folder: Path) -> None:
    artifacts = mccompile.compile(model, folder / "p", target=target)
    assert "matmul.doubles" in [s["kernel"] for s in artifacts.report["steps"]]
    network = Network(folder / "p", STRICT_WARNINGS)
    got = network.run(dict(zip(network.inputs, given, strict=True)))["y"]
    np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize(
    ("a", "w"),
    [((7, 5), (5, 9)), ((6, 33), (33, 32)), ((13, 40), (40, 67)), ((1, 20), (20, 3)), ((9, 4), (4, 1)),
     ((3, 8, 5), (3, 5, 17)), ((2, 3, 7, 5), (3, 5, 8)), ((3, 7, 5), (5, 12)), ((7, 5), (2, 5, 12))],
)  # fmt: skip
def test_products_of_doubles(
    a: tuple[int, ...], w: tuple[int, ...], constant: bool, target: str, tmp_path: Path
) -> None:
    needs_target(target)
    x, y = RNG.standard_normal(a), RNG.standard_normal(w)
    _agrees(_model("MatMul", x, y, constant), [x] if constant else [x, y], x @ y, target, tmp_path)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("turned", "constant"), [((0, 1), True), ((1, 0), False), ((1, 1), True), ((0, 1), False), ((1, 1), False)]
)
def test_layers_of_doubles(turned: tuple[int, int], constant: bool, target: str, tmp_path: Path) -> None:
    needs_target(target)
    x, y, c = RNG.standard_normal((14, 11)), RNG.standard_normal((11, 35)), RNG.standard_normal(35)
    a, w = (np.ascontiguousarray(m.T) if t else m for m, t in zip((x, y), turned, strict=True))
    model = _model("Gemm", a, w, constant, c, transA=turned[0], transB=turned[1], alpha=0.5, beta=2.0)
    _agrees(model, [a] if constant else [a, w], 0.5 * (x @ y) + 2 * c, target, tmp_path)


def test_columns_of_a_batch_are_turned_in_parts(tmp_path: Path) -> None:
    """Each part copies the columns that it needs, and a product of one row has some."""
    for a, w in (((2, 9, 300), (2, 70, 300)), ((1, 900), (640, 900))):
        x, y = RNG.standard_normal(a), RNG.standard_normal(w)
        nodes = [
            helper.make_node("Transpose", ["w"], ["t"], perm=[*range(len(w) - 2), len(w) - 1, len(w) - 2]),
            helper.make_node("MatMul", ["a", "t"], ["y"]),
        ]
        ports = [helper.make_tensor_value_info(k, TensorProto.DOUBLE, v) for k, v in (("a", a), ("w", w))]
        graph = helper.make_graph(nodes, "p", ports, [helper.make_empty_tensor_value_info("y")])
        model = onnx.shape_inference.infer_shapes(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
        )
        artifacts = mccompile.compile(model, tmp_path / f"p{len(a)}", target="x86-64-v3", threads=2)
        (step,) = (s for s in artifacts.report["steps"] if s["kernel"] == "matmul.doubles")
        assert step["parts"] is not None
        got = mccompile.load(tmp_path / f"p{len(a)}", threads=2)(x, y)
        np.testing.assert_allclose(got, x @ np.swapaxes(y, -1, -2), rtol=1e-11, atol=1e-11)
