"""Whole numbers in vectors: every function of them that has a vector form, on the ends of their range, bit by bit."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from mccompile.codegen.helpers import preamble
from mccompile.ir.errors import InternalError
from mccompile.ir.graph_text import parse_graph
from mccompile.ir.scalar import FUNCTIONS, ScalarFn
from mccompile.ir.types import BOOL, DTYPES, F16, F32, I8, I16, I32, I64, U8, U16, DType
from mccompile.ir.vector import V, converts, is_lane
from mccompile.ops.registry import lookup
from mccompile.targets.machine import Capability
from mccompile.targets.target import resolve
from tests.support.targets import ALL_VECTORS
from tests.support.vector_maps import check_exact

ENDS = (0, 1, -1, 2, -2, 3, 1 << 16, -(1 << 16), 46341, 2**31 - 1, -(2**31), -(2**31) + 1)
MEMORY = [(F32, F32), (F32, F16), (I32, I32), (BOOL, BOOL), *((t, t) for t in (I8, U8, I16, U16))]


def call(fn: ScalarFn) -> str:
    if fn.name == "select":
        return "select(lt(x0, x1), x1, x2)"
    return f"{fn.name}({', '.join(f'x{i}' for i in range(fn.arity))})"


WHOLE = [(call(f), "i32" if f.result == "same" else f.result) for f in FUNCTIONS.values() if "i" in f.vector]
MIXED = [
    ("bool(x0)", "bool"),
    ("f32(x0)", "f32"),
    ("i32(lt(x0, x1))", "i32"),
    ("select(bool(x0), f32(x1), f32(lt(x0, x1)))", "f32"),
]


@pytest.mark.parametrize("target", ALL_VECTORS)
def test_every_function_is_exact(target: str, tmp_path: Path) -> None:
    """Rows of 144 and of 12 x 12 - 1 elements: whole vectors, and what is left."""
    pairs = np.array(list(itertools.product(ENDS, ENDS)), dtype=np.int32)
    graphs, given = [], []
    for (text, dtype), count in itertools.product(WHOLE + MIXED, (len(pairs), len(pairs) - 1)):
        n = f"i32[{count}]"
        names = "abc"[: sum(f"x{i}" in text for i in range(3))]
        operands = ", ".join(f"%{i}" for i in names)
        inputs = ", ".join(f"%{i}: {n}" for i in names)
        node = f"%y = map({operands}) {{expr={{{text}}}}} : {dtype}[{count}]"
        graphs.append(parse_graph(f"graph @net({inputs}) {{ {node} return %y }}", lookup))
        values = {"a": pairs[:count, 0], "b": pairs[:count, 1], "c": pairs[:count, 1][::-1]}
        given.append({i: np.ascontiguousarray(values[i]) for i in names})
    check_exact(graphs, given, target, tmp_path)


def primitives(vector: V, memory: DType, ways: Sequence[bool]) -> set[str]:
    """C that moves vectors in every way; ``ways``: whether stores are in pieces."""
    lanes, element = vector.lanes, "1.0f" if vector.dtype == F32 else "1"
    moved = {vector.load("p", n, step, memory) for n in (lanes, lanes - 1) for step in (1, 2, 3, -1)}
    stored = {vector.store("p", "v", n, memory, pieces) for n in (lanes, lanes - 1) for pieces in ways}
    return moved | stored | {vector.set(element)}


@pytest.mark.parametrize("target", ALL_VECTORS)
def test_every_primitive_that_can_be_named_exists(target: str) -> None:
    to = resolve(target)
    ways = (False, True) if Capability.MASKED_STORES in to.capabilities else (False,)
    for dtype, memory in MEMORY:
        for text in primitives(V(dtype, to.machine.lanes(F32)), memory, ways):
            name = text.partition("(")[0]
            helpers = preamble(re.findall(r"\bmcc_\w+", text), to).helpers
            assert f" {name}(" in helpers, name
            code = re.sub(r"/\*.*?\*/", "", helpers, flags=re.DOTALL) + text
            for other in re.findall(r"^static inline .*?(\w+)\(", code, re.MULTILINE):
                assert len(re.findall(rf"\b{other}\(", code)) > 1, f"{name} brings {other}, which nothing calls"
    for name in ("mcc_vf", "mcc_vi", "mcc_vu"):
        assert f" {name} __attribute__" in preamble([name], to).helpers


def test_all_that_moves_is_in_the_list() -> None:
    vectors = [V(dtype, 8) for dtype in DTYPES.values() if is_lane(dtype)]
    found = []
    for vector, memory in itertools.product(vectors, DTYPES.values()):
        try:
            vector.suffix(memory)
        except InternalError:
            continue
        found.append((vector.dtype, memory))
    assert sorted(map(str, found)) == sorted(map(str, MEMORY))


def test_what_there_are_no_vectors_of_is_said() -> None:
    with pytest.raises(InternalError, match="no vectors of i64"):
        V(I64, 4)
    with pytest.raises(InternalError, match="no vectors of i32 from f16"):
        V(I32, 8).load("p", 8, memory=F16)
    with pytest.raises(InternalError, match="no vectors of i64 from vectors of f32"):
        V(F32, 8).converted("v", I64)
    with pytest.raises(InternalError, match="no lanes of 8 bits for i32"):
        V(I32, 8, bits=8)
    assert not converts(F32, I64)
    assert V(I32, 8).mask == V(F32, 8).mask == V(BOOL, 8)
