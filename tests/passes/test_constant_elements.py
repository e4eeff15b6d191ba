"""Rounding of a byte beside a constant of many elements, which are no channels: positions, masks, means of images."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from mccompile.ir.graph_text import parse_graph, print_graph
from mccompile.ops.registry import lookup
from mccompile.passes.analysis.fixed_point import TIE
from mccompile.passes.manager import run_passes
from mccompile.targets.target import resolve
from tests.support.graphs import fill_constants

Array = np.ndarray[Any, np.dtype[Any]]


def bytes_drawn(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)


def s32(value: float) -> float:
    """The number of 32 bits that is nearest."""
    return float(np.float32(value))


def extents(*shape: int) -> str:
    return ",".join(map(str, shape))


def literal(array: Array) -> str:
    return f"{array.reshape(-1).tolist()} : i8[{extents(*array.shape)}]"


ELEMENTS = ((1, 64, 256), (1, 1, 5000), (1, 3, 4))
"""Shapes of constant bytes that are no numbers of channels: each 255 steps of its own would take much memory."""


@pytest.mark.parametrize("target", ["generic", "x86-64-v3"])
@pytest.mark.parametrize("fn", ["+", "*"])
@pytest.mark.parametrize("shape", ELEMENTS)
def test_constant_bytes_of_elements_are_the_other_of_a_pair(shape: tuple[int, ...], fn: str, target: str) -> None:
    """Of positive and of negative factors; for each element the nearest number, but for the side of a tie."""
    text = (
        f"graph @g(%a: u8[{extents(2, *shape[1:])}]) {{\n  %c = const {literal(bytes_drawn(3, *shape))}\n"
        f"  %y = map(%a, %c) {{expr={{u8((rne((((f32((i32(x0) - i32(120))) * 0.021) {fn} "
        f"(f32((i32(x1) - i32(3))) * 0.0071)) / 0.0223)) + 119.0))}}}} : u8[{extents(2, *shape[1:])}]\n"
        "  return %y\n}"
    )
    graph, a = parse_graph(text, lookup), bytes_drawn(4, 2, *shape[1:]).view(np.uint8)
    tracemalloc.start()
    run_passes(graph, ("requantise",), target=resolve(target))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6
    assert {v.dtype.name for v in graph.nodes[0].operands if v is not None} == {"i8", "u8"}
    assert target != "generic" or "f32" not in print_graph(graph)
    x, c = ((a.astype(float) - 120) * s32(0.021), (bytes_drawn(3, *shape).astype(float) - 3) * s32(0.0071))
    real = np.clip((x + c if fn == "+" else x * c) / s32(0.0223) + 119, 0, 255)
    assert (np.abs(graph.evaluate({"a": a})["y"] - real) <= TIE).all()


def test_floats_of_more_elements_than_are_tried_stay_as_they_are() -> None:
    text = (
        "graph @g(%a: u8[300,256]) {\n  %c = const : f32[300,256] ; sha256=0\n  %y = map(%a, %c) "
        "{expr={u8((rne((((f32((i32(x0) - i32(120))) * 0.021) + x1) / 0.0223)) + 119.0))}} : u8[300,256]\n"
        "  return %y\n}"
    )
    graph = parse_graph(text, lookup)
    fill_constants(graph, seed=1)
    before = print_graph(graph)
    (record,) = run_passes(graph, ("requantise",), target=resolve("generic"))
    (miss,) = record.misses
    assert miss.reason == "it has 76,800 channels, and 65,536 at most are tried"
    assert print_graph(graph) == before


@pytest.mark.parametrize("target", ["generic", "x86-64-v3"])
@pytest.mark.parametrize("fn", ["relu", "rne"])
def test_functions_of_constant_bytes_are_what_they_make_of_them(fn: str, target: str) -> None:
    """Positions are cut off at 0, or rounded, before a byte is added."""
    known = bytes_drawn(3, 1, 8, 8)
    text = (
        f"graph @g(%a: u8[2,8,8]) {{\n  %c = const {literal(known)}\n  %y = map(%a, %c) "
        f"{{expr={{u8((rne((((f32((i32(x0) - i32(120))) * 0.021) + {fn}((f32(i32(x1)) * 0.0171))) / 0.0223)) "
        "+ 119.0))}}"
        " : u8[2,8,8]\n  return %y\n}"
    )
    graph, a = parse_graph(text, lookup), bytes_drawn(4, 2, 8, 8).view(np.uint8)
    run_passes(graph, ("requantise",), target=resolve(target))
    c = known.astype(np.float32) * np.float32(0.0171)
    made = np.maximum(c, 0) if fn == "relu" else np.rint(c)
    real = np.clip(((a.astype(float) - 120) * s32(0.021) + made) / s32(0.0223) + 119, 0, 255)
    assert (np.abs(graph.evaluate({"a": a})["y"] - real) <= TIE).all()
