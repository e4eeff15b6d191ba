"""Pools of few channels mean the same line by line, to the bit, and so does their C."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mccompile.check.check import check
from mccompile.driver import Options
from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph
from mccompile.ir.types import F32, TensorType
from mccompile.ops.pool import Pool
from mccompile.passes.manager import run_passes
from mccompile.targets.target import resolve
from tests.kernels.cases import Net

SUBTRACT = ex.apply("sub", ex.acc(F32), ex.var(0, F32))


@pytest.mark.parametrize("seed", range(24))
def test_lines_mean_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pads = rng.integers(0, 3, 4).tolist()
    op = Pool("max", tuple(rng.integers(3, 6, 2).tolist()), tuple(rng.integers(1, 3, 2).tolist()), tuple(pads),
              tuple(rng.integers(1, 3, 2).tolist()), ceil=bool(rng.integers(2)))  # fmt: skip
    shape = (int(rng.integers(1, 3)), int(rng.integers(1, 4)), *rng.integers(24, 40, 2).tolist())
    graph = Graph("g")
    x = graph.value("x", TensorType(F32, shape))
    graph.inputs.append(x)
    (y,) = graph.emit(op, [x], ["y"])
    beside = graph.value("beside", y.type)
    graph.inputs.append(beside)
    graph.outputs += [y, *graph.emit(op, [x], ["z"], extras=[beside], post={0: SUBTRACT})]
    inputs = {v.name: rng.normal(size=v.shape).astype(np.float32) for v in graph.inputs}
    inputs["x"][rng.random(shape) < 0.02] = rng.choice([np.nan, np.inf, -np.inf])
    before = graph.evaluate(inputs)
    run_passes(graph, ["separate-pools"], target=resolve("x86-64-v3"))
    graph.verify()
    assert sum(isinstance(n.op, Pool) for n in graph.nodes) == 4
    for name, value in graph.evaluate(inputs).items():
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.parametrize("target", ["generic", "x86-64-v3", "native"])
def test_peaks_of_a_plane(target: str, tmp_path: Path) -> None:
    """Points that are the largest around them, twice over, as detectors of key points suppress the others."""
    n = Net(3)
    x = n.input(1, 1, 36, 44)
    around = {"kernel_shape": [5, 5], "pads": [2, 2, 2, 2]}
    peaks = n("Where", n("Equal", x, n("MaxPool", x, **around)), x, n.constant(np.zeros((), np.float32)))
    wider = n("MaxPool", peaks, kernel_shape=[9, 7], pads=[4, 3, 4, 3], strides=[2, 1])
    (tmp_path / "net.onnx").write_bytes(n.model(peaks, wider).SerializeToString())
    found = check(tmp_path / "net.onnx", Options(target=target))
    assert found.ok, found
    kernels = {s["kernel"] for s in found.report["steps"]}
    assert ("pool.generic" in kernels) == (target == "generic")
