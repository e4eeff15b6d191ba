"""Convolutions by weights of the run: the same values by columns, and the C of such networks."""

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
from mccompile.ops.matmul import MatMul
from mccompile.passes.manager import run_passes
from mccompile.targets.target import resolve
from tests.kernels.cases import Net

ADD = ex.apply("add", ex.acc(F32), ex.var(0, F32))


@pytest.mark.parametrize("seed", range(24))
def test_columns_mean_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank, groups = int(rng.integers(1, 4)), int(rng.choice([1, 1, 2, 3]))
    channels, filters = (int(n) for n in rng.integers(2, 5, 2) * groups)
    kernel = rng.integers(1, 4, rank).tolist()
    strides, dilations = rng.integers(1, 3, rank).tolist(), rng.integers(1, 3, rank).tolist()
    op = Conv(tuple(strides), tuple(rng.integers(0, 3, 2 * rank).tolist()), tuple(dilations), groups)
    graph = Graph("g")
    shapes = {"x": (int(rng.integers(1, 3)), channels, *rng.integers(5, 9, rank).tolist()),
              "w": (filters, channels // groups, *kernel)}  # fmt: skip
    x, w = (graph.value(n, TensorType(F32, tuple(s))) for n, s in shapes.items())
    graph.inputs += [x, w]
    (plain,) = op.infer(x.type, w.type)
    extras = {"whole": plain.shape, "channel": (filters, *(1,) * rank), "batch": (plain.shape[0], *(1,) * (rank + 1))}
    for name, shape in extras.items():
        beside = graph.value(name, TensorType(F32, shape))
        graph.inputs.append(beside)
        graph.outputs += graph.emit(op, [x, w], [f"y_{name}"], extras=[beside], post={0: ADD})
    inputs = {v.name: rng.normal(size=v.shape).astype(np.float32) for v in graph.inputs}
    before = graph.evaluate(inputs)
    run_passes(graph, ["im2col"], target=resolve("x86-64-v3"))
    graph.verify()
    assert sum(isinstance(n.op, MatMul) for n in graph.nodes) == 3
    for name, value in graph.evaluate(inputs).items():
        np.testing.assert_allclose(value, before[name], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("target", ["generic", "native"])
def test_networks_that_make_their_filters(target: str, tmp_path: Path) -> None:
    """Filters that a network makes of another input, scaled before and behind, with what is usual around them."""
    n = Net(3)
    x, z = n.input(1, 6, 9, 11), n.input(1, 16)
    w = n("Reshape", n("MatMul", z, n.weight(16, 8 * 6 * 9)), n.ints(8, 6, 3, 3))
    y = n("Relu", n("Conv", n("Sigmoid", x), n("Tanh", w), pads=[1, 1, 1, 1]))
    again = n("Conv", y, n("Mul", n.weight(4, 4, 3, 3), n("Reshape", z, n.ints(4, 4, 1, 1))), group=2, strides=[2, 2])
    last = n("Add", n("Conv", y, n("Reshape", n("MatMul", z, n.weight(16, 64)), n.ints(8, 8, 1, 1))), y)
    (tmp_path / "net.onnx").write_bytes(n.model(again, last).SerializeToString())
    found = check(tmp_path / "net.onnx", Options(target=target))
    assert found.ok, found
    assert any(s["kernel"].startswith("conv.") for s in found.report["steps"]) == (target == "generic")
