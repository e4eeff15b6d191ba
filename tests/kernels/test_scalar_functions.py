"""Functions and casts of single elements in every type that has C for them, on the ends of its range, bit by bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mccompile.ir.graph_text import parse_graph
from mccompile.ir.scalar import FUNCTIONS, Array
from mccompile.ir.types import DTYPES
from mccompile.ops.registry import lookup
from mccompile.targets.target import STRICT_WARNINGS, resolve
from tests.support.compiled import compiled_graph
from tests.support.opcases import CaseLibrary

WHOLE = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
FLOATS = ("f32", "f64")
ELSEWHERE = ("asr", "select")
"""Of counts from 0 to 31, and of conditions: `test_integer_scalars.py` has the first, all that chooses the second."""


def ends(dtype: str) -> Array:
    """Around 0, the bits of the type, what its square nearly is the largest number of, and both of its ends."""
    info = np.iinfo(DTYPES[dtype].numpy)
    root = int(info.max**0.5)
    near = [-7, -3, -2, -1, 0, 1, 2, 3, 7, 10, info.bits - 1, info.bits, info.bits + 1, root, root + 1, -root]
    far = [info.min, info.min + 1, info.max // 2, info.max // 2 + 1, info.max - 1, info.max]
    return np.array(sorted({n for n in near + far if info.min <= n <= info.max}), info.dtype)


def numbers(dtype: str) -> Array:
    """Zeros, ties, ends of whole numbers and of smaller floats with their neighbours, denormals, all kinds of NaN."""
    kind = DTYPES[dtype].numpy.type
    info = np.finfo(kind)
    whole = [2.0**k + d for k in (7, 8, 15, 16, 23, 24, 31, 32, 52, 53, 63, 64) for d in (-1, -0.5, 0, 0.5, 1)]
    ties = [k + 0.5 for k in range(5)]
    halves = [2.0**-14, 2.0**-15, 3 * 2.0**-25, 2.0**-25, 65504.0, 65520.0, 1 + 2.0**-11, 1 + 3 * 2.0**-11]
    upper = [1 + 2.0**-8, 1 + 3 * 2.0**-8, 3.3895314e38, 2.0**127, 1.5 * 2.0**127, 1.5 * 2.0**-126]
    small = [2.0**-k * m for k in range(4, 20) for m in (1, 1.0625, 1.125, 1.25, 1.5, 1.75)]
    large = [k * d for k in (4, 6, 7, 7.5, 28, 30, 448, 240, 57344) for d in (1, 1 + 1 / 16, 1 + 1 / 8)]
    some = [0.0, 0.3, 1.0, 2.0, 3.0, 41.7, info.tiny, info.tiny / 2, info.tiny * 0.75, info.smallest_subnormal]
    x = np.array([*some, *ties, *whole, *halves, *upper, *small, *large, info.max], kind)
    x = np.concatenate([x, np.nextafter(x, kind(0)), np.nextafter(x[:-1], kind(np.inf)), np.array([np.inf], kind)])
    least, all_ones = (np.array([np.inf], kind).view(f"u{kind().itemsize}") + 1).view(kind), -np.ones(1, "i8")
    return np.concatenate([x, -x, np.array([np.nan, -np.nan], kind), least, -least, all_ones.view(kind)])


def functions(dtype: str, arity: int) -> list[tuple[str, str]]:
    """Calls, of floats those that are exact, and the types of their results."""
    kind = dtype[0]
    found = []
    for fn in FUNCTIONS.values():
        known = kind in fn.c and fn.operand in ("", dtype) and fn.name not in ELSEWHERE
        if known and fn.arity == arity and (kind != "f" or fn.ulp == 0) and (dtype, fn.name) != ("f64", "round_f16"):
            text = f"{fn.name}({', '.join(('x0', 'x1')[:arity])})"
            found.append((text, dtype if fn.result == "same" else fn.result))
    return found


def computed(
    dtype: str, bodies: list[tuple[str, str]], given: list[Array], folder: Path
) -> list[tuple[Array, Array]]:
    """What the C and what numpy makes of each body."""
    n = f"[{given[0].size}]"
    values = dict(zip("ab", given, strict=False))
    inputs, operands = ", ".join(f"%{k}: {dtype}{n}" for k in values), ", ".join(f"%{k}" for k in values)
    nodes = (f"%y = map({operands}) {{expr={{{body}}}}} : {result}{n}" for body, result in bodies)
    graphs = [parse_graph(f"graph @net({inputs}) {{ {node} return %y }}", lookup) for node in nodes]
    built = [compiled_graph(graph, "O0", f"net{i}") for i, graph in enumerate(graphs)]
    library = CaseLibrary(folder, built, [*resolve("generic").c_flags, *STRICT_WARNINGS, "-O1"]).build()
    with np.errstate(all="ignore"):
        return [(library.run(b, values)[0], b.compilation.graph.evaluate(values)["y"]) for b in built]


def same(got: Array, want: Array) -> bool:
    """Bit by bit, but for the bits of what is no number."""
    if got.dtype.kind != "f":
        return np.array_equal(got, want)
    numbers = ~np.isnan(want)
    return np.array_equal(got, want, equal_nan=True) and np.array_equal(
        np.signbit(got[numbers]), np.signbit(want[numbers])
    )


@pytest.mark.parametrize("arity", [1, 2])
@pytest.mark.parametrize("dtype", [*WHOLE, *FLOATS])
def test_functions_are_exact(dtype: str, arity: int, tmp_path: Path) -> None:
    x = numbers(dtype) if dtype in FLOATS else ends(dtype)
    if arity == 2 and dtype in FLOATS:
        x = np.concatenate([x[:20], -x[:20], np.array([np.inf, -np.inf, np.nan], x.dtype)])
    given = [x] if arity == 1 else [np.repeat(x, x.size), np.tile(x, x.size)]
    bodies = functions(dtype, arity)
    for (body, _), (got, want) in zip(bodies, computed(dtype, bodies, given, tmp_path), strict=True):
        if body.startswith("mod(") and dtype in FLOATS:  # ONNX has it of whole numbers alone: of 0 no sign is meant
            got, want = got + 0, want + 0
        assert same(got, want), body


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_become_the_nearest_whole_numbers_below(dtype: str, tmp_path: Path) -> None:
    """Towards 0, those beyond its range an end of it, and what is no number 0."""
    x = numbers(dtype)
    found = computed(dtype, [(f"{t}(x0)", t) for t in WHOLE], [x], tmp_path)
    for t, (got, _) in zip(WHOLE, found, strict=True):
        info = np.iinfo(DTYPES[t].numpy)
        want = [0 if np.isnan(v) else int(min(max(v, info.min), info.max)) for v in x.tolist()]
        assert got.tolist() == want, t
