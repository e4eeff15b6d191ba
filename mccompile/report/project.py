"""The report of several models that were compiled together, and what is said of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mccompile._version import version_text
from mccompile.codegen.blob import payload_offset
from mccompile.codegen.facts import ModelFacts
from mccompile.codegen.files import c_sources
from mccompile.codegen.pieces import Files
from mccompile.codegen.projects import Project
from mccompile.report.report import make_report
from mccompile.report.schema import SCHEMA
from mccompile.report.summary import MAX_LINES, row, size_text
from mccompile.search.state import Compilation


def project_report(p: Project, compilations: Sequence[Compilation], files: Files) -> dict[str, Any]:
    """What the models share, and the report of each by name."""
    assert p.library is not None
    reports = {}
    for c, m in zip(compilations, p.models, strict=True):
        reports[m.name] = make_report(c, {}) | {"sources": c_sources(m, p.library)}
    called = sum(len(m.kernels) for m in p.models)
    arenas = [r["memory"]["arena_bytes"] for r in reports.values()]
    shared = sum(max(a.bytes for _, a in s.members) for s in p.shared)
    return {
        "schema": SCHEMA,
        "mccompile": version_text(),
        "project": {
            "name": p.name,
            "kernels": len(p.library.kernels),
            "kernels_unshared": called,
            "share_arena": bool(p.shared),
            "arena_bytes": shared if p.shared else sum(arenas),
            "arena_bytes_unshared": sum(arenas),
        },
        "models": reports,
        "files": {name: len(data) for name, data in sorted(files.items()) if name != "report.json"},
    }


def choice_report(m: ModelFacts, compilations: Sequence[Compilation], files: Files) -> dict[str, Any]:
    """What a network for several targets needs, and the report of each of them by the name of its program; of each,
    where its blob lies in that of all."""
    arenas = [part.facts.arena_bytes for part in m.parts]
    kernels = sum(len(part.facts.kernels) for part in m.parts)
    reports = {}
    inside = payload_offset(bytes(m.blob))
    for c, part in zip(compilations, m.parts, strict=True):
        place = {"file": f"{m.name}.mcb", "offset": inside + part.place, "bytes": len(part.facts.blob)}
        reports[part.facts.name] = make_report(c, {}) | {"blob": place}
    return {
        "schema": SCHEMA,
        "mccompile": version_text(),
        "project": {
            "name": m.name,
            "kernels": kernels,
            "kernels_unshared": kernels,
            "share_arena": True,
            "arena_bytes": max(arenas),
            "arena_bytes_unshared": sum(arenas),
            "choice": [part.facts.name for part in m.parts],
            "blob_bytes": len(m.blob),
        },
        "models": reports,
        "files": {name: len(data) for name, data in sorted(files.items()) if name != "report.json"},
    }


def project_summary(report: Mapping[str, Any], out: str) -> str:
    """The summary of a project in folder ``out``: at most `MAX_LINES` lines."""
    facts, models = report["project"], report["models"]
    first = next(iter(models.values()))
    chosen = "choice" in facts
    what = f"one of {len(models)} targets" if chosen else f"{len(models)} models for {first['target']['name']}"
    lines = [f"{facts['name']}: {what}, -{first['options']['opt_level']}"]
    for name, r in models.items():
        weights, arena = size_text(r["weights_bytes"]), size_text(r["memory"]["arena_bytes"])
        macs = "" if r["macs"] is None else f"{r['macs']:,} MACs, "
        lines += row("target" if chosen else "model", f"{name}: {macs}weights {weights}, arena {arena}")
    room = MAX_LINES - 8
    if len(lines) > room:
        lines = [*lines[:room], "  model           ... and more, see report.json"]
    together = "one after the other in one arena" if facts["share_arena"] else "each in its own arena"
    together = "as large as for the target that needs most" if chosen else together
    lines += row("arena (RAM)", f"{size_text(facts['arena_bytes'])}, {together}")
    saved = facts["kernels_unshared"] - facts["kernels"]
    fewer = "" if chosen else f", {saved} fewer than in separate builds"
    lines += row("kernels", f"{facts['kernels']} C functions{fewer}")
    if chosen:
        lines += row("weights", f"{size_text(facts['blob_bytes'])} in {facts['name']}.mcb, for all targets")
    notes = [f"note: {name}: {note}" for name, r in models.items() for note in r["notes"]]
    lines += row("files", f"{out}: {' '.join([*report['files'], 'report.json'])}", 3)
    return "\n".join(lines + notes[: MAX_LINES - len(lines)])
