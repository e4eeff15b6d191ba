"""Functions over vectors and of single floats, against float64, within the bounds that the scalar table states."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mccompile.codegen.files import source_files
from mccompile.ir.graph_text import parse_graph
from mccompile.ir.scalar import FUNCTIONS
from mccompile.ops.registry import lookup
from mccompile.targets.target import STRICT_WARNINGS, resolve
from tests.kernels.test_variants import kernels_of
from tests.support.compiled import compiled_graph
from tests.support.opcases import CaseLibrary
from tests.support.targets import ALL_VECTORS, WIDE, needs_target

Array = np.ndarray[Any, np.dtype[Any]]
TINY = 2.0**-126
ALIKE = [n for n, row in FUNCTIONS.items() if "f" in row.vector and row.result == "same"]
UNARY = sorted(n for n in ALIKE if FUNCTIONS[n].arity == 1 and n not in ("round_f16", "round_bf16"))
"""Functions of one number; test_halves.py has what rounds to halves."""
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


def arguments(target: str) -> Array:
    """`points`, those below `TINY` only where the target keeps them."""
    x = points()
    return x if resolve(target).denormals else x[(np.abs(x) >= TINY) | ~np.isfinite(x) | (x == 0)]


@pytest.fixture(scope="module")
def unary(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], CaseLibrary]:
    """For each target, when it is first asked for: a library of a network for each function of one number."""

    @functools.cache
    def library(target: str) -> CaseLibrary:
        n = f"f32[{arguments(target).size}]"
        built = []
        for fn in UNARY:
            text = f"graph @net(%x: {n}) {{ %y = map(%x) {{expr={{{fn}(x0)}}}} : {n} return %y }}"
            built.append(compiled_graph(parse_graph(text, lookup), "O0", f"net_{fn}", target=target))
        flags = [*resolve(target).c_flags, *STRICT_WARNINGS]
        return CaseLibrary(tmp_path_factory.mktemp("unary"), built, flags).build()

    return library


@pytest.mark.parametrize("fn", UNARY)
@pytest.mark.parametrize("target", ["generic", *ALL_VECTORS])
def test_within_the_stated_bound(target: str, fn: str, unary: Callable[[str], CaseLibrary]) -> None:
    needs_target(target)
    library, x = unary(target), arguments(target)
    built = library.built[UNARY.index(fn)]
    assert kernels_of(built) == {"map.vector" if resolve(target).lanes else "map.generic"}
    (got,) = library.run(built, {"x": x})
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


def missing_helpers(files: Mapping[str, bytes]) -> set[str]:
    """The functions of the library of helpers that net.c calls and nothing defines."""
    code = re.sub(r"/\*.*?\*/", "", files["net.c"].decode(), flags=re.DOTALL)
    called = set(re.findall(r"\b(mcc_\w+)\(", code))
    defined = set(re.findall(r"^(?:static|#define) [^(\n]*?\b(mcc_\w+)\(", code, re.MULTILINE))
    return called - defined - set(re.findall(r"\bmcc_\w+", files["mcc.h"].decode()))


@pytest.mark.parametrize("target", ALL_VECTORS)
def test_each_function_by_itself_has_all_helpers(target: str) -> None:
    """Above, one function's helpers could be those that another one brought."""
    for fn in UNARY:
        graph = parse_graph(
            f"graph @net(%x: f32[99]) {{ %y = map(%x) {{expr={{{fn}(x0)}}}} : f32[99] return %y }}", lookup
        )
        files = source_files(compiled_graph(graph, "O0", "net", target=target).facts)
        assert not missing_helpers(files), fn
        without = re.sub(rb"static inline mcc_vf mcc_vload\(", b"static inline mcc_vf gone(", files["net.c"])
        assert missing_helpers({**files, "net.c": without}) == {"mcc_vload"}


@pytest.mark.parametrize("target", ALL_VECTORS)
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


def bases_and_exponents() -> tuple[Array, Array]:
    """All pairs of what C's pow tells apart, whole, odd and halved exponents, and any sizes whose power is finite."""
    rng = np.random.default_rng(5)
    special = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 2.5, -2.5, 1e-30, 1e30, -1e30, 16777215.0, 3e38]
    ends = np.array([*special, 1e-40, np.inf, -np.inf, np.nan], dtype=np.float32)
    pairs = [np.repeat(ends, ends.size), np.tile(ends, ends.size)]
    size = 2.0 ** rng.uniform(-126, 127, 120000)
    free = rng.uniform(-150, 129, size.size) / np.log2(size)
    near = rng.uniform(0.5, 2, 120000)
    steep = rng.uniform(-126, 127.9, near.size) / np.log2(near)
    signed = rng.uniform(-12, 12, 40000)
    whole = rng.integers(-30, 31, signed.size)
    fixed = np.tile([0.5, -0.5, 1 / 3, 2.2, 1 / 2.4, 1.5], 10000)
    x = np.concatenate([pairs[0], size, near, signed, rng.uniform(0, 40, fixed.size)])
    y = np.concatenate([pairs[1], free, steep, whole, fixed])
    return x.astype(np.float32), y.astype(np.float32)


@pytest.mark.parametrize("target", ALL_VECTORS)
def test_powers_are_those_of_c(target: str, tmp_path: Path) -> None:
    needs_target(target)
    x, y = bases_and_exponents()
    if not resolve(target).denormals:
        kept = (np.abs(y) >= TINY) & ~((np.abs(x) < TINY) & (x != 0))
        x, y = x[kept], y[kept]
    size = f"f32[{x.size}]"
    text = f"graph @net(%x: {size}, %y: {size}) {{ %z = map(%x, %y) {{expr={{pow(x0, x1)}}}} : {size} return %z }}"
    built = compiled_graph(parse_graph(text, lookup), "O0", "net", target=target)
    assert kernels_of(built) == {"map.vector"}
    flags = [*resolve(target).c_flags, *STRICT_WARNINGS]
    (got,) = CaseLibrary(tmp_path, [built], flags).build().run(built, {"x": x, "y": y})
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64))
        want = exact.astype(np.float32)
    plain = np.isfinite(want) & (exact != 0)
    assert np.array_equal(got[~plain], want[~plain], equal_nan=True)
    signed = (want == 0) | (np.abs(want) >= TINY)
    assert np.array_equal(np.signbit(got[signed & ~np.isnan(want)]), np.signbit(want[signed & ~np.isnan(want)]))
    error = np.abs(got[plain] - exact[plain]) / np.maximum(np.abs(exact[plain]), TINY)
    if not resolve(target).denormals:
        error = np.where(np.abs(exact[plain]) < TINY, 0.0, error)
    worst = int(error.argmax())
    print(f"pow on {target}: {error[worst] * 2.0**23:.2f} of {FUNCTIONS['pow'].ulp} ulp")
    assert error[worst] <= FUNCTIONS["pow"].ulp * 2.0**-23, f"{x[plain][worst]} to {y[plain][worst]}"


@pytest.mark.parametrize("target", ALL_VECTORS)
def test_remainders_are_exact(target: str, tmp_path: Path) -> None:
    """Of quotients of all sizes, close to whole ones, and of what is no finite number."""
    needs_target(target)
    rng = np.random.default_rng(6)
    ends = np.array([0.0, -0.0, 1.0, -3.0, 0.1, 1e-30, 1e30, np.inf, -np.inf, np.nan, 16777215.0], dtype=np.float32)
    divisors = rng.uniform(-8, 8, 100000)
    near = divisors.astype(np.float32) * rng.integers(-40, 40, divisors.size)
    pairs = ((ends.repeat(ends.size), np.tile(ends, ends.size)), (near, divisors), (near + 0.3, divisors[::-1]))
    sizes = 2.0 ** rng.uniform(-90, 90, (2, 50000))
    x, y = (np.concatenate(part).astype(np.float32) for part in zip(*pairs, (sizes[0], sizes[1]), strict=True))
    n = f"f32[{x.size}]"
    text = f"graph @net(%x: {n}, %y: {n}) {{ %z = map(%x, %y) {{expr={{fmod(x0, x1)}}}} : {n} return %z }}"
    built = compiled_graph(parse_graph(text, lookup), "O0", "net", target=target)
    assert kernels_of(built) == {"map.vector"}
    flags = [*resolve(target).c_flags, *STRICT_WARNINGS]
    (got,) = CaseLibrary(tmp_path, [built], flags).build().run(built, {"x": x, "y": y})
    with np.errstate(invalid="ignore"):
        want = np.fmod(x, y)
    if not resolve(target).denormals:
        got, want = (np.where(np.abs(v) < TINY, 0.0, v) for v in (got, want))
    assert np.array_equal(got, want, equal_nan=True)
    if resolve(target).denormals:
        assert np.array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))


@pytest.mark.parametrize("target", WIDE)
def test_whole_numbers_keep_the_sign_of_zero(target: str, tmp_path: Path) -> None:
    """And Sign has none of it."""
    needs_target(target)
    x = np.repeat(np.array([-0.0, 0.0, -0.3, 0.3, -0.5, 0.5], dtype=np.float32), 11)
    graph = parse_graph(
        f"graph @net(%x: f32[{x.size}]) {{ "
        f"%f = map(%x) {{expr={{floor(x0)}}}} : f32[{x.size}] %c = map(%x) {{expr={{ceil(x0)}}}} : f32[{x.size}] "
        f"%r = map(%x) {{expr={{rne(x0)}}}} : f32[{x.size}] %s = map(%x) {{expr={{sign(x0)}}}} : f32[{x.size}] "
        "return %f, %c, %r, %s }",
        lookup,
    )
    built = compiled_graph(graph, "O0", "net", target=target)
    assert kernels_of(built) == {"map.vector"}
    results = CaseLibrary(tmp_path, [built], list(resolve(target).c_flags)).build().run(built, {"x": x})
    for got, want in zip(results, (np.floor(x), np.ceil(x), np.rint(x), np.sign(x)), strict=True):
        assert np.array_equal(np.signbit(got), np.signbit(want))
        assert np.array_equal(got, want)


@pytest.mark.parametrize("target", ALL_VECTORS)
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
