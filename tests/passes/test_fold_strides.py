"""Convolutions of lines that take strides: the same values by phases, and the C of such networks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mccompile.check.check import check
from mccompile.driver import Options
from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph
from mccompile.ir.types import F32, TensorType
from mccompile.ops.conv import Conv
from mccompile.passes.manager import run_passes
from mccompile.targets.target import resolve
from tests.kernels.cases import Net

ADD = ex.apply("add", ex.acc(F32), ex.var(0, F32))


@pytest.mark.parametrize("seed", range(24))
def test_phases_mean_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    stride, taps, channels = int(rng.integers(2, 7)), int(rng.integers(1, 4)), int(rng.integers(1, 3))
    op = Conv((stride,), tuple(rng.integers(0, stride * taps, 2).tolist()), (1,))
    graph = Graph("g")
    x = graph.value("x", TensorType(F32, (int(rng.integers(1, 3)), channels, int(rng.integers(20, 60)))))
    w = graph.constant("w", rng.normal(size=(5, channels, stride * taps)).astype(np.float32))
    (plain,) = op.infer(x.type, w.type)
    beside = graph.value("beside", plain)
    graph.inputs += [x, beside]
    graph.outputs += graph.emit(op, [x, w], ["y"], extras=[beside], post={0: ADD})
    inputs = {v.name: rng.normal(size=v.shape).astype(np.float32) for v in graph.inputs}
    before = graph.evaluate(inputs)["y"]
    run_passes(graph, ["fold-strides"], target=resolve("x86-64-v3"))
    graph.verify()
    assert [n.op for n in graph.nodes if isinstance(n.op, Conv)] == [Conv((1,), (0, 0), (1,))]
    np.testing.assert_allclose(graph.evaluate(inputs)["y"], before, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", ["generic", "native"])
def test_networks_that_hear(target: str, tmp_path: Path) -> None:
    """The first layers of wav2vec 2.0 and of M5: lines of samples, whose windows overlap."""
    n = Net(3)
    sound, other = n.input(1, 1, 400), n.input(2, 2, 163)
    first = n.conv(sound, (32, 1, 10), strides=[5])
    second = n("Relu", n.conv(n("Mul", first, n("Sigmoid", first)), (16, 32, 3), strides=[2]))
    padded = n.conv(n("Tanh", other), (12, 2, 8), strides=[4], pads=[3, 2])
    (tmp_path / "net.onnx").write_bytes(n.model(first, second, padded).SerializeToString())
    found = check(tmp_path / "net.onnx", Options(target=target))
    assert found.ok, found
