"""The functions of `_lib/vector_math.c.j2`, against float64, within the bounds that the scalar table states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mccompile.ir.graph_text import parse_graph
from mccompile.ir.scalar import FUNCTIONS
from mccompile.ops.registry import lookup
from mccompile.targets.target import STRICT_WARNINGS, resolve
from tests.kernels.test_variants import kernels_of
from tests.support.compiled import compiled_graph
from tests.support.opcases import CaseLibrary
from tests.support.targets import NARROW, WIDE, needs_target

Array = np.ndarray[Any, np.dtype[Any]]
TINY = 2.0**-126
UNARY = sorted(n for n, row in FUNCTIONS.items() if row.arity == 1 and "f" in row.vector and row.result == "same")
MAY_VANISH = {"sigmoid"}
"""Whose results below `TINY` may be zero: 1 / (1 + exp(89)) is, in scalar C as well."""


def points() -> Array:
    """All magnitudes, the neighbourhoods where results change fast, halves, both zeros, what is no number."""
    sizes = np.geomspace(1e-44, 3e38, 60000)
    near = np.linspace(-20, 20, 160001)
    wide = np.linspace(-120, 120, 40001)
    one = 1 + np.linspace(-0.5, 1.0, 60001)
    halves = np.arange(-70000, 70001) / 2
    large = [2.0**k + d for k in (22, 23, 24, 31) for d in (-1.5, -1, -0.5, 0, 0.5, 1, 1.5)]
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 3.4028235e38, -3.4028235e38, 88.72, 88.73, -87.4, -103.9, -104.1]
    everything = [sizes, -sizes, near, wide, one, halves, large, np.negative(large), special]
    return np.concatenate(everything).astype(np.float32)


@pytest.mark.parametrize("target", [*WIDE, *NARROW])
@pytest.mark.parametrize("fn", UNARY)
def test_within_the_stated_bound(fn: str, target: str, tmp_path: Path) -> None:
    needs_target(target)
    x = points()
    if not resolve(target).denormals:
        x = x[(np.abs(x) >= TINY) | ~np.isfinite(x) | (x == 0)]
    graph = parse_graph(
        f"graph @net(%x: f32[{x.size}]) {{ %y = map(%x) {{expr={{{fn}(x0)}}}} : f32[{x.size}] return %y }}", lookup
    )
    built = compiled_graph(graph, "O0", "net", target=target)
    assert kernels_of(built) == {"map.vector"}
    flags = [*resolve(target).c_flags, *STRICT_WARNINGS]
    (got,) = CaseLibrary(tmp_path, [built], flags).build().run(built, {"x": x})
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[fn].numpy(x.astype(np.float64))
        want = exact.astype(np.float32)
    finite = np.isfinite(want)
    assert np.array_equal(got[~finite], want[~finite], equal_nan=True)
    bound = max(FUNCTIONS[fn].ulp, 0.5) * 2.0**-23
    error = np.abs(got[finite] - exact[finite]) / np.maximum(np.abs(exact[finite]), TINY)
    tiny = np.abs(exact[finite]) < TINY
    if not resolve(target).denormals:
        error = np.where(tiny, 0.0, error)
    if fn in MAY_VANISH:
        error = np.where(tiny & (got[finite] == 0), 0.0, error)
    worst = int(error.argmax())
    print(f"{fn} on {target}: {error[worst] * 2.0**23:.2f} of {FUNCTIONS[fn].ulp} ulp")
    assert error[worst] <= bound, f"{fn}({x[finite][worst]}) is {got[finite][worst]}, not {exact[finite][worst]}"


@pytest.mark.parametrize("target", [*WIDE, *NARROW])
def test_a_product_with_a_sigmoid_is_within_its_bound(target: str, tmp_path: Path) -> None:
    """SiLU, which is one quotient: what is no number or infinite stays so, and large negative arguments give zero."""
    needs_target(target)
    x = points()
    if not resolve(target).denormals:
        x = x[(np.abs(x) >= TINY) | ~np.isfinite(x) | (x == 0)]
    graph = parse_graph(
        f"graph @net(%x: f32[{x.size}]) {{ %y = map(%x) {{expr={{x0 * sigmoid(x0)}}}} : f32[{x.size}] return %y }}",
        lookup,
    )
    built = compiled_graph(graph, "O0", "net", target=target)
    assert kernels_of(built) == {"map.vector"}
    (got,) = CaseLibrary(tmp_path, [built], [*resolve(target).c_flags, *STRICT_WARNINGS]).build().run(built, {"x": x})
    with np.errstate(all="ignore"):
        exact = FUNCTIONS["gate"].numpy(x.astype(np.float64), x.astype(np.float64))
    finite = np.isfinite(x)
    assert np.array_equal(got[~finite], exact[~finite].astype(np.float32), equal_nan=True)
    with np.errstate(over="ignore"):
        vanished = (FUNCTIONS["sigmoid"].numpy(x[finite].astype(np.float64)) < TINY) & (got[finite] == 0)
    error = np.abs(got[finite] - exact[finite]) / np.maximum(np.abs(exact[finite]), TINY)
    if not resolve(target).denormals:
        vanished |= np.abs(exact[finite]) < TINY
    error = np.where(vanished, 0.0, error)
    worst = int(error.argmax())
    print(f"gate on {target}: {error[worst] * 2.0**23:.2f} of {FUNCTIONS['gate'].ulp} ulp")
    assert error[worst] <= FUNCTIONS["gate"].ulp * 2.0**-23, f"{x[finite][worst]} gives {got[finite][worst]}"


@pytest.mark.parametrize("target", WIDE)
def test_whole_numbers_keep_the_sign_of_zero(target: str, tmp_path: Path) -> None:
    needs_target(target)
    x = np.repeat(np.array([-0.0, 0.0, -0.3, 0.3, -0.5, 0.5], dtype=np.float32), 11)
    graph = parse_graph(
        f"graph @net(%x: f32[{x.size}]) {{ "
        f"%f = map(%x) {{expr={{floor(x0)}}}} : f32[{x.size}] %c = map(%x) {{expr={{ceil(x0)}}}} : f32[{x.size}] "
        f"%r = map(%x) {{expr={{rne(x0)}}}} : f32[{x.size}] return %f, %c, %r }}",
        lookup,
    )
    built = compiled_graph(graph, "O0", "net", target=target)
    assert kernels_of(built) == {"map.vector"}
    results = CaseLibrary(tmp_path, [built], list(resolve(target).c_flags)).build().run(built, {"x": x})
    for got, want in zip(results, (np.floor(x), np.ceil(x), np.rint(x)), strict=True):
        assert np.array_equal(np.signbit(got), np.signbit(want))
        assert np.array_equal(got, want)


@pytest.mark.parametrize("target", [*WIDE, *NARROW])
def test_limits_are_exact(target: str, tmp_path: Path) -> None:
    """What tends to 0 or 1 arrives there: the product with an infinity, or the distance to 1, would show it."""
    needs_target(target)
    x = np.repeat(np.array([np.inf, 200.0, 30.0, -30.0, -200.0, -np.inf], dtype=np.float32), 7)
    names = ("erf", "tanh", "sigmoid", "exp")
    nodes = " ".join(f"%{n} = map(%x) {{expr={{{n}(x0)}}}} : f32[{x.size}]" for n in names)
    returned = ", ".join(f"%{n}" for n in names)
    graph = parse_graph(f"graph @net(%x: f32[{x.size}]) {{ {nodes} return {returned} }}", lookup)
    built = compiled_graph(graph, "O0", "net", target=target)
    assert kernels_of(built) == {"map.vector"}
    found = CaseLibrary(tmp_path, [built], list(resolve(target).c_flags)).build().run(built, {"x": x})
    erf, tanh, sigmoid, exp = (y[::7].tolist() for y in found)
    assert erf == tanh == [1, 1, 1, -1, -1, -1]
    assert sigmoid[:3] == [1, 1, 1]
    assert sigmoid[4:] == exp[4:] == [0, 0]
    assert exp[:2] == [np.inf, np.inf]
