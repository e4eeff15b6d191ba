"""Which products of integers have kernels on a target with vectors; the others are faster as products of floats.

Worked example: AVX-512 multiplies the bytes of a 3x3 convolution in one group 200 at a time, and floats 30 at a time.
In four groups there is no kernel of bytes: one element after the other is 100 times slower than floats.
"""

from __future__ import annotations

import math

from mccompile.ir.dims import varies
from mccompile.ir.graph import Node
from mccompile.ir.types import I8, I32, U8, DType, TensorType
from mccompile.kernels.conv.integer_depthwise import LARGEST
from mccompile.kernels.model.arithmetic import arithmetics_of
from mccompile.ops.conv import Conv
from mccompile.ops.matmul import MatMul
from mccompile.targets.target import Target

ENOUGH_ROWS = 4
"""Rows of an image for which a matrix that all have is packed again: by 128 x 128, eight images of four rows take 0.8
of the time of floats, of one row 1.6 (Zen 4)."""


def not_covered(
    node: Node, operands: tuple[TensorType, TensorType], sums: DType, constant: bool, target: Target
) -> str:
    """Why kernels of bytes of a target do not multiply ``operands`` by the operator of ``node``; empty if they do,
    and on targets that scale sums in integers. ``constant``: whether the second one is."""
    if target.requant != "float":
        return ""
    if not arithmetics_of(target):
        return f"{target.name} has floats in vectors, and no products of bytes"
    if any(t.dtype not in (I8, U8) for t in operands) or sums != I32:
        return "integers of more than 8 bits are multiplied one by one, floats in vectors"
    x, w = operands
    match node.op:
        case MatMul(trans_a=trans_a):
            one = is_one_matrix(w) if constant else _is_packed(x, w, x.shape[-1 if trans_a else -2])
            return "" if one else "such matrices of bytes are multiplied one by one, floats in vectors"
        case Conv(groups=groups):
            each = groups == x.shape[1] == w.shape[0]
            if x.rank > 4 or (groups > 1 and (not each or max(w.shape[2:]) > LARGEST)):
                return "bytes of such windows are multiplied one by one, floats in vectors"
            return ""
    return f"{node.op.name} multiplies bytes one by one, floats in vectors"


def is_one_matrix(matrices: TensorType) -> bool:
    """Whether [..., rows, columns] is one matrix in every run."""
    return math.prod(matrices.shape[:-2]) == 1


def of_images(x: TensorType, w: TensorType) -> bool:
    """Whether matrices that are known when the network runs are one for each image, or one for all."""
    alike = x.shape[:-2] == w.shape[:-2] or is_one_matrix(x) or is_one_matrix(w)
    return alike and max(x.rank, w.rank) <= 4


def _is_packed(x: TensorType, w: TensorType, rows: int) -> bool:
    """Whether matrices that are known when the network runs are packed then: how many there are may depend on the
    run, but nothing else. One is packed for each image if that is so, which has to have ``rows`` enough."""
    if not of_images(x, w) or varies(e for v in (x, w) for e in v.shape[v.rank > 2 :]):
        return False
    again = is_one_matrix(w) and varies(x.shape[:-2])
    return not again or rows >= ENOUGH_ROWS
