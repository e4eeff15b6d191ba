"""Products that are rounded before something is added: one instruction for both is not theirs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from mccompile.ir import expr as ex
from mccompile.ir.graph_text import parse_graph
from mccompile.ir.types import DTYPES, F64, DType
from mccompile.ops.registry import lookup
from mccompile.targets.target import resolve, strict_warnings
from tests._skips import needs_tool
from tests.kernels.test_variants import kernels_of
from tests.support.compiled import compiled_graph
from tests.support.opcases import Built, CaseLibrary
from tests.support.targets import needs_target

ROWS = 64
TYPES = ["f32", "f64"]


def tenths(dtype: DType, target: str) -> Built:
    """x0 * 0.1 - x1 in ``dtype``, stored as f64: a loop of scalars, for that is no type of vectors.

    10 * 0.1 - 1 is 0, and what a tenth is larger than 0.1 where both are one instruction.
    """
    product = ex.apply("mul", ex.var(0, dtype), ex.num(0.1, dtype))
    body = ex.text(ex.convert(ex.apply("sub", ex.apply("rounded", product), ex.var(1, dtype)), F64))
    x = f"{dtype}[{ROWS}]"
    text = f"graph @net(%x: {x}, %z: {x}) {{ %y = map(%x, %z) {{expr={{{body}}}}} : f64[{ROWS}] return %y }}"
    return compiled_graph(parse_graph(text, lookup), "O0", "net", target=target)


@pytest.mark.parametrize("optimise", ["-O1", "-O2", "-O3", "-Os"])
@pytest.mark.parametrize(("target", "compiler"), [("x86-64-v3", "gcc"), ("x86-64-v3", "clang"), ("aarch64", "gcc")])
@pytest.mark.parametrize("dtype", TYPES)
def test_rounded_before_the_sum(dtype: str, target: str, compiler: str, optimise: str, tmp_path: Path) -> None:
    needs_target(target)
    built = tenths(DTYPES[dtype], target)
    assert kernels_of(built) == {"map.generic"}
    flags = [*resolve(target).c_flags, *strict_warnings(compiler), optimise]
    library = CaseLibrary(tmp_path, [built], flags, compiler=(needs_tool(compiler),)).build()
    x = np.arange(ROWS, dtype=DTYPES[dtype].numpy)
    (got,) = library.run(built, {"x": x, "z": x * x.dtype.type(0.1)})
    assert not got.any()


@pytest.mark.parametrize("dtype", TYPES)
def test_gcc_makes_vectors_of_rounded_products(dtype: str, tmp_path: Path) -> None:
    flags = resolve(needs_target("x86-64-v3")).c_flags
    CaseLibrary(tmp_path, [tenths(DTYPES[dtype], "x86-64-v3")], flags).build()
    command = [needs_tool("gcc"), *flags, "-fopt-info-vec", "-c", "cases.c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "loop vectorized" in done.stderr
