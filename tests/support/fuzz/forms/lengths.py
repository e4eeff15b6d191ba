"""Extents as numbers: summed, divided, compared, in narrow types and beyond their ends, and what is cut by them."""

from __future__ import annotations

import numpy as np

from tests.support.compose.network import dtype_number
from tests.support.fuzz.family import FamilyComposer

FAR = (7, 100, 255, 70_000, 2**31 - 1, 2**31, 2**33, 2**40, 2**62, 2**63 - 1)
TYPES = ("int64", "int64", "int64", "int32", "float32", "float64", "int8", "uint8", "int16")
WIDE = ("int64", "int32", "float32", "float64")
"""Of which onnxruntime has most arithmetic."""


def _number(c: FamilyComposer, dtype: str, count: int) -> str:
    """A constant of a type: small as a rule, or at an end of it."""
    most = np.finfo(dtype).max if dtype[0] == "f" else np.iinfo(dtype).max
    far = [n for n in FAR if n <= most]
    numbers = [c.d.choice([c.d.int(-4, 4), c.d.int(1, 3), c.d.choice(far), -c.d.choice(far)]) for _ in range(count)]
    if dtype[0] == "f" and c.chance(40):
        return c.constant(np.array([c.d.choice([0.5, 0.25, 1.5, -0.75]) for _ in range(count)], dtype))
    return c.constant(np.array([n if dtype[0] != "u" else abs(n) for n in numbers], dtype))


def _step(c: FamilyComposer, v: str) -> str:
    """One step of arithmetic on a vector."""
    dtype, count = c.array(v).dtype.name, c.array(v).size
    if dtype == "bool":
        return c.one(c.d.choice(["Not", "Identity"]), v) if c.d.bool() else c.one("Cast", v, to=dtype_number("int64"))
    if dtype not in WIDE or c.chance(15):
        return c.one("Cast", v, to=dtype_number(c.d.choice([*TYPES, "bool"])))
    other = _number(c, dtype, c.d.choice([1, count])) if c.chance(70) else v
    way = c.d.int(0, 10)
    if way == 10:
        return _moved(c, v, other)
    if way < 4:
        fmod = {"fmod": 1} if dtype[0] == "f" or c.chance(30) else {}
        op = c.d.choice(["Add", "Sub", "Mul", "Div", "Max", "Min", "Mod"])
        sides = (v, other) if op in ("Div", "Mod") or c.d.bool() else (other, v)
        return c.one(op, *sides, **(fmod if op == "Mod" else {}))
    if way == 4:
        return c.one(c.d.choice(["Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"]), v, other)
    if way == 5:
        asked = c.one(c.d.choice(["Equal", "Less", "Greater"]), v, other)
        return c.one("Where", asked, other, v) if c.d.bool() else c.one("Where", asked, v, other)
    if way == 6:
        flags = {"keepdims": c.d.int(0, 1)} | ({"noop_with_empty_axes": 1} if c.chance(20) else {})
        axes = [c.ints(0)] if c.chance(40) else []
        found = c.one(c.d.choice(["ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin"]), v, *axes, **flags)
        return c.one("Reshape", found, c.ints(-1))
    if way == 7:
        return c.one(c.d.choice(["Neg", "Abs", "Sign"]), v)
    if way == 8:
        low, high = _number(c, dtype, 1), _number(c, dtype, 1)
        return c.one("Clip", v, *(c.one("Squeeze", n) for n in (low, high)))
    if dtype[0] == "f":
        return c.one(c.d.choice(["Floor", "Ceil", "Round", "Sqrt"]), v)
    return c.one("Slice", v, c.ints(c.d.choice([0, -1])), c.ints(c.d.choice([1, -9, 2**63 - 1])), c.ints(0))


def _moved(c: FamilyComposer, v: str, other: str) -> str:
    """The numbers summed up, cut, taken from other places, or some written over."""
    dtype, count, way = c.array(v).dtype, c.array(v).size, c.d.int(0, 4)
    if way == 0:
        return c.one("CumSum", v, c.index(0), reverse=c.d.int(0, 1), exclusive=c.d.int(0, 1))
    if way == 1:
        return c.one("Pad", v, c.ints(c.d.int(0, 1), c.d.int(0, 1)), c.scalar(c.d.int(0, 3), dtype))
    if way == 2:
        return c.one("Reshape", c.one("Flatten", v, axis=0), c.ints(-1))
    at = c.d.int(-count, count - 1) if count else 0
    if not count or way == 3:
        return c.one("GatherElements", v, c.ints(at)) if count else c.one("Identity", v)
    return c.one("ScatterElements", v, c.ints(at), c.one("Slice", other, c.ints(0), c.ints(1), c.ints(0)))


def lengths(c: FamilyComposer) -> list[str]:
    """Arithmetic on the extents of a value, and a part of a value that it cuts."""
    v = c.some("fiub")
    part = {"start": c.d.int(-2, 1)} if c.chance(30) else {}
    n = c.one("Size", v) if c.chance(10) else c.one("Shape", v, **part)
    n = c.one("Reshape", n, c.ints(-1)) if c.array(n).ndim == 0 else n
    if c.chance(30):
        n = c.one("Concat", n, c.ints(c.d.choice([-7, 0, 1, 5])), axis=0)
    if c.chance(40):
        n = c.one("Gather", n, c.ints(c.d.choice([0, -1])), axis=0)
    made = []
    for _ in range(c.d.int(1, 4)):
        n = _step(c, n)
        made.append(n)
    if c.array(n).dtype.kind in "iu" and c.array(n).size and c.chance(40):
        at = c.one("Slice", c.one("Cast", n, to=dtype_number("int64")), c.ints(0), c.ints(1), c.ints(0))
        ends = (at, c.ints(2**63 - 1)) if c.d.bool() else (c.ints(0), at)
        made.append(c.one("Slice", v, *ends, c.ints(c.axis(v))))
    return made
