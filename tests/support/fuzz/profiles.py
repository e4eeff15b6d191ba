"""What is drawn: a mixture of forms by name, and the network of a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tests.support.compose import operands as on
from tests.support.compose.stages import any_stage
from tests.support.fuzz.family import Family, FamilyComposer
from tests.support.fuzz.forms.cells import cell
from tests.support.fuzz.forms.control import among_windows, branch, counted, listed, loop, nested, scan
from tests.support.fuzz.forms.dequantised import dequantised
from tests.support.fuzz.forms.file_only import random_numbers, zipped
from tests.support.fuzz.forms.floats import given, narrow, through, widened
from tests.support.fuzz.forms.fused import fused
from tests.support.fuzz.forms.integers import integers
from tests.support.fuzz.forms.kept_state import growing, passed, running, window
from tests.support.fuzz.forms.layers import addressed, regrouped, same_windows, shared_heads, summed, wholes
from tests.support.fuzz.forms.lengths import lengths
from tests.support.fuzz.forms.newest import any_operator, asked, contributed, gated, turned
from tests.support.fuzz.forms.products import heads, product
from tests.support.fuzz.forms.quantised import quantised
from tests.support.fuzz.forms.shapes import along, expanded, reshaped, resized, sliced, stretched
from tests.support.fuzz.forms.stacked import stacked
from tests.support.fuzz.forms.text import text

Form = Callable[[FamilyComposer], list[str]]

MOST_STEPS = 36
TRIES = 40


@dataclass(frozen=True)
class Profile:
    """How often forms are drawn, whether an extent may be one of the run, whether floats are bfloat16; ``wide``:
    extents fill the widest vectors, and only vector targets of this machine are drawn."""

    forms: Mapping[Form, int]
    extents: bool = True
    halves: bool = False
    wide: bool = False

    @property
    def choices(self) -> list[Form]:
        return [form for form, times in self.forms.items() for _ in range(times)]


PROFILES: Mapping[str, Profile] = {
    "extents": Profile(
        {
            reshaped: 3, expanded: 3, sliced: 3, along: 3, product: 3, heads: 2, resized: 3, stretched: 3,
            same_windows: 2, any_stage: 5,
        }
    ),
    "lengths": Profile(
        {lengths: 8, stretched: 3, sliced: 1, reshaped: 1, expanded: 1, along: 1, branch: 1, any_stage: 1}
    ),
    "control": Profile(
        {
            branch: 3, loop: 3, counted: 3, scan: 3, nested: 1, listed: 1, among_windows: 1, along: 1, sliced: 1,
            reshaped: 1, product: 1, any_stage: 2,
        }
    ),
    "cells": Profile({cell: 4, along: 1, any_stage: 1, quantised: 1, product: 1}, extents=False),
    "state": Profile({window: 3, running: 2, passed: 1, cell: 1, along: 1, product: 1, quantised: 1}),
    "caches": Profile({growing: 4, along: 1, product: 1, running: 1, sliced: 1, heads: 1}),
    "quant": Profile({quantised: 6, dequantised: 3, along: 1, sliced: 1, resized: 1, through: 1, any_stage: 1}),
    "ints": Profile({integers: 8, along: 1, sliced: 1}),
    "floats": Profile(
        {
            given("float16"): 2, given("float64"): 1, widened: 2, narrow: 2, through: 3, along: 2, sliced: 1,
            reshaped: 1, expanded: 1, product: 2,
        }
    ),
    "halves": Profile(
        {along: 3, sliced: 2, reshaped: 2, expanded: 1, product: 3, heads: 1, any_stage: 2}, halves=True
    ),
    "newest": Profile(
        {any_operator: 4, contributed: 5, fused: 3, asked: 2, turned: 1, gated: 1, along: 1, product: 1, sliced: 1}
    ),
    "layers": Profile(
        {
            wholes: 4, summed: 2, stacked: 3, shared_heads: 2, addressed: 2, regrouped: 1, same_windows: 2,
            along: 1, sliced: 1, product: 1, any_stage: 1,
        }
    ),
    "text": Profile({text: 6, along: 1}, extents=False),
    "all": Profile(
        {
            branch: 1, loop: 1, counted: 1, scan: 1, listed: 1, cell: 1, reshaped: 1, expanded: 1, sliced: 2,
            along: 2, product: 1, heads: 1, resized: 1, lengths: 1, quantised: 2, dequantised: 1, integers: 2,
            random_numbers: 1, zipped: 1,
            any_stage: 3,
        }
    ),
    "wide": Profile(
        {
            product: 5, stacked: 1, heads: 1, along: 2, sliced: 1, reshaped: 1, expanded: 1, resized: 1, integers: 1,
            cell: 1, among_windows: 1, given("float16"): 1, any_stage: 4,
        },
        wide=True,
    ),
    "wide_quant": Profile({quantised: 6, dequantised: 3, along: 1, sliced: 1, any_stage: 1}, wide=True),
}  # fmt: skip

def family(seed: int, profile: str, extents: Sequence[int] = (), two: bool = False) -> Family:
    """The network of a seed: the same network and the same data on every machine. Refused if nothing came of it."""
    drawn = PROFILES[profile]
    c = FamilyComposer(seed, extents if drawn.extents else (), two, drawn.halves, drawn.wide)
    wanted, forms = c.d.int(2, 16), PROFILES[profile].choices
    for _ in range(TRIES):
        if len(c.net.steps) >= wanted:
            break
        with c.stage():
            made = c.d.choice(forms)(c)
            if c.chance(25):
                made = [on.mapped(c, v) if c.array(v).dtype.kind in "fiub" else v for v in made]
            if len(c.net.steps) > MOST_STEPS + wanted:
                on.reject("too many nodes")
            c.pool += [v for v in made if v not in c.pool]
    made = [n for n in c.pool if n not in c.net.inputs]
    if not made:
        on.reject("no node")
    chosen = [made[-1], *(c.d.choice(made) for _ in range(c.d.int(0, 3)))]
    if c.chance(6):
        chosen += c.apply("Identity", [c.d.choice(c.pool)])
    kept = [out for out in c.net.states if out in c.net.values]
    maps = [name for name, node in c.net.told.items() if node.op_type == "ZipMap" and name in c.net.values]
    c.net.outputs = list(dict.fromkeys([*chosen, *kept, *maps]))
    c.net.prune()
    return c.net
