"""Maps that make their result in another order than what they read is stored in: values beside onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import mccompile
from tests._fast import first
from tests.support.draw import SeededDraw
from tests.support.judge import plain_session
from tests.support.small_models import Array, Maker

TYPES = {
    "float16": TensorProto.FLOAT16, "uint8": TensorProto.UINT8, "bool": TensorProto.BOOL,
    "float32": TensorProto.FLOAT, "int32": TensorProto.INT32, "int64": TensorProto.INT64,
}  # fmt: skip


def _given(dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    drawn = rng.integers(0, 2 if dtype == "bool" else 9, shape).astype(dtype)
    return drawn if not dtype.startswith("float") else (drawn + rng.normal(0, 1, shape)).astype(dtype)


def _network(d: SeededDraw, seed: int) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """One to three tensors of any types, and rows beside them, added up, in a pool or convolution of many channels;
    what becomes of it is an output in rows, of f16 in places."""
    m, rng = Maker(seed), np.random.default_rng(seed)
    shape = (1, d.choice([16, 21, 64]), d.choice([6, 14]), d.choice([7, 14]))
    feeds: dict[str, Array] = {}
    total = ""
    for i in range(d.int(1, 3)):
        dtype, own = d.choice([*TYPES]), shape if i == 0 or d.bool() else (shape[1], 1, 1)
        feeds[f"x{i}"] = _given(dtype, own, rng)
        read = m.node("Cast", [m.input(f"x{i}", own, TYPES[dtype])], to=TensorProto.FLOAT)
        total = m.node("Add", [total, read]) if total else read
    if d.bool():
        total = m.node("Sigmoid", [total])
    if d.bool():
        total = m.node("MaxPool", [total], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    else:
        total = m.node("Conv", [total, m.weight((32, shape[1], 3, 3))], pads=[1, 1, 1, 1])
    wide = m.node("Mul", [total, m.const(np.float32(0.1))], "y")
    narrow = m.node("Cast", [m.node("Sigmoid", [wide])], "z", to=TensorProto.FLOAT16)
    return m.model([wide, narrow]), feeds


@pytest.mark.parametrize("target", ["native", "x86-64-v2"])
@pytest.mark.parametrize("seed", first(range(10), 4))
def test_maps_in_another_order_give_what_they_are_to(seed: int, target: str, tmp_path: Path) -> None:
    model, feeds = _network(SeededDraw(seed), seed)
    onnx.save(model, tmp_path / "net.onnx")
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", target=target)
    network = mccompile.load(tmp_path / "out")
    network.fill_arenas(0xFF)
    got = network.run(feeds)
    for name, want in zip(("y", "z"), plain_session(model.SerializeToString()).run(None, feeds), strict=True):
        assert got[name].dtype == want.dtype
        assert got[name].shape == want.shape
        np.testing.assert_allclose(got[name].astype(float), want.astype(float), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", ["float16", "bool", "float32"])
def test_no_element_is_fetched_from_afar(dtype: str, tmp_path: Path) -> None:
    """A copy in blocks, and vectors of neighbours."""
    m = Maker()
    x = m.input("x", (1, 64, 14, 14), TYPES[dtype])
    m.node("MaxPool", [m.node("Sigmoid", [m.node("Cast", [x], to=TensorProto.FLOAT)])], "y", kernel_shape=[3, 3])
    onnx.save(m.model(["y"]), tmp_path / "net.onnx")
    made = mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", target="x86-64-v3")
    kernels = [step["kernel"] for step in made.report["steps"]]
    assert sorted(kernels[: kernels.index("pool.channels")]) == ["copy.generic", "map.vector"]
