"""Lets weights of float products stay the whole numbers that the network has: less flash, less memory to read.

Worked example: weights of two blocks of two rows, dequantised by a scale for each block and column::

    %v = map(%w, %s) {expr={(f32(x0) * x1)}} : f32[4,8]               %w of i8, %s constant in rows 0, 1 and in 2, 3
    %y = matmul(%x, %v)
    %y = matmul_quantised(%x, %w, %s.blocks) {block=2}                %s.blocks : f32[2,8]
"""

from __future__ import annotations

import math

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.scalar import Array
from mccompile.ir.types import F32
from mccompile.passes.analysis.quantised import Quantised
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.dequantised import constants_read_by
from mccompile.passes.rewrite.rewriter import Rewriter

ROUNDS = True
"""Scales are multiplied with sums instead of weights."""


@dataclass(frozen=True)
class _Weights:
    """A matrix [K, N] of whole numbers; scales and zero points of blocks of rows, [B, N] or one [1, 1] zero."""

    integers: Array
    block: int
    scale: Array
    zero: Array

    @property
    def least(self) -> int:
        return int(self.integers.min())

    @property
    def bits(self) -> int:
        """4 where two elements have room in a byte, and none is left alone in a block."""
        spread = int(self.integers.max()) - self.least
        return 4 if spread < 16 and self.block % 2 == 0 and self.integers.shape[0] % 2 == 0 else 8


def run(graph: Graph, remarks: Remarks) -> int:
    """Multiply floats by weights that stay integers, where all readers of dequantised constants are such products."""
    r = Rewriter(graph)
    changes = 0
    for found, readers, said in constants_read_by(r, remarks, "kept the weights {} as integers", obstacle):
        for reader in readers:
            weights = _in_blocks(graph, found, reader.op.weight_axes)
            remarks.hit(f"{said} of {weights.bits} bits in {reader.where}, in blocks of {weights.block}")
            _rewrite(r, reader, found.integers, weights)
        changes += len(readers)
    r.finish()
    return changes


def obstacle(r: Rewriter, reader: Node, value: Value, found: Quantised) -> str:
    """Why a reader of dequantised weights cannot take the integers; empty if it can."""
    x = reader.operands[0]
    if reader.op.weight_axes is None or x is None or len(reader.operands) != 2 or reader.operands[1] is not value:
        return f"{reader.where} is no product that takes them as they are"
    if value in r.graph.outputs or x is value or value in reader.extras:
        return "the floats are needed elsewhere"
    if found.integers.dtype.name not in ("i8", "u8") or reader.pre or reader.results[0].dtype != F32:
        return "they are no bytes, or the product is not of floats"
    if math.prod(value.shape[:-2]) != 1 or value.type.rank > x.type.rank:
        return "they are several matrices, or give the result its axes"
    if min(value.shape[-2:]) < 1:
        return "they are empty"
    info = np.iinfo(found.integers.dtype.numpy.name)
    if found.zero.min() < info.min or found.zero.max() > info.max:
        return "a zero point is no number of their type"
    return ""


def _in_blocks(graph: Graph, found: Quantised, axes: tuple[int, int] | None) -> _Weights:
    """The matrix with the axis that is summed over in front; blocks are as long as scales and zeros stay the same."""
    assert axes is not None
    shape = found.integers.shape[-2:]

    def turned(array: Array) -> Array:
        whole = np.broadcast_to(array, found.integers.shape).reshape(shape)
        return np.ascontiguousarray(whole.transpose(axes))

    scale, zero = turned(found.scale), turned(found.zero)
    changed = (scale[1:] != scale[:-1]) | (zero[1:] != zero[:-1])
    starts = np.flatnonzero(changed.any(1)) + 1
    block = math.gcd(*starts.tolist()) if starts.size else scale.shape[0]
    same = zero[:1, :1] if (zero == zero[0, 0]).all() else zero[::block]
    return _Weights(turned(graph.array(found.integers)), block, scale[::block], same)


def _rewrite(r: Rewriter, reader: Node, integers: Value, weights: _Weights) -> None:
    graph, name, dtype = r.graph, integers.name, integers.dtype.numpy
    op = reader.op.with_whole_weights(
        weights.block, int(weights.zero[0, 0]) if weights.zero.size == 1 else 0, weights.bits,
        weights.least if weights.bits == 4 else 0,
    )  # fmt: skip
    whole = integers if _equal(graph.array(integers), weights.integers) else None
    operands: list[Value | None] = [
        reader.operands[0],
        whole or graph.constant(f"{name}.matrix", weights.integers),
        graph.constant(f"{name}.scales", np.ascontiguousarray(weights.scale.astype(np.float32))),
        None if weights.zero.size == 1 else graph.constant(f"{name}.zeros", weights.zero.astype(dtype)),
    ]
    reader.op = op
    r.rewire(reader, operands, list(reader.extras))


def _equal(a: Array, b: Array) -> bool:
    return a.shape == b.shape and bool((a == b).all())
