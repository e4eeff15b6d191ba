"""mulhi, asr, sat_* and tables as C: what numpy says, extremes included, by gcc and clang at -O0 and -O3."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mccompile.driver import Compilation, Options, compile_program
from mccompile.ir.graph_text import parse_graph
from mccompile.ops.registry import lookup
from mccompile.ops.sampling import Case
from mccompile.targets.target import STRICT_WARNINGS, resolve, strict_warnings
from tests._skips import needs_tool
from tests.support.compiled import compiled_graph
from tests.support.opcases import Built, CaseLibrary

Array = np.ndarray[Any, np.dtype[Any]]
ENDS = [-(2**31), 2**31 - 1, -(2**31) + 1, -(2**30), 2**30, -1, 0, 1, -2, 2, 65535, -65536, 127, 128, -129, 255, 256]
TABLE = np.array([(37 * i + 11) % 256 for i in range(256)], np.uint8)
BODIES: list[tuple[tuple[str, ...], str, str]] = [
    (("i32", "i32"), "mulhi(x0, x1)", "i32"),
    *((("i32",), f"asr(x0, i32({n}))", "i32") for n in (0, 1, 7, 30, 31)),
    *((("i32",), f"sat_{t}(x0)", t) for t in ("i8", "u8", "i16", "u16")),
    *((("i32", "i32"), f"sat_{t}(asr((mulhi(x0, x1) + i32(4661)), i32(6)))", t) for t in ("i8", "u8")),
    (("i32", "i32"), "sat_i8(max(asr((mulhi(x0, x1) + i32(-99)), i32(3)), i32(-7)))", "i8"),
    *(((t,), f'lookup_{u}(x0, "{TABLE.tobytes().hex()}")', u) for t in ("i8", "u8") for u in ("i8", "u8")),
]


def values(dtype: str, other: bool) -> Array:
    """All pairs of ends, and drawn numbers; of bytes all."""
    if dtype != "i32":
        return np.arange(256).astype(np.uint8).view(np.int8 if dtype == "i8" else np.uint8)
    drawn = np.random.default_rng(5 + other).integers(-(2**31), 2**31, 300)
    pairs = np.repeat(ENDS, len(ENDS)) if other else np.tile(ENDS, len(ENDS))
    return np.concatenate([pairs, drawn]).astype(np.int32)


def meant(text: str, x: list[Array]) -> Array:
    """By whole numbers of any size, without the project's own tables."""
    a = [[int(v) for v in array] for array in x]
    if text.startswith("mulhi"):
        return np.array([p * q // 2**32 for p, q in zip(*a, strict=True)])
    if text.startswith("asr"):
        return np.array([p // 2 ** int(text.split("i32(")[1].rstrip(")")) for p in a[0]])
    if text.startswith("lookup"):
        return TABLE[[p % 256 for p in a[0]]]  # of an i8, its bits
    name = text[4:].split("(")[0]
    info = np.iinfo({"i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16}[name])
    whole = a[0]
    if "4661" in text:
        whole = [(p * q // 2**32 + 4661) // 64 for p, q in zip(*a, strict=True)]
    if "-99" in text:
        whole = [max((p * q // 2**32 - 99) // 8, -7) for p, q in zip(*a, strict=True)]
    return np.array([min(max(p, info.min), info.max) for p in whole])


def built() -> list[Built]:
    found = []
    for i, (types, text, result) in enumerate(BODIES):
        count = values(types[0], False).size
        names = ", ".join(f"%{n}: {t}[{count}]" for n, t in zip("ab", types, strict=False))
        operands = ", ".join(f"%{n}" for n in "ab"[: len(types)])
        graph = parse_graph(
            f"graph @net({names}) {{ %y = map({operands}) {{expr={{{text}}}}} : {result}[{count}] return %y }}",
            lookup,
        )
        graph.name = f"net{i}"
        options = Options(target="generic", opt_level="O0")
        c = Compilation(graph.name, "0" * 64, options, resolve("generic"), graph, [])
        found.append(Built(i, Case([]), [], c, compile_program(c)))
    return found


def test_numpy_means_whole_numbers() -> None:
    for (types, text, _), b in zip(BODIES, built(), strict=True):
        x = [values(t, k == 1) for k, t in enumerate(types)]
        with np.errstate(over="ignore"):
            got = b.compilation.graph.evaluate(dict(zip("ab", x, strict=False)))["y"]
        assert np.array_equal(got, meant(text, x).astype(got.dtype)), text


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("level", ["-O0", "-O3"])
def test_c_computes_what_numpy_does(compiler: str, level: str, tmp_path: Path) -> None:
    needs_tool(compiler)
    warnings = STRICT_WARNINGS if compiler == "gcc" else strict_warnings(compiler)
    flags = [*resolve("generic").c_flags, *warnings, level]
    library = CaseLibrary(tmp_path, built(), flags, (compiler,)).build()
    for (types, text, _), b in zip(BODIES, library.built, strict=True):
        x = [values(t, k == 1) for k, t in enumerate(types)]
        (got,) = library.run(b, dict(zip("ab", x, strict=False)))
        assert np.array_equal(got, meant(text, x).astype(got.dtype)), text


@pytest.mark.thorough
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_numbers_compared_with_themselves_are_no_warning(compiler: str, tmp_path: Path) -> None:
    needs_tool(compiler)
    bodies = {"a": "eq(x0, x0)", "b": "lt(x0, x0)", "c": "ge(x0, x0)", "d": "gt((x0 + x0), (x0 + x0))"}
    lines = [f"%{name} = map(%x) {{expr={{{body}}}}} : bool[3]" for name, body in bodies.items()]
    text = "\n".join(["graph @g(%x: i32[3]) {", *lines, f"return {', '.join(f'%{n}' for n in bodies)}", "}"])
    b = compiled_graph(parse_graph(text, lookup), "O0", "g")
    flags = [*resolve("generic").c_flags, *strict_warnings(compiler)]
    library = CaseLibrary(tmp_path, [b], flags, (compiler,)).build()
    got = library.run(b, {"x": np.array([-1, 0, 5], np.int32)})
    assert [a.tolist() for a in got] == [[wanted] * 3 for wanted in (True, False, True, False)]
