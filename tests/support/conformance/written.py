"""What is written of a run: the table of docs/conformance.md, and the cases that are not right as they are."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import onnx

from tests.support.compose.run import Setting
from tests.support.conformance.cases import SUITES, SuiteCase
from tests.support.conformance.judge import BROKEN, KINDS, OK, REFUSED, Verdict
from tests.support.marked import with_part

ROOT = Path(__file__).resolve().parents[3]
DOCUMENT = ROOT / "docs" / "conformance.md"
EXCEPTIONS = ROOT / "tests" / "conformance" / "exceptions.txt"


def write_exceptions(verdicts: Sequence[Verdict]) -> None:
    """A line for each case that is not right as it is: its name and its kind."""
    lines = sorted(f"{v.name}: {v.kind}" for v in verdicts if v.kind != OK)
    EXCEPTIONS.write_text("\n".join(lines) + "\n")


def read_exceptions() -> dict[str, str]:
    """The kind of each case that is not right as it is, by name."""
    found = {}
    for line in EXCEPTIONS.read_text().splitlines():
        name, kind = line.split(": ", 1)
        found[name] = kind
    return found


def write_document(cases: Sequence[SuiteCase], verdicts: Sequence[Verdict], setting: Setting) -> None:
    """Put the tables between their marks."""
    DOCUMENT.write_text(with_part(DOCUMENT.read_text(), "conformance", _tables(cases, verdicts, setting)))


def write_sanitized(verdicts: Sequence[Verdict], setting: Setting) -> None:
    """Put what the sanitizers found between its own marks."""
    counts = Counter(v.kind for v in verdicts)
    run, ended = len(verdicts) - counts[REFUSED], counts[BROKEN]
    text = (
        f"`{setting.compiler} {' '.join(setting.flags)}`, target `{setting.target}`: {len(verdicts)} cases.\n"
        f"Of these {run} run, and {ended or 'none'} ended by a sanitizer.\n"
    )
    DOCUMENT.write_text(with_part(DOCUMENT.read_text(), "sanitized", text))


def _tables(cases: Sequence[SuiteCase], verdicts: Sequence[Verdict], setting: Setting) -> str:
    by_suite: dict[str, list[Verdict]] = {suite: [] for suite in SUITES}
    by_operator: dict[str, list[Verdict]] = defaultdict(list)
    for c, v in zip(cases, verdicts, strict=True):
        by_suite[c.suite].append(v)
        if c.operator:
            by_operator[c.operator].append(v)
    head = f"onnx {onnx.__version__}, target `{setting.target}`: {len(cases)} cases."
    rows = {**by_suite, "all": list(verdicts)}
    operators = {name: by_operator[name] for name in sorted(by_operator)}
    whole = [name for name, found in operators.items() if all(v.kind == OK for v in found)]
    others = {name: found for name, found in operators.items() if name not in whole}
    return "\n".join([
        head, "", *_table("suite", rows, False), "", "All cases are right as they are, of these operators: "
        + ", ".join(f"{name} {len(operators[name])}" for name in whole) + ".", "",
        *_table("operator", others, True), "",
    ])  # fmt: skip


def _table(title: str, rows: Mapping[str, Sequence[Verdict]], reasons: bool) -> Iterator[str]:
    last = " why" if reasons else ""
    yield f"| {title} | cases | {' | '.join(KINDS)} |{f'{last} |' if reasons else ''}"
    yield "|---|" + "---:|" * (len(KINDS) + 1) + ("---|" if reasons else "")
    for name, found in rows.items():
        counts = Counter(v.kind for v in found)
        cells = [str(counts[kind] or "") for kind in KINDS]
        why = f" {_reasons(found)} |" if reasons else ""
        yield f"| {name} | {len(found)} | {' | '.join(cells)} |{why}"


def _reasons(verdicts: Sequence[Verdict]) -> str:
    """Why the cases of an operator are refused, or need constants, the most frequent first."""
    counts = Counter(_reason(v.why) for v in verdicts if v.kind != OK)
    return "; ".join(f"{reason} ({n})" if len(counts) > 1 else reason for reason, n in counts.most_common(3))


def _reason(why: str) -> str:
    """The rule of an error without what belongs to the case: names of values, positions of nodes."""
    lines = [line.strip() for line in why.splitlines() if line.strip()] or [""]
    text = lines[1] if lines[0].endswith("cannot be compiled:") and len(lines) > 1 else lines[0]
    text = re.sub(r"^(\S+\.onnx: )?(node -?\d+ '[^']*'( \w+\(.*?\))?: )?", "", text)
    text = re.sub(r"'[^']*'|%\S+", "…", text)
    text = re.sub(r"\[[\d, ]*\]", "[…]", text)
    text = re.sub(r": \d+ nodes, (?:first )?node .*", "", text)
    return text.replace("|", "/")[:110]
