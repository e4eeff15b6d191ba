"""Integers of 8 and 16 bits in vectors: loaded, rounded from floats, saturated, looked up and stored, bit by bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mccompile.ir.graph_text import parse_graph
from mccompile.ops.registry import lookup
from tests.kernels.test_variants import Array
from tests.support.targets import FOREIGN, NARROW, WIDE
from tests.support.vector_maps import check_exact

TYPES = {"i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16}
TABLE = bytes((7 * i + 3) % 256 for i in range(256)).hex()


def bodies(name: str) -> list[tuple[str, str, str]]:
    """(operand type, expression, result type) around an integer type."""
    info = np.iinfo(TYPES[name])
    found = [("f32", f"{name}((rne(x0) + {zero}.0))", name) for zero in (info.min, 0, 3, info.max)]
    found += [("f32", f"{name}(rne((x0 * 0.7)))", name), ("f32", f"{name}(x0)", name)]
    found += [("f32", "i32(x0)", "i32"), ("f32", "f32(i32((x0 * 0.7)))", "f32")] if name == "i8" else []
    found += [("f32", f"{name}((rne(x0) + 0.5))", name), ("f32", f"{name}((rne(x0) + 70000.0))", name)]
    found += [(name, f"(f32((i32(x0) - i32({info.max}))) * 0.3)", "f32"), (name, "i32(x0)", "i32")]
    found += [("i32", f"sat_{name}(x0)", name), ("i32", f"{name}(x0)", name), (name, "bool(x0)", "bool")]
    found += [(name, f"max(min(x0, {name}(100)), {name}(3))", name), (name, "relu(x0)", name)]
    found += [(name, f"select(lt(x0, {name}(5)), x0, {name}(9))", name)]
    found += [(name, f"{other}(x0)", other) for other in TYPES if other != name]
    if name.endswith("8"):
        found += [(name, f'lookup_{to}(x0, "{TABLE}")', to) for to in ("i8", "u8")]
        found += [(name, f'f32(lookup_{to}(x0, "{TABLE}"))', "f32") for to in ("i8", "u8")]  # lanes, not their bytes
    return found


def operands(dtype: str, count: int) -> Array:
    """The ends of a type and all about 0; of floats ties, infinities and NaN as well."""
    if dtype == "f32":
        ends = [np.nan, np.inf, -np.inf, 3e9, -3e9, 2.0**31, -(2.0**31), 1e38, -0.0, 0.49999997, -0.49999997]
        ends += [2147483520, -2147483904]
        near = [s * (b + d) for s in (1, -1) for b in (127, 128, 255, 256, 32767, 65535) for d in (-0.5, 0, 0.5, 1.5)]
        return np.resize(np.array([*ends, *near, *np.arange(-3, 3, 0.25)], np.float32), count)
    if dtype == "i32":
        ends = [-(2**31), 2**31 - 1, -129, -128, 127, 128, 255, 256, -1, 0, 70000]
        return np.resize(np.array(ends, np.int32), count)
    info = np.iinfo(TYPES[dtype])
    return np.resize(np.array([info.min, info.max, 0, 1, *range(info.min, info.max, 37)], TYPES[dtype]), count)


@pytest.mark.parametrize(
    "target",
    [
        WIDE[-1], NARROW[0],
        *(pytest.param(t, marks=pytest.mark.slow) for t in (*WIDE[:-1], *NARROW[1:], *FOREIGN)),
    ],
)
def test_every_conversion_is_exact(target: str, tmp_path: Path) -> None:
    """Rows of whole vectors, and of what is left."""
    graphs, given = [], []
    for name in TYPES:
        for source, text, result in bodies(name):
            for count in (96, 107):
                node = f"%y = map(%a) {{expr={{{text}}}}} : {result}[{count}]"
                graphs.append(parse_graph(f"graph @net(%a: {source}[{count}]) {{ {node} return %y }}", lookup))
                given.append({"a": operands(source, count)})
    check_exact(graphs, given, target, tmp_path)
