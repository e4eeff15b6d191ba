"""Running sums and products beside each other, more of them than a block has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mccompile.ir.graph_text import parse_graph
from mccompile.ops.registry import lookup
from mccompile.targets.target import STRICT_WARNINGS, resolve
from tests.kernels.test_variants import kernels_of
from tests.support.compiled import compiled_graph
from tests.support.opcases import CaseLibrary
from tests.support.targets import ONE_LANE, needs_target


@pytest.mark.parametrize(
    ("target", "beside"), [(ONE_LANE, 64), (ONE_LANE, 65), (ONE_LANE, 200), ("generic", 513), ("x86-64-v3", 1100)]
)
def test_sums_of_many_blocks(target: str, beside: int, tmp_path: Path) -> None:
    """Blocks of 64, or of 512 where memory is no matter, and what is left."""
    x = np.random.default_rng(beside).uniform(0.5, 1.5, (2, 5, beside)).astype(np.float32)
    built, wanted = [], []
    for product in (False, True):
        for exclusive in (False, True):
            for reverse in (False, True):
                op = f"cum_sum(%x) {{axis=1, exclusive={exclusive}, reverse={reverse}, product={product}}}"
                n = f"f32[2,5,{beside}]"
                graph = parse_graph(f"graph @net(%x: {n}) {{ %y = {op} : {n} return %y }}", lookup)
                built.append(compiled_graph(graph, "O0", f"net{len(built)}", target=needs_target(target)))
                wanted.append(graph.evaluate({"x": x})["y"])
                assert kernels_of(built[-1]) == {"cum_sum.generic"}
    library = CaseLibrary(tmp_path, built, [*resolve(target).c_flags, *STRICT_WARNINGS]).build()
    for b, want in zip(built, wanted, strict=True):
        (got,) = library.run(b, {"x": x})
        np.testing.assert_allclose(got, want, rtol=2e-6)
