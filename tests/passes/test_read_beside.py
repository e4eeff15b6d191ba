"""What is read beside each result of a kernel by channels is copied, rearranged, or read in place: same numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mccompile.check.check import check
from mccompile.driver import Options
from tests._fast import first
from tests.kernels.cases import Net

CHANNELS, PLACES = 24, (10, 12)
FORMS = (
    (1, CHANNELS, *PLACES), (CHANNELS, *PLACES), (CHANNELS, 1, 1), (1, 1, *PLACES), PLACES,
    (1, CHANNELS, 1, PLACES[1]),
)  # fmt: skip
"""Shapes of what is read beside results of [1, CHANNELS, *PLACES]."""


@pytest.mark.parametrize("target", ["x86-64-v3", "native", "cortex-m7"])
@pytest.mark.parametrize("seed", first(range(8), 3))
def test_read_beside(seed: int, target: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    n = Net(seed)
    x = n.input(1, CHANNELS, *PLACES)
    held = [n.input(*FORMS[0]), x]

    def weights(*shape: int) -> str:
        return n.constant(rng.normal(size=shape).astype(np.float32) / 8)

    def beside(v: str) -> str:
        kind = rng.integers(4)
        if kind == 0:
            other = weights(*FORMS[rng.integers(len(FORMS))])
        elif kind == 1:
            other = n.input(*FORMS[rng.integers(len(FORMS))])
        else:
            other = held[rng.integers(len(held))]
        return n(("Add", "Mul", "Max", "Sub")[rng.integers(4)], *rng.permutation([v, other]).tolist())

    def layer(v: str) -> str:
        kind = rng.integers(5)
        if kind == 0:
            return n("MaxPool", v, kernel_shape=[3, 3], pads=[1] * 4)
        if kind == 1:
            return n("AveragePool", v, kernel_shape=[3, 3], pads=[1] * 4)
        if kind == 2:
            return n("Conv", v, weights(CHANNELS, 1, 3, 3), pads=[1] * 4, group=CHANNELS)
        if kind == 3:
            return n("Conv", v, weights(CHANNELS, CHANNELS, 3, 3), pads=[1] * 4)
        return n("Relu", v)

    v = beside(n("Relu", x)) if rng.integers(2) else x
    for _ in range(3):
        v = layer(v)
        held.append(v)
        v = beside(v)
        if rng.integers(2):
            v = n("Sigmoid", v)
    (tmp_path / "net.onnx").write_bytes(n.model(v, held[rng.integers(2, 5)]).SerializeToString())
    found = check(tmp_path / "net.onnx", Options(target=target))
    assert found.ok, found
