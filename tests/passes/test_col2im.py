"""Transposed convolutions as products and columns: the same values, and the C of such networks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mccompile.check.check import check
from mccompile.driver import Options
from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph
from mccompile.ir.types import F32, TensorType
from mccompile.ops.col2im import Col2Im
from mccompile.ops.conv_transpose import ConvTranspose
from mccompile.ops.window import meets_all
from mccompile.passes.manager import run_passes
from mccompile.targets.target import resolve
from tests.kernels.cases import Net

ADD = ex.apply("add", ex.acc(F32), ex.var(0, F32))


@pytest.mark.parametrize("seed", range(32))
def test_columns_mean_the_same(seed: int) -> None:
    """Of weights that are constants, those columns alone that leave gaps."""
    rng = np.random.default_rng(seed)
    rank, groups = int(rng.integers(1, 4)), int(rng.choice([1, 1, 2, 3]))
    own, filters = (int(n) for n in rng.integers(1, 4, 2))
    kernel = rng.integers(1, 4, rank).tolist()
    strides, dilations = rng.integers(1, 4, rank).tolist(), rng.integers(1, 3, rank).tolist()
    more = tuple(int(rng.integers(s)) for s in strides)
    op = ConvTranspose(tuple(strides), tuple(rng.integers(0, 2, 2 * rank).tolist()), tuple(dilations), more, groups)
    graph = Graph("g")
    x = graph.value("x", TensorType(F32, (int(rng.integers(1, 3)), groups * own, *rng.integers(3, 6, rank).tolist())))
    weights = rng.normal(size=(groups * own, filters, *kernel)).astype(np.float32)
    known = graph.constant("known", weights)
    w = graph.value("w", TensorType(F32, weights.shape))
    graph.inputs += [x, w]
    (plain,) = op.infer(x.type, w.type)
    for name, shape in {"whole": plain.shape, "channel": (filters * groups, *(1,) * rank)}.items():
        beside = graph.value(name, TensorType(F32, shape))
        graph.inputs.append(beside)
        graph.outputs += graph.emit(op, [x, w], [f"y_{name}"], extras=[beside], post={0: ADD})
    graph.outputs += graph.emit(op, [x, known], ["y_known"])
    inputs = {v.name: rng.normal(size=v.shape).astype(np.float32) for v in graph.inputs}
    before = graph.evaluate(inputs)
    run_passes(graph, ["col2im"], target=resolve("x86-64-v3"))
    graph.verify()
    gaps = not meets_all(kernel, strides, dilations)
    assert sum(isinstance(n.op, Col2Im) for n in graph.nodes) == 2 + gaps
    for name, value in graph.evaluate(inputs).items():
        np.testing.assert_allclose(value, before[name], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("target", ["generic", "native"])
def test_networks_of_such_convolutions(target: str, tmp_path: Path) -> None:
    """Filters that a network makes of another input, and filters that are shorter than a stride."""
    n = Net(3)
    x, z = n.input(1, 6, 9, 11), n.input(1, 16)
    w = n("Reshape", n("MatMul", z, n.weight(16, 6 * 8 * 16)), n.ints(6, 8, 4, 4))
    y = n("Relu", n("ConvTranspose", n("Sigmoid", x), n("Tanh", w), n.weight(8), pads=[1] * 4, strides=[2, 2]))
    apart = n("ConvTranspose", n.conv(y, (12, 8, 3, 3)), n.weight(12, 5, 1, 2), strides=[2, 3])
    own = n("ConvTranspose", y, n("Mul", n.weight(8, 1, 3, 3), n("Reshape", n("Slice", z, n.ints(0), n.ints(8),
            n.ints(1)), n.ints(8, 1, 1, 1))), group=8, dilations=[2, 2], strides=[2, 2])  # fmt: skip
    last = n("Relu", n("ConvTranspose", own, n.weight(8, 2, 3, 3), strides=[2, 2], group=2, dilations=[2, 1]))
    (tmp_path / "net.onnx").write_bytes(n.model(apart, last).SerializeToString())
    found = check(tmp_path / "net.onnx", Options(target=target))
    assert found.ok, found
    kernels = {s["kernel"] for s in found.report["steps"]}
    assert ("conv_transpose.generic" in kernels) == (target == "generic")
    assert ("col2im.lines" in kernels) == (target != "generic")
