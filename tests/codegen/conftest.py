"""What several tests of generated C begin with."""

from __future__ import annotations

import pytest

from mccompile.codegen import model, series


@pytest.fixture
def long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every program is a long one."""
    monkeypatch.setattr(model, "MOST_LETTERS", 0)
    monkeypatch.setattr(series, "LEAST_LETTERS", 200)
    monkeypatch.setattr(series, "CELL_LETTERS", -100)
