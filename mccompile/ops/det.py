"""Det: determinants, by elimination with the largest pivot of each column.

>>> Det().evaluate(np.array([[0.0, 2.0], [3.0, 4.0]]))[0].tolist()
-6.0
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.op import Kind, Op, TypeRuleError
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Structure, over_axes
from mccompile.ir.types import TensorType
from mccompile.ops.frontend import Import
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw


def square(x: TensorType | None) -> TensorType:
    """A type of square matrices of floats. Raises TypeRuleError for another."""
    assert x is not None
    if x.rank < 2 or x.shape[-1] != x.shape[-2] or x.dtype.compute.name not in ("f32", "f64"):
        raise TypeRuleError(f"{x} is no square matrix of floats")
    return x


@dataclass(frozen=True)
class Det(Op):
    """Operand x[.., n, n]; result [..]."""

    name = "det"
    kind = Kind.OPAQUE

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        x = square(types[0])
        return over_axes(x, (x.rank - 2, x.rank - 1), self.infer(x))

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        x = square(types[0])
        return (TensorType(x.dtype, x.shape[:-2]),)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        x = np.asarray(arrays[0])
        wide = x.astype(np.promote_types(x.dtype, np.float32))
        return (np.asarray(np.linalg.det(wide)).astype(x.dtype),)


def _sample(d: Draw) -> Case:
    n = d.int(1, 6)
    return Case([d.array((*d.shape(d.int(0, 2), 1, 3), n, n))])


@onnx_op("Det", sample=_sample, tolerance={"f32": 2e-5, "f16": 1e-2})
def import_det(n: Import) -> None:
    n.emit(Det(), [n.input(0)])
