"""Linear layers one behind the other: what may be composed, or folded into the weights of its neighbours."""

from __future__ import annotations

import numpy as np

from tests.support.fuzz.family import MAIN, FamilyComposer
from tests.support.fuzz.forms.layers import floats


def _layer(c: FamilyComposer, v: str) -> str:
    """A linear layer of many units or few, its weights transposed or not, its bias of channels, or none."""
    shape, out = c.array(v).shape, c.d.choice([c.width(2, 3, 5, 16), 24])
    image, bias = len(shape) == 4, [c.constant(floats(c, (out,)))] if c.chance(70) else []
    inner = shape[1] if image else shape[-1]
    if image:
        window = c.d.choice([(1, 1), (1, 1), (3, 3)])
        return c.one("Conv", v, c.constant(floats(c, (out, inner, *window))), *bias)
    if len(shape) == 2 and c.chance(80):
        turned = c.d.int(0, 1)
        weights = c.constant(floats(c, (out, inner) if turned else (inner, out)))
        return c.one("Gemm", v, weights, *bias, transB=turned)
    v = c.one("MatMul", v, c.constant(floats(c, (inner, out))))
    return c.one("Add", v, *bias) if bias else v


def _scaled(c: FamilyComposer, v: str) -> str:
    """A scale or a shift of each channel or of all, or what rounds by a large number that is added and subtracted."""
    shape = c.array(v).shape
    each = (shape[1], 1, 1) if len(shape) == 4 else shape[-1:]
    op = c.d.choice(["Mul", "Mul", "Add", "Sub", "Div", "round"])
    if op == "round":
        large = c.scalar(12582912.0, np.float32)
        return c.one("Sub", c.one("Add", v, large), large)
    numbers = floats(c, each if c.chance(70) else (1,)) + (2 if op == "Div" else 0)
    return c.one(op, v, c.constant(numbers.astype(np.float32)))


def _bordered(c: FamilyComposer, v: str) -> str:
    """Zeros around a value, along any of its axes."""
    rank = c.array(v).ndim
    return c.one("Pad", v, c.ints(*(c.d.choice([0, 0, 1, 2]) for _ in range(2 * rank))))


def stacked(c: FamilyComposer) -> list[str]:
    """Linear layers with nothing between them, a scale or shift of channels, zeros, or readers beside the next."""
    shape = c.d.choice([(MAIN, 6), (3, 5), (7, 4), (2, 3, 8), (1, 3, 6, MAIN), (1, 4, 7, 5)])
    v = c.fresh(floats(c, shape))
    made = []
    for _ in range(c.d.int(2, 3)):
        for between in (_scaled, _bordered):
            v = between(c, v) if c.chance(25) else v
            made += [v] if c.chance(10) else []
        v = _layer(c, v)
        made += [v] if c.chance(10) else []
    return [v, *made]
