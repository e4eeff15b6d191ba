"""Pools of few channels mean the same line by line, and of lines the same in steps, and so does their C."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import mccompile
from mccompile.check.check import check
from mccompile.driver import Options
from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph
from mccompile.ir.types import F32, TensorType
from mccompile.ops.pool import Pool
from mccompile.passes.manager import run_passes
from mccompile.passes.rewrite.pools import PLAIN_TAPS
from mccompile.targets.target import resolve
from tests.kernels.cases import Array, Net

SUBTRACT = ex.apply("sub", ex.acc(F32), ex.var(0, F32))
OF_MODE = {"max": "separate-pools", "average": "separate-averages", "sum": "separate-averages"}


def judge(op: Pool, shape: tuple[int, ...], rng: np.random.Generator) -> Counter[str]:
    """Compare a pool, and one with an epilogue, with what a pass makes of them; maxima to the bit. Returns the
    operators that there are then."""
    graph = Graph("g")
    x = graph.value("x", TensorType(F32, shape))
    graph.inputs.append(x)
    (y,) = graph.emit(op, [x], ["y"])
    beside, one = graph.value("beside", y.type), graph.value("one", TensorType(F32, (1,)))
    graph.inputs += [beside, one]
    both = ex.apply("mul", SUBTRACT, ex.var(1, F32))
    graph.outputs += [y, *graph.emit(op, [x], ["z"], extras=[beside, one], post={0: both})]
    inputs: dict[str, Array] = {v.name: rng.normal(size=v.shape).astype(np.float32) for v in graph.inputs}
    inputs["x"][rng.random(shape) < 0.02] = rng.choice([np.nan, np.inf, -np.inf])
    with np.errstate(invalid="ignore"):
        before = graph.evaluate(inputs)
        run_passes(graph, [OF_MODE[op.mode]], target=resolve("x86-64-v3"))
        graph.verify()
        after = graph.evaluate(inputs)
    for name, value in after.items():
        if op.mode == "max":
            np.testing.assert_array_equal(value, before[name])
        else:
            np.testing.assert_allclose(value, before[name], rtol=1e-5, atol=1e-5)
    return Counter(n.op.name for n in graph.nodes)


@pytest.mark.parametrize("mode", OF_MODE)
@pytest.mark.parametrize("seed", range(24))
def test_lines_mean_the_same(seed: int, mode: str) -> None:
    """Of windows of several taps along both axes there are two pools in place of one, else one on its side."""
    rng = np.random.default_rng(seed)
    pads = rng.integers(0, 3, 4).tolist()
    kernel, strides = rng.integers(3, 6, 2).tolist(), rng.integers(1, 3, 2).tolist()
    if seed % 4 == 0:  # one axis stays as it is
        axis = int(rng.integers(2))
        kernel[axis], strides[axis], pads[axis], pads[2 + axis] = 1, 1, 0, 0
    op = Pool(mode, tuple(kernel), tuple(strides), tuple(pads), tuple(rng.integers(1, 3, 2).tolist()),
              ceil=bool(rng.integers(2)), count_pad=bool(rng.integers(2)))  # fmt: skip
    shape = (int(rng.integers(1, 3)), int(rng.integers(1, 4)), *rng.integers(24, 40, 2).tolist())
    found = judge(op, shape, rng)
    assert found["pool"] == (2 if seed % 4 == 0 and kernel[0] == 1 else 4)
    assert found["transpose"] >= (0 if kernel[0] == 1 else 4)


@pytest.mark.parametrize("seed", range(16))
def test_large_windows_of_channels_mean_the_same(seed: int) -> None:
    """Maxima along one axis, then along the other, whatever each axis is padded by."""
    rng = np.random.default_rng(seed)
    op = Pool("max", tuple(rng.integers(8, 11, 2).tolist()), tuple(rng.integers(1, 3, 2).tolist()),
              tuple(rng.integers(0, 5, 4).tolist()), tuple(rng.integers(1, 3, 2).tolist()),
              ceil=bool(rng.integers(2)))  # fmt: skip
    found = judge(op, (int(rng.integers(1, 3)), int(rng.integers(16, 20)), *rng.integers(28, 34, 2).tolist()), rng)
    assert found["pool"] == 4
    small = Pool("max", (3, 3), (1, 1), (1, 1, 1, 1), (1, 1))
    assert judge(small, (1, 16, 12, 12), rng)["pool"] == 2


@pytest.mark.parametrize("mode", OF_MODE)
@pytest.mark.parametrize("seed", range(32))
def test_windows_of_lines_mean_the_same(seed: int, mode: str) -> None:
    rng = np.random.default_rng(seed)
    kernel, dilation = int(rng.integers(2, 40)), int(rng.choice([1, 1, 2]))
    stride = int(rng.integers(1, min(kernel, 4)))
    least = int(kernel <= PLAIN_TAPS)  # without padding, compilers make vectors of such
    op = Pool(mode, (kernel,), (stride,), tuple(rng.integers(least, kernel, 2).tolist()), (dilation,),
              ceil=bool(rng.integers(2)), count_pad=bool(rng.integers(2)))  # fmt: skip
    found = judge(op, (int(rng.integers(1, 3)), int(rng.integers(1, 4)), int(rng.integers(90, 120))), rng)
    assert not found["pool"]
    assert found["map"] >= 2 * int(np.log2(kernel))


@pytest.mark.parametrize("mode", OF_MODE)
@pytest.mark.parametrize(("kernel", "extent", "channels"), [(8, 64, 2), (9, 98, 3), (70, 300, 20)])
def test_windows_side_by_side_mean_the_same(kernel: int, extent: int, channels: int, mode: str) -> None:
    """One reduction each; what is left of the line behind the last window counts nowhere."""
    rng = np.random.default_rng(kernel)
    found = judge(Pool(mode, (kernel,), (kernel,), (0, 0), (1,)), (2, channels, extent), rng)
    assert (found["reduce"], found["pool"]) == (2, 0)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("target", ["generic", "x86-64-v3", "native"])
def test_networks_of_such_pools(target: str, op: str, tmp_path: Path) -> None:
    """Peaks of a plane, as detectors of key points suppress others beside them; lines of sound."""
    n = Net(3)
    x, line = n.input(1, 1, 36, 44), n.input(2, 1, 240)
    around = {"kernel_shape": [5, 5], "pads": [2, 2, 2, 2]}
    peaks = n("Max", n("Sub", x, n(op, x, **around)), x)
    wider = n(op, peaks, kernel_shape=[9, 7], pads=[4, 3, 4, 3], strides=[2, 1])
    tall = n("Relu", n(op, peaks, kernel_shape=[11, 1], pads=[5, 0, 5, 0]))
    smooth = n("Sub", line, n(op, line, kernel_shape=[25], pads=[12, 12]))
    sparse = n("Relu", n(op, smooth, kernel_shape=[20], strides=[20]))
    (tmp_path / "net.onnx").write_bytes(n.model(peaks, wider, tall, smooth, sparse).SerializeToString())
    found = check(tmp_path / "net.onnx", Options(target=target))
    assert found.ok, found
    kernels = {s["kernel"] for s in found.report["steps"]}
    assert ("pool.generic" in kernels) == (target == "generic")


def test_what_a_step_depends_on_stays(tmp_path: Path) -> None:
    """A mean of means is rounded otherwise, and where it is compared that may be seen."""
    n = Net(4)
    x = n.input(1, 1, 36, 44)
    mean = n("AveragePool", x, kernel_shape=[5, 5], pads=[2, 2, 2, 2])
    y = n("Where", n("Equal", x, mean), x, n("Floor", mean))
    (tmp_path / "net.onnx").write_bytes(n.model(y).SerializeToString())
    found = check(tmp_path / "net.onnx", Options(target="x86-64-v3"))
    assert found.ok, found
    assert "pool.generic" in {s["kernel"] for s in found.report["steps"]}


def test_means_of_small_windows_of_a_plane_stay_one_pool(tmp_path: Path) -> None:
    """Compilers make vectors of these."""
    n = Net(6)
    small = n("AveragePool", n.input(1, 1, 64, 96), kernel_shape=[2, 2], strides=[2, 2])
    large = n("AveragePool", n.input(1, 1, 128, 96), kernel_shape=[4, 4], strides=[4, 4])
    (tmp_path / "net.onnx").write_bytes(n.model(small, large).SerializeToString())
    found = check(tmp_path / "net.onnx", Options(target="x86-64-v3"))
    assert found.ok, found
    pools = {y for s in found.report["steps"] if s["kernel"].startswith("pool") for y in s["writes"]}
    assert small in pools


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "Resize"])
def test_a_kernel_that_is_asked_for_is_taken(op: str, tmp_path: Path) -> None:
    n = Net(7)
    x = n.input(1, 1, 40, 48)
    if op == "Resize":
        y, kernel = n(op, x, "", n.constant(np.array([1, 1, 2, 2], np.float32)), mode="linear"), "resize"
    else:
        y, kernel = n(op, x, kernel_shape=[9, 9]), "pool"
    path = tmp_path / "net.onnx"
    path.write_bytes(n.model(y).SerializeToString())
    for kernels in ({}, {kernel: f"{kernel}.generic"}):
        report = mccompile.compile(path, tmp_path / "out", target="x86-64-v3", kernels=kernels).report
        assert (f"{kernel}.generic" in {s["kernel"] for s in report["steps"]}) == bool(kernels)
