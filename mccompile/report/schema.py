"""What report.json looks like, as a JSON Schema that is shipped beside this file.

``SCHEMA`` grows by one when a field goes, or means something else; fields may be added to a version. A program that
reads reports looks at ``schema`` first, and leaves alone what it does not know.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mccompile._files import parsed_json
from mccompile.ir.errors import UsageError

SCHEMA = 1
"""The version, in each report as ``schema``."""

_OF_MODEL = (
    "mccompile", "model", "target", "options", "macs", "memory", "blob_bytes", "kernels", "traffic", "steps", "onnx",
    "estimate", "choices",
)  # fmt: skip
_OF_PROJECT = ("project", "models")

FILE = Path(__file__).with_name("report.schema.json")


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of reports."""
    loaded: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return loaded


def read_report(path: Path) -> dict[str, Any]:
    """A report from a file. UsageError where it is none, or one of another version."""
    try:
        report = parsed_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError as e:
        raise UsageError(f"there is no file '{path}'", code="no-file") from e
    except (OSError, ValueError) as e:
        raise UsageError(f"'{path}' cannot be read as JSON: {e}", hint="name a report.json") from e
    if not isinstance(report, dict) or not {"model", "models"} & report.keys() or "mccompile" not in report:
        raise UsageError(f"'{path}' is no report of mccompile", hint="name a report.json")
    require_version(report, path)
    if gone := _missing(report):
        raise UsageError(f"'{path}' is damaged: it has no {gone[0]!r}", hint="compile the model anew")
    return report


def require_version(report: Mapping[str, Any], path: Path) -> None:
    """UsageError where a model's report, from a file, is not of this version."""
    if report.get("schema") != SCHEMA:
        said = report.get("schema", "older than 1")
        raise UsageError(
            f"'{path}' is a report of version {said}, this is for version {SCHEMA}",
            hint="compile the model anew",
        )


def _missing(report: Mapping[str, Any]) -> list[str]:
    """What every report of a model, and of a project, has had in this version, and this one has not."""
    if "models" not in report:
        return [key for key in _OF_MODEL if key not in report]
    models = report["models"].values() if isinstance(report["models"], dict) else ()
    found = [key for key in _OF_PROJECT if key not in report]
    return [*found, *(key for m in models for key in _missing(m))] if models else ["models"]
