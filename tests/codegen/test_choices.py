"""What is read for a choice is read whether it is chosen or not.

    for (i = 0; i < 3; ++i) for (j = 0; j < 10; ++j) y[i][j] = x[i][j] < 0 ? w[i][j] : 0;

reads other elements of w with gcc 12 at -O3, where it unrolls the inner loop and has masked loads (AVX-512).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mccompile.ir.graph_text import parse_graph
from mccompile.ops.registry import lookup
from mccompile.targets.target import STRICT_WARNINGS, resolve, runs_here
from tests.support.compiled import compiled_graph
from tests.support.opcases import CaseLibrary

JOINED = (
    "%v = map(%x, %w) {{expr={{select(lt(x0, 0.0), (x1 * x0), x0)}}}} : {t} "
    "%y = concat(%x, %v, %x) {{axis=1}} : {y}"
)
SUMMED = (
    "%y = reduce(%x) {{mode='sum', axes=(2,)}} with(%w) pre0{{ select(lt(acc, 0.0), (x0 * acc), acc) }} : {y}"
)


@pytest.mark.parametrize("columns", [6, 10, 12, 14])
@pytest.mark.parametrize("target", ["generic", "x86-64-v4"])
def test_elements_are_those_that_are_chosen(target: str, columns: int, tmp_path: Path) -> None:
    if not runs_here("x86-64-v4"):
        pytest.skip("a processor with AVX-512 is needed")
    t = f"f32[3,2,{columns}]"
    bodies = [JOINED.format(t=t, y=f"f32[3,6,{columns}]"), SUMMED.format(y="f32[3,2,1]")]
    graphs = [parse_graph(f"graph @net(%x: {t}, %w: {t}) {{ {body} return %y }}", lookup) for body in bodies]
    built = [compiled_graph(g, "O2", f"net{i}", target=target) for i, g in enumerate(graphs)]
    flags = [*resolve(target).c_flags, *STRICT_WARNINGS, "-O3", "-march=x86-64-v4"]
    library = CaseLibrary(tmp_path, built, flags).build()
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal((3, 2, columns)).astype(np.float32) for _ in range(2))
    chosen = np.where(x < 0, w * x, x)
    joined, summed = (library.run(b, {"x": x, "w": w})[0] for b in built)
    np.testing.assert_array_equal(joined, np.concatenate([x, chosen, x], axis=1))
    np.testing.assert_allclose(summed, chosen.sum(axis=2, keepdims=True), rtol=1e-5, atol=1e-5)
