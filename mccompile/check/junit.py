"""Checks as the XML of JUnit, which CI servers show: a suite for each model, a case for each run.

    <testsuites><testsuite name="net.onnx" tests="3" failures="1" errors="0">
      <testcase classname="net.onnx" name="random inputs, seed 0"/> ...
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from typing import Any

from mccompile._dataclass import dataclass
from mccompile.check.result import CheckResult
from mccompile.ir.errors import CompileError

NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Outcome:
    """What became of the check of a model: a result, or the error for which there is none."""

    model: str
    result: CheckResult | None
    error: CompileError | None = None

    @property
    def ok(self) -> bool:
        return self.result is not None and self.result.ok

    def to_json(self) -> dict[str, Any]:
        """Plain data: that of the result, or the error."""
        if self.result is not None:
            return self.result.to_json()
        assert self.error is not None
        return {"model": self.model, "ok": False, "error": self.error.to_json()}


def junit_text(found: Sequence[Outcome]) -> str:
    """The XML document of some checks."""
    root = ET.Element("testsuites")
    for one in found:
        cases = list(_cases(one))
        counts = {kind: sum(case.find(kind) is not None for case in cases) for kind in ("failure", "error")}
        suite = ET.SubElement(
            root, "testsuite", name=_clean(one.model), tests=str(len(cases)), failures=str(counts["failure"]),
            errors=str(counts["error"]),
        )  # fmt: skip
        suite.extend(cases)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _cases(one: Outcome) -> Iterator[ET.Element]:
    """The cases of a model: its runs, and whatever else can go wrong."""
    result = one.result
    if result is None:
        assert one.error is not None
        yield _case(one, "compile", "error", str(one.error), one.error.code)
        return
    for run in result.runs:
        failed = not run.ok and not result.explains(run)
        yield _case(one, run.label, "failure" if failed else "", "\n".join(run.lines()))
    yield _case(one, "memory and warnings", "failure" if result.faults else "", "\n".join(result.faults))
    if result.trace is not None:
        failed = not result.trace.ok and not result.explained
        yield _case(one, "layers", "failure" if failed else "", "\n".join(result.lines()))
    if result.precision is not None:
        lines = result.precision.lines(result.judge)
        yield _case(one, "error of fewer bits", "" if result.precision.ok else "failure", "\n".join(lines))
    elif result.ties is not None:
        yield _case(one, "ties of quantised layers", "" if result.ties.ok else "failure", result.ties.text())


def _case(one: Outcome, name: str, kind: str, text: str, type_: str = "check") -> ET.Element:
    case = ET.Element("testcase", classname=_clean(one.model), name=_clean(name))
    if kind:
        lines = text.splitlines() or [""]
        ET.SubElement(case, kind, message=_clean(lines[0]), type=type_).text = _clean(text)
    return case


def _clean(text: str) -> str:
    """A text without the characters that XML has not."""
    return NOT_IN_XML.sub("?", text)
