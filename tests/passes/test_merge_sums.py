"""Sums of convolutions mean the same when those of one value are merged, in whatever order they are added."""

from __future__ import annotations

import numpy as np
import pytest

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Value
from mccompile.ir.types import F32, TensorType
from mccompile.ops.conv import Conv
from mccompile.ops.map import Map
from mccompile.passes.manager import run_passes
from mccompile.search.options import forms_of
from mccompile.targets.target import resolve

CHANNELS = 4


def _map(graph: Graph, name: str, body: ex.Expr, *operands: Value) -> Value:
    return graph.emit(Map(body), list(operands), [name])[0]


def _sum(*indices: int) -> ex.Expr:
    body: ex.Expr = ex.var(indices[0], F32)
    for i in indices[1:]:
        body = ex.apply("add", body, ex.var(i, F32))
    return body


class _Drawn:
    """A graph that adds up terms of few inputs, drawn at random."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.graph = rng, Graph("g")
        self.groups = int(rng.choice([1, 2, CHANNELS]))
        self.rank = int(rng.integers(1, 3))
        self.shape = (int(rng.integers(1, 3)), CHANNELS, *rng.integers(3, 7, self.rank).tolist())
        self.xs = [self.graph.value(name, TensorType(F32, self.shape)) for name in "xr"]
        self.graph.inputs += self.xs
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def constant(self, *shape: int) -> Value:
        return self.graph.constant(f"{self.name()}.c", self.rng.normal(size=shape).astype(np.float32))

    def term(self) -> Value:
        """A convolution that keeps the shape, with a bias of many values, of one, or none; or what it reads, scaled
        along channels or elsewhere, or as it is."""
        x = self.xs[int(self.rng.random() < 0.3)]
        kind = self.rng.choice(["conv"] * 4 + ["scaled", "along", "plain"])
        if kind == "plain":
            return x
        if kind != "conv":
            scale = self.constant(CHANNELS, *(1,) * self.rank) if kind == "scaled" else self.constant(self.shape[-1])
            body = ex.apply("sub", ex.apply("mul", ex.var(0, F32), ex.var(1, F32)), ex.num(0.5, F32))
            return _map(self.graph, self.name(), body, x, scale)
        reach = self.rng.integers(0, 2, self.rank).tolist()
        w = self.constant(CHANNELS, CHANNELS // self.groups, *(2 * p + 1 for p in reach))
        bias = self.rng.choice(["many", "one", "zero", "none"])
        extras = [self.constant(CHANNELS, *(1,) * self.rank)] if bias == "many" else []
        added = {"many": ex.var(0, F32), "one": ex.num(1.25, F32), "zero": ex.num(0.0, F32)}
        post = {0: ex.apply("add", ex.acc(F32), added[bias])} if bias in added else {}
        op = Conv((1,) * self.rank, (*reach, *reach), (1,) * self.rank, self.groups)
        return self.graph.emit(op, [x, w], [self.name()], extras=extras, post=post)[0]

    def total(self, terms: list[Value]) -> Value:
        """The sum of terms, some of them first."""
        terms = list(dict.fromkeys(terms))
        while len(terms) > 1:
            count = int(self.rng.integers(2, min(4, len(terms)) + 1))
            places = self.rng.choice(len(terms), count, replace=False).tolist()
            some = [terms[i] for i in places]
            order = self.rng.permutation(count).tolist()
            made = _map(self.graph, self.name(), _sum(*order), *some)
            terms = [*(t for t in terms if t not in some), made]
        return terms[0]


def _by_name(graph: Graph, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What is computed on the way to the outputs, float64."""
    values = {v: inputs[v.name] for v in graph.inputs} | {v: graph.array(v) for v in graph.constants}
    for node in graph.nodes:
        values.update(zip(node.results, node.evaluate(values, wide=True), strict=True))
    return {v.name: values[v] for node in graph.nodes for v in node.results}


@pytest.mark.parametrize("seed", range(120))
def test_merged_sums_mean_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = _Drawn(rng)
    terms = [drawn.term() for _ in range(int(rng.integers(2, 8)))]
    result = drawn.total([*terms, drawn.term()])
    if result in drawn.graph.inputs:
        pytest.skip("one input alone was drawn")
    drawn.graph.outputs.append(result)
    if seed % 4 == 0 and terms[0] not in drawn.graph.inputs:  # a term that something else needs
        drawn.graph.outputs.append(terms[0])
    graph = drawn.graph
    graph.verify()
    inputs = {v.name: rng.normal(size=v.shape).astype(np.float32) for v in graph.inputs}
    before = _by_name(graph, inputs)
    forms = forms_of("f16" if seed % 5 == 0 else "f32")
    run_passes(graph, ["merge-summed-convolutions"], target=resolve("generic"), weights=forms)
    graph.verify()
    after = _by_name(graph, inputs)
    assert {v.name for v in graph.outputs} <= after.keys()
    for name in after.keys() & before.keys():  # what a name stands for, too: reports and `check` go by it
        np.testing.assert_allclose(after[name], before[name], rtol=1e-5, atol=1e-5)
    of_one_value = {n.operands[0] for n in graph.nodes if isinstance(n.op, Conv)}
    left = sum(isinstance(n.op, Conv) for n in graph.nodes)
    assert left <= len(of_one_value) * drawn.rank + (len(graph.outputs) - 1)  # 1x3 and 3x1 may stay two


@pytest.mark.parametrize("fits", [True, False])
def test_what_a_constant_repeats_along_an_image_is_no_convolution(fits: bool) -> None:
    """A pixel, in a convolution that makes an image of it, and beside it less an image: behind is what it is not."""
    graph, rng = Graph("g"), np.random.default_rng(0)
    x = graph.value("x", TensorType(F32, (1, CHANNELS, *((3, 3) if fits else (1, 1)))))
    graph.inputs.append(x)
    w, t = (graph.constant(n, rng.normal(size=s).astype(np.float32)) for n, s in
            (("w", (CHANNELS, 1, 3, 3)), ("t", (1, CHANNELS, *((1, 1) if fits else (3, 3))))))  # fmt: skip
    pads = 1 if fits else 2
    (c,) = graph.emit(Conv((1, 1), (pads,) * 4, (1, 1), CHANNELS), [x, w], ["c"])
    less = _map(graph, "less", ex.apply("sub", ex.var(0, F32), ex.var(1, F32)), x, t)
    graph.outputs.append(_map(graph, "y", _sum(0, 1), c, less))
    inputs = {"x": rng.normal(size=x.shape).astype(np.float32)}
    (before,) = graph.evaluate(inputs, wide=True).values()
    run_passes(graph, ["merge-summed-convolutions"], target=resolve("generic"))
    (after,) = graph.evaluate(inputs, wide=True).values()
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5)
    assert sum(not isinstance(n.op, Conv) for n in graph.nodes) == (0 if fits else 2)
