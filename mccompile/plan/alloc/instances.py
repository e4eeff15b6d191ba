"""Readers of published allocation instances."""

from __future__ import annotations

import csv
from pathlib import Path

from mccompile.plan.alloc.problem import Interval, Problem


def read_minimalloc_csv(path: Path | str) -> Problem:
    """A google/minimalloc instance: columns id, lower, upper, size; life [lower, upper), alignment 1."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return Problem(
        tuple(Interval(row["id"], int(row["lower"]), int(row["upper"]), int(row["size"]), 1) for row in rows)
    )
