"""Products of several lengths of rows, by lanes on 64-bit Arm, are one function whose places stay in registers."""

from __future__ import annotations

import functools
import itertools
from pathlib import Path

import numpy as np
import pytest

from mccompile.ir.graph import Graph
from mccompile.ir.graph_text import parse_graph
from mccompile.kernels.matmul import packed
from mccompile.ops.registry import lookup
from mccompile.targets.target import STRICT_WARNINGS, resolve
from tests.support.compiled import compiled_graph
from tests.support.opcases import CaseLibrary
from tests.support.targets import needs_target

TARGETS = ("aarch64", "aarch64-sve256")
WIDTHS = (128, 256, 128, 512, 128, 384, 48)


@functools.cache
def _network() -> Graph:
    """Products of 23 rows, each of which reads the one before."""
    rng = np.random.default_rng(3)
    lines = [f"graph @g(%x0: f32[23,{WIDTHS[0]}]) {{"]
    for i, (depth, columns) in enumerate(itertools.pairwise(WIDTHS)):
        weights = rng.normal(0, depth**-0.5, depth * columns).astype(np.float32)
        lines += [
            f"%w{i} = const {weights.tolist()} : f32[{depth},{columns}]",
            f"%x{i + 1} = matmul(%x{i}, %w{i}) post0{{ relu(acc) }} : f32[23,{columns}]",
        ]
    return parse_graph("\n".join([*lines, f"return %x{len(WIDTHS) - 1}", "}"]), lookup)


@pytest.mark.parametrize("target", TARGETS)
def test_places_of_rows_stay_in_registers(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_target(target)
    monkeypatch.setattr(packed, "BYTES_OF_SUM", 0)  # tiles of what rows are left are shared
    b = compiled_graph(_network(), "O2", "g", target=target)
    texts = [k.text for k in b.facts.kernels]
    assert any("MCC_HIDE(row_at[r]);" in text and "MCC_ONCE" in text for text in texts)
    assert any("row_at[r] = " in text and "MCC_HIDE" not in text for text in texts), "of one length they are numbers"
    library = CaseLibrary(tmp_path, [b], [*resolve(target).c_flags, *STRICT_WARNINGS]).build()
    inputs = {"x0": np.random.default_rng(4).normal(size=(23, WIDTHS[0])).astype(np.float32)}
    (want,) = _network().evaluate(inputs).values()
    (got,) = library.run(b, inputs)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
