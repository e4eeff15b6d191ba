"""Products, windows, recurrent layers and attention, with the extent anywhere."""

from __future__ import annotations

import numpy as np

from tests.support.compose import operands as on
from tests.support.fuzz.family import MAIN, FamilyComposer


def _drawn(c: FamilyComposer, shape: tuple[int, ...], low: float = -0.5, high: float = 0.5) -> np.ndarray:
    return np.asarray(c.d.array(shape, "f32", low, high))


def _by_itself(c: FamilyComposer) -> list[str]:
    v = c.some(rank=2)
    perm = list(range(c.array(v).ndim))
    perm[-1], perm[-2] = perm[-2], perm[-1]
    other = c.one("Transpose", v, perm=perm)
    return c.apply("MatMul", [v, other] if c.d.bool() else [other, v])


def _by_weights(c: FamilyComposer) -> list[str]:
    v = c.some(rank=2)
    a = c.array(v)
    weights = on.constant_like(c, _drawn(c, (a.shape[-1], c.width(*range(1, 21)))).astype(a.dtype))
    v = c.one("MatMul", v, weights)
    return [on.mapped(c, v)] if c.d.bool() else [v]


def _layer(c: FamilyComposer) -> list[str]:
    """LSTM, GRU or RNN."""
    batch, width, units = c.d.int(1, 2), c.width(3, 8, 16), c.width(3, 4, 8)
    x = c.fresh(_drawn(c, (batch, MAIN, width), -1, 1))
    x = c.one("Transpose", x, perm=(1, 0, 2)) if c.d.bool() else x
    op, gates = c.d.choice([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    direction = c.d.choice(["forward", "bidirectional", "reverse"])
    ways = 2 if direction == "bidirectional" else 1
    weights = [c.constant(_drawn(c, (ways, gates * units, n))) for n in (width, units)]
    return c.apply(op, [x, *weights], outputs=2, hidden_size=units, direction=direction)


def _window(c: FamilyComposer) -> list[str]:
    channels, size = c.width(2, 3, 8), c.d.choice([(MAIN, 5), (MAIN, MAIN), (9, MAIN), (6, 6)])
    if c.wide and c.d.bool():
        size = (c.d.choice([2, 5, MAIN]), c.width(12))
    x = c.fresh(_drawn(c, (c.d.choice([1, MAIN]), channels, *size), -1, 1))
    k, stride = c.d.choice([1, 2, 3]), c.d.choice([1, 1, 2])
    attrs = {"pads": (k // 2,) * 4, "strides": (stride, stride)}
    if c.chance(25):
        op = c.d.choice(["MaxPool", "AveragePool", "LpPool"])
        return [on.mapped(c, c.one(op, x, kernel_shape=(k, k), **attrs))]
    groups = c.d.choice([1, 1, channels])
    if c.chance(20):
        weights = c.constant(_drawn(c, (channels, c.width(1, 2, 8), k, k)))
        return [on.mapped(c, c.one("ConvTranspose", x, weights, group=groups, **attrs))]
    out = c.width(1, 2, 8) if groups == 1 else groups * c.d.choice([1, 2, 8])
    weights = on.constant_like(c, _drawn(c, (out, channels // groups, k, k)))
    bias = [c.constant(_drawn(c, (out,)))] if c.d.bool() else []
    return [on.mapped(c, c.one("Conv", x, weights, *bias, group=groups, **attrs))]


def _table(c: FamilyComposer) -> list[str]:
    """Rows far from 0, less their means and by their deviations: what is left of them is exact."""
    columns, far = c.width(3, 8, 16), c.d.choice([1.0, 100.0, 1e4, 1e6])
    mean = _drawn(c, (columns,), -far, far)
    deviation = np.maximum(np.abs(mean) * c.d.choice([0.3, 1e-3, 1e-5]), 1e-2).astype(np.float32)
    x = c.fresh((mean + _drawn(c, (MAIN, columns), -2, 2) * deviation).astype(np.float32))
    x = c.one("Sub", x, c.constant(mean)) if c.d.bool() else c.one("Add", x, c.constant(-mean))
    x = c.one("Div", x, c.constant(deviation)) if c.d.bool() else c.one("Mul", x, c.constant(1 / deviation))
    x = c.one("Clip", x, c.scalar(-1.5, np.float32), c.scalar(1.5, np.float32)) if c.chance(30) else x
    return [c.one("MatMul", x, c.constant(_drawn(c, (columns, c.width(1, 5, 8)))))]


def product(c: FamilyComposer) -> list[str]:
    return c.d.choice([_by_itself, _by_weights, _layer, _window, _table])(c)


def heads(c: FamilyComposer) -> list[str]:
    """Attention as exporters write it: projections, heads apart by a computed shape, scores, a mask, and back."""
    width, many, batch = c.width(4, 8), c.d.choice([1, 2]), c.d.int(1, 2)
    x = c.fresh(_drawn(c, (batch, MAIN, many * width), -1, 1))
    parts = []
    for _ in range(3):
        part = c.one("MatMul", x, c.constant(_drawn(c, (many * width, many * width))))
        if c.d.bool():
            rows = c.one("Gather", c.one("Shape", part), c.ints(1), axis=0)
            shape = c.one("Concat", c.ints(batch), rows, c.ints(many, width), axis=0)
        else:
            shape = c.ints(0, 0, many, width)
        parts.append(c.one("Transpose", c.one("Reshape", part, shape), perm=(0, 2, 1, 3)))
    turned = c.one("Transpose", parts[1], perm=(0, 1, 3, 2))
    scores = c.one("Mul", c.one("MatMul", parts[0], turned), c.scalar(0.3, np.float32))
    square = [n for n in c.pool if c.array(n).shape == (MAIN, MAIN) and c.array(n).dtype == np.float32]
    if square and c.d.bool():
        scores = c.one("Add", scores, c.d.choice(square))
    made = c.one("MatMul", c.one("Softmax", scores, axis=-1), parts[2])
    return c.apply("Reshape", [c.one("Transpose", made, perm=(0, 2, 1, 3)), c.ints(0, 0, many * width)])
