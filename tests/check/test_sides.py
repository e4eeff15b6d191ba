"""Numbers that are rounded, where sums are ties: the C may fall to either side, and no further."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from mccompile.check.check import check
from mccompile.check.reference import Expected
from mccompile.check.sides import sides
from mccompile.driver import Options
from tests.check.conftest import compile_to, save
from tests.support.small_models import Maker
from tests.support.targets import needs_target


def quantised(path: Path, seed: int, floats: bool) -> Path:
    """A convolution of bytes with round scales, many of whose results are ties; with ``floats``, as numbers."""
    rng = np.random.default_rng(seed)
    weights: dict[str, np.ndarray[Any, Any]] = {
        "w": rng.integers(-128, 128, (3, 4, 2, 3)).astype(np.int8),
        "b": rng.integers(-500, 500, 3).astype(np.int32),
        "xs": np.float32(0.02), "xz": np.uint8(40), "ws": np.float32(0.01), "wz": np.int8(0), "ys": np.float32(0.05),
        "yz": np.uint8(215),
    }  # fmt: skip
    given = ["q", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["q"]),
        helper.make_node("QLinearConv", given, ["qc"], strides=[2, 2], pads=[1, 2, 1, 2]),
        helper.make_node("DequantizeLinear", ["qc", "ys", "yz"], ["c"]),
    ]
    name, kind = ("c", TensorProto.FLOAT) if floats else ("qc", TensorProto.UINT8)
    inputs: dict[str, Any] = {"x": (TensorProto.FLOAT, [1, 4, 5, "b"])}
    outputs: dict[str, Any] = {name: (kind, [1, 3, 3, "z"])}
    arrays = {n: np.asarray(a) for n, a in weights.items()}
    return save(path, nodes[: 3 if floats else 2], inputs, outputs, arrays, opset=19)


@pytest.mark.parametrize(("seed", "floats"), [(1, True), (6, True), (1, False)])
def test_exact_ties_of_sums_of_floats_may_fall_to_either_side(seed: int, floats: bool, tmp_path: Path) -> None:
    model = quantised(tmp_path / "net.onnx", seed, floats)
    result = check(model, Options(target="generic", dims={"b": "3..25"}), golden=True)
    assert result.ok, result.lines()
    assert result.ties is not None


@pytest.mark.parametrize("kind", [TensorProto.BFLOAT16, TensorProto.FLOAT8E4M3FN])
def test_the_golden_program_takes_either_side_of_a_sum(kind: int, tmp_path: Path) -> None:
    """20,480 sums of 512 as numbers of 16 or 8 bits: some are the neighbours of the reference's."""
    weights = {"w": np.random.RandomState(0).randn(512, 256).astype(np.float32)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Cast", ["m"], ["y"], to=kind)]
    inputs, outputs = {"x": (TensorProto.FLOAT, [80, 512])}, {"y": (kind, [80, 256])}
    model = save(tmp_path / "net.onnx", nodes, inputs, outputs, weights, opset=19)
    result = check(model, Options(target="generic"), golden=True)
    assert result.ok, result.lines()


def test_what_is_no_tie_is_sure(tmp_path: Path) -> None:
    c = compile_to(quantised(tmp_path / "net.onnx", 1, floats=False), tmp_path / "out",
                   Options(target="generic", dims={"b": "3..25"}))  # fmt: skip
    given = {"x": np.random.default_rng(0).standard_normal((1, 4, 5, 25)).astype(np.float32)}
    found = [side["qc"].astype(int) for side in sides(c.graph, given, {"b": 25})]
    apart = np.max(found, axis=0) - np.min(found, axis=0)
    assert apart.max() == 1
    assert np.mean(apart > 0) < 0.1


@pytest.mark.parametrize(
    ("function", "level", "unsure"),
    [("Tanh", "O0", True), ("Tanh", "O2", True), ("Sigmoid", "O2", True), ("Relu", "O2", False)],
)
def test_the_last_place_of_a_function_of_the_library_may_decide_a_tie(
    function: str, level: str, unsure: bool, tmp_path: Path
) -> None:
    """Bytes of what a function makes of sums of bytes; the largest of it is what their scale is made of."""
    weights = {"w": np.random.default_rng(3).integers(-128, 128, (64, 4, 3)).astype(np.int8), "k": np.float32(1e-5)}
    nodes = [
        helper.make_node("ConvInteger", ["x", "w"], ["c"]),
        helper.make_node("Cast", ["c"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["f", "k"], ["m"]),
        helper.make_node(function, ["m"], ["t"]),
        helper.make_node("DynamicQuantizeLinear", ["t"], ["q", "s", "z"]),
    ]
    arrays = {n: np.asarray(a) for n, a in weights.items()}
    inputs, outputs = {"x": (TensorProto.UINT8, [1, 4, 1002])}, {"q": (TensorProto.UINT8, [1, 64, 1000])}
    model = save(tmp_path / "net.onnx", nodes, inputs, outputs, arrays, opset=19)
    c = compile_to(model, tmp_path / "out", Options(target="generic", opt_level=level))
    given = {"x": np.random.default_rng(0).integers(0, 256, (1, 4, 1002)).astype(np.uint8)}
    found = [side["q"].astype(int) for side in sides(c.graph, given, {})]
    apart = np.max(found, axis=0) - np.min(found, axis=0)
    assert apart.max() == unsure
    assert np.mean(apart > 0) < 0.01


def test_integers_may_be_off_by_their_own_noise_and_no_more() -> None:
    want, noise = np.array([5, 5, 5], np.uint8), np.array([0.0, 1.0, 1.0])
    expected = Expected({"y": want}, {"y": noise})
    assert expected.compared("y", np.array([5, 6, 4], np.uint8)).ok
    assert expected.compared("y", np.array([6, 5, 7], np.uint8)).differing == 2


@pytest.mark.parametrize("tail", ["", "scatter", "sum"])
def test_products_and_sums_that_compilers_join_may_fall_to_either_side(tail: str, tmp_path: Path) -> None:
    """u8(rne(e * 6 / 255 - 3)) / (6 / 255), whose products every tie is made of, then a logarithm that magnifies it,
    places or sums of it, and bytes again."""
    m, step = Maker(opset=16), np.float32(6) / np.float32(255)

    def rounded(x: str, scale: float, zero: int) -> str:
        known = [m.const(np.float32(scale)), m.const(np.uint8(zero))]
        return m.node("DequantizeLinear", [m.node("QuantizeLinear", [x, *known]), *known])

    x, w = (rounded(m.input(name, [4, 3]), 1 / 255, 0) for name in "xw")
    scaled = rounded(m.node("Mul", [m.node("Mul", [x, w]), m.const(np.float32(6))]), step, 0)
    y = rounded(m.node("Add", [scaled, m.const(np.float32(-3))]), step, 128)
    above = m.node("Add", [rounded(m.node("Mul", [y, y]), 9 / 255, 0), m.const(np.float32(1e-3))])
    last = m.node("Sub", [m.node("Log", [above]), x])
    if tail == "scatter":
        zeros, at = m.const(np.zeros((4, 3), np.float32)), m.const(np.arange(4)[::-1, None].copy())
        last = m.node("ScatterND", [zeros, at, last])
    elif tail == "sum":
        last = m.node("ReduceSum", [last, m.const(np.array([1]))], keepdims=0)
    onnx.save(m.model([rounded(last, 0.05, 200)]), tmp_path / "net.onnx")
    rng = np.random.default_rng(0)
    given = {name: rng.random((20, 4, 3), dtype=np.float32) for name in "xw"}
    found = check(tmp_path / "net.onnx", Options(target=needs_target("x86-64-v3")), inputs=given)
    assert found.ok, "\n".join(found.lines())
