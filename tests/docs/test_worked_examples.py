"""The worked examples in docstrings are run: they show what the code does."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import mccompile

ROOT = Path(mccompile.__file__).parent


def _with_examples() -> list[str]:
    paths = [p for p in sorted(ROOT.rglob("*.py")) if "\n>>> " in p.read_text(encoding="utf-8")]
    return [".".join(("mccompile", *p.relative_to(ROOT).with_suffix("").parts)) for p in paths]


@pytest.mark.parametrize("name", _with_examples())
def test_worked_examples_hold(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0
    assert found.failed == 0
