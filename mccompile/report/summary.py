"""What is said after a build, in at most 25 lines, from report.json alone."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from mccompile.ir.dims import bound
from mccompile.ir.names import first_of, own_names, own_part

MAX_LINES = 25
WIDTH = 110
INDENT = 18
MAX_NOTES = 5
MAX_ALIVE = 6
MAX_SLOWEST = 3
MAX_NAME = 80
MAX_OF_SEVERAL = 40

Report = Mapping[str, Any]


def size_text(count: int) -> str:
    """Bytes as a person reads them: ``98,624 bytes (96.3 KiB)``."""
    if count < 1024:
        return f"{count} bytes"
    if count < 1024**2:
        return f"{count:,} bytes ({count / 1024:.1f} KiB)"
    return f"{count:,} bytes ({count / 1024**2:.2f} MiB)"


def row(label: str, text: str, lines: int = 2) -> list[str]:
    """A labelled row of at most ``lines`` lines."""
    wrapped = textwrap.wrap(
        text, WIDTH - INDENT, break_long_words=True, break_on_hyphens=False, max_lines=lines, placeholder=" ..."
    )
    head = [f"  {label:<{INDENT - 2}}{wrapped[0] if wrapped else ''}".rstrip()]
    return head + [" " * INDENT + w for w in wrapped[1:]]


def peak_text(report: Report) -> str:
    """The step at which most of the arena is alive, and what is alive then, larger ones first."""
    memory = report["memory"]
    alive = sorted(memory["alive_at_peak"], key=lambda b: (-b["bytes"], b["name"]))
    shown = first_of([f"{own_part(b['name'], MAX_OF_SEVERAL)} {b['bytes']:,}" for b in alive], MAX_ALIVE)
    used = memory["used_at_peak_bytes"]
    if sum(b["bytes"] for b in alive) > used:
        shown += f", over one another in {used:,}"
    at = memory["peak_step"]
    if not report["steps"]:
        return shown
    step = report["steps"][at]
    onnx = f" of {own_names(step['onnx'], MAX_NAME)}" if step["onnx"] else ""
    return f"step {at}, {step['kernel']}{onnx}; alive: {shown}"


def _arena(report: Report) -> list[str]:
    memory = report["memory"]
    bound, gap = memory["lower_bound_bytes"], memory["gap_percent"]
    against = "the lower bound" if gap == 0 else f"{gap} % above the lower bound of {bound:,}"
    naive = f"; {memory['naive_bytes']:,} without reuse" if memory["naive_bytes"] > memory["peak_bytes"] else ""
    rows = row("arena (RAM)", f"{size_text(memory['arena_bytes'])}, {against}{naive}")
    for r in memory.get("regions", ()):
        count = f"{r['tensors']} tensor{'s' * (r['tensors'] != 1)}"
        rows += row(f"  {r['name']}", f"{size_text(r['arena_bytes'])} of {r['limit_bytes']:,}, {count}", 1)
    if memory["scratch_bytes"]:
        rows += row("  scratch", f"at most {size_text(memory['scratch_bytes'])} of it at once")
    return rows + row("  peak", peak_text(report), 3)


def _kernels(report: Report) -> list[str]:
    calls = Counter(step["kernel"] for step in report["steps"])
    distinct = report["kernels"]
    parts = ", ".join(f"{name} x{n}" for name, n in sorted(distinct.items(), key=lambda k: (-k[1], k[0])))
    head = f"{sum(distinct.values())} C functions for {sum(calls.values())} steps: "
    return row("kernels", head + parts, 3) + _speed(report) + _copies(report)


def _speed(report: Report) -> list[str]:
    """What the kernels should take, and the nodes that take most of it."""
    found = report["estimate"]
    if found is None:
        return []
    slowest = sorted(report["choices"].items(), key=lambda c: -c[1]["cycles"])[:MAX_SLOWEST]
    shares = ", ".join(f"{own_part(n, MAX_OF_SEVERAL)} {c['cycles'] / found['cycles']:.0%}" for n, c in slowest)
    how = f", {found['tuned']} of {len(report['choices'])} nodes measured" if found["tuned"] else " by estimate"
    rate = rate_text(found)
    return row("  speed", f"{found['cycles']:,} cycles{how}, {rate}; most: {shares}", 2)


def rate_text(found: Report) -> str:
    """How fast that is: of the roof that the core has for floats, or bytes are multiplied, in so many a cycle."""
    if found["of_peak"] is None:
        return f"{found['flop_per_cycle'] / 2:.2f} MACs in each"
    return f"{found['of_peak']:.0%} of the core's roof"


def _copies(report: Report) -> list[str]:
    """What became of copies, in a row, if there were any."""
    copies = report["copies"]
    if not copies or not copies["before"]:
        return []
    left = f"{copies['after']} left ({copies['bytes_after']:,} bytes)" if copies["after"] else "none left"
    return row("  copies", f"{copies['before']} of {copies['bytes_before']:,} bytes before forwarding, {left}", 1)


def summary(report: Report, out: str) -> str:
    """The summary of a build into folder ``out``: at most `MAX_LINES` lines, but for many memories."""
    model, target = report["model"], report["target"]
    lines = [f"{model['name']}: {model['file']} for {target['name']}, -{report['options']['opt_level']}"]
    if report["macs"] is not None:
        lines += row("MACs", f"{report['macs']:,}")
    if report["quantised"] is not None:
        lines += _quantised(report)
    lines += row("weights (flash)", f"{size_text(report['weights_bytes'])}; the blob has {report['blob_bytes']:,}")
    lines += _arena(report)
    lines += _kernels(report)
    for label in ("inputs", "outputs"):
        shown = [p | {"shape": p.get("extents", p["shape"])} for p in report[label]]
        ports = [f"{p['name']} {p['dtype']}[{','.join(map(str, p['shape']))}]" for p in shown]
        lines += row(label, ", ".join(ports))
    if report["state"]:
        kept = ", ".join(f"{p['output']} as {p['name']}" for p in report["state"])
        held = size_text(report["memory"]["state_bytes"])
        lines += row("state", f"{held} of the arena, kept from run to run: {kept}")
    if report.get("dims"):
        ranges = "; ".join(f"{d['name']} {d['range']}" for d in report["dims"])
        lines += row("extents", f"{ranges}; memory is for the largest")
    lines += row("files", f"{out}: {' '.join([*report['files'], 'report.json'])}", 3)
    notes = [f"note: {note}" for note in report["notes"]]
    room = MAX_LINES - len(lines)
    return "\n".join(lines + _first(notes, max(min(room, MAX_NOTES), 1)))


def _quantised(report: Report) -> list[str]:
    """How much of a quantised network is computed in floats."""
    found = report["quantised"]
    if not found["floats"]:
        return row("  quantised", whole_text(found), 1)
    dearest_first = sorted(found["floats"], key=lambda n: -bound(n["cost"]))
    names = ", ".join(own_names(n["onnx"], MAX_NAME) for n in dearest_first)
    share = f"{found['float_macs']:,} of the MACs and {len(found['floats'])} nodes in floats: "
    return row("  quantised", share + names, 2)


def whole_text(found: Report) -> str:
    """What is said of a network without nodes that compute floats."""
    some = f"; sums of {found['scaled']} are scaled in registers of floats" if found["scaled"] else ""
    return f"integers from end to end{some}"


def _first(lines: Sequence[str], room: int) -> list[str]:
    """As many lines as there is room for; the last one says how many were left out."""
    if len(lines) <= room:
        return [textwrap.shorten(line, WIDTH, placeholder=" ...") for line in lines]
    return [*_first(lines[: room - 1], room - 1), f"and {len(lines) - room + 1} more notes, see report.json"]


def pass_lines(report: Report, remarks: bool) -> list[str]:
    """What each pass did; with ``remarks`` also each thing it did, or did not do and why."""
    lines = ["passes:"]
    for p in report["passes"]:
        lines.append(f"  {p['name']}: {p['changes']} changes")
        if remarks:
            lines += [f"    {remark}" for remark in p["remarks"]]
    return lines
