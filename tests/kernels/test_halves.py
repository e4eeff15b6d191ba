"""f16 in vectors of f32: maps that read or write halves, and roundings to them, bit by bit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mccompile.driver import Compilation, Options, compile_program
from mccompile.ir.graph_text import parse_graph
from mccompile.kernels.model.lanes import converts_halves
from mccompile.ops.registry import lookup
from mccompile.ops.sampling import Case
from mccompile.targets.target import STRICT_WARNINGS, resolve
from tests.kernels.test_variants import kernels_of
from tests.support.compiled import compiled_graph
from tests.support.opcases import Built, CaseLibrary
from tests.support.targets import ALL_VECTORS, WIDE, needs_target

Array = np.ndarray[Any, np.dtype[Any]]
HALVES = np.arange(65536, dtype=np.uint16).view(np.float16)
KERNELS = {True: "map.vector", False: "map.generic"}


def between() -> Array:
    """Floats on halves, between neighbours, close to where they round the other way, and beyond all of them."""
    known = np.sort(HALVES[np.isfinite(HALVES)].astype(np.float64))
    middle = ((known[1:] + known[:-1]) / 2).astype(np.float32)
    beyond = np.array([65519.996, 65520, 65536, 3e38, np.inf, np.nan, 1e-30, 2.9802322e-8, 1e-40], dtype=np.float32)
    up, down = (np.nextafter(middle, np.float32(end), dtype=np.float32) for end in (np.inf, -np.inf))
    return np.concatenate([HALVES.astype(np.float32), middle, up, down, beyond, -beyond])


def run(text: str, target: str, folder: Path, inputs: dict[str, Array], kernel: str) -> list[Array]:
    return run_all([(text, inputs)], target, folder, kernel)[0]


def run_all(
    networks: Sequence[tuple[str, dict[str, Array]]], target: str, folder: Path, kernel: str
) -> list[list[Array]]:
    """Networks and their inputs, compiled together."""
    needs_target(target)
    options, built = Options(target=target, opt_level="O0", kernels={"map": kernel}), []
    for i, (text, _) in enumerate(networks):
        graph = parse_graph(text, lookup)
        graph.name = f"net{i}"
        c = Compilation(graph.name, "0" * 64, options, resolve(target), graph, [])
        built.append(Built(i, Case([]), [], c, compile_program(c)))
        assert kernels_of(built[-1]) == {kernel}
    library = CaseLibrary(folder, built, [*resolve(target).c_flags, *STRICT_WARNINGS]).build()
    return [library.run(b, inputs) for b, (_, inputs) in zip(built, networks, strict=True)]


def same(got: Array, want: Array) -> bool:
    """Bit by bit, but for the kinds of NaN."""
    bits = np.uint16 if got.dtype == np.float16 else np.uint32
    number = ~np.isnan(want)
    return bool((np.isnan(got) == ~number).all() and (got.view(bits)[number] == want.view(bits)[number]).all())


@pytest.mark.parametrize("target", ALL_VECTORS)
def test_halves_become_floats(target: str, tmp_path: Path) -> None:
    kernel = KERNELS[converts_halves(resolve(target))]
    text = "graph @net(%x: f16[65536]) { %y = map(%x) {expr={x0}} : f32[65536] return %y }"
    (got,) = run(text, target, tmp_path, {"x": HALVES}, kernel)
    assert same(got, HALVES.astype(np.float32))


@pytest.mark.parametrize("target", ALL_VECTORS)
def test_floats_become_the_nearest_halves(target: str, tmp_path: Path) -> None:
    x = between()
    n = x.size
    kernel = KERNELS[converts_halves(resolve(target))]
    text = f"graph @net(%x: f32[{n}]) {{ %y = map(%x) {{expr={{x0}}, storage='f16'}} : f16[{n}] return %y }}"
    (got,) = run(text, target, tmp_path, {"x": x}, kernel)
    with np.errstate(over="ignore"):
        assert same(got, x.astype(np.float16))


@pytest.mark.parametrize("target", ALL_VECTORS)
def test_floats_are_rounded_to_halves(target: str, tmp_path: Path) -> None:
    x = between()
    text = f"graph @net(%x: f32[{x.size}]) {{ %y = map(%x) {{expr={{round_f16(x0)}}}} : f32[{x.size}] return %y }}"
    (got,) = run(text, target, tmp_path, {"x": x}, "map.vector")
    with np.errstate(over="ignore"):
        assert same(got, x.astype(np.float16).astype(np.float32))


def around(width: int) -> tuple[str, dict[str, Array]]:
    """A map of halves, and its operands: one that varies, ones that repeat along the vectors and across them."""
    rng = np.random.default_rng(width)
    shapes = {"x": (3, width), "w": (3, 1), "b": (width,)}
    inputs = {n: rng.uniform(-4, 4, s).astype(np.float16) for n, s in shapes.items()}
    params = ", ".join(f"%{n}: f16[{','.join(map(str, s))}]" for n, s in shapes.items())
    text = (
        f"graph @net({params}) {{ %y = map(%x, %w, %b) {{expr={{max(x0 + x1, x2)}}, storage='f16'}} : "
        f"f16[3,{width}] return %y }}"
    )
    return text, inputs


@pytest.mark.parametrize("target", ALL_VECTORS)
def test_halves_are_mapped_around_whole_vectors(target: str, tmp_path: Path) -> None:
    networks = [around(width) for width in (1, 3, 7, 16, 45, 130)]
    results = run_all(networks, target, tmp_path, KERNELS[converts_halves(resolve(target))])
    for (_, inputs), (got,) in zip(networks, results, strict=True):
        x, w, b = (inputs[n].astype(np.float32) for n in "xwb")
        assert same(got, np.maximum(x + w, b).astype(np.float16)), got.shape


@pytest.mark.parametrize("target", WIDE)
def test_conversions_take_vectors_where_they_may(target: str) -> None:
    kernel = KERNELS[converts_halves(resolve(target))]
    for source, result, storage in (("f16", "f32", ""), ("f32", "f16", ", storage='f16'")):
        text = f"%x: {source}[999]) {{ %y = map(%x) {{expr={{x0}}{storage}}} : {result}[999] return %y }}"
        built = compiled_graph(parse_graph(f"graph @net({text}", lookup), "O0", "net", target=target)
        assert kernels_of(built) == {kernel}
