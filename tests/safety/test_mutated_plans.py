"""The checker of plans finds the plans that do harm, by the judgement of a memory that runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.mutated_plans import attacked


@pytest.mark.parametrize(("seeds", "each"), [(24, 30), pytest.param(120, 60, marks=pytest.mark.slow)])
def test_plans_that_do_harm_are_refused(seeds: int, each: int, tmp_path: Path) -> None:
    counts, survivors = attacked(range(seeds), each, tmp_path)
    assert counts["harmful"] > seeds * each // 5
    assert 100 * len(survivors) <= counts["harmful"], f"{counts}: {survivors}"
