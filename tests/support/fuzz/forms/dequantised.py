"""What is made of dequantised numbers, and of sums of integers, but for bytes of a scale: pixels that are cut off
and cast, shares that a logarithm reads, elements that are looked up with the scales of their channels, weights that
are multiplied with outliers."""

from __future__ import annotations

import numpy as np

from tests.support.compose.network import dtype_number
from tests.support.fuzz.family import MAIN, FamilyComposer
from tests.support.fuzz.forms.quantised import convolved, multiplied, rounded


def _floats(c: FamilyComposer) -> str:
    image = (c.d.int(1, 2), c.width(3, 8, 16), *c.d.shape(2, 3, 8))
    return rounded(c, c.some() if c.chance(40) else c.fresh(np.asarray(c.d.array(image, "f32"))), "uint8")[1]


def pixels(c: FamilyComposer) -> list[str]:
    """Bytes of floats by Clip and Cast, which drops what is behind the point, or by a Round first."""
    d, kind = _floats(c), c.d.choice(["uint8", "uint8", "int8"])
    a = c.array(d)
    if a.ndim == 4 and a.shape[1] not in (MAIN, 0) and c.chance(60):
        d = convolved(c, d)
    elif a.ndim >= 2 and a.shape[-1] != MAIN and c.chance(60):
        d = multiplied(c, d)
    info = np.iinfo(kind)
    middle = (int(info.min) + int(info.max)) / 2
    spread = 60 / max(float(np.abs(c.array(d)).max(initial=0)), 0.1)
    d = c.one("Add", c.one("Mul", d, c.scalar(spread, np.float32)), c.scalar(middle, np.float32))
    if c.chance(25):
        d = c.one("Round", d)
    d = c.one("Clip", d, c.scalar(float(info.min), np.float32), c.scalar(float(info.max), np.float32))
    return [c.one("Cast", d, to=dtype_number(kind))]


def shares(c: FamilyComposer) -> list[str]:
    """The softmax of bytes, read as they are, by a logarithm, as divisors."""
    p = c.one("Softmax", _floats(c), axis=-1)
    way = c.d.int(0, 2)
    if way == 0:
        return [c.one("Log", p)]
    if way == 1:
        return [c.one("ReduceSum", c.one("Mul", p, c.one("Log", p)), c.ints(-1), keepdims=1)]
    return [c.one("Div", c.scalar(1.0, np.float32), p)]


def looked_up(c: FamilyComposer) -> list[str]:
    """Elements of bytes that have a scale along an axis."""
    shape, kind = (c.d.int(2, 6), c.d.int(2, 6), c.d.int(1, 4)), c.d.choice(["uint8", "int8"])
    info, axis = np.iinfo(kind), c.d.int(0, 2)
    drawn = np.asarray(c.d.numpy.integers(int(info.min), int(info.max) + 1, shape)).astype(kind)
    scales = c.constant(np.asarray(c.d.array((shape[axis],), "f32", 0.01, 0.1)))
    zeros = c.constant(np.full(shape[axis], c.d.choice([0, 3, 100]), kind))
    d = c.one("DequantizeLinear", c.fresh(drawn) if c.d.bool() else c.constant(drawn), scales, zeros, axis=axis)

    def places(extents: tuple[int, ...], count: int) -> str:
        found = np.stack([c.d.numpy.integers(0, e, count) for e in extents], -1).astype(np.int64)
        return c.constant(found) if c.d.bool() else c.fresh(found)

    way, along = c.d.int(0, 2), c.d.int(0, 2)
    if way == 0:
        return [c.one("GatherND", d, places(shape[: c.d.int(1, 3)], c.d.int(1, 4)))]
    if way == 1:
        return [c.one("Gather", d, places(shape[along : along + 1], c.d.int(1, 4)), axis=along)]
    fewer = tuple(e if a == along else c.d.int(1, e) for a, e in enumerate(shape))
    at = np.asarray(c.d.numpy.integers(0, shape[along], fewer)).astype(np.int64)
    return [c.one("GatherElements", d, c.constant(at) if c.d.bool() else c.fresh(at), axis=along)]


def beside_sums(c: FamilyComposer) -> list[str]:
    """A sum of products of bytes added to itself, or scaled by a number of the run and given a bias of integers."""
    rows, depth, columns = c.d.int(1, 5), c.d.int(1, 20), c.width(1, 6, 16)
    kind = c.d.choice(["uint8", "int8"])
    low = -128 if kind == "int8" else 0
    weights = np.asarray(c.d.numpy.integers(low, low + 256, (depth, columns))).astype(kind)
    x = c.fresh(np.asarray(c.d.numpy.integers(0, 256, (rows, depth))).astype(np.uint8))
    zeros = [c.scalar(c.d.choice([0, 3]), np.uint8), c.scalar(low + c.d.choice([0, 113, 128]), kind)]
    whole = c.one("MatMulInteger", x, c.constant(weights), *(zeros if c.d.bool() else []))
    if c.d.bool():
        whole = c.one("Add", whole, whole)
        return [c.one("Add", whole, c.constant(np.arange(columns, dtype=np.int32))) if c.d.bool() else whole]
    scale = c.fresh(np.full((1,), 0.01, np.float32)) if c.d.bool() else c.scalar(0.01, np.float32)
    scaled = c.one("Mul", c.one("Cast", whole, to=dtype_number("float32")), scale)
    integers = c.constant(np.asarray(c.d.array((columns,), "i32", -3000, 3000)))
    return [c.one("Add", scaled, c.one("DequantizeLinear", integers, c.scalar(0.01, np.float32)))]


def outlying(c: FamilyComposer) -> list[str]:
    """A few rows by weights of 4 or 8 bits; elements far above the others meet weights that are the zero point."""
    rows, depth, columns, low = c.d.int(1, 4), c.d.int(16, 80), c.width(1, 6, 16), c.d.choice([-8, -128])
    x, zero = np.array(c.d.array((rows, depth), "f32")), c.d.choice([0, 3])
    weights = np.asarray(c.d.numpy.integers(low, -low, (depth, columns))).astype(np.int8)
    for place in c.d.numpy.integers(0, depth, c.d.int(1, 2)):
        x[:, place], weights[place] = 10.0 ** c.d.int(3, 7), zero
    scales = c.constant(np.asarray(c.d.array((columns,), "f32", 0.01, 0.1)))
    zeros = c.constant(np.full(columns, zero, np.int8))
    return [c.one("MatMul", c.fresh(x), c.one("DequantizeLinear", c.constant(weights), scales, zeros, axis=1))]


def dequantised(c: FamilyComposer) -> list[str]:
    return c.d.choice([pixels, pixels, shares, looked_up, beside_sums, outlying])(c)
