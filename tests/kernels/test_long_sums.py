"""Sums of thousands of elements of one sign: the error of a running sum grows with them, that of blocks does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from mccompile.ir.graph_text import parse_graph
from mccompile.ops.registry import lookup
from mccompile.targets.target import STRICT_WARNINGS, resolve
from tests.kernels.cases import Net, VariantCase, direct, matmul, pointwise
from tests.kernels.cases_channels import depthwise, pool
from tests.kernels.cases_conv_channels import channels
from tests.kernels.cases_matmul import attention, dot, variable
from tests.kernels.cases_recurrent import cell
from tests.kernels.cases_vectors import case as plain
from tests.kernels.cases_vectors import layer_norm
from tests.kernels.cases_winograd import winograd
from tests.kernels.test_variants import compiled, kernels_of
from tests.support.compiled import compiled_graph
from tests.support.opcases import CaseLibrary
from tests.support.targets import needs_target

MOST = 2e-6
"""Of a sum of 1,000 to 10,000 equal elements; a running sum loses 2e-5."""
MOST_OF_RUNS = 4e-6
"""The same where register tiles sum up to 256 steps before they add, or a line of 384: a running sum loses 1e-5."""
LINE = "strides=(1,), pads=(0, 0), dilations=(1,)"
WINDOW = "strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)"
REDUCTIONS = [
    ("%x: f32[2,8000]", "reduce(%x) {mode='sum', axes=(1,)}", "2,1"),
    ("%x: f32[2,700,3,5]", "reduce(%x) {mode='sum', axes=(1, 3)}", "2,1,3,1"),
    ("%x: f32[2,3,5,700]", "reduce(%x) {mode='sum', axes=(1, 2, 3)}", "2,1,1,1"),
    ("%x: f32[6000,2]", "reduce(%x) {mode='sum', axes=(0,)}", "1,2"),
    ("%x: f32[50000,2]", "reduce(%x) {mode='sum', axes=(0,)}", "1,2"),
    ("%x: f32[60,3,60,8]", "reduce(%x) {mode='sum', axes=(0, 2)}", "1,3,1,8"),
    ("%x: f32[2,50,60,5]", "reduce(%x) {mode='sum', axes=(1, 2, 3)}", "2,1,1,1"),
    ("%x: f32[2,70000]", "reduce(%x) {mode='sum', axes=(1,)}", "2,1"),
]
PRODUCTS = [
    ("%x: f32[1,1,8], %k: f32[1,8,4000], %v: f32[1,4000,8]", "attention(%x, %k, %v) {score={x0}}", "1,1,8"),
    ("%x: f32[2,4000], %w: f32[4000,3]", "matmul(%x, %w)", "2,3"),
    ("%x: f32[2,4000], %w: f32[3,4000]", "matmul(%x, %w) {trans_b=True}", "2,3"),
    ("%x: f32[4000,2], %w: f32[4000,3]", "matmul(%x, %w) {trans_a=True}", "2,3"),
    ("%x: f32[1,500,4,4], %w: f32[2,500,3,3]", "conv(%x, %w) {" + WINDOW + "}", "1,2,2,2"),
    ("%x: f32[1,3000,2], %w: f32[2,3000,1]", "conv(%x, %w) {" + LINE + "}", "1,2,2"),
    ("%x: f32[1,2,4001], %w: f32[2,1,4000]", "conv(%x, %w) {" + LINE + ", groups=2}", "1,2,2"),
    ("%x: f32[1,3,61,61], %w: f32[2,3,60,60]", "conv(%x, %w) {" + WINDOW + "}", "1,2,2,2"),
    ("%x: f32[1,300,41], %w: f32[2,300,40]", "conv(%x, %w) {" + LINE + "}", "1,2,2"),
]  # fmt: skip


@pytest.mark.parametrize("target", ["generic", "native"])
def test_long_sums(target: str, tmp_path: Path) -> None:
    nodes = [*REDUCTIONS, *(PRODUCTS if target == "generic" else [])]
    texts = [f"graph @net({operands}) {{ %y = {node} : f32[{y}] return %y }}" for operands, node, y in nodes]
    graphs = [parse_graph(text, lookup) for text in texts]
    built = [compiled_graph(g, "O0", f"net{i}", target=target) for i, g in enumerate(graphs)]
    library = CaseLibrary(tmp_path, built, [*resolve(target).c_flags, *STRICT_WARNINGS, "-O2"]).build()
    for graph, b in zip(graphs, built, strict=True):
        for value in (0.02, 0.3, 1.1):
            inputs = {v.name: np.full(v.shape, value, dtype=np.float32) for v in graph.inputs}
            (got,) = library.run(b, inputs)
            wide = graph.evaluate({n: a.astype(np.float64) for n, a in inputs.items()}, wide=True)
            error = np.abs(got / wide[graph.outputs[0].name] - 1).max()
            assert error < MOST, f"{graph.nodes[0].op} on {graph.inputs}: {error:.3g}"


ROWS = [((6000, 2), 0), ((50000, 3), 0), ((100, 60, 50, 3), 1), ((2, 70000), 1), ((2, 4100), 1)]


@pytest.mark.parametrize("mode", ["soft", "log"])
def test_powers_of_long_rows(mode: str, tmp_path: Path) -> None:
    """All of a row but its largest element have powers that are no short numbers: those of equal elements are 1."""
    target = resolve("native")
    shapes = [(shape, axis, ",".join(map(str, shape))) for shape, axis in ROWS]
    texts = [
        f"graph @net(%x: f32[{at}]) {{ %y = softmax(%x) {{axis={axis}, mode='{mode}'}} : f32[{at}] return %y }}"
        for _, axis, at in shapes
    ]
    graphs = [parse_graph(text, lookup) for text in texts]
    built = [compiled_graph(g, "O0", f"net{i}", target="native") for i, g in enumerate(graphs)]
    library = CaseLibrary(tmp_path, built, [*target.c_flags, *STRICT_WARNINGS, "-O2"]).build()
    for graph, b, (shape, axis, _) in zip(graphs, built, shapes, strict=True):
        x = np.full(shape, -2.3, dtype=np.float32)
        x[(slice(None),) * axis + (0,)] = 0
        (got,) = library.run(b, {"x": x})
        wide = graph.evaluate({"x": x.astype(np.float64)}, wide=True)
        error = np.abs(got / wide[graph.outputs[0].name] - 1).max()
        assert error < MOST, f"{graph.nodes[0].op} on {shape}: {error:.3g}"


class Even(Net):
    """A network whose weights are all equal but one, lest they be taken for a single number."""

    def weight(self, *shape: int) -> str:
        values = np.full(shape, 0.3, dtype=np.float32)
        values.flat[-1] = 0.29
        return self.constant(values)


@dataclass(frozen=True)
class EvenCase(VariantCase):
    def model(self) -> onnx.ModelProto:
        net = Even(0)
        return net.model(*self.build(net))


def even(case: VariantCase) -> EvenCase:
    return EvenCase(case.name, case.kernel, case.build, case.op, case.channels_last)


def averaged(kernel: Sequence[int]) -> Callable[[Net], str]:
    shape = (1, 2, *(k + 1 for k in kernel))
    return lambda n: n("AveragePool", n.input(*shape), kernel_shape=list(kernel))


def transposed(channels: int, kernel: Sequence[int]) -> Callable[[Net], str]:
    """Of so many channels in each of two groups: few filters in one are a product."""
    shape = (1, 2 * channels, *(k + 1 for k in kernel))
    return lambda n: n("ConvTranspose", n.input(*shape), n.weight(2 * channels, 2, *kernel), group=2)


SAME: dict[str, Any] = {"pads": [1] * 4}
LONG = [
    *(matmul(shape, 40) for shape in ((14, 4000), (1, 4608), (14, 1021), (96, 4608))),
    variable((5, 4000), (4000, 33)),
    variable((5, 2048), (2048, 32)),
    attention((1,), 3, 4000, 8, 16),
    attention((1,), 5, 20, 4000, 20),
    pointwise((1, 4000, 3, 5), 20),
    *(direct((1, c, 19, 50), 20, k) for c, k in ((500, (3, 3)), (40, (1, 40)), (8, (18, 18)))),
    direct((1, 3, 2, 616), 20, (1, 600)),
    *(channels((1, c, 6, 9), 20, (3, 3), **SAME) for c in (128, 300, 500)),
    channels((1, 20, 16, 19), 20, (9, 9)),
    channels((1, 64, 5, 6, 7), 20, (3, 3, 3)),
    channels((1, 5, 12, 6, 7), 20, (12, 5, 5)),
    channels((1, 64, 40), 20, (33,), pads=[16, 16]),
    channels((1, 2100, 6, 5), 8, (1, 1)),
    *(winograd((1, c, 6, 6), 16, (3, 3), **SAME) for c in (512, 2100)),
    dot((), 2, 20000, 3),
    layer_norm((2, 5000, 20), -2),
    layer_norm((2, 50, 60, 5), -3),
    layer_norm((2, 70000)),
    cell("RNN", 2, 1, 1100, True, activations=["Relu"]),
    *(
        replace(cell(op, 1, 1, 1501, True, **attrs), kernel=f"{op.lower()}.generic")
        for op, attrs in (("RNN", {"activations": ["Relu"]}), ("GRU", {}), ("GRU", {"linear_before_reset": 1}))
    ),
    *(depthwise((1, 10, h + 1, w + 3), (h, w)) for h, w in ((32, 32), (33, 33), (5, 250), (1030, 1))),
    pool((1, 10, 1501, 4), "AveragePool", (1500, 2)),
    *(plain("pool.generic", f"{kernel}", averaged(kernel)) for kernel in ((40, 40), (3, 600), (17, 17, 17))),
    *(
        plain("conv_transpose.generic", f"{c} {kernel}", transposed(c, kernel))
        for c, kernel in ((500, (3, 3)), (3, (19, 20)), (3, (2000,)), (300, (30, 2)))
    ),
]


@pytest.mark.parametrize("target", [pytest.param("x86-64-v3", marks=pytest.mark.slow), "native"])
def test_long_sums_of_each_variant(target: str, tmp_path: Path) -> None:
    """Beside the largest result: Winograd's smaller ones are differences."""
    if target != "native":
        needs_target(target)
    cases = list(map(even, LONG))
    built = [compiled(case, i, target, tmp_path, case.force) for i, case in enumerate(cases)]
    library = CaseLibrary(tmp_path, built, [*resolve(target).c_flags, *STRICT_WARNINGS, "-O1"]).build()
    for case, b in zip(cases, built, strict=True):
        assert case.kernel in kernels_of(b), case.name
        graph = b.compilation.graph
        for value in (0.02, 0.3):
            inputs = {v.name: np.full(v.shape, value, dtype=np.float32) for v in graph.inputs}
            if case.kernel == "normalize.vector":
                for array in inputs.values():
                    array.reshape(-1)[1::2] *= 3  # equal distances to the first element, and to the mean
            got, *_ = library.run(b, inputs)
            wide = graph.evaluate({n: a.astype(np.float64) for n, a in inputs.items()}, wide=True)
            want = wide[graph.outputs[0].name]
            error = np.abs(got - want).max() / np.abs(want).max()
            assert error < MOST_OF_RUNS, f"{case.name}: {error:.3g}"


def window(op: str, shape: Sequence[int], weights: Sequence[int], **attrs: Any) -> VariantCase:
    """A window of an intermediate value, by the generic kernel; of an average, ``weights`` are its kernel."""

    def build(n: Net) -> str:
        x = n("Neg", n.input(*shape))
        if op == "AveragePool":
            return n(op, x, kernel_shape=weights, **attrs)
        return n(op, x, n.weight(*weights), **attrs)

    kernel = {"Conv": "conv", "ConvTranspose": "conv_transpose", "AveragePool": "pool"}[op]
    return plain(f"{kernel}.generic", f"{list(shape)} {list(weights)} {attrs}", build)


VARIED = [
    window("Conv", (2, 130, 5, 6), (3, 130, 3, 3), pads=[1, 2, 0, 1], strides=[2, 1]),
    window("Conv", (1, 4, 40, 23), (4, 2, 18, 19), pads=[9, 3, 2, 17], strides=[3, 2], group=2),
    window("Conv", (1, 3, 20, 130), (4, 3, 9, 43), pads=[4, 20, 3, 1], dilations=[2, 3]),
    window("Conv", (1, 2, 1300), (4, 1, 1200), pads=[100, 70], strides=[9], group=2),
    window("Conv", (1, 2, 12, 13, 14), (2, 2, 9, 8, 9), pads=[3, 1, 4, 0, 2, 5], strides=[1, 2, 3]),
    window("ConvTranspose", (1, 200, 3, 4), (200, 4, 4, 3), strides=[2, 1], pads=[1, 0, 2, 1]),
    window("ConvTranspose", (1, 3, 20, 21), (3, 2, 19, 20), strides=[3, 2], pads=[5, 4, 3, 2]),
    window("ConvTranspose", (1, 3, 20, 21), (3, 2, 19, 20), dilations=[2, 3], pads=[5, 4, 3, 2]),
    window("ConvTranspose", (1, 4, 6, 400), (4, 2, 3, 900), strides=[2, 7], pads=[1, 40, 1, 3], group=2),
    window("ConvTranspose", (1, 3, 500), (3, 2, 2000), strides=[5], pads=[70, 30]),
    window("AveragePool", (1, 2, 50, 60), (40, 40), strides=[3, 2], pads=[20, 1, 3, 30]),
    window("AveragePool", (1, 2, 50, 60), (40, 40), strides=[7, 9], pads=[20, 1, 3, 30], ceil_mode=1),
    window("AveragePool", (1, 2, 1700), (1200,), strides=[101], pads=[600, 300]),
    window("AveragePool", (1, 2, 20, 21, 22), (11, 12, 13), strides=[3, 2, 5], pads=[3, 4, 5, 6, 7, 8]),
    depthwise((1, 10, 40, 37), (32, 32), pads=[5, 16, 31, 3], strides=[1, 2]),
    depthwise((1, 20, 90, 43), (33, 33), pads=[5, 16, 31, 3], dilations=[2, 1]),
    pool((1, 10, 60, 64), "AveragePool", (40, 40), pads=[17, 1, 30, 20], strides=[3, 2]),
    direct((1, 500, 19, 50), 20, (3, 3), pads=[1, 2, 2, 1], strides=[2, 2]),
    direct((2, 80, 6, 60), 20, (1, 40), "residual", pads=[0, 20, 0, 19], group=2),
    channels((2, 300, 6, 9), 20, (3, 3), "residual", pads=[1, 0, 2, 1], strides=[2, 1]),
    channels((1, 40, 16, 19), 20, (9, 9), pads=[4, 8, 1, 0], strides=[2, 3], group=2),
]  # fmt: skip
"""Windows that leave the operand, at strides, dilated, in groups: which element meets which weight."""


def test_long_sums_of_other_values(tmp_path: Path) -> None:
    target = resolve("native")
    built = [compiled(case, i, "native", tmp_path, case.force) for i, case in enumerate([*VARIED, *LONG])]
    library = CaseLibrary(tmp_path, built, [*target.c_flags, *STRICT_WARNINGS, "-O1"]).build()
    for case, b in zip([*VARIED, *LONG], built, strict=True):
        assert case.kernel in kernels_of(b), case.name
        graph = b.compilation.graph
        rng = np.random.default_rng(1)
        inputs = {v.name: rng.uniform(-1, 1.5, v.shape).astype(np.float32) for v in graph.inputs}
        got, *_ = library.run(b, inputs)
        wide = graph.evaluate({n: a.astype(np.float64) for n, a in inputs.items()}, wide=True)
        want = wide[graph.outputs[0].name]
        error = np.abs(got - want).max() / np.abs(want).max()
        assert error < 2e-5, f"{case.name}: {error:.3g}"
