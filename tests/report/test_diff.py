"""`mccompile diff`: what is said is the difference, in each form, and limits are kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mccompile.ir.errors import UsageError
from mccompile.report.diff import KEYS, _figures, broken, differences, limit_of, markdown, text_lines
from mccompile.report.schema import read_report
from tests.cli.conftest import Run, run  # noqa: F401  # `run` is a fixture
from tests.report.reports import Report, digits, full


def _saved(folder: Path, **reports: Report) -> list[Path]:
    paths = []
    for name, report in reports.items():
        paths.append(folder / f"{name}.json")
        paths[-1].write_text(json.dumps(report))
    return paths


def test_equal_reports_have_no_difference() -> None:
    (found,) = differences(full(digits()), full(digits()))
    assert found.same
    assert text_lines([found]) == ["digits: no difference"]
    assert "no difference" in markdown([found])
    assert "|" not in markdown([found])


def test_every_figure_has_its_key() -> None:
    assert tuple(key for key, _, _ in _figures(full(digits()))) == KEYS
    assert all(isinstance(limit_of(f"{key}=1").most, float) for key in KEYS)


def test_what_grew_and_what_shrank() -> None:
    before, after = full(digits("cortex-m4", "O2")), full(digits("cortex-m4", "Os"))
    (found,) = differences(before, after)
    assert not found.same
    assert ("level", "O2", "Os") in found.facts
    figures = {f.key: f for f in found.figures}
    for key, values in {"arena": ("memory", "arena_bytes"), "code": ("code", "text_bytes")}.items():
        tables = [r["code"]["constants_bytes"] if key == "code" else 0 for r in (before, after)]
        sizes = [r[values[0]][values[1]] + more for r, more in zip((before, after), tables, strict=True)]
        assert (figures[key].before, figures[key].after) == tuple(sizes)
    assert "instructions" not in figures
    assert sum(f.before for f in found.kernels) <= len(before["steps"])
    changed = {s.onnx: s.kernels for s in found.steps}
    for old, new in zip(before["steps"], after["steps"], strict=True):
        if old["kernel"] != new["kernel"] and old["onnx"]:
            assert changed[tuple(old["onnx"])] == (old["kernel"], new["kernel"])
    text = "\n".join(text_lines([found]))
    assert f"{figures['arena'].before:,.0f}" in text
    assert "conv2 + conv2/relu: conv.channels -> conv.blocks" in text


def test_options_that_changed_are_told() -> None:
    before, after = full(digits()), full(digits())
    options = {**after["options"], "keep_inputs": True, "threads": 2, "weights": {"MatMul": "i8"}}
    after = {**after, "options": options}
    (found,) = differences(before, after)
    assert set(found.facts) == {
        ("--keep-inputs", "no", "yes"), ("--weights", "none", "MatMul=i8"), ("--threads", "1", "2"),
    }  # fmt: skip


def test_a_step_that_takes_longer_is_named() -> None:
    before, after = full(digits()), full(digits())
    after["bench"]["layers"][2]["us"] *= 3
    (found,) = differences(before, after)
    assert [s.onnx for s in found.steps] == [tuple(before["steps"][2]["onnx"])]
    assert found.measure == "time, measured"
    assert not found.same


def test_other_measures_are_not_compared() -> None:
    (found,) = differences(full(digits()), digits())
    assert found.measure == ""
    assert not found.steps
    assert {"time", "code", "stack"}.isdisjoint(f.key for f in found.figures)


def test_limits_decide_the_exit_code(tmp_path: Path, run: Run) -> None:  # noqa: F811
    grown = full(digits())
    grown["code"]["text_bytes"] += 50
    before, after = _saved(tmp_path, before=full(digits()), after=grown)
    size = full(digits())["code"]["text_bytes"] + 8
    part = 100 * 50 / size
    cases = {"code=50": 0, "code=49": 1, f"code={part + 0.01}%": 0, f"code={part - 0.01}%": 1, "arena=0": 0}
    for limit, code in cases.items():
        done = run("diff", before, after, "--limit", limit)
        assert done.exit_code == code, (limit, done.output)
        assert ("FAIL digits: code, bytes grew" in done.output) == bool(code)
    assert run("diff", after, before, "--limit", "code=0").exit_code == 0
    assert run("diff", before, after).exit_code == 0
    for wrong in ("code", "code=x", "rum=1", "code=-1", "code=nan%", "instructions=5"):
        done = run("diff", before, after, "--limit", wrong)
        assert done.exit_code == 2, wrong


def test_forms(tmp_path: Path, run: Run) -> None:  # noqa: F811
    before, after = _saved(tmp_path, before=full(digits()), after=full(digits(level="Os")))
    data = json.loads(run("diff", before, after, "--json", "--limit", "arena=100%").stdout)
    assert data["broken"] == []
    (model,) = data["models"]
    assert {f["key"] for f in model["figures"]} <= set(KEYS)
    table = run("diff", before, after, "--markdown").stdout
    rows = [line for line in table.splitlines() if line.startswith("|")]
    assert rows[1] == "|---|---:|---:|---:|"
    assert all(line.replace("\\|", "").count("|") == 5 for line in rows)
    assert run("diff", before, after, "--markdown", "--json").exit_code == 2
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "report.json").write_text(before.read_text())
    assert run("diff", folder, before).stdout == "digits: no difference\n"


def test_names_are_no_markup() -> None:
    before, after = digits(), digits()
    for report, kernel in ((before, "a.b"), (after, "c.d")):
        report["steps"][3] |= {"onnx": ["<b>|`x`_y_"], "kernel": kernel}
    text = markdown(differences(before, after))
    assert "<b>" not in text.replace("\\<b>", "")
    assert "\\|\\`x\\`" in text


def test_projects(tmp_path: Path) -> None:
    def project(arena: int, **models: Report) -> Report:
        return {"project": {"name": "p", "arena_bytes": arena, "kernels": 9}, "models": models}

    both = project(512, digits=digits())
    (found,) = differences(both, project(512, digits=digits(level="Os")))
    assert not found.same
    (found,) = differences(both, both)
    assert found.same
    whole, found = differences(both, project(768, digits=digits(), other=digits()))
    assert found.same
    assert whole.facts == (("models", "digits", "digits, other"),)
    changes = {f.key: f.change for f in whole.figures}
    assert changes.keys() == {"arena", "weights", "macs", "steps", "functions", "traffic"}
    assert (changes["arena"], changes["weights"], changes["functions"]) == (256, digits()["blob_bytes"], 0)
    assert (changes["macs"], changes["steps"]) == (digits()["macs"], len(digits()["steps"]))
    assert broken([whole, found], [limit_of("arena=0")]) == [
        "p: arena, bytes grew from 512 to 768 (+50.0 %), more than 0"
    ]
    with pytest.raises(UsageError, match="the other is not"):
        differences(both, digits())
    with pytest.raises(UsageError, match="no model in common"):
        differences(both, project(512, other=digits()))


@pytest.mark.parametrize("key", ["memory", "steps", "traffic"])
def test_damaged_reports(key: str, tmp_path: Path) -> None:
    report = digits()
    del report[key]
    top = {k: report[k] for k in ("schema", "mccompile")}
    whole = {**top, "project": {}, "models": {"digits": report}, "files": {}}
    for path in _saved(tmp_path, one=report, several=whole):
        with pytest.raises(UsageError, match=f"is damaged: it has no '{key}'"):
            read_report(path)
