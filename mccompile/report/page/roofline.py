"""The roofline: what each step does in a second, against what the core could for so many operations a byte.

Worked example: a core of 100 GFLOP/s that moves 50 GB/s has its ridge at 2 FLOP a byte. A step of 4 FLOP a byte at
80 GFLOP/s is right of it, under the flat roof, at four fifths; one of 0.5 at 20 is under the slope, which is at 25.

Both axes are logarithmic; whole powers of ten are marked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from mccompile._dataclass import dataclass
from mccompile.report.page.memory_map import Mark
from mccompile.report.page.rows import Row
from mccompile.report.page.text import names, seconds

WIDTH, HEIGHT = 620, 300
LEAST_RADIUS, MOST_RADIUS = 3.0, 13.0
MOST = 1500
"""Dots: of more steps, those that take longest."""


@dataclass(frozen=True)
class Dot:
    """A step; ``x`` and ``y`` in pixels from the upper left corner."""

    step: int
    kernel: str
    x: float
    y: float
    radius: float
    tip: str


@dataclass(frozen=True)
class Roof:
    """A limit of the machine: the points of its line, and its name, which stands at the last of them or the first."""

    points: tuple[tuple[float, float], ...]
    text: str
    x: float
    y: float
    angle: float


@dataclass(frozen=True)
class Roofline:
    """The picture, in pixels."""

    width: int
    height: int
    dots: tuple[Dot, ...]
    roofs: tuple[Roof, ...]
    columns: tuple[Mark, ...]
    rows: tuple[Mark, ...]
    bounds: tuple[tuple[str, float], ...]
    """What the time is bound by, and the part of it."""


def roofline(report: Mapping[str, Any], rows: Sequence[Row]) -> Roofline | None:
    """The roofline of a measured network; None without a measurement, or without multiply-adds."""
    bench = report.get("bench")
    points = [(r, 2 * r.macs / max(r.activations + r.weights, 1), r.gflops) for r in rows if r.macs and r.gflops]
    if not bench or not points:
        return None
    machine = bench["machine"]
    peak, near, far = machine["gflops"], machine["near_gb_per_s"], machine["far_gb_per_s"]
    xs = [x for _, x, _ in points]
    ys = [y for _, _, y in points if y]
    low_x, high_x = _span([*xs, peak / near, peak / far])
    low_y, high_y = _span([*ys, peak])

    def at(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - low_x) / (high_x - low_x)
        up = (math.log10(y) - low_y) / (high_y - low_y)
        return across * WIDTH, HEIGHT - up * HEIGHT

    longest = sorted(points, key=lambda p: -(p[0].share or 0.0))[:MOST]
    dots = [_dot(r, *at(x, y), x, y) for r, x, y in longest if y]
    dots.sort(key=lambda d: -d.radius)
    roofs = [_flat(peak, near, at, high_x, "GFLOP/s of floats")]
    if "pairs_per_ns" in machine and any(".integer" in r.kernel for r in rows):
        roofs.append(_flat(2 * machine["pairs_per_ns"], near, at, high_x, "G/s of bytes"))
    top = 10**high_y
    for rate, name in ((near, "near"), (far, "far")):
        left = max(10**low_x, 10**low_y / rate)
        right = min(peak / rate, top / rate)
        begin, end = at(left, left * rate), at(right, right * rate)
        angle = math.degrees(math.atan2(end[1] - begin[1], end[0] - begin[0]))
        roofs.append(Roof((begin, end), f"{rate:.0f} GB/s {name}", begin[0] + 6, begin[1] - 8, angle))
    columns = tuple(Mark((n - low_x) / (high_x - low_x), _power(n)) for n in _powers(low_x, high_x))
    marks = tuple(Mark(1 - (n - low_y) / (high_y - low_y), _power(n)) for n in _powers(low_y, high_y))
    return Roofline(WIDTH, HEIGHT, tuple(dots), tuple(roofs), columns, marks, _bounds(rows))


def _bounds(rows: Sequence[Row]) -> tuple[tuple[str, float], ...]:
    """The part of the time that each roof explains, the largest first."""
    shares: dict[str, float] = {}
    for r in rows:
        shares[r.bound] = shares.get(r.bound, 0.0) + (r.share or 0.0)
    return tuple(sorted(shares.items(), key=lambda b: -b[1]))


def _flat(peak: float, near: float, at: Any, high_x: float, what: str) -> Roof:
    begin, end = at(peak / near, peak), at(10**high_x, peak)
    return Roof((begin, end), f"{peak:.0f} {what}", end[0] - 6, end[1] - 6, 0.0)


def _dot(r: Row, x: float, y: float, intensity: float, gflops: float) -> Dot:
    share = r.share or 0.0
    text = [f"step {r.step}: {r.kernel}", names(r.onnx, 80)]
    text.append(f"{gflops:.1f} GFLOP/s, {(r.of_peak or 0):.0%} of the peak")
    text.append(f"{intensity:.2f} FLOP a byte, bound by {r.bound}")
    text.append(f"{seconds(r.us or 0)}, {share:.1%} of the time")
    radius = LEAST_RADIUS + (MOST_RADIUS - LEAST_RADIUS) * math.sqrt(share)
    return Dot(r.step, r.kernel, min(max(x, 0), WIDTH), min(max(y, 0), HEIGHT), radius, "\n".join(text))


def _span(values: Sequence[float]) -> tuple[float, float]:
    """The powers of ten between which some numbers are, with room around them.

    >>> [round(power, 2) for power in _span([1, 100])]
    [-0.2, 2.2]
    """
    return math.log10(min(values)) - 0.2, math.log10(max(values)) + 0.2


def _powers(low: float, high: float) -> range:
    """The whole powers of ten between two.

    >>> list(_powers(-0.2, 2.2))
    [0, 1, 2]
    """
    return range(math.ceil(low), math.floor(high) + 1)


def _power(n: int) -> str:
    return f"{10**n:,}" if n >= 0 else f"{10.0**n:.{-n}f}"
