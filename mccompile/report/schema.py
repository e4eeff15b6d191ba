"""What report.json looks like, as a JSON Schema that is shipped beside this file.

``SCHEMA`` grows by one when a field goes, or means something else; fields may be added to a version. A program that
reads reports looks at ``schema`` first, and leaves alone what it does not know.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mccompile.ir.errors import UsageError

SCHEMA = 1
"""The version, in each report as ``schema``."""

FILE = Path(__file__).with_name("report.schema.json")


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of reports."""
    loaded: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return loaded


def read_report(path: Path) -> dict[str, Any]:
    """A report from a file. UsageError where it is none, or one of another version."""
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as e:
        raise UsageError(f"there is no file '{path}'") from e
    except (OSError, ValueError) as e:
        raise UsageError(f"'{path}' cannot be read as JSON: {e}", hint="name a report.json") from e
    if not isinstance(report, dict) or not {"model", "models"} & report.keys() or "mccompile" not in report:
        raise UsageError(f"'{path}' is no report of mccompile", hint="name a report.json")
    if report.get("schema") != SCHEMA:
        said = report.get("schema", "older than 1")
        raise UsageError(
            f"'{path}' is a report of version {said}, this is for version {SCHEMA}",
            hint="compile the model anew",
        )
    return report
