"""Integers of every width at the ends of their ranges: sums and products that wrap, quotients, shifts, casts."""

from __future__ import annotations

import numpy as np

from tests.support.compose import operands as on
from tests.support.compose.definite import Array, Refused
from tests.support.compose.network import dtype_number
from tests.support.fuzz.family import FamilyComposer

TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
OTHERS = ("float32", "float64", "float16", "bool")
SMALL = (1, 2, 3, 4, 7)


def _numbers(c: FamilyComposer, shape: tuple[int, ...], dtype: np.dtype, small: bool) -> Array:
    info = np.iinfo(dtype)
    ends = SMALL if small else (int(info.min), int(info.max), 0, 1, 2, 3, 5, 77)
    made = [
        c.d.choice(ends) if small or c.chance(60) else c.d.int(max(int(info.min), -100), 100)
        for _ in range(int(np.prod(shape)))
    ]
    return np.array(made, dtype).reshape(shape)


def _operand(c: FamilyComposer, v: str, small: bool = False) -> str:
    """What broadcasts with ``v``: a constant or an input."""
    a = c.array(v)
    made = _numbers(c, c.d.broadcastable(a.shape), a.dtype, small)
    return c.constant(made) if c.d.bool() else c.fresh(made)


def _sum(c: FamilyComposer, v: str) -> str:
    pair = [v, _operand(c, v)]
    return c.one(c.d.choice(["Add", "Sub", "Mul", "Max", "Min"]), *(pair if c.d.bool() else pair[::-1]))


def _quotient(c: FamilyComposer, v: str) -> str:
    op = c.d.choice(["Div", "Mod", "fmod"])
    if op != "fmod":
        return c.one(op, v, _operand(c, v, True))
    if (np.abs(c.array(v).astype(float)) > 2.0**53).any():
        raise Refused("onnxruntime divides doubles")
    return c.one("Mod", v, _operand(c, v, True), fmod=1)


def _bits(c: FamilyComposer, v: str) -> str:
    if c.array(v).dtype.kind == "u" and c.d.bool():
        return c.one("BitShift", v, _operand(c, v, True), direction=c.d.choice(["LEFT", "RIGHT"]))
    if c.chance(25):
        return c.one("BitwiseNot", v)
    return c.one(c.d.choice(["BitwiseAnd", "BitwiseOr", "BitwiseXor"]), v, _operand(c, v))


def _unary(c: FamilyComposer, v: str) -> str:
    return c.one(c.d.choice(["Abs", "Sign", *(["Neg"] if c.array(v).dtype.kind == "i" else [])]), v)


def _clipped(c: FamilyComposer, v: str) -> str:
    dtype = c.array(v).dtype
    return c.one("Clip", v, c.constant(np.array(0, dtype)), c.constant(np.array(9, dtype)))


def _cast(c: FamilyComposer, v: str) -> str:
    """To another type; back, where that is none of integers."""
    there = c.d.choice([*TYPES, *OTHERS])
    made = c.one("Cast", v, to=dtype_number(there))
    c.pool.append(made)
    return c.one("Cast", made, to=dtype_number(c.array(v).dtype.name)) if there in OTHERS else made


def _chosen(c: FamilyComposer, v: str) -> str:
    condition = c.one(c.d.choice(["Less", "Greater", "Equal", "GreaterOrEqual"]), v, _operand(c, v))
    return c.one("Where", condition, v, _operand(c, v))


def _reduced(c: FamilyComposer, v: str) -> str:
    op = c.d.choice(["ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"])
    if (np.abs(c.array(v).astype(float)) > (5 if op == "ReduceProd" else 2.0**40)).any():
        raise Refused("onnxruntime reduces in another type")
    return c.one(op, v, c.ints(c.axis(v)), keepdims=1)


def _running(c: FamilyComposer, v: str) -> str:
    return c.one("CumSum", v, c.index(c.axis(v)), reverse=c.d.int(0, 1), exclusive=c.d.int(0, 1))


def _power(c: FamilyComposer, v: str) -> str:
    exponent = _operand(c, v, True)
    most = min(2.0**53, float(np.iinfo(c.array(v).dtype).max))
    if (np.abs(c.array(v).astype(float)) ** c.array(exponent).astype(float) >= most).any():
        raise Refused("not defined beyond")
    return c.one("Pow", v, exponent)


STEPS = (
    _sum, _sum, _sum, _quotient, _quotient, _bits, _bits, _unary, _clipped, _cast, _cast, _chosen, _reduced, _running,
    _power, on.viewed,
)  # fmt: skip


def integers(c: FamilyComposer) -> list[str]:
    dtype = np.dtype(c.d.choice(TYPES))
    found = [n for n in c.pool if c.array(n).dtype == dtype and c.array(n).size and c.array(n).ndim]
    v = c.d.choice(found) if found and c.chance(60) else c.fresh(_numbers(c, c.d.shape(c.d.int(1, 3)), dtype, False))
    for _ in range(c.d.int(1, 4)):
        v = c.d.choice(STEPS)(c, v)
    if c.chance(12):
        return [v, *c.apply(c.d.choice(["ArgMax", "ArgMin"]), [v], axis=c.axis(v))]
    if c.chance(12):
        return c.apply("TopK", [v, c.ints(1)], outputs=2, axis=c.axis(v))
    return [v]
