"""A cache of C libraries of their own for these tests."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCC_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
