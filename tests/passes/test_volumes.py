"""Convolutions and pools over three axes mean the same as over planes: values, not only forms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Value
from mccompile.ir.types import F32, TensorType
from mccompile.ops.conv import Conv
from mccompile.ops.pool import Pool
from mccompile.passes.manager import run_passes
from mccompile.targets.target import resolve

RNG = np.random.default_rng(5)
ADD = ex.apply("add", ex.acc(F32), ex.var(0, F32))


def _graph(shape: tuple[int, ...]) -> tuple[Graph, Value]:
    graph = Graph("g")
    x = graph.value("x", TensorType(F32, shape))
    graph.inputs.append(x)
    return graph, x


def _flattened(graph: Graph) -> None:
    """After the pass nothing has three spatial axes, and the results are those of before."""
    inputs = {v.name: RNG.normal(size=v.shape).astype(np.float32) for v in graph.inputs}
    before = graph.evaluate(inputs)
    run_passes(graph, ["flatten-volumes"], target=resolve("x86-64-v3"))
    graph.verify()
    assert all(len(n.result.shape) == 4 for n in graph.nodes if isinstance(n.op, Conv | Pool))
    for name, value in graph.evaluate(inputs).items():
        np.testing.assert_allclose(value, before[name], rtol=1e-5, atol=1e-5)


CONVS = (
    (Conv((1, 1, 1), (1, 1, 1, 1, 1, 1), (1, 1, 1)), (3, 3, 3), 1),
    (Conv((2, 1, 2), (2, 0, 1, 1, 0, 0), (2, 1, 1)), (2, 3, 1), 1),
    (Conv((3, 2, 1), (0, 0, 0, 0, 0, 0), (1, 1, 2)), (5, 1, 2), 2),
    (Conv((1, 1, 1), (0, 1, 1, 0, 1, 1), (1, 1, 1), groups=4), (1, 3, 3), 2),
    (Conv((1, 1, 1), (2, 0, 0, 2, 0, 0), (1, 1, 1), groups=4), (5, 1, 1), 2),
    (Conv((2, 1, 1), (1, 0, 0, 0, 0, 0), (2, 1, 1)), (3, 1, 1), 1),
)


@pytest.mark.parametrize(("op", "kernel", "batch"), CONVS)
def test_convolutions(op: Conv, kernel: tuple[int, ...], batch: int) -> None:
    graph, x = _graph((batch, 4, 7, 6, 8))
    w = graph.constant("w", RNG.normal(size=(8, 4 // op.groups, *kernel)).astype(np.float32))
    bias = graph.constant("b", RNG.normal(size=(8, 1, 1, 1)).astype(np.float32))
    (a,) = graph.emit(op, [x, w], ["a"], extras=[bias], post={0: ADD})
    beside = graph.value("beside", a.type)
    graph.inputs.append(beside)
    (b,) = graph.emit(op, [x, w], ["b"], extras=[beside], post={0: ADD})
    graph.outputs += [a, b]
    _flattened(graph)


POOLS = (
    Pool("max", (2, 2, 2), (2, 2, 2), (0, 0, 0, 0, 0, 0), (1, 1, 1)),
    Pool("max", (3, 2, 3), (2, 1, 2), (1, 0, 1, 1, 1, 1), (1, 1, 2), ceil=True),
    Pool("max", (1, 3, 2), (1, 2, 2), (0, 1, 0, 0, 1, 0), (1, 1, 1)),
    Pool("average", (3, 3, 2), (2, 2, 1), (1, 1, 0, 1, 0, 1), (1, 1, 1)),
    Pool("average", (3, 3, 2), (2, 2, 1), (1, 1, 0, 1, 0, 1), (1, 1, 1), count_pad=True),
)


@pytest.mark.parametrize("op", [p for op in POOLS for p in (op, replace(op, strides=(1, 1, 1)))])
@pytest.mark.parametrize("batch", [1, 3])
def test_pools(op: Pool, batch: int) -> None:
    graph, x = _graph((batch, 4, 7, 6, 8))
    scale = graph.constant("s", RNG.normal(size=(4, 1, 1, 1)).astype(np.float32))
    (y,) = graph.emit(op, [x], ["y"], extras=[scale], post={0: ADD})
    graph.outputs.append(y)
    _flattened(graph)
