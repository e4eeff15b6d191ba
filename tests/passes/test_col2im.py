"""Transposed convolutions as products and columns: the same values, and the C of such networks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import mccompile
from mccompile.check.check import check
from mccompile.driver import Options
from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph
from mccompile.ir.types import F32, TensorType
from mccompile.ops.col2im import Col2Im
from mccompile.ops.conv import Conv
from mccompile.ops.conv_transpose import ConvTranspose
from mccompile.ops.window import meets_all
from mccompile.passes.algebra import col2im
from mccompile.passes.manager import run_passes
from mccompile.targets.target import resolve
from tests._fast import first
from tests.kernels.cases import Net

ADD = ex.apply("add", ex.acc(F32), ex.var(0, F32))


@pytest.mark.parametrize("preferred", [False, True])
@pytest.mark.parametrize("seed", range(32))
def test_columns_mean_the_same(seed: int, preferred: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of weights that are constants, those columns alone that leave gaps, or are ``preferred`` to phases: of such
    small ones none are, unless it is said so."""
    if preferred:
        monkeypatch.setattr(col2im, "_is_faster", lambda *args: True)
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
    assert sum(isinstance(n.op, Col2Im) for n in graph.nodes) == 2 + (gaps or (preferred and groups == 1))
    assert any(isinstance(n.op, Conv) for n in graph.nodes) == (groups == 1 and (gaps or preferred))
    for name, value in graph.evaluate(inputs).items():
        np.testing.assert_allclose(value, before[name], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("seed", range(32))
def test_few_filters_mean_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the run, and constants where it is said that they take less."""
    monkeypatch.setattr(col2im, "_is_faster", lambda *args: True)
    rng = np.random.default_rng(seed)
    rank, groups = int(rng.integers(1, 4)), int(rng.choice([1, 1, 2]))
    kernel, dilations = rng.integers(2, 4, rank), rng.integers(1, 3, rank)
    reach = (kernel - 1) * dilations
    pads = [int(rng.integers(e + 1)) for e in (*reach, *reach)]
    op = Conv((1,) * rank, tuple(pads), tuple(dilations.tolist()), groups)
    graph = Graph("g")
    spatial = [int(e) + int(rng.integers(1, 6)) for e in reach]
    x = graph.value("x", TensorType(F32, (int(rng.integers(1, 3)), 32 * groups, *spatial)))
    weights = rng.normal(size=(int(rng.integers(1, 3)) * groups, 32, *kernel)).astype(np.float32)
    known, w = graph.constant("known", weights), graph.value("w", TensorType(F32, weights.shape))
    (plain,) = op.infer(x.type, w.type)
    beside = graph.value("beside", plain)
    graph.inputs += [x, w, beside]
    graph.outputs += graph.emit(op, [x, w], ["y"], extras=[beside], post={0: ADD})
    graph.outputs += graph.emit(op, [x, known], ["y_known"], extras=[beside], post={0: ADD})
    inputs = {v.name: rng.normal(size=v.shape).astype(np.float32) for v in graph.inputs}
    before = graph.evaluate(inputs)
    run_passes(graph, ["col2im"], target=resolve("x86-64-v3"))
    graph.verify()
    few = bool(2 * np.prod(spatial) * weights.shape[0] <= np.prod(plain.shape[2:]) * x.shape[1])
    assert sum(isinstance(n.op, Col2Im) for n in graph.nodes) == few + (groups == 1)
    for name, value in graph.evaluate(inputs).items():
        np.testing.assert_allclose(value, before[name], rtol=1e-5, atol=1e-3)


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


@pytest.mark.parametrize("transposed", [False, True])
def test_kernels_and_precision_of_an_operator_that_a_pass_replaces(transposed: bool, tmp_path: Path) -> None:
    """A kernel that is asked for is taken; what is said of an operator holds for the product that it becomes."""
    n, path = Net(5), tmp_path / "net.onnx"
    if transposed:
        y = n("ConvTranspose", n.input(1, 32, 5, 7), n.weight(32, 8, 2, 2), strides=[3, 3])  # has gaps
    else:
        y = n("Conv", n.input(1, 64, 24, 24), n.weight(1, 64, 3, 3), pads=[1] * 4)
    path.write_bytes(n.model(n("Sigmoid", y)).SerializeToString())
    op = "conv_transpose" if transposed else "conv"

    def steps(target: str = "x86-64-v3", **options: Mapping[str, str]) -> set[str]:
        found = mccompile.compile(path, out_dir=tmp_path / "out", target=target, **options)
        return {s["kernel"] for s in found.report["steps"]}

    assert "col2im.lines" in steps()
    assert f"{op}.generic" in steps(kernels={op: f"{op}.generic"})
    assert "col2im.lines" in steps(kernels={"matmul": "matmul.generic"})
    if transposed:  # the other's product is faster in f32
        narrow = steps("x86-64-v4-bf16", precision={op: "bf16"})
        assert "col2im.lines" in narrow
        assert narrow != steps("x86-64-v4-bf16")


def _head(rng: np.random.Generator) -> tuple[Net, str]:
    """The end of a decoder: a transposed convolution to few channels, and what stands beside it."""
    n = Net(int(rng.integers(1 << 30)))
    rank, channels, few = int(rng.choice([1, 2, 2, 2, 3])), int(rng.integers(16, 70)), int(rng.integers(1, 13))
    stride = int(rng.integers(2, 5))
    kernel = int(rng.integers(stride, 2 * stride + 2))
    extents = rng.integers(5, {1: 200, 2: 34, 3: 9}[rank], rank).tolist()
    pads = [int(rng.integers(0, (kernel - stride) // 2 + 1))] * rank
    attrs = {"strides": [stride] * rank, "pads": pads * 2, "output_padding": rng.integers(0, stride, rank).tolist()}
    x = n.input(int(rng.integers(1, 3)), channels, *extents)
    if rng.integers(2):
        x = n("Relu", n.conv(x, (channels, channels, *(1,) * rank)))
    y = n("ConvTranspose", x, n.weight(channels, few, *(kernel,) * rank), n.weight(few), **attrs)
    if rng.integers(2):
        y = n(str(rng.choice(["Relu", "Sigmoid", "Tanh"])), y)
    if rng.integers(2):
        y = n.conv(y, (9, few, *(3,) * rank), pads=[1] * 2 * rank)
    return n, y


@pytest.mark.parametrize("target", ["x86-64-v3", "native"])
@pytest.mark.parametrize("seed", first(range(6), 3))
def test_heads_of_few_channels(seed: int, target: str, tmp_path: Path) -> None:
    net, y = _head(np.random.default_rng(seed))
    (tmp_path / "net.onnx").write_bytes(net.model(y).SerializeToString())
    found = check(tmp_path / "net.onnx", Options(target=target))
    assert found.ok, found


@pytest.mark.parametrize("target", ["x86-64-v3", "native"])
def test_few_filters_in_networks(target: str, tmp_path: Path) -> None:
    """What is looked for in an image, which another branch makes of a second one; and a map of depth."""
    n = Net(5)
    image, looked_for = n.input(1, 3, 40, 44), n.input(1, 3, 18, 18)
    weights = [(48, 3, 3, 3), (40, 48, 3, 3)]
    branches = []
    for x in (image, looked_for):
        for shape in weights:
            x = n("Relu", n.conv(x, shape, strides=[2, 2], pads=[1] * 4))
        branches.append(x)
    found = n("Sigmoid", n("Conv", *branches, n.weight(1)))
    padded = n("Relu", n("Conv", *branches, pads=[2, 1, 2, 3]))
    depth = n("Sigmoid", n.conv(n.conv(image, (64, 3, 3, 3), pads=[1] * 4), (1, 64, 3, 3), pads=[1] * 4))
    wide = n("Tanh", n.conv(n("Abs", n.input(2, 40, 300)), (2, 40, 7), pads=[3, 3]))
    (tmp_path / "net.onnx").write_bytes(n.model(found, padded, depth, wide).SerializeToString())
    result = check(tmp_path / "net.onnx", Options(target=target))
    assert result.ok, result
    kernels = [s["kernel"] for s in result.report["steps"]]
    assert "conv.generic" not in kernels
    assert kernels.count("col2im.lines") >= 3


@pytest.mark.parametrize(("channels", "filters", "kernel", "columns"), [
    (64, 1, 2, True), (64, 3, 4, True), (32, 1, 9, True), (24, 12, 2, True), (64, 32, 2, False), (2, 2, 16, False),
    (1, 1, 4, False), (5, 1, 4, False), (8, 1, 4, True),
])  # fmt: skip
def test_columns_of_few_channels(channels: int, filters: int, kernel: int, columns: bool, tmp_path: Path) -> None:
    """Heads of segmentation and of super-resolution are products; what fills vectors, or overlaps often, is not."""
    n = Net(1)
    stride, pad = (8, 4) if kernel == 16 else (2, (kernel - 1) // 2)
    y = n("ConvTranspose", n.input(1, channels, 28, 28), n.weight(channels, filters, kernel, kernel),
          strides=[stride] * 2, pads=[pad] * 4)  # fmt: skip
    (tmp_path / "net.onnx").write_bytes(n.model(y).SerializeToString())
    report = mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", target="x86-64-v4").report
    assert ("col2im.lines" in {s["kernel"] for s in report["steps"]}) == columns
