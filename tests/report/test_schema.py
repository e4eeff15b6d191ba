"""The schema that is shipped: it is one, and each kind of report is what it says, with no field that it has not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import onnx
import pytest
from onnx import TensorProto, helper

import mccompile
from mccompile import driver, projects
from mccompile.driver import Options
from mccompile.importer.outline import outline
from mccompile.ir.errors import UsageError
from mccompile.onnxio import read_model
from mccompile.report.schema import SCHEMA, read_report, schema
from tests.cli.conftest import Run, run  # noqa: F401  # `run` is a fixture
from tests.report.reports import DIGITS, digits, full, repeated
from tests.support.small_models import write_model


def _strict(part: Any) -> Any:
    """The schema without room for fields that it does not name."""
    if isinstance(part, dict):
        closed = {"additionalProperties": False} if "properties" in part else {}
        return closed | {key: _strict(value) for key, value in part.items()}
    return [_strict(p) for p in part] if isinstance(part, list) else part


def validate(report: dict[str, Any]) -> None:
    kind = "project_report" if "models" in report else "model_report"
    strict = {"$defs": _strict(schema()["$defs"]), "$ref": f"#/$defs/{kind}"}
    found = list(jsonschema.Draft202012Validator(strict).iter_errors(json.loads(json.dumps(report))))
    assert not found, [(list(e.absolute_path), e.message[:200]) for e in found[:3]]


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    assert schema()["$id"] == f"urn:mccompile:report:{SCHEMA}"
    assert schema()["$defs"]["model_report"]["properties"]["schema"]["const"] == SCHEMA
    assert digits()["schema"] == SCHEMA


@pytest.mark.fast
def test_what_is_not_told_is_found() -> None:
    report = digits()
    report["steps"][0]["new"] = 1
    with pytest.raises(AssertionError, match="new"):
        validate(report)
    del report["steps"][0]["new"], report["steps"][0]["writes"]
    with pytest.raises(AssertionError, match="writes"):
        validate(report)


@pytest.mark.parametrize("target", ["generic", "x86-64-v3", "cortex-m4"])
def test_reports_of_targets(target: str) -> None:
    validate(digits(target))
    validate(full(digits(target)))


KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "regions": ("residual", {"memory": (("fast", 4096), ("slow", 65536))}),
    "caller": ("views", {"io": "caller", "keep_inputs": True}),
    "quick": ("concat", {"opt_level": "O0"}),
    "split": ("many_outputs", {"split_kernels": True, "opt_level": "Os"}),
    "halves": ("half", {"target": "x86-64-v3"}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_reports_of_options(kind: str, tmp_path: Path) -> None:
    name, options = KINDS[kind]
    given = {"target": "generic", **options}
    _, files = driver.compile_files(write_model(name, tmp_path), Options(**given))
    report = json.loads(files["report.json"])
    validate(report)
    assert ("regions" in report["memory"]) == (kind == "regions")


def test_reports_of_extents_and_state(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Concat", ["past", "x"], ["now"], axis=1),
        helper.make_node("ReduceMax", ["now"], ["top"], axes=[1], keepdims=1),
        helper.make_node("ArgMax", ["now"], ["best"], axis=1),
    ]
    graph = helper.make_graph(
        nodes, "grows", [value("past", TensorProto.FLOAT, [1, "P", 4]), value("x", TensorProto.FLOAT, [1, 1, 4])],
        [value("now", TensorProto.FLOAT, [1, "T", 4]), value("top", TensorProto.FLOAT, None),
         value("best", TensorProto.INT64, None)],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, tmp_path / "grows.onnx")
    options = Options(target="generic", dims={"P": "0..7"}, state={"now": "past"})
    _, files = driver.compile_files(tmp_path / "grows.onnx", options)
    report = json.loads(files["report.json"])
    validate(report)
    assert report["dims"]
    assert {t["role"] for t in report["memory"]["tensors"]} >= {"state"}


def test_reports_of_several_extents(tmp_path: Path) -> None:
    """The copies of a network for one extent each are nodes without operands."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "several", ports[:1], ports[1:])
    path = tmp_path / "several.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), path)
    made = driver.compile(path, tmp_path / "out", Options(target="generic", dims={"n": "1,4"}))
    assert made.report["dims"]
    validate(made.report)


def test_reports_of_projects(tmp_path: Path) -> None:
    models = [write_model(name, tmp_path) for name in ("residual", "views")]
    made = projects.compile_project(models, tmp_path / "out", Options(target="generic", project="both"))
    validate(made.report)


@pytest.mark.parametrize("command", ["compile", "check", "bench", "both"])
def test_reports_of_commands(command: str, tmp_path: Path, run: Run) -> None:  # noqa: F811
    """With what compiler, machine and reference really say."""
    target = tmp_path / "all.json"
    words = {
        "compile": ["compile", "-o", tmp_path / "out", "--flash", "1M"],
        "bench": ["bench", "--rounds", "1", "-q"],
        "check": ["check", "-q"],
        "both": ["bench", "--check", "--rounds", "1", "-q"],
    }
    done = run(*words[command], DIGITS, "--report", target)
    assert done.exit_code == 0, done.output
    report = json.loads(target.read_text())
    validate(report)
    assert report["code"]["text_bytes"] > 0
    assert report["code"]["stack"]["bytes"] > 0
    assert {f["name"] for f in report["code"]["functions"]} >= {"digits_run"}
    measured, checked = command in ("bench", "both"), command in ("check", "both")
    assert ("bench" in report, "check" in report) == (measured, checked)
    if measured:
        assert len(report["bench"]["layers"]) == len(report["steps"])
    if checked:
        assert report["check"]["trace"]["layers"]


def test_lives_are_those_of_the_program(tmp_path: Path) -> None:
    """The steps that read or write a tensor lie within its life, inputs from 0, outputs to the end."""
    values = outline(read_model(DIGITS).graph).values
    for keep in (False, True):
        made = mccompile.compile(DIGITS, tmp_path / "out", target="generic", keep_inputs=keep).report
        used: dict[str, list[int]] = {}
        for i, step in enumerate(made["steps"]):
            for name in [*step["reads"], *step["writes"]]:
                used.setdefault(name, []).append(i)
        last = len(made["steps"]) - 1
        for t in made["memory"]["tensors"]:
            first_used, last_used = min(used[t["name"]]), max(used[t["name"]])
            assert t["first_step"] == (0 if t["role"] == "input" else first_used)
            ends = t["role"] == "output" or (keep and t["role"] == "input")
            assert t["last_step"] == (last if ends else last_used)
            assert t["onnx"] == (t["name"] if t["name"] in values else None)


def test_what_is_no_report_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    old = '{"model": 1, "mccompile": "0"}'
    for text, what in (("{", "read as JSON"), ("[]", "no report"), (old, "older than 1")):
        path.write_text(text)
        with pytest.raises(UsageError, match=what):
            read_report(path)
    with pytest.raises(UsageError, match="no file"):
        read_report(tmp_path / "b.json")
    path.write_text(json.dumps({**repeated(digits(), 1), "schema": SCHEMA + 1}))
    with pytest.raises(UsageError, match=f"version {SCHEMA + 1}"):
        read_report(path)


def test_a_folder_of_another_version_is_not_loaded(tmp_path: Path) -> None:
    mccompile.compile(DIGITS, tmp_path / "out", target="generic")
    path = tmp_path / "out" / "report.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": SCHEMA + 1}))
    with pytest.raises(UsageError, match=f"version {SCHEMA + 1}"):
        mccompile.load(tmp_path / "out")
