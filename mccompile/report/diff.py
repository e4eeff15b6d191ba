"""What grew and what shrank between two reports: bytes, steps, kernels, times; as text, markdown or data.

Worked example: a network whose arena takes 4,096 bytes instead of 4,336, and whose second convolution has another
kernel:

                     before     after      change
    arena, bytes      4,336     4,096    -240  -5.5 %
    conv2             conv.channels -> conv.planes, 133,000 -> 91,000 cycles

Steps are matched by the ONNX nodes that they do. Figures that only one of the reports has are not compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mccompile._dataclass import dataclass
from mccompile.ir.errors import UsageError
from mccompile.report.page.rows import cost_of, rows
from mccompile.report.page.text import names

Report = Mapping[str, Any]

MOST_STEPS = 10
"""Steps that are named, those whose cost changed most."""
NOTABLE = 0.02
"""A step's share of the whole cost that has to change for it to be named."""
NOISY = ("time",)
"""What is measured, and never the same twice."""


@dataclass(frozen=True)
class Figure:
    """A number of both reports: ``key`` is its word in options and data."""

    key: str
    label: str
    before: float
    after: float

    @property
    def change(self) -> float:
        return self.after - self.before

    @property
    def part(self) -> float:
        """The change as a part of what was; infinite where there was nothing."""
        if not self.before:
            return float("inf") if self.after else 0.0
        return self.change / self.before

    @property
    def percent(self) -> str:
        return "new" if self.part == float("inf") else f"{100 * self.part:+.1f} %"


@dataclass(frozen=True)
class StepChange:
    """The steps for some ONNX nodes: their kernels and cost, before and after; "" and 0 where there are none."""

    onnx: tuple[str, ...]
    kernels: tuple[str, str]
    costs: tuple[float, float]


@dataclass(frozen=True)
class Difference:
    """Two reports of one model.

    Attributes:
        name: of the model.
        facts: what else differs: file, target, level, compiler; text before and after.
        figures: all that both reports have.
        kernels: steps by kernel where their number changed.
        steps: those that changed most; ``measure`` says by what, ``left_out`` how many there are beside them.
    """

    name: str
    facts: tuple[tuple[str, str, str], ...]
    figures: tuple[Figure, ...]
    kernels: tuple[Figure, ...]
    steps: tuple[StepChange, ...]
    measure: str
    left_out: int

    @property
    def same(self) -> bool:
        counted = [f for f in self.figures if f.key not in NOISY]
        return not (self.facts or self.kernels or self.steps) and not any(f.change for f in counted)


@dataclass(frozen=True)
class Limit:
    """How much a figure may grow: by a part of what it was, or by an amount."""

    key: str
    most: float
    is_part: bool

    def broken(self, f: Figure) -> bool:
        return f.change > 0 and (f.part if self.is_part else f.change) > self.most

    @property
    def text(self) -> str:
        return f"{100 * self.most:g} %" if self.is_part else f"{self.most:,g}"


def differences(before: Report, after: Report) -> list[Difference]:
    """One for each model that both reports have, and in front one for a project as a whole, where that changed: what
    its models need together, and which they are.

    UsageError where one report is of a project and the other is not, or they have no model in common.
    """
    if ("models" in before) != ("models" in after):
        raise UsageError("one is the report of a project, the other is not")
    if "models" not in before:
        return [_difference(before, after)]
    both = [name for name in before["models"] if name in after["models"]]
    if not both:
        raise UsageError("the two projects have no model in common")
    whole = _of_project(before, after)
    found = [_difference(before["models"][name], after["models"][name]) for name in both]
    return found if whole.same else [whole, *found]


def _of_project(before: Report, after: Report) -> Difference:
    old_models, new_models = (", ".join(sorted(report["models"])) for report in (before, after))
    old, new = (_sums(report) for report in (before, after))
    labels = {key: label for key, label, _ in _figures(next(iter(after["models"].values())))}
    figures = [Figure(key, labels[key], old[key], new[key]) for key in KEYS if key in old and key in new]
    said = (("models", old_models, new_models),) if old_models != new_models else ()
    return Difference(after["project"]["name"], said, tuple(figures), (), (), "", 0)


def _sums(report: Report) -> dict[str, float]:
    """What the models of a project take together; of a network for several targets, of which one runs, no work."""
    project, models = report["project"], list(report["models"].values())
    sums: dict[str, float] = {
        "arena": project["arena_bytes"],
        "weights": project.get("blob_bytes", sum(m["blob_bytes"] for m in models)),
        "functions": project["kernels"],
    }
    if "choice" in project:
        return sums
    each = [{key: figure for key, _, figure in _figures(m)} for m in models]
    for key in ("macs", "steps", "traffic", "cycles"):
        known = [figures[key] for figures in each if figures[key] is not None]
        if len(known) == len(each):
            sums[key] = sum(f for f in known if f is not None)
    return sums


def _difference(before: Report, after: Report) -> Difference:
    figures = [
        Figure(key, label, old, new)
        for (key, label, old), (_, _, new) in zip(_figures(before), _figures(after), strict=True)
        if old is not None and new is not None
    ]
    changed, measure = _steps(before, after)
    told = _facts(after)
    facts = [
        (name, old, told[name])
        for name, old in _facts(before).items()
        if old and told.get(name, "") not in ("", old)
    ]
    return Difference(
        after["model"]["name"], tuple(facts), tuple(figures), tuple(_kernels(before, after)),
        tuple(changed[:MOST_STEPS]), measure, max(len(changed) - MOST_STEPS, 0),
    )  # fmt: skip


def _facts(r: Report) -> dict[str, str]:
    code = r.get("code") or {}
    stated = {"threads": 1, **r["options"]}  # one is not
    options = {f"--{key.replace('_', '-')}": _said(value) for key, value in stated.items() if key != "opt_level"}
    return {
        "mccompile": r["mccompile"],
        "model": f"{r['model']['file']} {r['model']['sha256'][:12]}",
        "target": r["target"]["name"],
        "level": r["options"]["opt_level"],
        **options,
        "flags": " ".join(r["target"]["c_flags"]),
        "compiler": code.get("version", ""),
        "machine": ((r.get("bench") or {}).get("machine") or {}).get("cpu", ""),
    }


def _said(value: object) -> str:
    """An option as text: a number or word, yes or no, and of forms by layer each."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return " ".join(f"{name}={form}" for name, form in value.items()) or "none"
    return str(value)


def _figures(r: Report) -> list[tuple[str, str, float | None]]:
    """Every figure of a report; None where it has none."""
    code, bench, check = (r.get(key) or {} for key in ("code", "bench", "check"))
    stack, measured = code.get("stack") or {}, check.get("measured") or {}
    text = code["text_bytes"] + code["constants_bytes"] if code else None
    return [
        ("arena", "arena, bytes", r["memory"]["arena_bytes"]),
        ("weights", "weights, bytes", r["blob_bytes"]),
        ("code", "code, bytes", text),
        ("runtime", "runtime, bytes", code.get("runtime_bytes")),
        ("stack", "stack, bytes", stack.get("bytes")),
        ("macs", "multiply-adds", r["macs"]),
        ("steps", "steps", len(r["steps"])),
        ("functions", "C functions", sum(r["kernels"].values())),
        ("traffic", "bytes moved", r["traffic"]["read_bytes"] + r["traffic"]["written_bytes"]),
        ("cycles", "cycles, estimated", (r["estimate"] or {}).get("cycles")),
        ("instructions", "instructions", measured.get("instructions")),
        ("time", "time, us", round(bench["ms"]["median"] * 1e3, 3) if bench else None),
    ]


KEYS = ("arena", "weights", "code", "runtime", "stack", "macs", "steps", "functions", "traffic", "cycles",
        "instructions", "time")  # fmt: skip
"""Those of `_figures`, in order."""


def _kernels(before: Report, after: Report) -> Iterator[Figure]:
    counts = [_count(r) for r in (before, after)]
    for kernel in sorted({*counts[0], *counts[1]}):
        old, new = (c.get(kernel, 0) for c in counts)
        if old != new:
            yield Figure(kernel, kernel, old, new)


def _count(r: Report) -> dict[str, int]:
    found: dict[str, int] = {}
    for step in r["steps"]:
        found[step["kernel"]] = found.get(step["kernel"], 0) + 1
    return found


def _steps(before: Report, after: Report) -> tuple[list[StepChange], str]:
    """The steps with other kernels, or whose cost changed notably; by the same measure in both, the largest first."""
    measures = [_costs(r) for r in (before, after)]
    same = measures[0][0] == measures[1][0]
    measure = measures[0][0] if same else ""
    old, new = (found for _, found in measures)
    whole = max(sum(cost for _, cost in old.values()), 1e-30)
    changed = []
    for onnx in dict.fromkeys([*old, *new]):
        (k0, c0), (k1, c1) = old.get(onnx, ("", 0.0)), new.get(onnx, ("", 0.0))
        if k0 != k1 or (same and abs(c1 - c0) > NOTABLE * whole):
            changed.append(StepChange(onnx, (k0, k1), (c0, c1) if same else (0.0, 0.0)))
    changed.sort(key=lambda s: (-abs(s.costs[1] - s.costs[0]), s.onnx))
    return changed, measure


def _costs(r: Report) -> tuple[str, dict[tuple[str, ...], tuple[str, float]]]:
    """What steps are measured by, and by ONNX nodes the kernels and the cost of the steps that do them."""
    own, _ = rows(r)
    cost = cost_of(own)
    found: dict[tuple[str, ...], tuple[str, float]] = {}
    for row in own:
        if not row.onnx:
            continue
        kernels, taken = found.get(row.onnx, ("", 0.0))
        found[row.onnx] = (f"{kernels} + {row.kernel}" if kernels else row.kernel, taken + cost.values[row.step])
    return cost.label, found


# -- limits --------------------------------------------------------------------------------------------------------
def limit_of(text: str) -> Limit:
    """``arena=2%``, ``code=512``, ``steps=0``: how much may be added. UsageError for anything else."""
    key, _, most = text.partition("=")
    is_part = most.endswith("%")
    try:
        number = float(most.removesuffix("%"))
    except ValueError:
        number = -1.0
    if key not in KEYS or not 0 <= number < float("inf"):
        raise UsageError(f"'{text}' has to be like arena=2% or code=512", hint=f"known are {', '.join(KEYS)}")
    return Limit(key, number / 100 if is_part else number, is_part)


def broken(found: Sequence[Difference], limits: Sequence[Limit]) -> list[str]:
    """A sentence for each limit that a model breaks. UsageError for one on a figure that no report has."""
    known = {f.key for d in found for f in d.figures}
    for limit in limits:
        if limit.key not in known:
            raise UsageError(f"the two reports do not both have a figure for '{limit.key}'", hint=_HINTS)
    said = []
    for d in found:
        for limit in limits:
            said += [
                f"{d.name}: {f.label} grew from {_number(f.before)} to {_number(f.after)} ({f.percent}), more than "
                f"{limit.text}"
                for f in d.figures
                if f.key == limit.key and limit.broken(f)
            ]
    return said


_HINTS = "code and stack are in what --report OUT.json of compile writes, times in that of bench"


# -- text ----------------------------------------------------------------------------------------------------------
def text_lines(found: Sequence[Difference]) -> list[str]:
    """For a terminal."""
    lines: list[str] = []
    for d in found:
        lines.append(f"{d.name}: no difference" if d.same else f"{d.name}:")
        lines += [f"  {name:18} {old} -> {new}" for name, old, new in d.facts]
        if d.same:
            continue
        lines.append(f"  {'':18} {'before':>14} {'after':>14} {'change':>22}")
        lines += [f"  {f.label:18} {_cells(f)}" for f in d.figures]
        if d.kernels:
            lines.append("  steps by kernel")
            lines += [f"    {f.label:16} {_cells(f)}" for f in d.kernels]
        if d.steps:
            lines.append(f"  steps that changed{f', by {d.measure}' if d.measure else ''}")
            lines += [f"    {_step(s)}" for s in d.steps]
            lines += [f"    and {d.left_out} more"] if d.left_out else []
    return lines


def _cells(f: Figure) -> str:
    change = "" if not f.change else f"{_number(f.change, '+')} {f.percent:>8}"
    return f"{_number(f.before):>14} {_number(f.after):>14} {change:>22}".rstrip()


def _step(s: StepChange) -> str:
    old, new = s.kernels
    kernels = f"{old or 'no step'} -> {new or 'no step'}" if old != new else old
    cost = f", {_number(s.costs[0])} -> {_number(s.costs[1])}" if any(s.costs) else ""
    return f"{names(s.onnx, 60)}: {kernels}{cost}"


def _number(value: float, sign: str = "") -> str:
    return f"{value:{sign},.0f}" if value == int(value) else f"{value:{sign},.3f}"


def markdown(found: Sequence[Difference]) -> str:
    """For a comment on a change: what changed in a table, the steps folded below."""
    parts = []
    for d in found:
        parts.append(f"### {_escaped(d.name)}: " + ("no difference" if d.same else "what changed"))
        rows = [f"| {name} | {_escaped(old)} | {_escaped(new)} | |" for name, old, new in d.facts]
        rows += [_markdown_row(f) for f in d.figures if f.change]
        rows += [_markdown_row(f, f"steps of `{f.label}`") for f in d.kernels]
        if rows:
            parts.append("\n".join(["| | before | after | change |", "|---|---:|---:|---:|", *rows]))
        equal = [f.label for f in d.figures if not f.change]
        if equal and not d.same:
            parts.append(f"The same: {', '.join(equal)}.")
        if d.steps:
            head = f"{len(d.steps) + d.left_out} steps changed{f', by {d.measure}' if d.measure else ''}"
            steps = "\n".join(f"- {_escaped(_step(s))}" for s in d.steps)
            more = f"\n- and {d.left_out} more" if d.left_out else ""
            parts.append(f"<details><summary>{head}</summary>\n\n{steps}{more}\n\n</details>")
    return "\n\n".join(parts) + "\n"


def _markdown_row(f: Figure, label: str = "") -> str:
    mark = " ▲" if f.change > 0 else " ▼"
    change = f"{_number(f.change, '+')} ({f.percent}){mark}"
    return f"| {label or f.label} | {_number(f.before)} | {_number(f.after)} | {change} |"


def _escaped(text: str) -> str:
    """A name in markdown: nothing in it is markup."""
    for mark in "\\`*_[]<|":
        text = text.replace(mark, f"\\{mark}")
    return text.replace("\n", " ")


def to_json(found: Sequence[Difference]) -> list[dict[str, Any]]:
    """Plain data for `json.dumps`."""
    return [
        {
            "model": d.name,
            "same": d.same,
            "facts": [{"name": name, "before": old, "after": new} for name, old, new in d.facts],
            "figures": [_figure_json(f) for f in d.figures],
            "kernels": [_figure_json(f) for f in d.kernels],
            "measure": d.measure,
            "steps": [
                {"onnx": list(s.onnx), "kernels": list(s.kernels), "costs": list(s.costs)} for s in d.steps
            ],
            "steps_left_out": d.left_out,
        }
        for d in found
    ]


def _figure_json(f: Figure) -> dict[str, Any]:
    percent = None if f.part == float("inf") else round(100 * f.part, 3)
    return {"key": f.key, "before": f.before, "after": f.after, "change": f.change, "percent": percent}
