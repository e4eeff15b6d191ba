"""Resizes along one axis at a time: the same values, and the C of such networks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mccompile.check.check import check
from mccompile.driver import Options
from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph
from mccompile.ir.types import F32, TensorType
from mccompile.ops.resize import Resize
from mccompile.passes.manager import run_passes
from mccompile.targets.target import resolve
from tests.kernels.cases import Net

ADD = ex.apply("add", ex.apply("mul", ex.acc(F32), ex.var(1, F32)), ex.var(0, F32))


@pytest.mark.parametrize("seed", range(60))
def test_one_axis_at_a_time_means_the_same(seed: int) -> None:
    """Of planes of few channels and of many, of volumes, and of any axes, by any tables."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(2, 6))
    outer, spatial = rng.choice([1, 2, 3, 16], min(rank - 2, 2)), rng.choice([3, 5, 7, 11, 19], max(rank - 2, 2))
    shape = tuple(int(n) for n in (*outer, *spatial)[-rank:])
    count = int(rng.integers(1, min(rank, 3) + 1))
    axes = tuple(sorted(int(a) for a in rng.choice(np.arange(max(rank - 3, 0), rank), count, replace=False)))
    weighted = bool(rng.integers(4))
    graph = Graph("g")
    x = graph.value("x", TensorType(F32, shape))
    graph.inputs.append(x)
    extents = rng.integers(8, 40, count).tolist()
    taps = rng.choice([1, 2, 4, 9], count).tolist() if weighted else [1] * count
    places = [rng.integers(0, shape[a], (e, t)).astype(np.int32)
              for a, e, t in zip(axes, extents, taps, strict=True)]  # fmt: skip
    tables = [graph.constant(f"i{a}", p) for a, p in zip(axes, places, strict=True)]
    if weighted:
        tables += [graph.constant(f"w{a}", rng.normal(size=p.shape).astype(np.float32))
                   for a, p in zip(axes, places, strict=True)]  # fmt: skip
    op = Resize(axes, weighted)
    (y,) = graph.emit(op, [x, *tables], ["y"])
    beside, one = graph.value("beside", y.type), graph.value("one", TensorType(F32, (1,)))
    graph.inputs += [beside, one]
    graph.outputs += [y, *graph.emit(op, [x, *tables], ["z"], extras=[beside, one], post={0: ADD})]
    inputs = {v.name: rng.normal(size=v.shape).astype(np.float32) for v in graph.inputs}
    before = graph.evaluate(inputs)
    run_passes(graph, ["separate-resizes"], target=resolve("x86-64-v3"))
    graph.verify()
    found = [n.op for n in graph.nodes if isinstance(n.op, Resize)]
    assert found == [op, op] or (len(found) == 2 * count and all(len(o.axes) == 1 for o in found))
    for name, value in graph.evaluate(inputs).items():
        np.testing.assert_allclose(value, before[name], rtol=1e-4, atol=1e-4)


def _resized(n: Net, x: str, sizes: list[int], **attrs: object) -> str:
    n.opset = 18
    return n("Resize", x, "", "", n.ints(*sizes), **attrs)


@pytest.mark.parametrize("target", ["generic", "x86-64-v3", "native"])
def test_networks_that_resize(target: str, tmp_path: Path) -> None:
    """A mask that becomes as large as the image it is laid on, a volume, a matrix, and images against aliasing."""
    n = Net(3)
    mask, image = n.input(1, 1, 14, 17), n.input(2, 3, 56, 68)
    volume, matrix = n.input(1, 2, 5, 16, 16), n.input(9, 24)
    laid = n("Mul", n("Sigmoid", _resized(n, mask, [1, 1, 56, 68], mode="linear")), image)
    twice = _resized(n, volume, [1, 2, 10, 32, 32], mode="linear", coordinate_transformation_mode="align_corners")
    wide = _resized(n, n("Abs", matrix), [27, 48], mode="cubic")
    small = n("Relu", _resized(n, laid, [2, 3, 28, 31], mode="cubic", antialias=1))
    deep = n.conv(small, (32, 3, 3, 3), pads=[1] * 4)
    smaller = n.conv(_resized(n, deep, [2, 32, 10, 13], mode="linear", antialias=1), (4, 32, 1, 1))
    near = _resized(n, image, [2, 3, 95, 117], mode="nearest")
    (tmp_path / "net.onnx").write_bytes(n.model(twice, wide, small, smaller, near).SerializeToString())
    found = check(tmp_path / "net.onnx", Options(target=target))
    assert found.ok, found
    kernels = {s["kernel"] for s in found.report["steps"]}
    assert ("resize.generic" in kernels) == (target == "generic")


@pytest.mark.parametrize("target", ["x86-64-v3", "native"])
@pytest.mark.parametrize(("mode", "size"), [("cubic", 23), ("linear", 9)])
def test_much_smaller_images_against_aliasing_take_vectors(mode: str, size: int, target: str, tmp_path: Path) -> None:
    """Of more than 16 elements along an axis."""
    n = Net(5)
    x = n.input(1, 3, 130, 117)
    y = _resized(n, n("Abs", x), [1, 3, size, size], mode=mode, antialias=1)
    (tmp_path / "net.onnx").write_bytes(n.model(y).SerializeToString())
    found = check(tmp_path / "net.onnx", Options(target=target))
    assert found.ok, found
    assert "resize.generic" not in {s["kernel"] for s in found.report["steps"]}
