"""What graph passes merge and reorder: whole numbers that are divided, layers of one input that are added up, layers
one behind the other, heads that read one value twice."""

from __future__ import annotations

import numpy as np

from tests.support.compose import operands as on
from tests.support.compose.network import dtype_number
from tests.support.fuzz.family import MAIN, FamilyComposer

DIVISORS = (3.0, 5.0, 6.0, 7.0, 10.0, 41.0, 47.0, 49.0, 55.0, 61.0, 82.0, 83.0, 97.0, 100.0)
"""Many of them times their inverse as a float are less than 1."""


def _floats(c: FamilyComposer, shape: tuple[int, ...], largest: float = 1.0) -> np.ndarray:
    return np.asarray(c.d.array(shape, "f32", -largest, largest))


def wholes(c: FamilyComposer) -> list[str]:
    """Whole numbers, as floats, that are added, multiplied and divided, and rounded or compared somewhere behind."""
    by = c.d.choice(DIVISORS)
    shape = c.d.shape(c.d.int(1, 3), 1, 9)
    times = np.asarray(c.d.numpy.integers(-9, 10, shape)).astype(np.float32)
    v = c.fresh(by * times + (0 if c.chance(60) else np.asarray(c.d.numpy.integers(0, 3, shape)).astype(np.float32)))
    if c.chance(30):
        v = c.one(c.d.choice(["Add", "Sub", "Mul"]), v, c.scalar(by, np.float32))
    v = quotient = c.one("Div", v, c.scalar(by, np.float32))
    for _ in range(c.d.int(0, 2)):
        way = c.d.int(0, 3)
        if way == 0:
            v = c.one(c.d.choice(["Add", "Sub", "Mul"]), v, c.scalar(c.d.choice([1.0, 2.0, 3.0]), np.float32))
        elif way == 1:
            v = c.one("Reshape", v, c.ints(1, -1))
        else:
            v = on.viewed(c, v)
    kind = c.d.choice(["Floor", "Ceil", "Cast", "Equal", "Less", "GreaterOrEqual", "Mod"])
    if kind == "Cast":
        made = c.one("Cast", v, to=dtype_number(c.d.choice(["int32", "int64"])))
    elif kind in ("Floor", "Ceil"):
        made = c.one(kind, v)
    elif kind == "Mod":
        made = c.one(kind, v, c.scalar(c.d.choice([1.0, 2.0, 3.0]), np.float32), fmod=1)
    else:
        made = c.one(kind, v, c.scalar(float(c.d.int(-3, 3)), np.float32))
    return [made, *([quotient] if c.chance(40) else [])]


def summed(c: FamilyComposer) -> list[str]:
    """Two or three convolutions of one input, added up, and to it, which may be broadcast to each other."""
    channels, most = c.d.int(1, 4), c.width(1, 2, 5, 8)
    size = c.d.choice([(MAIN, 6), (6, 6), (9, MAIN), (7,)])
    x = c.fresh(_floats(c, (c.d.int(1, 2), channels, *size)))
    made = []
    for _ in range(c.d.int(2, 3)):
        k = c.d.choice([1, 1, 2, 3])
        front = c.d.int(0, k - 1) if c.chance(50) else k // 2
        pads = [front] * len(size) + [k - 1 - front] * len(size)
        out = most if c.chance(70) else 1
        groups = channels if out % channels == 0 and c.chance(30) else 1
        weights = on.constant_like(c, _floats(c, (out, channels // groups, *(k for _ in size)), 0.5))
        bias = [c.constant(_floats(c, (out,)))] if c.d.bool() else []
        made.append(c.one("Conv", x, weights, *bias, pads=pads, group=groups))
        if c.chance(20):
            made[-1] = on.mapped(c, made[-1])
    v, beside = made[0], [x] if c.array(x).shape == c.array(made[0]).shape else []
    for other in made[1:] + beside:
        v = c.one(c.d.choice(["Add", "Add", "Sub"]), *((v, other) if c.d.bool() else (other, v)))
    return [v, *([c.d.choice(made)] if c.chance(20) else [])]


def shared_heads(c: FamilyComposer) -> list[str]:
    """Attention, spelled or not, whose queries, keys and values are one value or two, scaled before or behind."""
    batch, many, width = c.d.int(1, 2), c.d.choice([1, 2]), c.width(4, 8)
    values = [c.fresh(_floats(c, (batch, many, MAIN, width))) for _ in range(c.d.int(1, 2))]
    scaled = [
        c.one(c.d.choice(["Mul", "Div"]), v, c.scalar(c.d.choice([0.5, 2.0, 1.7]), np.float32)) if c.chance(60) else v
        for v in values
    ]
    q, k, v = (c.d.choice([*scaled, *scaled, *values]) for _ in range(3))
    if c.d.bool():
        made = c.one("Attention", q, k, v, scale=c.d.choice([0.5, 1.0]))
    else:
        scores = c.one("MatMul", q, c.one("Transpose", k, perm=(0, 1, 3, 2)))
        if c.d.bool():
            scores = c.one("Mul", scores, c.scalar(0.3, np.float32))
        made = c.one("MatMul", c.one("Softmax", scores, axis=-1), v)
    return [made, *([c.d.choice(scaled)] if c.chance(20) else [])]


def _layer(c: FamilyComposer, v: str) -> str:
    """A linear layer of many units or few, its weights transposed or not, its bias of channels, or none."""
    shape, out = c.array(v).shape, c.d.choice([c.width(2, 3, 5, 16), 24])
    image, bias = len(shape) == 4, [c.constant(_floats(c, (out,)))] if c.chance(70) else []
    inner = shape[1] if image else shape[-1]
    if image:
        window = c.d.choice([(1, 1), (1, 1), (3, 3)])
        return c.one("Conv", v, c.constant(_floats(c, (out, inner, *window))), *bias)
    if len(shape) == 2 and c.chance(80):
        turned = c.d.int(0, 1)
        weights = c.constant(_floats(c, (out, inner) if turned else (inner, out)))
        return c.one("Gemm", v, weights, *bias, transB=turned)
    v = c.one("MatMul", v, c.constant(_floats(c, (inner, out))))
    return c.one("Add", v, *bias) if bias else v


def _scaled(c: FamilyComposer, v: str) -> str:
    """A scale or a shift of each channel or of all, or what rounds by a large number that is added and subtracted."""
    shape = c.array(v).shape
    each = (shape[1], 1, 1) if len(shape) == 4 else shape[-1:]
    op = c.d.choice(["Mul", "Mul", "Add", "Sub", "Div", "round"])
    if op == "round":
        large = c.scalar(12582912.0, np.float32)
        return c.one("Sub", c.one("Add", v, large), large)
    numbers = _floats(c, each if c.chance(70) else (1,)) + (2 if op == "Div" else 0)
    return c.one(op, v, c.constant(numbers.astype(np.float32)))


def _bordered(c: FamilyComposer, v: str) -> str:
    """Zeros around a value, along any of its axes."""
    rank = c.array(v).ndim
    return c.one("Pad", v, c.ints(*(c.d.choice([0, 0, 1, 2]) for _ in range(2 * rank))))


def stacked(c: FamilyComposer) -> list[str]:
    """Linear layers with nothing between them, a scale or shift of channels, zeros, or readers beside the next."""
    shape = c.d.choice([(MAIN, 6), (3, 5), (7, 4), (2, 3, 8), (1, 3, 6, MAIN), (1, 4, 7, 5)])
    v = c.fresh(_floats(c, shape))
    made = []
    for _ in range(c.d.int(2, 3)):
        for between in (_scaled, _bordered):
            v = between(c, v) if c.chance(25) else v
            made += [v] if c.chance(10) else []
        v = _layer(c, v)
        made += [v] if c.chance(10) else []
    return [v, *made]
