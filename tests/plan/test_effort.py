"""The effort of the planner, from the option to the search, and the report that is made once with all files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mccompile import driver
from mccompile.driver import Options
from mccompile.plan import oracle
from mccompile.plan.alloc.problem import Plan, Problem
from mccompile.search import fit
from tests.support.small_models import write_model


@pytest.mark.parametrize("effort", [0, 1, 3])
def test_effort_reaches_the_planner(effort: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    plan = fit.plan

    def watched(*args: object) -> object:
        assert isinstance(args[2], int)
        seen.append(args[2])
        return plan(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(fit, "plan", watched)
    path = write_model("concat", tmp_path)
    driver.compile_files(path, Options(target="generic", plan_effort=effort))
    assert seen == [effort]


def test_judgements_together_search_as_long_as_a_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A storage that is only tried is no reason to search for seconds each time (a small YOLO: 8 times 2 s)."""
    parts: list[int] = []
    allocate = oracle.allocate

    def watched(problem: Problem, effort: int, part: int = 1, limit: int = 0) -> Plan:
        parts.extend([part] if effort else [])
        return allocate(problem, effort, part, limit)

    monkeypatch.setattr(oracle, "allocate", watched)
    driver.compile_files(write_model("residual", tmp_path), Options(target="generic"))
    assert parts
    assert set(parts) == {oracle.SEARCHES.stop - 1}


def test_what_does_not_fit_is_searched_for_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_model("concat", tmp_path)
    c, _ = driver.compile_files(path, Options(target="generic", plan_effort=2))
    assert c.program is not None
    need = c.program.arena_bytes
    monkeypatch.setattr(fit, "_hopeless", lambda *args: False)
    c, _ = driver.compile_files(path, Options(target="generic", plan_effort=2, ram=need - 1))
    assert c.program is not None
    assert c.program.arena_bytes == need


def test_the_report_lists_added_files(tmp_path: Path) -> None:
    path = write_model("concat", tmp_path)
    made = driver.compile(path, tmp_path / "out", Options(target="generic"), extra=lambda c: {"notes.txt": b"four"})
    stored = json.loads((tmp_path / "out" / "report.json").read_text())
    assert stored["files"]["notes.txt"] == 4
    assert stored["files"] == made.report["files"]
