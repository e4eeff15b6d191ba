"""What is said of memory: the step where most is in use, and what is over a limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mccompile.driver import Options, compile_files
from mccompile.ir.errors import CompileError
from mccompile.report.limits import misfits, require_fit
from mccompile.report.report import make_report
from mccompile.report.summary import peak_text, summary

CHAIN = """graph @g(%x: f32[1,1,8,8]) {
  %w = const [1.0, 2.0, 3.0, 4.0] : f32[4,1,1,1]
  %a = map(%x) {expr={exp(x0)}} : f32[1,1,8,8]
  %b = map(%a) {expr={sqrt(x0)}} : f32[1,1,8,8]
  %c = pool(%b) {mode='max', kernel=(2, 2), strides=(2, 2), pads=(0, 0, 0, 0), dilations=(1, 1)} : f32[1,1,4,4]
  %y = conv(%c, %w) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)} : f32[1,4,4,4]
  return %y
}"""
"""The maps may write over what they read: 256 bytes, however many names they have."""


@pytest.fixture
def report(tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "g.mcir"
    path.write_text(CHAIN)
    c, _ = compile_files(path, Options(target="generic", opt_level="O0"))
    return make_report(c, {})


def test_the_peak_counts_what_lies_over_one_another_once(report: dict[str, Any]) -> None:
    used = [step["arena_bytes"] for step in report["steps"]]
    assert used == [256, 256, 320, 320]
    assert report["memory"]["peak_step"] == 2
    assert report["memory"]["used_at_peak_bytes"] == report["memory"]["arena_bytes"] == 320
    assert "over one another" not in peak_text(report)


def test_a_summary_that_is_full_says_that_there_are_notes(report: dict[str, Any]) -> None:
    """Of as many memories as fill the lines and more."""
    places = [{"name": f"m{i}", "tensors": 1, "arena_bytes": 8, "limit_bytes": 512} for i in range(40)]
    report["notes"] = ["the first", "the second"]
    full = {**report, "memory": {**report["memory"], "regions": places}}
    assert "note: the first" in summary(report, "out")
    assert summary(full, "out").endswith("and 2 more notes, see report.json")


def test_a_limit_names_the_steps_beyond_it(report: dict[str, Any]) -> None:
    (text,) = misfits(report, {}, 300, None)
    assert "20 more than the 300" in text
    assert "2 of 4 steps need more than that at once: 2, 3" in text
    assert misfits(report, {}, 320, None) == []


def test_the_hint_names_only_options_that_were_given(tmp_path: Path) -> None:
    path = tmp_path / "g.mcir"
    path.write_text(CHAIN)
    for keep in (False, True):
        c, _ = compile_files(path, Options(target="generic", keep_inputs=keep))
        with pytest.raises(CompileError) as e:
            require_fit(c, 100, None)
        assert ("--keep-inputs" in str(e.value)) == keep
