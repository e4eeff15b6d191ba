"""Floats quantised by a scale and a zero that are given when the program runs: bits as a division gives them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mccompile.ir.graph_text import parse_graph
from mccompile.ir.scalar import Array
from mccompile.ir.types import DTYPES
from mccompile.ops.registry import lookup
from mccompile.targets.target import resolve
from tests.support.targets import ALL_VECTORS, NARROW, WIDE
from tests.support.vector_maps import check_exact

SCALES = (0.1, 0.0078125, 3.0, 1e-30, 1e30, -0.3, 1.7e38, 2.0**-126, 0.0, np.inf, np.nan, 1e-45, 3e-39)
ZEROS = {"u8": (0, 255, 7), "i8": (-128, 127, 0), "u16": (0, 65535, 300), "i16": (-32768, 32767, -5)}


def numbers(scale: np.float32, rng: np.random.Generator) -> Array:
    """Ties and their neighbours, numbers in the range and far beyond it, and what is no number."""
    whole = np.concatenate([np.arange(-40, 40), np.arange(-65000, 65000, 641)])  # far ones are near ties for longer
    ties = scale * (whole.astype(np.float32) + np.float32(0.5))
    wide = scale * rng.uniform(-70000, 70000, 100).astype(np.float32)
    near = scale * rng.uniform(-300, 300, 100).astype(np.float32)
    special = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1e38, -1e38, 1], np.float32)
    up, down = np.nextafter(ties, np.float32(np.inf)), np.nextafter(ties, np.float32(-np.inf))
    return np.concatenate([ties, up, down, near, wide, special]).astype(np.float32)


@pytest.mark.parametrize("target", ALL_VECTORS)
def test_quotients_are_rounded_as_a_division_does(target: str, tmp_path: Path) -> None:
    """A row for each scale."""
    rng = np.random.default_rng(7)
    denormals = resolve(target).denormals
    scales = np.array(SCALES if denormals else [s for s in SCALES if not 0 < s < 1e-37], np.float32)
    with np.errstate(all="ignore"):
        x = np.stack([numbers(s, rng) for s in scales])
    if not denormals:
        x[np.abs(x) < 2.0**-100] = 0
    graphs, given = [], []
    for dtype, ends in ZEROS.items():
        zeros = np.resize(ends, (len(scales), 1)).astype(DTYPES[dtype].numpy)
        many, one = f"[{len(scales)},{x.shape[1]}]", f"[{len(scales)},1]"
        inputs = f"%x: f32{many}, %s: f32{one}, %z: {dtype}{one}"
        node = f"%y = map(%x, %s, %z) {{expr={{{dtype}(rne(x0 / x1) + f32(x2))}}}} : {dtype}{many}"
        graphs.append(parse_graph(f"graph @net({inputs}) {{ {node} return %y }}", lookup))
        given.append({"x": x, "s": scales[:, None], "z": zeros})
        inputs, node = inputs.replace(one, many), node.replace("x0 / x1", "x0 * x1")
        graphs.append(parse_graph(f"graph @net({inputs}) {{ {node} return %y }}", lookup))
        given.append({"x": x, "s": np.ones_like(x), "z": np.broadcast_to(zeros, x.shape).copy()})
    check_exact(graphs, given, target, tmp_path)


@pytest.mark.parametrize("target", [*NARROW, WIDE[-1]])
def test_a_division_by_one_number_is_one_in_front_of_a_step(target: str, tmp_path: Path) -> None:
    """Compilers would like to multiply by its inverse, by which 41 / 41 is less than 1."""
    divisors = np.array([41, 47, 55, 83, 97], np.float32)
    wholes = np.arange(-16, 17, dtype=np.float32)
    graphs, given = [], []
    for by in divisors:
        node = f"%y = map(%x) {{expr={{ceil((x0 / {by}) - 2.0)}}}} : f32[{wholes.size}]"
        graphs.append(parse_graph(f"graph @net(%x: f32[{wholes.size}]) {{ {node} return %y }}", lookup))
        given.append({"x": wholes * by})
    check_exact(graphs, given, target, tmp_path)
