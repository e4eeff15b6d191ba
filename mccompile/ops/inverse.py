"""Inverse (com.microsoft): inverses of square matrices, by elimination with the largest pivot of each column.

>>> Inverse().evaluate(np.array([[0.0, 2.0], [4.0, 0.0]]))[0].tolist()
[[0.0, 0.25], [0.5, 0.0]]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.op import Kind, Op
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Nest, Structure, axis_loops
from mccompile.ir.types import TensorType
from mccompile.ops.det import square
from mccompile.ops.expansion import CONTRIB
from mccompile.ops.frontend import Import
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw


@dataclass(frozen=True)
class Inverse(Op):
    """Operand x[.., n, n]; result of the same shape: infinities and NaN where a matrix has no inverse."""

    name = "inverse"
    kind = Kind.OPAQUE

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        x = square(types[0])
        own = axis_loops(x.rank, x.rank)
        return (Nest(x.shape, own, ((*own[:-2], None, None),)),)

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        return (square(types[0]),)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        x = np.asarray(arrays[0])
        wide = x.astype(np.promote_types(x.dtype, np.float32))
        n = x.shape[-1]
        rows = np.concatenate([wide, np.broadcast_to(np.eye(n, dtype=wide.dtype), wide.shape)], -1)
        for matrix in rows.reshape(-1, n, 2 * n):
            with np.errstate(all="ignore"):
                _eliminate(matrix)
        return (rows[..., n:].astype(x.dtype),)


def _eliminate(rows: Array) -> None:
    """Turn the left half into the unit matrix, in place."""
    for i in range(len(rows)):
        pivot = i + int(np.argmax(np.abs(rows[i:, i])))
        rows[[i, pivot]] = rows[[pivot, i]]
        rows[i] /= rows[i, i]
        for r in range(len(rows)):
            if r != i:
                rows[r] -= rows[r, i] * rows[i]


def _sample(d: Draw) -> Case:
    n = d.int(1, 6)
    x = d.array((*d.shape(d.int(0, 2), 1, 3), n, n))
    return Case([x + 4 * np.eye(n, dtype=np.float32)])


@onnx_op("Inverse", domain=CONTRIB, sample=_sample, tolerance={"f32": 2e-5, "f16": 1e-2})
def import_inverse(n: Import) -> None:
    n.emit(Inverse(), [n.input(0)])
