"""The page: a report, with what was measured, as one file of HTML that needs nothing else.

Everything that is drawn is drawn here, so that the page shows and prints without scripts; a little JavaScript adds
tips, sorting and a closer look at a part of the steps. The same report gives the same bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from mccompile._dataclass import dataclass
from mccompile.report.page.budget import Bar, budget
from mccompile.report.page.environment import environment
from mccompile.report.page.errors import Errors, errors
from mccompile.report.page.flow import Flow, flow
from mccompile.report.page.memory_map import MemoryMap, memory_maps
from mccompile.report.page.roofline import Roofline, roofline
from mccompile.report.page.rows import Cost, Refusals, Row, cost_of, rows
from mccompile.report.page.text import count, nbytes, seconds
from mccompile.report.summary import rate_text

Report = Mapping[str, Any]

COLOURS = 9
"""Kernels with a colour of their own; all others share one more."""
SEEN = 0.001
"""The least part of the cost that has an entry of its own in the legend."""
MOST_ROWS = 2000
"""Steps in the table: of more, the dearest."""
MOST_WEIGHTS = 12


@dataclass(frozen=True)
class Tile:
    """A number at the top of the page."""

    name: str
    value: str
    note: str
    state: str = ""


@dataclass(frozen=True)
class Table:
    """The steps that the table shows, and which of its columns have something in them."""

    rows: tuple[Row, ...]
    left_out: int
    columns: frozenset[str]


@dataclass(frozen=True)
class ModelPage:
    """What the page shows of one model."""

    report: Report
    tiles: tuple[Tile, ...]
    bars: tuple[Bar, ...]
    maps: tuple[MemoryMap, ...]
    cost: Cost
    colours: Mapping[str, int]
    legend: tuple[tuple[str, int, float], ...]
    table: Table
    refusals: tuple[Refusals, ...]
    roofline: Roofline | None
    flow: Flow
    errors: Errors | None
    weights: tuple[Mapping[str, Any], ...]


def page(report: Report) -> str:
    """The page of a report, or of a project's, which has a part for each model."""
    models = report["models"].values() if "models" in report else [report]
    shown = [_model(r) for r in models]
    first = shown[0].report
    title = report["project"]["name"] if "project" in report else first["model"]["name"]
    return environment().get_template("page.html.j2").render(
        report=report, title=title, models=shown, project=report.get("project")
    )


_ABSENT: Report = {"code": None, "code_note": "", "bench": None, "check": None, "limits": {}}
"""What a report has only if it was asked for."""


def _model(report: Report) -> ModelPage:
    report = {**_ABSENT, **report}
    found, refusals = rows(report)
    cost = cost_of(found)
    colours = _colours(found, cost)
    return ModelPage(
        report, tuple(_tiles(report)), tuple(budget(report)), tuple(memory_maps(report)), cost, colours,
        _legend(found, cost, colours), _table(found, cost), tuple(refusals), roofline(report, found),
        flow(report, found, cost), errors(report),
        tuple(sorted(report["weights"], key=lambda w: (-w["bytes"], w["offset"]))[:MOST_WEIGHTS]),
    )  # fmt: skip


def _table(found: Sequence[Row], cost: Cost) -> Table:
    kept = sorted(found, key=lambda r: -cost.values[r.step])[:MOST_ROWS]
    kept.sort(key=lambda r: r.step)
    has = {
        "us": any(r.us is not None for r in found),
        "instructions": any(r.instructions is not None for r in found),
        "estimate": any(r.choice and r.choice.cycles for r in found),
        "error": any(r.error for r in found),
        "code": any(r.code for r in found),
        "stack": any(r.stack is not None for r in found),
        "turns": any(r.turns > 1 for r in found),
        "why": any(r.choice for r in found),
        "macs": any(r.macs for r in found),
    }
    return Table(tuple(kept), len(found) - len(kept), frozenset(name for name, some in has.items() if some))


def _colours(found: Sequence[Row], cost: Cost) -> dict[str, int]:
    """The colour of each kernel: the dearest first."""
    totals: Counter[str] = Counter()
    for r in found:
        totals[r.kernel] += 0
        totals[r.kernel] += cost.values[r.step]  # type: ignore[assignment]  # a counter of any numbers
    ordered = sorted(totals, key=lambda kernel: (-totals[kernel], kernel))
    return {kernel: min(i, COLOURS) for i, kernel in enumerate(ordered)}


def _legend(
    found: Sequence[Row], cost: Cost, colours: Mapping[str, int]
) -> tuple[tuple[str, int, float], ...]:
    """Name, colour and share of each kernel with a colour of its own that takes a part one can see, and of all others
    together."""
    shares: dict[str, float] = {}
    for r in found:
        shares[r.kernel] = shares.get(r.kernel, 0.0) + cost.share(r.step)
    named = [name for name, share in shares.items() if colours[name] < COLOURS and share >= SEEN]
    listed = [(name, colours[name], shares.pop(name)) for name in named]
    if shares:
        listed.append(("others", COLOURS, sum(shares.values())))
    return tuple(sorted(listed, key=lambda entry: (entry[1], entry[0])))


def _tiles(report: Report) -> list[Tile]:
    memory, bench, check, code = report["memory"], report.get("bench"), report.get("check"), report.get("code")
    measured = (check or {}).get("measured")
    tiles = []
    if report["macs"] is not None:
        tiles.append(Tile("Multiply-adds", count(report["macs"]), f"{report['macs']:,}"))
    tiles.append(Tile("Weights", nbytes(report["weights_bytes"]), f"the blob has {report['blob_bytes']:,} bytes"))
    gap = memory["gap_percent"]
    bound = "the lower bound" if gap == 0 else f"{gap} % above the lower bound"
    if memory["naive_bytes"] > memory["peak_bytes"]:
        bound += f"; {nbytes(memory['naive_bytes'])} without reuse"
    tiles.append(Tile("Arena", nbytes(memory["arena_bytes"]), bound))
    if code:
        tiles.append(Tile("Code", nbytes(code["text_bytes"]), f"and {nbytes(code['runtime_bytes'])} of runtime"))
        if code["stack"]:
            own = f"{report['model']['name']}_"
            path = [(p["function"].removeprefix(own), p["bytes"]) for p in code["stack"]["path"]]
            deepest = " + ".join(f"{name} {size}" for name, size in path if size)
            tiles.append(Tile("Stack", nbytes(code["stack"]["bytes"]), f"at most: {deepest}"))
    if bench:
        time = bench["ms"]
        spread = f"quartiles {seconds(time['quartile1'] * 1e3)} to {seconds(time['quartile3'] * 1e3)}"
        tiles.append(Tile("Time of a run", seconds(time["median"] * 1e3), spread))
        if report["macs"] and bench["gflops"] is not None:
            tiles.append(Tile("Rate", f"{bench['gflops']:.1f} GFLOP/s", f"{bench['of_peak']:.0%} of one core's peak"))
        for other in bench["against"]:
            slower = f"{other['ratio']:.2f} × as long"
            tiles.append(Tile(other["engine"], seconds(other["ms"]["median"] * 1e3), slower))
    elif report["estimate"] and not measured:
        own = report["estimate"]
        tiles.append(Tile("Cycles", count(own["cycles"]), f"by estimate, {rate_text(own)}"))
    if measured and measured["instructions"]:
        cycles = f"about {count(measured['cycles'])} cycles, " if measured["cycles"] else ""
        tiles.append(Tile("Instructions", count(measured["instructions"]), f"{cycles}emulated {measured['board']}"))
    if check:
        ok = check["ok"]
        tiles.append(Tile("Check", "ok" if ok else "failed", f"against {check['judge']}", "good" if ok else "bad"))
    return tiles
