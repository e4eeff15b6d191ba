"""The error of each layer that `check --per-layer` compared, as a part of what is allowed, on a logarithmic axis.

Worked example: errors of 2e-7 where 1e-5 is allowed are 0.02; a layer at 1 or above is wrong. What is equal lies on
the floor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mccompile._dataclass import dataclass
from mccompile.report.page.memory_map import Mark, step_marks
from mccompile.report.page.rows import ratio_of
from mccompile.report.page.text import tip

WIDTH, HEIGHT = 980, 150
LOW, HIGH = -6, 1
"""Powers of ten at the floor and at the top."""
MOST = 2500
"""Layers that are drawn: of more, the worst."""


@dataclass(frozen=True)
class ErrorDot:
    step: int
    x: float
    y: float
    ok: bool
    tip: str


@dataclass(frozen=True)
class Errors:
    """The picture, in pixels; ``limit`` is the height of what is allowed."""

    width: int
    height: int
    dots: tuple[ErrorDot, ...]
    rows: tuple[Mark, ...]
    columns: tuple[Mark, ...]
    limit: float
    wrong: int
    compared: int


def errors(report: Mapping[str, Any]) -> Errors | None:
    """The picture of a checked network; None without layers."""
    layers = ((report.get("check") or {}).get("trace") or {}).get("layers", ())
    if not layers:
        return None
    steps = max(len(report["steps"]), 1)
    worst = sorted(layers, key=lambda layer: -ratio_of(layer))[:MOST]
    dots = sorted((_dot(layer, steps) for layer in worst), key=lambda d: d.step)
    marks = tuple(Mark(_height(n) / HEIGHT, "1" if n == 0 else f"1e{n}") for n in range(LOW, HIGH))
    wrong = sum(not layer["ok"] for layer in layers)
    return Errors(WIDTH, HEIGHT, tuple(dots), marks, step_marks(steps), _height(0), wrong, len(layers))


def _height(power: float) -> float:
    return HEIGHT * (HIGH - power) / (HIGH - LOW)


def _dot(layer: Mapping[str, Any], steps: int) -> ErrorDot:
    ratio = ratio_of(layer)
    power = math.log10(ratio) if 0 < ratio < math.inf else (HIGH if ratio else LOW)
    text = layer["problem"] or (f"error {_short(layer['error'])}, allowed {_short(layer['allowed'])}")
    if not layer["ok"] and not layer["problem"]:
        text += f"; {layer['differing']:,} of {layer['count']:,} elements differ"
    lines = [f"step {layer['step']}: {layer['kernel']}", tip(f"{layer['name']} {layer['type']}"), text]
    x = (layer["step"] + 0.5) / steps * WIDTH
    return ErrorDot(layer["step"], x, _height(min(max(power, LOW), HIGH)), layer["ok"], "\n".join(lines))


def _short(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.3g}"
