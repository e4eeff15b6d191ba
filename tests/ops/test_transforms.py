"""Transforms of lengths around those from which on they are made in two steps, beside numpy's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mccompile
from mccompile.driver import Options, import_graph
from mccompile.ops.matmul import MatMul
from tests._fast import first
from tests.support.small_models import Maker

LENGTHS = [[64, 130, 257, 400], [127, 128, 200, 256, 262, 300, 512]]
KINDS = ["real", "onesided", "complex", "inverse"]


def _model(m: Maker, path: Path) -> Path:
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(m.nodes, "transform", m.inputs, [y], m.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(onnx.shape_inference.infer_shapes(model), path)
    return path


def _dft(path: Path, rows: int, given: int, length: int, kind: str) -> Path:
    m = Maker()
    x = m.input("x", [rows, given, 2 if kind in ("complex", "inverse") else 1])
    said = {"onesided": int(kind == "onesided"), "inverse": int(kind == "inverse")}
    m.nodes.append(helper.make_node("DFT", [x, m.const(np.array(length))], ["y"], axis=1, **said))
    return _model(m, path)


def _products(path: Path) -> int:
    """How many products a network makes."""
    nodes = import_graph(path, Options(target="generic", name="transform")).graph.nodes
    return sum(isinstance(node.op, MatMul) for node in nodes)


@pytest.mark.parametrize("target", ["generic", "native"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lengths", first(LENGTHS, 1))
def test_transforms_are_numpys(lengths: list[int], kind: str, target: str, tmp_path: Path) -> None:
    """One row and several, points that are missing, lengths with factors and without."""
    for i, length in enumerate(lengths):
        rng = np.random.default_rng(i)
        rows, given = int(rng.choice([1, 3])), int(rng.choice([length, length, length // 2]))
        path = _dft(tmp_path / f"n{length}.onnx", rows, given, length, kind)
        mccompile.compile(path, tmp_path / f"n{length}", target=target)
        parts = 2 if kind in ("complex", "inverse") else 1
        x = rng.standard_normal((rows, given, parts)).astype(np.float32)
        (got,) = mccompile.load(tmp_path / f"n{length}").run({"x": x}).values()
        points = x[..., 0] + (1j * x[..., 1] if parts == 2 else 0)
        want = (np.fft.ifft if kind == "inverse" else np.fft.fft)(points.astype(np.complex128), length, axis=1)
        want = want[:, : length // 2 + 1] if kind == "onesided" else want
        size = np.abs(want).max()
        np.testing.assert_allclose(got[..., 0] + 1j * got[..., 1], want, atol=3e-6 * size, err_msg=f"{length}")


@pytest.mark.parametrize(
    ("rows", "given", "length", "kind", "products"),
    [
        (1, 256, 256, "complex", 2),
        (50, 400, 400, "onesided", 2),
        (400, 400, 400, "onesided", 1),  # more would lie between two steps than the matrix takes
        (1, 257, 257, "complex", 1),  # there are no factors
        (1, 16, 1024, "real", 1),  # most points are missing
        (1, 64, 64, "complex", 1),
        (400, 512, 512, "complex", 2),
    ],
)
def test_when_a_transform_is_two(
    rows: int, given: int, length: int, kind: str, products: int, tmp_path: Path
) -> None:
    assert _products(_dft(tmp_path / "net.onnx", rows, given, length, kind)) == products


@pytest.mark.parametrize("target", ["generic", "native"])
def test_frames_of_a_signal_in_two_steps(target: str, tmp_path: Path) -> None:
    """Frames of 400 points, 160 apart, as networks that hear read them."""
    m = Maker()
    window = np.hanning(400).astype(np.float32)
    inputs = [m.input("x", [1, 4000, 1]), m.const(np.array(160)), m.const(window), m.const(np.array(400))]
    m.nodes.append(helper.make_node("STFT", inputs, ["y"], onesided=1))
    path = _model(m, tmp_path / "frames.onnx")
    assert _products(path) == 2
    mccompile.compile(path, tmp_path / "out", target=target)
    x = np.random.default_rng(1).standard_normal((1, 4000, 1)).astype(np.float32)
    (got,) = mccompile.load(tmp_path / "out").run({"x": x}).values()
    frames = np.stack([x[0, at : at + 400, 0] for at in range(0, 3601, 160)]).astype(np.float64)
    want = np.fft.rfft(frames * window, axis=1)
    np.testing.assert_allclose(got[0, ..., 0] + 1j * got[0, ..., 1], want, atol=3e-6 * np.abs(want).max())
