"""Softmax of bytes by integers alone: a table of powers, one division for each row.

Worked example, bytes half a unit apart: of -3, 1, 0 the largest is 1, and their powers are T[4], T[0], T[1] with
T[d] = exp(-0.5 d) * 2^24, rounded. Their sum S divides each: the results are T[4] / S, T[0] / S, T[1] / S, in units
of 2^-31. Zero points cancel out.

Powers of a row that may have more elements have fewer bits, so that 32 hold the sum; a long row, of which powers too
small for these would be a large part, has powers of all bits, and a sum of 64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.op import Kind, Layouts, Op, TypeRuleError
from mccompile.ir.ranges import Range, constant
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Structure, over_axes
from mccompile.ir.types import I32, TensorType

ONE = 31
"""Results are in units of 2^-31."""
MOST_SHORT = 1 << 11
"""Elements of a row whose sum has 32 bits: powers have 20 then, and what they lose makes 2^-10 of a sum."""


@dataclass(frozen=True)
class SoftmaxBytes(Op):
    """Along ``axis``, of numbers ``scale`` apart. Operand of i8 or u8; result of i32, of 0 to 2^31 - 1."""

    name = "softmax_bytes"
    kind = Kind.COMPLEX
    layouts = Layouts.ALIKE

    axis: int
    scale: float

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        (x,) = types
        assert x is not None
        return over_axes(x, (self.axis,), self.infer(x))

    def value_range(self, types: Sequence[TensorType | None], ranges: Sequence[Range | None]) -> tuple[Range, ...]:
        (x,) = ranges
        assert x is not None
        return (constant(0, 2.0**ONE - 1, x.low.size),)

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = types
        assert x is not None
        if x.dtype.name not in ("i8", "u8") or not 0 <= self.axis < x.rank or not self.scale > 0:
            raise TypeRuleError(f"softmax of {x} along axis {self.axis}, {self.scale} apart, is not defined")
        return (x.with_dtype(I32),)

    def is_long(self, count: int) -> bool:
        """Whether the sum of a row of so many, at most, has 64 bits."""
        return int(count) > MOST_SHORT

    def powers(self, count: int) -> Array:
        """exp(-scale * d) for d from 0 to 255, in units that leave room for a sum of ``count``: u32."""
        parts, shift = self.power_parts(count)
        steps, rest = parts[:16].astype(np.uint64), parts[16:].astype(np.uint64)
        products = steps[:, None] * rest + np.uint64(1 << (shift - 1))
        return (products >> np.uint64(shift)).astype(np.uint32).reshape(256)

    def power_parts(self, count: int) -> tuple[Array, int]:
        """What `powers` are made of: T[d] is the product of exp(-16 * scale * (d / 16)), which are the first 16
        numbers, by exp(-scale * (d % 16)), which are the others, over 2^n, rounded; and n."""
        bits = 31 if self.is_long(count) else min(24, 31 - math.ceil(math.log2(max(int(count), 2))))
        exact = np.exp(-np.float64(self.scale) * np.concatenate([np.arange(0, 256, 16), np.arange(16)]))
        return np.rint(exact * 2.0**31).astype(np.uint32), 62 - bits

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        """As the kernel does it, bit by bit."""
        x = np.asarray(arrays[0]).astype(np.int64)
        if not x.size:
            return (x.astype(np.int32),)
        power = self.powers(x.shape[self.axis])[x.max(self.axis, keepdims=True) - x].astype(np.uint64)
        total = power.sum(self.axis, keepdims=True)
        left = np.frexp(total.astype(np.float64))[1] - 32  # by how many bits it is more than 32
        over, under = (np.maximum(n, 0).astype(np.uint64) for n in (left, -left))
        inverse = np.minimum((np.uint64(1) << np.uint64(63)) // ((total >> over) << under), np.uint64(2**32 - 1))
        share = ((power * inverse) << under) >> (np.uint64(32) + over)
        return (np.minimum(share, np.uint64(2**31 - 1)).astype(np.int32),)
