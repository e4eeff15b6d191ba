"""Passes on kernel IR written as text: every part of the .mcir files beside this one is a test.

The form is told in `tests.support.mcir`. Weights get random elements. The module after the passes and their remarks
are checked against the part's CHECK lines; it must mean the same as before, and the planner must find a sound place
for all of it.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from mccompile.ir.files import text_of
from mccompile.ir.kernel import KernelModule
from mccompile.ir.kernel_parse import parse_module
from mccompile.kernel_passes.pipeline import KERNEL_PIPELINES, Improved, improve, kernel_passes, pipeline
from mccompile.kernels.registry import params_of
from mccompile.lower.evaluate import evaluate
from mccompile.ops.registry import lookup
from mccompile.plan.plan import plan
from mccompile.targets.target import resolve
from tests.support.draw import SeededDraw
from tests.support.graphs import difference
from tests.support.mcir import KINDS, REASON, Part, misfit, read_parts

PARTS = read_parts(Path(__file__).parent)
NOTHING_TO_REFUSE = ("join-copies", "offer-overlaps", "share-code")
"""What these do they do everywhere: a miss is a module that stays as it is."""


def _parsed(part: Part) -> KernelModule:
    module = parse_module(part.text, lookup, params_of, {}, str(part.path))
    draw = SeededDraw(2)
    for b in module.buffers:
        if b.space == "blob":
            b.data = draw.array(b.type.shape, b.type.dtype.name, -1, 1)
    return module


def _improved(module: KernelModule, part: Part) -> Improved:
    return improve(module, part.names, resolve(module.target), threads=2)


@pytest.mark.parametrize("part", PARTS, ids=lambda p: f"{p.path.stem}:{p.title}")
def test_passes_do_what_the_text_says(part: Part) -> None:
    module = _parsed(part)
    draw = SeededDraw(1)
    inputs = {b.name: draw.array(b.type.shape, b.type.dtype.name, -2) for b in module.role("input")}
    want = evaluate(module, inputs, wide=True)
    assert all(np.isfinite(a).all() for a in want.values()), "something is read before it is written"
    records = _improved(module, part).records
    text = text_of(module) + "".join(f"// remark: {line}\n" for r in records for line in r.remarks)
    why = misfit(part.text, text)
    assert not why, f"{why}\n{text}"
    assert difference(want, evaluate(module, inputs, wide=True)) < 1e-14
    plan(module)


@pytest.mark.parametrize("name", sorted(kernel_passes()))
def test_a_pass_has_a_hit_a_miss_and_a_trap(name: str) -> None:
    """A hit is one of the pass itself; a miss gives its reason, or leaves the module as it is."""
    own = [p for p in PARTS if p.path.stem == name.replace("-", "_")]
    assert {p.kind for p in own} == set(KINDS)
    for part in own:
        changes = sum(r.changes for r in _improved(_parsed(part), part).records if r.name == name)
        assert changes or part.kind != "hit", part.title
        if part.kind == "miss" and name in NOTHING_TO_REFUSE:
            assert not changes, part.title
        elif part.kind == "miss":
            assert re.search(REASON, part.text), part.title


def test_every_pass_runs_at_some_level() -> None:
    levels = [pipeline(level, threads) for level in KERNEL_PIPELINES for threads in (1, 2)]
    assert {name for names in levels for name in names} == set(kernel_passes())
