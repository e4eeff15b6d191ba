"""The report with what is not known when the compiler ends: limits of the device, code, times, errors.

report.json depends on model, options and version alone. What a C compiler says and what was measured come beside it,
under keys of their own, in the files that ``--report`` names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from mccompile.ir.errors import CompileError, UsageError
from mccompile.ir.whole import written_whole
from mccompile.report.page.memory_picture import memory_picture
from mccompile.report.page.page import page

SUFFIXES = (".html", ".json", ".svg")
_OF_BENCH = ("machine", "rounds", "ms", "gflops", "of_peak", "of_pairs", "against", "layers")
"""What of `bench --json` the report has not already."""

Report = Mapping[str, Any]


def with_figures(
    report: Report,
    *,
    limits: Mapping[str, int | None] | None = None,
    code: Mapping[str, Any] | None = None,
    code_note: str = "",
    bench: Mapping[str, Any] | None = None,
    check: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A model's report and what else is known of it.

    Args:
        limits: bytes of ``ram`` and ``flash``.
        code: of `mccompile.run.code`; ``code_note`` says why it is not known.
        bench, check: as their ``--json`` prints them.
    """
    found = dict(report)
    if limits is not None:
        found["limits"] = dict(limits)
    if code is not None or code_note:
        found |= {"code": code, "code_note": code_note}
    if bench is not None:
        found["bench"] = {key: bench[key] for key in _OF_BENCH if key in bench}
    if check is not None:
        found["check"] = {key: value for key, value in check.items() if key not in ("model", "target", "stack")}
    return found


class Result(Protocol):
    """What `check` and `bench` answer."""

    @property
    def report(self) -> Mapping[str, Any]: ...
    @property
    def code(self) -> Any: ...
    @property
    def code_note(self) -> str: ...
    def to_json(self) -> dict[str, Any]: ...


def write_results(paths: tuple[Path, ...], **found: Result) -> None:
    """`write_reports` of what ``check``, ``bench`` or both found of one compilation, if there are paths."""
    if paths:
        first = next(iter(found.values()))
        code = first.code.to_json() if first.code else None
        figures = {kind: result.to_json() for kind, result in found.items()}
        write_reports(paths, with_figures(first.report, code=code, code_note=first.code_note, **figures))


def require_suffixes(paths: tuple[Path, ...]) -> None:
    """UsageError for a file that is neither a page, nor data, nor a picture."""
    for path in paths:
        if path.suffix not in SUFFIXES:
            raise UsageError(f"the name of '{path}' has to end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")


def write_reports(paths: tuple[Path, ...], report: Report) -> None:
    """Write a report as pages, as data, and its memory map as pictures, by the names of the files.

    CompileError where one cannot be written, UsageError for the picture of a project.
    """
    for path in paths:
        text = _text(path.suffix, report)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with written_whole(path) as staged:
                staged.write_text(text, encoding="utf-8", errors="replace")  # names of files may be no text
        except OSError as e:
            raise CompileError(f"cannot write {path}: {e.strerror or e}") from e


def _text(suffix: str, report: Report) -> str:
    if suffix == ".html":
        return page(report)
    if suffix == ".json":
        return json.dumps(report, indent=1) + "\n"
    if "models" in report:
        raise UsageError("a picture shows the memory of one model", hint="write a page: --report OUT.html")
    return memory_picture(report)
