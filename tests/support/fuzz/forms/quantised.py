"""Quantised regions: QuantizeLinear and DequantizeLinear around what networks compute, of all widths."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.support.compose import operands as on
from tests.support.compose.network import dtype_number
from tests.support.fuzz.family import MAIN, FamilyComposer

TYPES = ("int8", "uint8", "uint8", "int8", "int16", "uint16")
FAR = (1e-43, 1e-38, 1.2e-22, 1e-15, 1e15, 3e19, 1e30)
"""Scales of which products, or what they scale, lie at the ends of f32, or beyond."""


def _scale_and_zero(c: FamilyComposer, largest: float, dtype: np.dtype) -> list[str]:
    info = np.iinfo(dtype)
    steps = c.d.choice([127, 100, 255, 64]) if info.bits == 8 else 20_000
    scale = np.float32(max(largest, 0.1) / steps)
    if c.chance(30):
        scale = np.float32(2.0 ** np.round(np.log2(scale)))
    if c.chance(2):
        scale = np.float32(c.d.choice(FAR))
    low, high = int(info.min), int(info.max)
    zero = c.d.choice([0, low, high, (high + low + 1) // 2, c.d.int(low, high)])
    return [c.constant(np.array(scale)), c.constant(np.array(zero, dtype))]


def rounded(c: FamilyComposer, v: str, dtype: str = "") -> list[str]:
    """(bytes, floats made of them)."""
    kind = np.dtype(dtype or c.d.choice(TYPES))
    v = v if c.array(v).dtype == np.float32 else c.one("Cast", v, to=dtype_number("float32"))
    how = _scale_and_zero(c, float(np.abs(c.array(v)).max(initial=0)), kind)
    q = c.one("QuantizeLinear", v, *how)
    return [q, c.one("DequantizeLinear", q, *how)]


def _weights(c: FamilyComposer, shape: tuple[int, ...], axis: int) -> str:
    dtype = c.d.choice(["int8", "int8", "uint8"])
    low, high = (-128 if c.chance(20) else -127, 127) if dtype == "int8" else (0, 255)
    drawn = np.asarray(c.d.numpy.integers(low, high + 1, shape)).astype(dtype)
    w = c.constant(drawn if c.chance(80) else np.full(shape, c.d.choice([low, high, 1]), dtype))
    zero = 0 if dtype == "int8" else c.d.choice([0, 128, 255])
    if c.d.bool():
        scale = c.d.choice(FAR) if c.chance(4) else 0.01
        return c.one("DequantizeLinear", w, c.scalar(scale, np.float32), c.scalar(zero, dtype))
    scales = c.constant(np.asarray(c.d.array((shape[axis],), "f32", 0.002, 0.02)))
    return c.one("DequantizeLinear", w, scales, c.constant(np.full(shape[axis], zero, dtype)), axis=axis)


def convolved(c: FamilyComposer, d: str) -> str:
    channels = c.array(d).shape[1]
    groups, k = c.d.choice([1, 1, channels]), c.d.choice([1, 3, 2])
    out = c.width(1, 2, 4, 8) if groups == 1 else groups * c.d.choice([1, 2, 4, 8])
    w = _weights(c, (out, channels // groups, k, k), 0)
    bias = []
    if c.d.bool():
        bias = [c.constant(np.asarray(c.d.array((out,), "f32")))]
    elif c.d.bool():
        whole = np.asarray(c.d.array((out,), "i32", -3000, 3000))
        bias = [c.one("DequantizeLinear", c.constant(whole), c.scalar(0.0003, np.float32))]
    return c.one("Conv", d, w, *bias, group=groups, pads=(k // 2,) * 4, strides=c.d.choice([(1, 1), (2, 2)]))


def _beside_itself(c: FamilyComposer, d: str) -> str:
    """A convolution, or two, of which the result is added to what they read."""
    channels, k = c.array(d).shape[1], c.d.choice([1, 1, 3])
    made = d
    for _ in range(c.d.int(1, 2)):
        made = c.one("Conv", made, _weights(c, (channels, channels, k, k), 0), pads=(k // 2,) * 4)
        made = rounded(c, made, c.d.choice(["int8", "uint8"]))[1] if c.chance(70) else made
    return c.one("Add", *((made, d) if c.d.bool() else (d, made)))


def multiplied(c: FamilyComposer, d: str) -> str:
    d = c.one("MatMul", d, _weights(c, (c.array(d).shape[-1], c.width(1, 5, 16)), 1))
    if c.d.bool():
        d = c.one("Add", d, c.constant(np.asarray(c.d.array((c.array(d).shape[-1],), "f32"))))
    return d


def _with_constant(c: FamilyComposer, d: str) -> str:
    """Positions that are added, a mask, or numbers of channels, as bytes."""
    shape = [1 if e == MAIN or c.chance(25) else e for e in c.array(d).shape]
    known = _weights(c, tuple(shape[c.d.int(0, len(shape) - 1) :]), -1)
    return c.one(c.d.choice(["Add", "Mul", "Sub"]), *((d, known) if c.d.bool() else (known, d)))


def _with_another(c: FamilyComposer, d: str) -> str:
    if c.chance(30) and c.array(d).ndim:
        return _with_constant(c, d)
    other = rounded(c, on.mapped(c, d))[1]
    ops = ["Add", "Mul", "Sub", "Max"] + (["Div"] if (c.array(other) != 0).all() else [])
    return c.one(c.d.choice(ops), d, other)


def _pooled(c: FamilyComposer, d: str) -> str:
    pads = c.d.choice([(0,) * 4, (1, 1, 0, 0)])
    return c.one(c.d.choice(["MaxPool", "AveragePool"]), d, kernel_shape=(2, 2), strides=(2, 2), pads=pads)


def _padded(c: FamilyComposer, d: str) -> str:
    """The largest of windows of an image, bordered by what they never take, by another number, or by itself."""
    mode = c.d.choice(["constant", "constant", "reflect", "edge"])
    least = c.d.choice([-np.inf, float(np.finfo(np.float32).min), -1e4])
    number = c.scalar(least if c.d.bool() else c.d.choice([0.0, 0.25, -1.0]), np.float32)
    padded = c.one("Pad", d, c.ints(0, 0, 1, 1, 0, 0, 0, 1), *([number] if mode == "constant" else []), mode=mode)
    return c.one("MaxPool", padded, kernel_shape=(3, 3), strides=c.d.choice([(1, 1), (2, 2)]))


def _step(c: FamilyComposer, d: str) -> str:
    a, way = c.array(d), c.d.int(0, 15)
    image = a.ndim == 4
    if way < 3 and image and a.shape[1] not in (MAIN, 0):
        return convolved(c, d)
    if 3 <= way < 5 and a.ndim >= 2 and a.shape[-1] != MAIN:
        return multiplied(c, d)
    if way == 5:
        return c.one(c.d.choice(["Relu", "Sigmoid", "Tanh", "HardSwish", "LeakyRelu", "Abs", "Neg"]), d)
    if way == 6:
        return _with_another(c, d)
    if way == 7 and image:
        return _pooled(c, d)
    if way == 13 and image:
        return _padded(c, d)
    if way > 13 and image and a.shape[1] not in (MAIN, 0):
        return _beside_itself(c, d)
    if way == 8:
        return c.one(c.d.choice(["ReduceMean", "ReduceSum", "ReduceMax"]), d, c.ints(c.axis(d)), keepdims=1)
    if way == 9:
        return c.one("Softmax", d, axis=-1)
    if way == 10:
        return on.viewed(c, d)
    if way == 11:
        return c.one("Concat", d, rounded(c, on.mapped(c, d))[1], axis=c.axis(d))
    return c.one("Transpose", d, perm=c.d.permutation(a.ndim))


def quantised(c: FamilyComposer) -> list[str]:
    """One to four steps, floats rounded behind most of them."""
    image = (c.d.int(1, 2), c.width(3, 8, 16), *c.d.shape(2, 3, 8))
    v = c.some() if c.chance(60) else c.fresh(np.asarray(c.d.array(image, "f32")))
    d = rounded(c, v)[1]
    made = []
    for _ in range(c.d.int(1, 4)):
        d = _step(c, d)
        if c.chance(85):
            q, d = rounded(c, d)
            made += [q] if c.chance(15) else []
    return [d, *made]


QUANTISED: tuple[Callable[[FamilyComposer], list[str]], ...] = (quantised,)
