"""Networks of streams: what one run leaves is what the next begins with."""

from __future__ import annotations

import numpy as np

from tests.support.compose import operands as on
from tests.support.compose.definite import Refused
from tests.support.fuzz.family import MAIN, FamilyComposer
from tests.support.fuzz.forms.quantised import rounded


def _new(c: FamilyComposer, shape: tuple[int, ...]) -> str:
    """Of the pool where it has one that fits, else an input; mapped or not."""
    fits = [n for n in c.pool if c.array(n).shape == shape and c.array(n).dtype == np.float32]
    v = c.d.choice(fits) if fits and c.d.bool() else c.fresh(np.asarray(c.d.array(shape, "f32", -1, 1)))
    return on.mapped(c, v) if c.d.bool() else v


def _state(c: FamilyComposer, shape: tuple[int, ...]) -> str:
    if MAIN in shape:
        raise Refused("state has a fixed shape")
    return c.input(np.asarray(c.d.array(shape, "f32", -1, 1)))


def window(c: FamilyComposer) -> list[str]:
    """The last rows of a stream, shifted; what is made of them and the new ones."""
    batch, rows, width, new = c.d.int(1, 2), c.d.int(1, 6), c.d.choice([1, 3, 8]), c.d.choice([1, 1, 2])
    axis = c.d.choice([1, 2])
    shape = (batch, rows, width) if axis == 1 else (batch, width, rows)
    fresh = (batch, new, width) if axis == 1 else (batch, width, new)
    s = _state(c, shape)
    both = c.one("Concat", s, _new(c, fresh), axis=axis)
    if c.chance(25):
        both = rounded(c, both)[1]
    kept = c.one("Slice", both, c.ints(new), c.ints(on.END), c.ints(axis))
    c.net.states[kept] = s
    if axis == 2 and c.d.bool():
        weights = c.constant(np.asarray(c.d.array((c.d.choice([1, 4]), width, min(rows + new, 3)), "f32", -0.5, 0.5)))
        return c.apply("Conv", [both, weights])
    way = c.d.int(0, 2)
    if way == 0:
        return [c.one("ReduceSum", both, c.ints(axis), keepdims=0), kept]
    return [on.mapped(c, both)] if way == 1 else [both, kept]


def running(c: FamilyComposer) -> list[str]:
    """A state that moves towards what is new: read before and after it is written."""
    shape = c.d.choice([(1, 4), (2, 3), (1, 2, 5), (1,)])
    s = _state(c, shape)
    x = _new(c, shape)
    part = c.scalar(c.d.choice([0.5, 0.9, 1.0]), np.float32)
    moved = c.one("Add", c.one("Mul", s, part), c.one("Sub", x, on.mapped(c, s) if c.d.bool() else s))
    c.net.states[moved] = s
    made = c.one(c.d.choice(["Sub", "Mul", "Max"]), moved, s)
    return [made, moved]


def passed(c: FamilyComposer) -> list[str]:
    """Two states of which one becomes the other: delays."""
    shape = c.d.choice([(1, 4), (2, 3)])
    first, second = _state(c, shape), _state(c, shape)
    x = _new(c, shape)
    now, then = c.one("Identity", x), c.one("Identity", first)
    c.net.states |= {now: first, then: second}
    return [c.one("Add", c.one("Sub", x, first), c.one("Mul", second, x))]


def growing(c: FamilyComposer) -> list[str]:
    """A cache that is longer after each run: new rows behind those of the runs before."""
    if not c.net.others:
        raise Refused("no extent of the run")
    axis, rank = c.d.int(1, 2), c.d.int(3, 4)
    shape = [c.d.int(1, 3) for _ in range(rank)]
    rows = next(iter(c.net.grown.values()), c.d.choice([1, 1, 2]))
    fresh = [*shape[:axis], rows, *shape[axis + 1 :]]
    past = c.input(np.asarray(c.d.array((*shape[:axis], MAIN, *shape[axis + 1 :]), "f32", -1, 1)))
    present = c.one("Concat", past, _new(c, tuple(fresh)), axis=axis)
    c.net.states[present], c.net.grown[present] = past, rows
    way = c.d.int(0, 3)
    if way == 0:
        return c.apply(c.d.choice(["ReduceSum", "ReduceMax", "ReduceMean"]), [present, c.ints(axis)], keepdims=0)
    if way == 1:
        return [on.mapped(c, present)]
    turned = c.one("Transpose", present, perm=[*range(rank - 2), rank - 1, rank - 2])
    asked = c.fresh(np.asarray(c.d.array((*shape[:-2], 1, shape[-1]), "f32", -1, 1))) if axis == rank - 2 else present
    scores = c.one("MatMul", asked, turned)
    return [c.one("Softmax", scores, axis=-1) if way == 2 else scores]
