"""benchmarks/tables.py: rows that are not measured this time stay, in their places."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAD = "| network | ms |\n|---|--:|\n"


def test_rows_that_are_not_measured_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    tables = importlib.import_module("tables")
    out = tmp_path / "a.md"
    before, behind = "| vgg | not of the table |\n<!-- times -->\n", "<!-- end -->\nmore\n"
    out.write_text(f"{before}{HEAD}| `vgg n=1..2` | 80 |\n| gone | 1 |\n{behind}")
    order = ["lenet", "vgg n=1..2"]
    tables.renew_part(out, "times", HEAD, order, [("lenet", "| lenet | 2 |")])
    assert out.read_text() == f"{before}{HEAD}| lenet | 2 |\n| `vgg n=1..2` | 80 |\n{behind}"
    whole = tmp_path / "b.md"
    tables.renew(whole, order, [(n, f"| {n} | {i} |") for i, n in enumerate(reversed(order))], "\n".join)
    assert whole.read_text() == "| lenet | 1 |\n| vgg n=1..2 | 0 |"
