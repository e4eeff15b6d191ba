"""Graphs of the IR in tests: inputs for them, and how far their outputs are apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mccompile.ir.dims import value
from mccompile.ir.graph import Digest, Graph
from tests.support.draw import SeededDraw

Arrays = Mapping[str, np.ndarray[Any, Any]]


def random_inputs(
    graph: Graph, seed: int, extents: Mapping[str, int] | None = None
) -> dict[str, np.ndarray[Any, Any]]:
    """Elements in [-2, 2] (unsigned integers in [0, 2]) for every input of a graph, where its symbols are
    ``extents``."""
    draw, known = SeededDraw(seed), extents or {}
    shapes = {v: tuple(value(e, known) for e in v.shape) for v in graph.inputs}
    return {v.name: draw.array(shapes[v], v.dtype.name, 0 if v.dtype.kind == "u" else -2) for v in graph.inputs}


def fill_constants(graph: Graph, seed: int) -> None:
    """Random elements for the constants of which the text gave a digest only."""
    draw = SeededDraw(seed)
    for v, data in graph.constants.items():
        if isinstance(data, Digest):
            graph.constants[v] = draw.array(v.shape, v.dtype.name, -1, 1)


def difference(want: Arrays, got: Arrays, floor: float = 1e-30) -> float:
    """The largest distance of two sets of outputs relative to the largest value of each output (at least ``floor``).

    Infinite where names, shapes or types differ, where NaN or infinities are in other places, or where
    integers are not equal.
    """
    if list(want) != list(got):
        return float("inf")
    worst = 0.0
    for w, g in zip(want.values(), got.values(), strict=True):
        if w.shape != g.shape or w.dtype != g.dtype:
            return float("inf")
        if w.dtype.kind != "f":
            worst = max(worst, 0.0 if np.array_equal(w, g) else float("inf"))
            continue
        finite = np.isfinite(w)
        if not np.array_equal(w[~finite], g[~finite], equal_nan=True) or not np.isfinite(g[finite]).all():
            return float("inf")
        w64, g64 = w[finite].astype(np.float64), g[finite].astype(np.float64)
        scale = np.abs(w64).max(initial=floor)
        worst = max(worst, float(np.abs(w64 - g64).max(initial=0) / scale))
    return worst
