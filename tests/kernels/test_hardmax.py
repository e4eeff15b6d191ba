"""Hardmax over vectors: where elements are alike, infinite, or no numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mccompile
from tests.kernels.cases import Net
from tests.support.targets import WIDE, needs_target


@pytest.mark.parametrize("target", WIDE)
@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("count", [5, 16, 37, 200])
def test_special_rows_are_those_of_the_plain_loop(target: str, count: int, across: bool, tmp_path: Path) -> None:
    """Rows, or columns, which are rows in lanes."""
    n = Net(0)
    model = n.model(n("Hardmax", n.input(*((count, 6) if across else (6, count))), axis=0 if across else 1))
    x = np.zeros((6, count), np.float32)
    x[1, count - 1] = np.nan
    x[2, 0] = np.nan
    x[3] = -np.inf
    x[4, count // 2 :] = np.inf
    x[5, [1, count - 2]] = 1
    found = {}
    for kernel in ("softmax.hard", "softmax.generic"):
        folder = tmp_path / kernel
        made = mccompile.compile(model, folder, target=needs_target(target), kernels={"softmax": kernel})
        assert [s["kernel"] for s in made.report["steps"]] == [kernel]
        (y,) = mccompile.load(folder).run({"x0": np.ascontiguousarray(x.T) if across else x}).values()
        found[kernel] = y.T if across else y
    assert np.array_equal(*found.values())
    assert found["softmax.hard"].sum(axis=1).tolist() == [1, 0, 0, 1, 1, 1]
    assert found["softmax.hard"].argmax(axis=1).tolist() == [0, 0, 0, 0, count // 2, 1]


@pytest.mark.parametrize("shape", [(5, 1), (1, 5), (3, 1, 40), (40, 1), (2, 40, 1)])
def test_rows_of_one_element_are_ones(shape: tuple[int, ...], tmp_path: Path) -> None:
    for axis in range(len(shape)):
        n = Net(0)
        model = n.model(n("Hardmax", n.input(*shape), axis=axis))
        x = np.random.default_rng(axis).standard_normal(shape).astype(np.float32)
        mccompile.compile(model, tmp_path / f"{axis}", target=needs_target("x86-64-v3"))
        (y,) = mccompile.load(tmp_path / f"{axis}").run({"x0": x}).values()
        assert np.array_equal(y, (x == x.max(axis=axis, keepdims=True)).astype(np.float32))
