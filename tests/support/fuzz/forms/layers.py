"""What graph passes merge and reorder: whole numbers that are divided, layers of one input that are added up, heads
that read one value twice, what indices address between convolutions, channels that are normalised in groups, windows
behind each other that keep extents but for their strides."""

from __future__ import annotations

import numpy as np

from tests.support.compose import operands as on
from tests.support.compose.network import dtype_number
from tests.support.fuzz.family import MAIN, FamilyComposer

DIVISORS = (3.0, 5.0, 6.0, 7.0, 10.0, 41.0, 47.0, 49.0, 55.0, 61.0, 82.0, 83.0, 97.0, 100.0)
"""Many of them times their inverse as a float are less than 1."""


def floats(c: FamilyComposer, shape: tuple[int, ...], largest: float = 1.0) -> np.ndarray:
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
    x = c.fresh(floats(c, (c.d.int(1, 2), channels, *size)))
    made = []
    for _ in range(c.d.int(2, 3)):
        k = c.d.choice([1, 1, 2, 3])
        front = c.d.int(0, k - 1) if c.chance(50) else k // 2
        pads = [front] * len(size) + [k - 1 - front] * len(size)
        out = most if c.chance(70) else 1
        groups = channels if out % channels == 0 and c.chance(30) else 1
        weights = on.constant_like(c, floats(c, (out, channels // groups, *(k for _ in size)), 0.5))
        bias = [c.constant(floats(c, (out,)))] if c.d.bool() else []
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
    values = [c.fresh(floats(c, (batch, many, MAIN, width))) for _ in range(c.d.int(1, 2))]
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


def _convolved(c: FamilyComposer, x: str, out: int) -> str:
    k = c.d.choice([1, 3, 3])
    weights = floats(c, (out, c.array(x).shape[1], k, k), 0.5)
    return c.one("Conv", x, c.constant(weights), pads=(k // 2,) * 4)


def addressed(c: FamilyComposer) -> list[str]:
    """Convolutions with something between them that indices pick, or write at: rows that go together, or do not."""
    size = (c.d.choice([5, 8, 12, 16]), c.d.choice([4, 8]))
    v = _convolved(c, c.fresh(floats(c, (1, c.d.int(1, 3), *size))), c.d.choice([4, 8, 16]))
    shape, axis = c.array(v).shape, c.d.int(1, 3)
    op = c.d.choice(["ScatterElements", "ScatterND", "GatherElements"])
    if op == "ScatterND":  # each place once
        depth = c.d.int(2, 4)
        places = c.d.numpy.permutation(int(np.prod(shape[:depth])))[: c.d.int(1, 9)]
        indices = np.stack(np.unravel_index(places, shape[:depth]), axis=-1)
        updates = (len(places), *shape[depth:])
    else:
        updates = tuple(e if c.d.bool() else c.d.int(1, e) for e in shape)
        order = np.argsort(c.d.numpy.random((*updates[:axis], shape[axis], *updates[axis + 1 :])), axis=axis)
        indices = np.take(order, np.arange(updates[axis]), axis=axis)
    read = [c.input(indices.astype(np.int64)) if c.chance(30) else c.constant(indices.astype(np.int64))]
    if op != "GatherElements":
        read.append(on.constant_like(c, floats(c, updates)) if c.d.bool() else c.fresh(floats(c, updates)))
    made = c.one(op, v, *read, **({} if op == "ScatterND" else {"axis": axis}))
    if c.chance(40):
        made = on.mapped(c, made)
    return [_convolved(c, made, c.d.int(1, 3)) if c.chance(80) else made]


def regrouped(c: FamilyComposer) -> list[str]:
    """Normalised along some axes, of which some may have one index; then channels in groups, each with a scale."""
    groups, inner = c.d.choice([1, 2, 3]), c.d.choice([1, 2, 4])
    size = c.d.shape(c.d.int(1, 2), 1, 6)
    x = c.fresh(floats(c, (c.d.choice([1, 1, 2]), groups * inner, *size), 3.0))
    lead = c.array(x).shape[0]
    axes = [a for a in range(c.array(x).ndim) if c.chance(60)] or [c.array(x).ndim - 1]
    v = c.one("MeanVarianceNormalization", x, axes=axes)
    v = c.one("Reshape", v, c.ints(lead, groups, inner, -1))
    scale, shift = (on.constant_like(c, floats(c, c.d.choice([(inner, 1), (groups, 1, 1)]))) for _ in range(2))
    v = c.one("Mul", v, scale)
    return [c.one("Add", v, shift) if c.d.bool() else v]


def _same_pads(c: FamilyComposer, v: str, kernel: list[int], strides: list[int]) -> str:
    """What auto_pad adds around two axes, computed of the shape and added by a Pad."""
    extents, none, one = c.one("Slice", c.one("Shape", v), c.ints(2), c.ints(4)), c.ints(0, 0), c.ints(1, 1)
    if c.d.bool():
        out = c.one("Div", c.one("Add", extents, c.ints(*(s - 1 for s in strides))), c.ints(*strides))
    else:
        by = c.constant(np.array(strides, np.float32))
        parts = c.one("Div", c.one("Cast", extents, to=dtype_number("float32")), by)
        out = c.one("Cast", c.one("Ceil", parts), to=dtype_number("int64"))
    seen = c.one("Add", c.one("Mul", c.one("Sub", out, one), c.ints(*strides)), c.ints(*kernel))
    more = c.one("Max", c.one("Sub", seen, extents), none)
    small = c.one("Div", more, c.ints(2, 2))
    ends = (small, c.one("Sub", more, small))
    before, behind = ends if c.d.bool() else ends[::-1]
    return c.one("Pad", v, c.one("Concat", none, before, none, behind, axis=0))


def same_windows(c: FamilyComposer) -> list[str]:
    """Windows with strides, one to four behind each other, that keep extents but for these: by auto_pad, as
    TensorFlow writes them, or by pads that are computed of the shape."""
    channels = c.width(1, 2, 3, 8)
    v = c.fresh(floats(c, (1, channels, *c.d.choice([(MAIN, MAIN), (MAIN, 6), (9, MAIN)]))))
    for _ in range(c.d.int(1, 4)):
        strides = [c.d.choice([1, 2, 2, 3]) for _ in range(2)]
        kernel = [max(s, c.d.choice([1, 2, 3, 3, 5])) for s in strides]
        auto_pad = c.d.choice(["SAME_UPPER", "SAME_UPPER", "SAME_LOWER"])
        attrs: dict[str, object] = {"strides": strides, "auto_pad": auto_pad}
        if c.chance(30):
            v, attrs = _same_pads(c, v, kernel, strides), {"strides": strides}
        op = c.d.choice(["Conv", "Conv", "depthwise", "MaxPool", "AveragePool"])
        if op in ("MaxPool", "AveragePool"):
            v = c.one(op, v, kernel_shape=kernel, **attrs)
            continue
        groups = channels if op == "depthwise" else 1
        weights = c.constant(floats(c, (channels, channels // groups, *kernel), 0.5))
        v = c.one("Conv", v, weights, group=groups, **attrs)
        if c.chance(50):
            v = c.one("Relu", v)
    return [v]
