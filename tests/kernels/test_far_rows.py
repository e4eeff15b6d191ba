"""Softmax of rows that are far from zero and wide: what is subtracted is the largest, of the row's elements alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.kernels.cases_vectors import softmax
from tests.kernels.test_variants import library, ort_run
from tests.support.opcases import mismatch
from tests.support.targets import WIDE, needs_target

CASES = [
    *(softmax((3, w)) for w in (2, 7, 9, 17, 33, 130, 300)),
    *(softmax((3, w), op="LogSoftmax") for w in (19, 300)),
    *(softmax((2, n, w), 1) for n, w in ((5, 33), (12, 33))),
    softmax((40, 3)),
    softmax((40, 6), 0),
    softmax((3, 21, 2), op="LogSoftmax"),
    softmax((2, 9, 20), 1, op="LogSoftmax"),
]


@pytest.mark.parametrize("target", WIDE)
def test_rows_far_from_zero(target: str, tmp_path: Path) -> None:
    needs_target(target)
    made = library(CASES, target, tmp_path / "net", flags=["-O1"])
    rng = np.random.default_rng(1)
    for case, built in zip(CASES, made.built, strict=True):
        model = case.model()
        shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
        for middle in (-1000, 1000):
            x = {"x0": (rng.uniform(-300, 300, shape) + middle).astype(np.float32)}
            (got,), (want,) = made.run(built, x), ort_run(model, x)
            assert not mismatch(got, want, case.tolerance), f"{case.name}: {mismatch(got, want, case.tolerance)}"
