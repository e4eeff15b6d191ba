"""Sums of whole numbers that lie in the mantissas of floats: one multiply-add scales, rounds and moves them.

A float of 1.5 * 2^23 + n has the bits 0x4B400000 + n, for n within 2^22. A sum that begins with these bits is such a
float when it ends: no instruction converts it. Its product by a scale, less 1.5 * 2^23, is rounded to a whole number
by the multiply-add itself, and the low 16 bits of that are the result; the high ones are negative as 16 bits, which
saturates to 0: instructions that pack 16 bits to bytes find one byte and a zero in each lane.

What is subtracted must be a whole number, or it would be rounded, too. So sums begin with some more, which the whole
number then has less:

>>> found = placed(np.array([0.0078125, 0.0123]), np.array([50, -7]), np.array([10000, 10000]), 4)
>>> found.begins - BITS - [50, -7]    # 0.0123 times 1.5 * 2^23 - 4375 is 154716.00000
array([    0, -4375])
>>> sums = np.array([[900, -200], [1000, 250], [9000, 350]])
>>> floats = (found.begins + sums).astype(np.int32).view(np.float32).astype(np.float64)
>>> rounded = (floats * found.factors + found.offsets).astype(np.float32)
>>> (rounded.view(np.uint32) & 0xffff).astype(np.int16)
array([[11,  1],
       [12,  7],
       [75,  8]], dtype=int16)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import View
from mccompile.ir.scalar import Array
from mccompile.ir.types import F32, I8, I32, U8
from mccompile.kernels.model.woven import WovenRow
from mccompile.kernels.variant import Builder
from mccompile.targets.machine import Capability

BITS = 0x4B400000
"""The bits of 1.5 * 2^23."""
MIDDLE = 1.5 * 2.0**23
REACH = 2**22
"""How far from the middle sums may end."""
NEAR = 2.0**-15
"""How far the whole number may be from what is subtracted, in steps of results: a quarter of what the tie rule
allows."""
NUDGES = (0, 1, -1, 2, -2)
"""By how many of its last bits a scale may be changed."""
TURNS = 64
"""Turns after which no such number is looked for any more."""


@dataclass(frozen=True)
class ScaledSum:
    """An epilogue ``u8(rne(f32(acc + bias) * factor) + zero)``: the numbers of two extras, and the zero point."""

    bias: int
    factor: int
    zero: int


def scaled_sum(body: ex.Expr | None) -> ScaledSum | None:
    """An epilogue as that; None if it is another one."""
    if not isinstance(body, ex.Convert) or body.dtype not in (I8, U8):
        return None
    rounded, zero = body.operand, 0
    match rounded:
        case ex.Apply(fn="add", operands=(inner, ex.Num() as number)):
            rounded, zero = inner, int(number.value)
    match rounded:
        case ex.Apply(fn="rne", operands=(ex.Apply(fn="mul", operands=(ex.Convert() as whole, ex.Var() as factor)),)):
            sum_ = whole.operand
            if whole.dtype != F32 or sum_.dtype != I32:
                return None
            match sum_:
                case ex.Apply(fn="add", operands=(ex.Var(index=ex.ACC), ex.Var(index=bias))) if bias >= 0:
                    return ScaledSum(bias, factor.index, zero) if factor.index >= 0 else None
    return None


@dataclass(frozen=True)
class Mantissas:
    """For each column, what a sum begins with, what it is multiplied by then, and what is added to that."""

    begins: Array
    factors: Array
    offsets: Array


def placed(scales: Array, bias: Array, reach: Array, zero: int) -> Mantissas | None:
    """Sums within ``reach`` (bias included), times ``scales`` and plus ``zero``, as mantissas; None if they are too
    large for that, or no whole number is near."""
    scales = scales.astype(np.float32).astype(np.float64)
    if not (np.isfinite(scales).all() and (scales > 0).all()):
        return None
    if (scales * reach + 512 > 2**15).any() or (reach >= REACH).any():
        return None
    if zero % 2 and any(_has_ties(float(s), int(r)) for s, r in zip(scales, reach, strict=True)):
        return None  # what ends on .5 would become even with the zero point, not without it
    more = np.zeros(len(scales), np.int64)
    for i, scale in enumerate(scales):
        for ulps in NUDGES:
            near = float((np.array(scale, np.float32).view(np.int32) + np.int32(ulps)).view(np.float32))
            found = _whole(near, REACH - int(reach[i]))
            if found is not None:
                break
        else:
            return None
        scales[i], more[i] = near, found
    offsets = np.rint(scales * (MIDDLE + more)) - MIDDLE - zero
    if (np.abs(offsets) > 2.0**24).any():
        return None
    return Mantissas(BITS + more + bias, (-scales).astype(np.float32), offsets.astype(np.float32))


def _has_ties(scale: float, reach: int) -> bool:
    """Whether a whole number within ``reach`` times a scale ends on .5: 512 / 1024 does, 1 / 3 never."""
    half = scale.as_integer_ratio()[1] // 2
    return 0 < half <= reach


def mantissas_of(node: Node, b: Builder, columns: Array, operand: tuple[int, int]) -> Mantissas | None:
    """The sums of a node as mantissas, where its epilogue allows that and the target has the multiply-add.

    ``columns`` [M, steps] are the weights of each column less their zero point; ``operand`` are the least and the
    largest number that an element of the operand is, less its zero point.
    """
    found = scaled_sum(node.post.get(0))
    if found is None or Capability.FMA not in b.target.capabilities:
        return None
    bias, factor = (node.extras[i] for i in (found.bias, found.factor))
    if not all(b.is_constant(v) and v.type.count == len(columns) for v in (bias, factor)):
        return None
    begins, scales = (_elements(b, v) for v in (bias, factor))
    most = np.maximum(columns * operand[0], columns * operand[1]).sum(1)
    least = np.minimum(columns * operand[0], columns * operand[1]).sum(1)
    reach = np.maximum(np.abs(begins + most), np.abs(begins + least))
    shift = 128 if node.results[0].dtype == I8 else 0  # bytes are packed as u8, and their top bits flipped
    return placed(scales, begins, reach, found.zero + shift)


def _elements(b: Builder, value: Value) -> Array:
    data = b.seen(value, AsIs()).buffer.data
    assert data is not None
    return data.reshape(-1)


@dataclass(frozen=True)
class AsIs:
    """A constant as it is."""

    def pack(self, array: Array) -> Array:
        return array


def _whole(scale: float, most: int) -> int | None:
    """The number n nearest to 0, nearer than ``most``, with which scale * (MIDDLE + n) is nearly whole."""
    up, down = _steps(scale, (1.0, 0), (scale % 1.0, 1)), _steps(scale, (scale % 1.0, 1), (1.0, 0))
    found = [n for n in (up, None if down is None else -down) if n is not None and abs(n) < most]
    return min(found, key=abs, default=None)


def _steps(scale: float, falling: tuple[float, int], rising: tuple[float, int]) -> int | None:
    """How many steps make the fraction of scale * MIDDLE nearly 0, where two numbers of steps are known by which it
    falls and rises.

    As Euclid's algorithm finds it: of both the larger one is made smaller by the other until the fraction falls by no
    more than what is left. 0.3: falls by 1 with none and rises by 0.3 with 1, then falls by 0.1 with 3.
    """
    rest = scale * MIDDLE % 1.0
    steps, (fall, falls), (rise, rises) = 0, falling, rising
    for _ in range(TURNS):
        if min(rest, 1.0 - rest) <= NEAR:
            return steps
        if rest >= fall > 0:
            count = int(rest // fall)
            rest, steps = rest - count * fall, steps + count * falls
        elif min(fall, rise) <= 0:
            return None
        elif fall > rise:
            count = min(int(fall // rise), math.ceil((fall - rest) / rise))
            fall, falls = fall - count * rise, falls + count * rises
        else:
            count = int(rise // fall)
            rise, rises = rise - count * fall, rises + count * falls
    return None


@dataclass(frozen=True)
class Placed:
    """Numbers of columns, woven in blocks of ``width``, in the place of a constant that has as many elements."""

    numbers: tuple[float, ...]
    width: int
    lanes: int

    def pack(self, array: Array) -> Array:
        return WovenRow(self.width, self.lanes).pack(np.array(self.numbers, np.float32).reshape(array.shape))


def extras_of(node: Node, b: Builder, found: Mantissas, width: int, lanes: int) -> dict[Value, View]:
    """What a kernel reads in the places of the bias, which sums begin with already, and of the factor: what is added
    at the end, and the factor with the other sign, both woven in blocks of ``width``."""
    own = scaled_sum(node.post.get(0))
    assert own is not None
    return {
        node.extras[i]: b.packed(node.extras[i], Placed(tuple(map(float, numbers)), width, lanes))
        for i, numbers in ((own.bias, found.offsets), (own.factor, found.factors))
    }
