"""benchmarks/operators.py: every line of its table is a network that runs, and rows stand below their families."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import onnxruntime
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def operators(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("operators")


def test_every_form_runs(operators: ModuleType) -> None:
    for text in [text for family in operators.forms().values() for text in family]:
        form = operators.form_of(text)
        session = onnxruntime.InferenceSession(form.model().SerializeToString(), providers=["CPUExecutionProvider"])
        assert all(result.size for result in session.run(None, form.inputs)), text


def test_a_form_is_measured_and_told(operators: ModuleType) -> None:
    text = operators.forms()["Element by element"][0]
    row = operators.row(text, rounds=1)
    assert row.startswith(f"| `{text}` | ")
    assert row.endswith(" | map.vector |")
    told = operators.document([row], rounds=1)
    assert f"## Element by element\n\n{operators.HEAD}\n{row}\n" in told
    assert "1 in all, geometric mean" in told
