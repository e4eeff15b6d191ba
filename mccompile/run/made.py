"""What is in a folder that mccompile has made: a report, or several of which one is meant, C files and a blob."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mccompile._files import parsed_json
from mccompile.ir.errors import UsageError
from mccompile.report.schema import require_version
from mccompile.run.memory import Array
from mccompile.targets.target import runs_here


def read_report(out_dir: Path, model: str = "") -> dict[str, Any]:
    """report.json of a folder made by mccompile; of a project's, the part of one model.

    UsageError if there is none, if it is damaged or of another version, and if it is not clear which ``model`` is
    meant.
    """
    path = out_dir / "report.json"
    if not path.is_file():
        raise UsageError(f"{out_dir} holds no report.json", hint="give a folder made by mccompile")
    try:
        report = parsed_json(path.read_text(encoding="utf-8"))
    except ValueError as e:
        raise UsageError(f"{path} is damaged: {e}", hint="compile the model again") from e
    if isinstance(report, dict) and isinstance(report.get("models"), dict):
        report = _model_report(report["models"], out_dir, model or _choice(report))
    elif model and isinstance(report, dict) and report.get("model", {}).get("name", model) != model:
        raise UsageError(f"{out_dir} holds no model {model!r}", hint=f"it holds {report['model']['name']}")
    wanted = ("model", "target", "memory", "inputs", "outputs", "state")
    if not isinstance(report, dict) or any(key not in report for key in wanted):
        raise UsageError(f"{path} is no report of this mccompile", hint="compile the model again")
    require_version(report, path)
    return report


def _choice(report: Mapping[str, Any]) -> str:
    """The last program of a network for several targets that this machine runs; "" where there is no choice."""
    programs = report.get("project", {}).get("choice", ())
    return next((name for name in reversed(programs) if runs_here(report["models"][name]["target"]["name"])), "")


def _model_report(reports: dict[str, Any], out_dir: Path, model: str) -> Any:
    hint = f"the models there are {', '.join(reports)}"
    if not model and len(reports) != 1:
        raise UsageError(f"{out_dir} holds several models: which one?", hint=hint)
    name = model or next(iter(reports))
    if name not in reports:
        raise UsageError(f"{out_dir} holds no model {name!r}", hint=hint)
    return reports[name]


def blob_of(out_dir: Path, report: Mapping[str, Any], allocate: Callable[[int], Array]) -> Array:
    """The blob of a network: a file, or a part of the file that holds those of all targets.

    Args:
        allocate: gives the memory for so many bytes. They are read into it at once: weights may be most of memory.
    """
    place = report.get("blob")
    if place is None:
        path = out_dir / f"{report['model']['name']}.mcb"
        if not path.exists() and any("/" in file for file in report.get("files", ())):
            raise UsageError(f"{out_dir} is a package of C files, whose weights are among them",
                             hint="what is to be loaded is compiled without --package")  # fmt: skip
        place = {"file": path.name, "offset": 0, "bytes": None}
    path = out_dir / place["file"]
    try:
        with path.open("rb") as file:
            nbytes = os.fstat(file.fileno()).st_size if place["bytes"] is None else place["bytes"]
            blob = allocate(nbytes)
            file.seek(place["offset"])
            return blob[: file.readinto(blob.data)]
    except OSError as e:
        raise UsageError(f"{path} cannot be read: {e.strerror}", hint="compile the model again") from e


def present(out_dir: Path, names: list[str]) -> list[Path]:
    """The paths of files; UsageError if one is missing."""
    paths = [out_dir / name for name in names]
    for path in paths:
        if not path.is_file():
            raise UsageError(f"{path} is missing", hint="compile the model again")
    return paths
