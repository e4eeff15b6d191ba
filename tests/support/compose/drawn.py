"""The composition of a seed: the same network and the same data on every machine."""

from __future__ import annotations

import numpy as np

from tests.support.compose import operands as on
from tests.support.compose.network import Composer, Composition
from tests.support.compose.stages import any_stage

MOST_STEPS = 24
TRIES = 40


def composition(seed: int) -> Composition:
    """3 to 20 nodes or a few more, 1 to 4 outputs."""
    c = Composer(seed)
    wanted = c.d.int(3, 18)
    for _ in range(TRIES):
        if len(c.net.steps) >= wanted:
            break
        _add_stage(c)
    _choose_outputs(c)
    c.net.prune()
    return c.net


def _add_stage(c: Composer) -> None:
    with c.stage():
        made = any_stage(c)
        if c.chance(35):
            made = [on.mapped(c, v) if c.array(v).dtype.kind == "f" else v for v in made]
        if len(c.net.steps) > MOST_STEPS:
            on.reject("too many nodes")
        c.pool += [v for v in made if v not in c.pool]


def _choose_outputs(c: Composer) -> None:
    """The last value and up to three others; seldom what is known already, an input for one."""
    made = [n for n in c.pool if n not in c.net.inputs] or [on.mapped(c, c.pool[-1])]
    chosen = [made[-1], *(c.d.choice(made) for _ in range(c.d.int(0, 3)))]
    if c.chance(6):
        chosen += c.apply("Identity", [c.d.choice(c.pool)])
    c.net.outputs = list(dict.fromkeys(chosen))


def shuffled(net: Composition, seed: int) -> dict[str, np.ndarray]:
    """Other inputs: the same floats and booleans in another order; integers, which may be indices, as they are."""
    rng = np.random.default_rng(seed)
    inputs = {}
    for name, a in net.inputs.items():
        inputs[name] = rng.permutation(a.reshape(-1)).reshape(a.shape) if a.dtype.kind in "fb" else a
    return inputs
