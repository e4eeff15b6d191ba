"""ONNX's backend suite: a sample in `make test`, all of it in `make test-slow` (`make conformance`)."""

from __future__ import annotations

import functools
import unittest
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.backend.test import BackendTest

import mccompile.backend
from mccompile.ir.errors import CompileError, UsageError
from tests._cache import FOLDER
from tests.support.compose.run import Setting
from tests.support.conformance import __main__ as command
from tests.support.conformance.cases import LONG, SuiteCase, load_suite, sample
from tests.support.conformance.judge import BROKEN, CONSTANTS, OK, REFUSED, WRONG, Verdict, examine, worse
from tests.support.conformance.views import KINDS, behind
from tests.support.conformance.written import read_exceptions

SETTING = Setting("generic", "gcc", ("-O1",))
SAMPLE, PARTS, SHARDS = 200, 4, 16
BATCH = 24
"""Cases behind views that one call of the C compiler builds."""
_NO_VIEW = ("is not supported", "nothing says how large", "depends on Y_count")
"""What is said of types that nothing but conversions read, and of inputs that must be constants; of results that are
counted, and no output whose shape the file states."""


def _verify(cases: Sequence[SuiteCase]) -> None:
    """No case does worse than it is listed; what is not listed is right as it is. Better is fine: `make conformance`
    writes the list anew."""
    found = worse(examine(cases, SETTING), read_exceptions())
    assert not found, "\n".join(f"{v.name}: {v.kind}: {v.why}" for v in found)


@pytest.mark.thorough
@pytest.mark.parametrize("part", range(PARTS))
def test_a_sample_of_the_suite(part: int) -> None:
    _verify(sample(SAMPLE, FOLDER)[part::PARTS])


def _verify_behind_views(cases: Sequence[SuiteCase], kind: str, target: str) -> None:
    """Cases that are right as they are are so behind a view, too; what no view can be made of is refused."""
    plain = [c for c in cases if c.name not in read_exceptions() and c.operator not in LONG]
    made = [case for c in plain if (case := behind(c, kind)) is not None]
    assert made
    for begin in range(0, len(made), BATCH):
        found = examine(made[begin : begin + BATCH], replace(SETTING, target=target))
        bad = [v for v in found if v.kind in (WRONG, BROKEN) or (v.kind == REFUSED and not _no_view(v))]
        assert not bad, "\n".join(f"{v.name}: {v.kind}: {v.why}" for v in bad)


def _no_view(v: Verdict) -> bool:
    return any(reason in v.why for reason in _NO_VIEW)


@pytest.mark.thorough
@pytest.mark.parametrize("target", ["generic", "native"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_of_the_suite_behind_views(kind: str, target: str) -> None:
    _verify_behind_views(sample(SAMPLE, FOLDER)[KINDS.index(kind) :: len(KINDS)], kind, target)


@pytest.mark.parametrize(
    ("kinds", "options", "code", "written"),
    [
        ((OK, WRONG), (), 0, True),  # as known
        ((OK, OK), (), 0, True),  # better
        ((CONSTANTS, WRONG), (), 1, False),
        ((REFUSED, WRONG), (), 1, False),
        ((WRONG, WRONG), (), 1, False),
        ((OK, BROKEN), (), 1, False),
        ((REFUSED, WRONG), ("--accept",), 0, True),
        ((OK, OK), ("--only", "test_a"), 0, False),
    ],
)
def test_a_case_that_does_worse_than_is_known_ends_the_run(
    kinds: tuple[str, str],
    options: Sequence[str],
    code: int,
    written: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lists: list[Sequence[Verdict]] = []
    verdicts = [Verdict(name, kind, "a reason") for name, kind in zip(("test_a", "test_b"), kinds, strict=True)]
    for name, stub in {
        "load_suite": list,
        "run": lambda *_: verdicts,
        "read_exceptions": lambda: {"test_b": WRONG},
        "write_exceptions": lists.append,
        "write_document": lambda *_: None,
    }.items():
        monkeypatch.setattr(command, name, stub)
    assert command.main(["--write", *options]) == code
    assert lists == [verdicts] * written
    named = capsys.readouterr().out
    assert (f"test_a: {kinds[0]}: a reason" in named) == (kinds[0] != OK)
    assert (f"test_b: {kinds[1]}: a reason" in named) == (kinds[1] == BROKEN)


@functools.cache
def _suite() -> list[SuiteCase]:
    return load_suite()


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
def test_the_whole_suite(shard: int) -> None:
    _verify(_suite()[shard::SHARDS])


@pytest.mark.slow
@pytest.mark.parametrize("target", ["generic", "native"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_whole_suite_behind_views(kind: str, target: str) -> None:
    _verify_behind_views([c for c in _suite() if c.suite in ("node", "simple")], kind, target)


@pytest.mark.slow
def test_exceptions_are_of_the_suite() -> None:
    assert read_exceptions().keys() <= {c.name for c in _suite()}


@pytest.mark.slow
def test_the_official_runner_drives_the_backend() -> None:
    runner = BackendTest(mccompile.backend.CompiledBackend, __name__)
    runner.include("test_(add|relu|lstm_defaults|maxpool_2d_pads|sequence_model3|operator_conv|Linear)_c")
    results = unittest.TestResult()
    runner.test_suite.run(results)
    assert not results.errors + results.failures
    assert results.testsRun - len(results.skipped) >= 4


def _model(shape: Sequence[int | str]) -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


@pytest.mark.thorough
def test_open_extents_are_those_of_the_inputs() -> None:
    rep = mccompile.backend.prepare(_model(["n", 2]), target="generic")
    for n in (3, 1, 3):
        x = np.linspace(-1, 1, 2 * n, dtype=np.float32).reshape(n, 2)
        (y,) = rep.run([x])
        np.testing.assert_array_equal(y, np.maximum(x, 0))


@pytest.mark.thorough
def test_nodes_and_devices() -> None:
    a = np.array([[1.5, -2], [3, 4]], np.float32)
    node = helper.make_node("Sub", ["a", "b"], ["c"])
    (c,) = mccompile.backend.run_node(node, [a, a.T], target="generic")
    np.testing.assert_array_equal(c, a - a.T)
    assert mccompile.backend.supports_device("CPU")
    assert not mccompile.backend.supports_device("CUDA")
    with pytest.raises(UsageError, match="CUDA"):
        mccompile.backend.prepare(_model([1]), "CUDA")


def test_what_is_refused_says_why() -> None:
    node = helper.make_node("NoSuchOperator", ["a"], ["b"])
    graph = helper.make_graph([node], "g", _model([1]).graph.input, [onnx.ValueInfoProto(name="b")])
    with pytest.raises(CompileError):
        mccompile.backend.prepare(helper.make_model(graph))
