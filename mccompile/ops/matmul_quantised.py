"""Products of floats by weights that stay whole numbers: scales and zero points of blocks of rows.

Worked example: two blocks of two rows, one column; the numbers 1, 2, 3, 4 stand for 1 * 0.5, 2 * 0.5, 3 * 10, 4 * 10.

>>> w, scale = np.array([[1], [2], [3], [4]], np.int8), np.array([[0.5], [10.0]], np.float32)
>>> MatMulQuantised(block=2).evaluate(np.ones((1, 4), np.float32), w, scale, None)[0].tolist()
[[71.5]]

Rounded, the operand 1, 0.1 is 127, 13 times 1 / 127:

>>> np.rint(rounded(np.array([[1.0, 0.1]], np.float32), 2) * 127).tolist()
[[127.0, 13.0]]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.affine import loop
from mccompile.ir.op import Kind, Op, TypeRuleError
from mccompile.ir.same_bits import product
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Nest, Structure, axis_loops
from mccompile.ir.types import F32, I8, U8, TensorType

MOST = 127
"""The largest whole number that an operand is rounded to."""
LEAST_ROUNDED = 1e-36
"""Operands of a block up to this are taken for zero: ``MOST`` divided by less would leave the range of f32."""


def rounded(a: Array, block: int) -> Array:
    """``a`` with each ``block`` of elements on its last axis rounded to whole numbers, ties to even, times a 127th of
    the largest magnitude of the block: as onnxruntime does where it may (``accuracy_level`` 4)."""
    k = a.shape[-1]
    whole = np.pad(a.astype(np.float32), [(0, 0)] * (a.ndim - 1) + [(0, -k % block)])
    parts = whole.reshape(*a.shape[:-1], whole.shape[-1] // block, block)
    most = np.abs(parts).max(-1, keepdims=True)
    inverse = np.divide(np.float32(MOST), most, out=np.zeros_like(most), where=most > np.float32(LEAST_ROUNDED))
    near = np.clip(np.rint(parts * inverse), -MOST, MOST) * (most / np.float32(MOST))
    return np.asarray(near.reshape(whole.shape)[..., :k], np.float32)


@dataclass(frozen=True)
class MatMulQuantised(Op):
    """Operands a[..., M, K], integers w[K, N], scale[B, N] and perhaps zero[B, N] of the integers' type; result
    [..., M, N], of a times (w - zero) * scale. Row k of w has scale and zero k // ``block``; without the operand, all
    zeros are the attribute. With ``bits`` 4 the elements of w are 16 neighbours at most, from ``least`` on. Where it
    ``rounds``, a is what `rounded` makes of it: products are those of whole numbers of 8 bits.
    """

    name = "matmul_quantised"
    kind = Kind.COMPLEX

    block: int
    zero: int = 0
    bits: int = 8
    least: int = 0
    rounds: bool = False

    @property
    def multilinear(self) -> tuple[int, ...]:
        return () if self.rounds else (0,)

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        """Loops: leading axes, row, column; then the axis summed over."""
        a, *others = types
        assert a is not None
        (y,) = self.infer(*types)
        loops, n = (*y.shape, a.shape[-1]), y.rank + 1
        column, inner = loop(y.rank - 1, n), loop(y.rank, n)
        parameters = tuple(None if t is None else (None, column) for t in others[1:])
        reads = ((*axis_loops(y.rank - 1, n), inner), (inner, column), *parameters)
        return (Nest(loops, axis_loops(y.rank, n), reads),)

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        a, w, scale, zero = types
        assert a is not None
        assert w is not None
        assert scale is not None
        if a.rank < 2 or a.dtype != F32 or w.rank != 2 or w.dtype not in (I8, U8) or a.shape[-1] != w.shape[0]:
            raise TypeRuleError(f"{a} times {w}: floats [.., M, K] and bytes [K, N] are needed")
        blocks = (-(-w.shape[0] // self.block), w.shape[1]) if self.block > 0 else None
        if scale.dtype != F32 or scale.shape != blocks:
            raise TypeRuleError(f"scales {scale} of {w} in blocks of {self.block}")
        if zero is not None and (zero.dtype != w.dtype or zero.shape != blocks):
            raise TypeRuleError(f"zero points {zero} of {w} in blocks of {self.block}")
        if self.bits not in (4, 8) or self.least not in range(*((-128, 128) if w.dtype == I8 else (0, 256))):
            raise TypeRuleError(f"weights of {self.bits} bits from {self.least} on in {w}")
        return (TensorType(F32, (*a.shape[:-1], w.shape[1])),)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        a, w, scale = (np.asarray(x) for x in arrays[:3])
        zero = np.full(scale.shape, self.zero) if arrays[3] is None else np.asarray(arrays[3])
        rows = np.arange(w.shape[0]) // self.block
        real = (w.astype(np.int32) - zero.astype(np.int32)[rows]).astype(np.float32) * scale[rows]
        return (product(rounded(a, self.block) if self.rounds else a, real),)

    def macs(self, types: Sequence[TensorType | None], results: Sequence[TensorType]) -> int:
        a = types[0]
        assert a is not None
        return results[0].count * a.shape[-1]
