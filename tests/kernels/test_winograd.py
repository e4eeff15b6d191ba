"""Winograd convolution: its matrices exactly, its kernels against float64, and how far it may swell the weights."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mccompile.driver import Compilation, Options, compile_program
from mccompile.ir.graph import Graph
from mccompile.ir.graph_text import parse_graph
from mccompile.ir.kernel import Call
from mccompile.kernels.conv.winograd import FULL_SET, VARIANTS, ConvWinograd
from mccompile.kernels.conv.winograd_matrices import (
    MAX_PRODUCTS,
    Matrix,
    amplification,
    distinct_points,
    filtering,
    sums,
)
from mccompile.kernels.variant import Offer
from mccompile.lower.growth import Budget, weight_bytes
from mccompile.lower.lower import lower
from mccompile.ops.registry import lookup
from mccompile.ops.sampling import Case
from mccompile.targets.target import STRICT_WARNINGS, Target, resolve
from tests.support.opcases import Built, CaseLibrary
from tests.support.targets import WIDE, needs_target, quick

Array = np.ndarray[Any, np.dtype[Any]]
DENSE = [(m, r) for m in range(1, MAX_PRODUCTS) for r in range(1, MAX_PRODUCTS + 1 - m) if m + r > 2]
FILTERS = [
    *((m, r, 1) for m, r in DENSE),
    *((m, taps, s) for m, r in DENSE for s in (2, 3) for taps in range(s * (r - 1) + 1, s * r + 1) if taps >= s),
]
"""Results at a time, taps, stride."""
BOUNDS = {2: 3e-6, 4: 3e-5, 5: 4e-5, 6: 6e-5}
"""Of the largest result, by results at a time; what is documented is the typical error, these are bounds for small
sums."""


def _times(matrix: Matrix, vector: list[Fraction]) -> list[Fraction]:
    return [sum((a * b for a, b in zip(row, vector, strict=True)), Fraction(0)) for row in matrix]


@pytest.mark.parametrize(("m", "r", "s"), FILTERS)
def test_matrices_filter_exactly(m: int, r: int, s: int) -> None:
    """In rational numbers, for a filter and inputs without any pattern."""
    f = filtering(m, r, s)
    d = [Fraction(3 * i * i - 7 * i + 2, i + 1) for i in range(s * (m - 1) + r)]
    g = [Fraction(5 - 2 * k * k, k + 3) for k in range(r)]
    products = [a * b for a, b in zip(_times(f.g, g), _times(f.bt, d), strict=True)]
    want = [sum((g[k] * d[s * i + k] for k in range(r)), Fraction(0)) for i in range(m)]
    assert _times(f.at, products) == want


@pytest.mark.parametrize(("m", "r", "s"), FILTERS)
def test_points_that_share_weights_come_last(m: int, r: int, s: int) -> None:
    g = filtering(m, r, s).g
    count = distinct_points(m, r, s)
    assert all(row == g[count - 1] for row in g[count:])
    assert len(g) - count == (m - 1 if r < 2 * s else 0)


@pytest.mark.parametrize(("m", "r", "s"), FILTERS)
def test_sums_are_the_matrices(m: int, r: int, s: int) -> None:
    """The lines of C that stand for a matrix, read in order; each name is given once."""
    for matrix in (filtering(m, r, s).bt, filtering(m, r, s).at):
        values = {f"d[{j}]": Fraction(7 * j * j + 3, j + 2) for j in range(len(matrix[0]))}
        want = _times(matrix, list(values.values()))
        for line in sums(matrix, "r", "d"):
            assert line.name not in values
            values[line.name] = sum((c * values[n] for c, n in line.terms), Fraction(0))
            assert all(float(c) == c for c, _ in line.terms), "a coefficient that f32 rounds"
        assert [values[f"r[{i}]"] for i in range(len(matrix))] == want


def test_sums_share_halves() -> None:
    """Fewer operations than a product by the matrix: 12 instead of 24 sums for the inputs of F(4, 3)."""
    for (m, r), most in (((2, 3), 4), ((4, 3), 14), ((6, 3), 24)):
        assert sum(s.operations for s in sums(filtering(m, r).bt, "r", "d")) <= most


def test_errors_are_bounded() -> None:
    """Over two axes, in units of the last place of f32; what is documented."""
    assert amplification(1, 1) == 1.0
    assert amplification(2, 3) < amplification(4, 3) < amplification(6, 3)
    for m, r, s in FILTERS:
        assert amplification(m, r, s) == pytest.approx(max(amplification(m, q) for q in (r // s, -(-r // s))))
    assert max(amplification(*f) for f in FILTERS) ** 2 * 2.0**-24 < 1e-4


@dataclass(frozen=True)
class Layer:
    """A convolution of channels-last values."""

    x: tuple[int, ...]
    channels: int
    kernel: tuple[int, ...] = (3, 3)
    pads: tuple[int, ...] = (1, 1, 1, 1)
    dilations: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    groups: int = 1
    post: str = "relu(acc + x0)"

    def graph(self) -> tuple[Graph, dict[str, Array]]:
        """The graph with its weights as constants, and an input."""
        rank = len(self.kernel)
        dilations = self.dilations or (1,) * rank
        strides = self.strides or (1,) * rank
        out = [
            (e + self.pads[i] + self.pads[i + rank] - (self.kernel[i] - 1) * dilations[i] - 1) // strides[i] + 1
            for i, e in enumerate(self.x[2:])
        ]
        layout = "nhwc" if rank == 2 else "nwc"
        result = f"f32[{self.x[0]},{self.channels},{','.join(map(str, out))}]:{layout}"
        shapes = {"w": (self.channels, self.x[1] // self.groups, *self.kernel), "b": (self.channels, *(1,) * rank)}
        constants = ", ".join(f"%{n}: f32[{','.join(map(str, s))}]" for n, s in shapes.items())
        extras = ["%b"] if "x1" not in self.post else ["%b", "%s"]
        more = f", %s: {result}" if "x1" in self.post else ""
        graph = parse_graph(
            f"""graph @net(%x: f32[{','.join(map(str, self.x))}]:{layout}, {constants}{more}) {{
              %y = conv(%x, %w) {{strides={strides}, pads={self.pads}, dilations={dilations},
                                  groups={self.groups}}}
                   with({', '.join(extras)}) post0{{ {self.post} }} : {result}
              return %y }}""",
            lookup,
        )
        rng = np.random.default_rng(sum(self.x) + self.channels)
        arrays = {v.name: rng.standard_normal(v.shape).astype(np.float32) for v in graph.inputs}
        for v in list(graph.inputs):
            if v.name in shapes:
                graph.inputs.remove(v)
                graph.constants[v] = arrays.pop(v.name)
        return graph, arrays


LAYERS = [
    *(Layer((1, c, 7, 9), m) for c, m in ((1, 1), (3, 5), (8, 16), (17, 33), (40, 8), (16, 48))),
    *(Layer((1, 4, h, w), 6) for h, w in ((1, 1), (1, 9), (4, 4), (6, 12), (8, 13), (5, 2))),
    Layer((3, 6, 5, 6), 9),
    Layer((1, 12, 30, 31), 20),
    Layer((1, 3, 8, 8), 7, pads=(0, 0, 0, 0)),
    Layer((1, 3, 8, 8), 7, pads=(2, 0, 1, 3)),
    Layer((1, 5, 11, 9), 7, dilations=(2, 3), pads=(2, 3, 2, 3)),
    Layer((2, 18, 9, 10), 7, post="relu(acc + x0 + x1)"),
    Layer((1, 5, 9, 10), 7, kernel=(3, 1), pads=(1, 0, 1, 0)),
    Layer((1, 5, 9, 10), 7, kernel=(1, 3), pads=(0, 1, 0, 1)),
    Layer((1, 5, 9, 10), 7, kernel=(2, 3), pads=(0, 1, 1, 1)),
    Layer((2, 10, 23), 11, kernel=(3,), pads=(1, 1)),
    Layer((1, 20, 40), 21, kernel=(3,), pads=(8, 0), dilations=(4,)),
    Layer((1, 5, 3), 4, kernel=(3,), pads=(16, 16), dilations=(16,)),
    *(Layer((1, c, 9, 12), m, strides=(2, 2)) for c, m in ((3, 5), (17, 33))),
    *(Layer((2, 6, h, w), 9, strides=(2, 2), pads=(0, 0, 1, 1)) for h, w in ((4, 4), (8, 13), (17, 16))),
    Layer((2, 24, 9, 8), 48, groups=3, post="relu(acc + x0 + x1)"),
    Layer((1, 40, 9, 8), 24, groups=2, strides=(2, 2)),
    Layer((1, 6, 12, 11), 9, strides=(2, 1)),
    Layer((1, 6, 12, 11), 9, strides=(1, 2), dilations=(2, 1), pads=(2, 0, 2, 0)),
    Layer((1, 18, 41), 9, kernel=(3,), strides=(2,), pads=(1, 1), post="relu(acc + x0 + x1)"),
]
MORE_TAPS = [
    Layer((1, 5, 12, 9), 7, kernel=(5, 5), pads=(2, 2, 2, 2)),
    Layer((1, 5, 30), 7, kernel=(5,), pads=(2, 2)),
    Layer((1, 5, 30), 7, kernel=(4,), pads=(2, 1)),
    Layer((1, 5, 30), 7, kernel=(5,), pads=(2, 1), strides=(2,)),
    Layer((1, 5, 31), 7, kernel=(8,), pads=(4, 3), strides=(2,)),
    Layer((1, 5, 31), 7, kernel=(7,), pads=(3, 3), strides=(3,)),
    Layer((1, 5, 21, 20), 7, kernel=(7, 4), pads=(3, 1, 3, 2), strides=(2, 2)),
]


def _built(graph: Graph, number: int, target: str, **options: Any) -> Built:
    graph.name = f"case{number}"
    c = Compilation(graph.name, "0" * 64, Options(target=target, **options), resolve(target), graph, [])
    return Built(number, Case([]), [], c, compile_program(c))


def _kernels(built: Built) -> list[str]:
    assert built.compilation.program is not None
    return [s.kernel for s in built.compilation.program.body.linear() if isinstance(s, Call)]


def _stored(array: Array) -> Array:
    return np.moveaxis(array, 1, -1)


@pytest.mark.thorough
@pytest.mark.parametrize("target", WIDE)
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.label)
def test_kernels_agree_with_float64(variant: ConvWinograd, target: str, tmp_path: Path) -> None:
    """On an arena full of 0xFF, twice: nothing is left of a block that was larger. One variant takes every layer, on
    one target."""
    needs_target(target)
    every = 3 if target != WIDE[-1] else 1 if variant is VARIANTS[0] else 2
    layers = [
        layer
        for layer in [*LAYERS, *(MORE_TAPS if max(variant.outputs) <= 4 else ())]
        if variant.outputs[0] == variant.outputs[1] or (len(layer.kernel) == 2 and 1 not in layer.kernel)
    ][::every]
    made = [layer.graph() for layer in layers]
    force = {"conv": variant.label}
    built = [_built(graph, i, target, opt_level="O0", kernels=force) for i, (graph, _) in enumerate(made)]
    flags = [*STRICT_WARNINGS, *(quick(target) if variant is VARIANTS[0] else ["-O1"])]
    library = CaseLibrary(tmp_path, built, [*resolve(target).c_flags, *flags]).build()
    for layer, b, (graph, arrays) in zip(layers, built, made, strict=True):
        assert _kernels(b) == ["conv.winograd"] * layer.groups, layer
        exact = graph.evaluate({n: a.astype(np.float64) for n, a in arrays.items()})["y"]
        inputs = {n: _stored(a) for n, a in arrays.items()}
        for _ in range(2):
            (got,) = library.run(b, inputs)
            error = np.abs(got.reshape(_stored(exact).shape) - _stored(exact)).max()
            assert error <= BOUNDS[max(variant.outputs)] * max(np.abs(exact).max(), 1.0), layer


@pytest.mark.parametrize("target", WIDE)
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.label)
def test_points_of_a_tile_spread_over_the_sets_of_the_first_cache(variant: ConvWinograd, target: str) -> None:
    """64 tiles of 16 channels were 8192 bytes from point to point: every point of a tile on one set."""
    machine, most = resolve(target).machine, 0
    for extent in (8, 16, 32, 64):
        for channels in (8, 16, 32, 48, 64):
            graph, _ = Layer((1, channels, extent, extent), channels).graph()
            offer = variant.offer(graph.nodes[0], resolve(target), graph.constants)
            assert isinstance(offer, Offer)
            params: Any = offer.params
            plane = 4 * params.point_plane(channels)
            places = (i * plane % machine.way // machine.line for i in range(math.prod(params.points)))
            most = max(most, *Counter(places).values())
    assert 1 <= most <= FULL_SET


def test_what_it_does_not_support() -> None:
    target = resolve("x86-64-v4")

    def reason(variant: ConvWinograd, graph: Graph, on: Target = target) -> str:
        offer = variant.offer(graph.nodes[0], on, graph.constants)
        return offer if isinstance(offer, str) else ""

    graph, _ = Layer((1, 8, 9, 9), 8).graph()
    small = next(v for v in VARIANTS if v.outputs == (2, 2))
    assert not reason(small, graph)
    assert "memory" in reason(small, graph, replace(target, spare_memory=False))
    wide, _ = Layer((1, 8, 9, 9), 8, kernel=(5, 5), pads=(2, 2, 2, 2)).graph()
    assert "inexact" in reason(VARIANTS[-1], wide)
    pointwise, _ = Layer((1, 8, 9, 9), 8, kernel=(1, 1), pads=(0, 0, 0, 0)).graph()
    assert "1x1" in reason(small, pointwise)
    patches, _ = Layer((1, 8, 9, 9), 8, strides=(3, 3)).graph()
    assert "stride" in reason(small, patches)
    both, _ = Layer((1, 8, 9, 9), 8, strides=(2, 2), dilations=(2, 2)).graph()
    assert "dilation" in reason(small, both)
    narrow, _ = Layer((1, 8, 9, 9), 8, groups=2).graph()
    assert "small" in reason(small, narrow)
    mixed = next(v for v in VARIANTS if v.outputs == (4, 2))
    line, _ = Layer((1, 8, 9, 9), 8, kernel=(1, 3), pads=(0, 1, 0, 1)).graph()
    assert not reason(mixed, graph)
    assert "one axis" in reason(mixed, line)
    assert not reason(small, line)


def _two_layers() -> Graph:
    """The second one has as many weights for a quarter of the work."""
    constants = "%w: f32[64,64,3,3], %v: f32[64,64,3,3]"
    attributes = "{strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)}"
    graph = parse_graph(
        f"""graph @net(%x: f32[1,64,32,32]:nhwc, {constants}) {{
          %a = conv(%x, %w) {attributes} : f32[1,64,32,32]:nhwc
          %p = pool(%a) {{mode='max', kernel=(2, 2), strides=(2, 2), pads=(0, 0, 0, 0), dilations=(1, 1)}}
               : f32[1,64,16,16]:nhwc
          %y = conv(%p, %v) {attributes} : f32[1,64,16,16]:nhwc
          return %y }}""",
        lookup,
    )
    for v in list(graph.inputs)[1:]:
        graph.inputs.remove(v)
        graph.constants[v] = np.random.default_rng(1).standard_normal(v.shape).astype(np.float32)
    return graph


def _chosen(graph: Graph, room: int) -> tuple[int, list[str]]:
    lowered = lower(graph, resolve("x86-64-v4"), budget=Budget(room))
    blob = sum(b.nbytes for b in lowered.module.buffers if b.space == "blob")
    return blob, [c.offer.label for n, c in lowered.choices.items() if n in ("a", "y")]


def test_growth_is_spent_where_it_saves_most() -> None:
    graph = _two_layers()
    plain = weight_bytes(graph)
    assert plain == 2 * 4 * 64 * 64 * 9
    blob, chosen = _chosen(graph, 16 * plain)
    assert all("winograd" in label for label in chosen)
    needed = blob - plain
    for part in (0.9, 0.5, 0.25, 0.1):
        blob, chosen = _chosen(graph, int(part * needed))
        assert blob - plain <= part * needed
        assert "winograd" in chosen[0] or "winograd" not in chosen[1]
    assert _chosen(graph, int(0.5 * needed))[1][0].startswith("conv.winograd")
    assert not any("winograd" in label for label in _chosen(graph, 0)[1])


@pytest.mark.parametrize(
    ("options", "used"),
    [
        ({}, True),
        ({"opt_level": "O3"}, True),
        ({"max_blob_growth": 0.0}, False),
        ({"opt_level": "O1"}, False),
        ({"opt_level": "Os"}, False),
        ({"exact": True}, False),
        ({"max_blob_growth": 0.0, "kernels": {"conv": "conv.winograd"}}, True),
    ],
)
def test_options_that_allow_it(options: dict[str, Any], used: bool) -> None:
    """With no passes, so that layouts stay as they are."""
    built = _built(_two_layers(), 0, "x86-64-v4", **({"opt_level": "O2", "passes": []} | options))
    assert ("conv.winograd" in _kernels(built)) == used
