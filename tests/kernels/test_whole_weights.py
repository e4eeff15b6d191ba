"""Convolutions and recurrent cells of floats by weights of bytes: right against onnxruntime, bytes in the blob."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from mccompile import driver
from mccompile.check.check import check
from mccompile.driver import Options
from mccompile.ir.errors import CompileError
from mccompile.run.network import Network
from tests.support.targets import needs_target

DRAWN = 4
"""Networks of each kind for each target."""
BITS = {8: (TensorProto.INT8, 128), 4: (TensorProto.INT4, 8)}


def _drawn(seed: int) -> tuple[onnx.ModelProto, int]:
    """A convolution, of one to three axes, grouped, depthwise or transposed, and how many weights it has."""
    r = np.random.default_rng(seed)
    rank, transposed, bits = int(r.integers(1, 4)), bool(r.integers(2)), int(r.choice([8, 8, 4]))
    groups = int(r.choice([1, 1, 2, 8]))
    c, m = groups * int(r.integers(1, 5)) * 2, groups * int(r.integers(1, 5))
    kernel, strides = r.integers(1, 4, rank).tolist(), r.integers(1, 3, rank).tolist()
    dilations, pads = r.integers(1, 3, rank).tolist(), r.integers(0, 2, 2 * rank).tolist()
    space = r.integers(6, 10, rank).tolist()
    shape = (c, m // groups, *kernel) if transposed else (m, c // groups, *kernel)
    axis, (dtype, limit) = 1 if transposed else 0, BITS[bits]
    by_channel = bool(r.integers(2))
    count = (shape[axis],) if by_channel else ()
    weights = r.integers(-limit, limit, shape).ravel().tolist()
    constants = [
        helper.make_tensor("w", dtype, shape, weights),
        numpy_helper.from_array((r.random(count) * 0.01 + 0.001).astype(np.float32), "s"),
        helper.make_tensor("z", dtype, count, (r.integers(-3, 4, count) * r.integers(2)).ravel().tolist()),
        numpy_helper.from_array(r.standard_normal(m).astype(np.float32), "b"),
    ]
    said = {"group": groups, "strides": strides, "pads": pads, "dilations": dilations}
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["f"], axis=axis if by_channel else 1),
        helper.make_node("ConvTranspose" if transposed else "Conv", ["x", "f", "b"], ["c"], **said),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, c, *space))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "whole", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), len(weights)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "target", ["generic", "x86-64-v3", *(pytest.param(t, marks=pytest.mark.slow) for t in ("x86-64-v2", "cortex-m4"))]
)
def test_weights_alone_are_quantised(target: str, tmp_path: Path) -> None:
    needs_target(target)
    for seed in range(DRAWN):
        model, _ = _drawn(seed)
        path = tmp_path / f"n{seed}.onnx"
        onnx.save(model, path)
        result = check(path, Options(target=target))
        assert result.ok, f"seed {seed}\n" + "\n".join(result.lines())


@pytest.mark.parametrize("target", ["generic", "x86-64-v3", "cortex-m4"])
def test_the_blob_has_bytes(target: str, tmp_path: Path) -> None:
    """Where weights are many; packing makes more of them on vectors, never four times as many."""
    for seed in range(40):
        model, count = _drawn(seed)
        if count < 400:
            continue
        path = tmp_path / f"n{seed}.onnx"
        onnx.save(model, path)
        compilation, _ = driver.compile_files(path, Options(target=target))
        assert compilation.facts is not None
        least = 0.5 if target == "x86-64-v3" else 1.0
        assert least * count <= compilation.facts.weights_bytes <= 2.5 * count + 400, seed


def _cells(seed: int) -> onnx.ModelProto:
    """LSTM, GRU or RNN of one or two directions, a scale for each row of the weights or one."""
    r = np.random.default_rng(seed)
    kind, gates = (("LSTM", 4), ("GRU", 3), ("RNN", 1))[seed % 3]
    directions, steps, size, hidden = int(r.integers(1, 3)), 5, int(r.integers(1, 9)), int(r.integers(1, 30))
    rows = (directions, gates * hidden, 1)
    nodes, constants = [], []
    for name, width in (("w", size), ("r", hidden)):
        shape = (*rows[:2], width)
        by_row = bool(r.integers(2))
        few = rows if by_row else ()
        constants += [
            numpy_helper.from_array(r.integers(-127, 128, shape).astype(np.int8), name),
            numpy_helper.from_array((r.random(few) * 0.003 + 0.001).astype(np.float32), f"{name}.s"),
            numpy_helper.from_array((r.integers(-3, 4, few) * r.integers(2)).astype(np.int8), f"{name}.z"),
        ]
        said = {"axis": 2, "block_size": width} if by_row else {}
        nodes.append(helper.make_node("DequantizeLinear", [name, f"{name}.s", f"{name}.z"], [f"{name}.f"], **said))
    direction = "bidirectional" if directions > 1 else str(r.choice(["forward", "reverse"]))
    said = {"hidden_size": hidden, "direction": direction} | ({"linear_before_reset": 1} if kind == "GRU" else {})
    nodes.append(helper.make_node(kind, ["x", "w.f", "r.f"], ["y"], **said))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (steps, int(r.integers(1, 3)), size))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "cells", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.thorough
@pytest.mark.parametrize("target", ["generic", "x86-64-v3", pytest.param("cortex-m4", marks=pytest.mark.slow)])
def test_cells_by_bytes_are_right(target: str, tmp_path: Path) -> None:
    """With and without zero points, a scale for each row or one."""
    needs_target(target)
    for seed in range(DRAWN):
        path = tmp_path / f"n{seed}.onnx"
        onnx.save(_cells(seed), path)
        result = check(path, Options(target=target))
        assert result.ok, f"seed {seed}\n" + "\n".join(result.lines())


def _dynamically(
    folder: Path, arrays: dict[str, np.ndarray[Any, Any]], steps: int, batch: int, lengths: str = "", opset: int = 17
) -> Path:
    """Cells of com.microsoft of two directions, by weights w and r, a bias b, scales s and zero points z; sequences
    may have ``lengths``, an input."""
    many, size, width = arrays["w"].shape
    bias = "b" if "b" in arrays else ""
    node = helper.make_node(
        "DynamicQuantizeLSTM", ["x", "w", "r", bias, lengths, "", "", "", "s", "z", "s", "z"], ["y"],
        domain="com.microsoft", hidden_size=width // 4, direction="bidirectional",
    )  # fmt: skip
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, (steps, batch, size))]
    inputs += [helper.make_tensor_value_info(lengths, TensorProto.INT32, (batch,))] if lengths else []
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (steps, many, batch, width // 4))
    constants = [numpy_helper.from_array(a, n) for n, a in arrays.items()]
    graph = helper.make_graph([node], "cells", inputs, [y], constants)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "cells.onnx")
    return folder / "cells.onnx"


@pytest.mark.parametrize("target", ["generic", "x86-64-v3"])
def test_cells_quantised_dynamically_keep_bytes(target: str, tmp_path: Path) -> None:
    """The weights of com.microsoft's LSTM, a scale for each column of each direction."""
    r, (directions, size, hidden) = np.random.default_rng(7), (2, 16, 32)
    scales = (directions, 4 * hidden)
    arrays = {"w": r.integers(-127, 128, (directions, size, 4 * hidden)).astype(np.int8)}
    arrays["r"] = r.integers(-127, 128, (directions, hidden, 4 * hidden)).astype(np.int8)
    arrays |= {"s": r.random(scales).astype(np.float32) / 99, "z": np.zeros(scales, np.int8)}
    compilation, _ = driver.compile_files(_dynamically(tmp_path, arrays, 4, 1), Options(target=target))
    assert compilation.facts is not None
    twice = 2 if target == "x86-64-v3" else 1  # weights of the input are read in halves, so that no sum is too large
    weights = twice * arrays["w"].size + arrays["r"].size
    columns = 4 * 4 * arrays["s"].size
    assert weights <= compilation.facts.weights_bytes <= weights + columns + 1024


@pytest.mark.parametrize("target", ["generic", "x86-64-v3"])
@pytest.mark.parametrize(("byte", "lengths"), [(np.int8, ()), (np.uint8, ()), (np.int8, (3, 5)), (np.int8, (7, 1))])
def test_what_cells_read_is_rounded_as_onnxruntime_does(
    byte: type, lengths: tuple[int, ...], target: str, tmp_path: Path
) -> None:
    """States are rounded there, too: here they are multiplied by zero. What lies behind the longest sequence has no
    say in it."""
    r, (directions, size, hidden) = np.random.default_rng(8), (2, 13, 5)
    info, width = np.iinfo(byte), 4 * hidden
    arrays = {"w": r.integers(info.min, info.max + 1, (directions, size, width)).astype(byte)}
    arrays |= {"r": np.full((directions, hidden, width), 3, byte), "z": np.full(directions, 3, byte)}
    arrays["b"] = r.uniform(-0.5, 0.5, (directions, 2 * width)).astype(np.float32)
    arrays["s"] = r.uniform(0.005, 0.01, directions).astype(np.float32)
    path = _dynamically(tmp_path, arrays, 7, 2, "lengths" if lengths else "")
    given = {"x": r.normal(0.5, 2, (7, 2, size)).astype(np.float32)}
    if lengths:
        given["x"][max(lengths) :] *= 100
        given["lengths"] = np.array(lengths, np.int32)
    mccompile.compile(path, tmp_path / "out", target=target, name="net")
    (want,) = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, given)
    np.testing.assert_allclose(Network(tmp_path / "out").run(given)["y"], want, rtol=0, atol=2e-6)
    result = check(path, Options(target=target), inputs=given)
    assert result.ok, result.lines()


@pytest.mark.parametrize("opset", [9, 10, 11])
def test_cells_of_older_models_are_judged_too(opset: int, tmp_path: Path) -> None:
    """DynamicQuantizeLinear, by which the reference rounds what they read, is of opset 11."""
    r, (directions, size, hidden) = np.random.default_rng(9), (2, 6, 5)
    extents = {"w": size, "r": hidden}
    arrays = {n: r.integers(-127, 128, (directions, e, 4 * hidden)).astype(np.int8) for n, e in extents.items()}
    arrays |= {"s": np.full(directions, 0.01, np.float32), "z": np.zeros(directions, np.int8)}
    result = check(_dynamically(tmp_path, arrays, 4, 2, opset=opset), Options(target="generic"))
    assert result.ok, result.lines()


@pytest.mark.parametrize("shape", [(2, 16, 124), (1, 16, 128)])
def test_weights_of_other_columns_or_directions_are_refused(shape: tuple[int, ...], tmp_path: Path) -> None:
    arrays = {"w": np.ones(shape, np.int8), "r": np.ones((2, 32, 128), np.int8)}
    arrays |= {"s": np.ones(2, np.float32), "z": np.zeros(2, np.int8)}
    with pytest.raises(CompileError, match="directions"):
        driver.compile_files(_dynamically(tmp_path, arrays, 4, 1), Options())
