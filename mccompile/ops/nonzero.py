"""NonZero: where a tensor has other elements than 0. How many there are, a kernel counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.dims import Dim, bound
from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Value
from mccompile.ir.op import Op
from mccompile.ir.ranges import Range, constant
from mccompile.ir.scalar import Array
from mccompile.ir.types import I32, I64, TensorType
from mccompile.ops.frontend import Import
from mccompile.ops.registry import onnx_op


@dataclass(frozen=True)
class NonZero(Op):
    """Results: coordinates of the elements that are not 0, i64[rank, count], in row-major order; and the count. Of a
    ``count`` that is known, the program ends with MCC_E_DIM where there are others."""

    name = "nonzero"

    count: int

    @property
    def decides(self) -> bool:
        return True

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = types
        assert x is not None
        return (TensorType(I64, (x.rank, self.count)), TensorType(I32, ()))

    def value_range(self, types: Sequence[TensorType | None], ranges: Sequence[Range | None]) -> tuple[Range, ...]:
        (x,) = types
        assert x is not None
        return (constant(0, max(map(int, x.shape), default=1), 1), constant(0, int(x.count), 1))

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        found = np.array(np.nonzero(np.asarray(arrays[0])), np.int64)
        if not isinstance(self.count, Dim) and found.shape[1] != self.count:
            raise CompileError(f"MCC_E_DIM: {found.shape[1]} elements are not 0, not {self.count}")
        return found, np.array(found.shape[1], np.int32)


def places(n: Import, x: Value) -> Value:
    """Coordinates of the elements of ``x`` that are not 0, i64[rank, count]. What was found of a tensor already is
    found once: x[mask] and y[mask] of equal masks have as many elements then."""
    same = (node.results[0] for node in n.graph.nodes if isinstance(node.op, NonZero) and node.inputs[0] is x)
    before = next(same, None)
    if before is not None:
        return before
    count = n.counted("count", bound(x.type.count))
    found, total = n.inners(NonZero(count), [x], ["found", "count"])
    n.count(count, total)
    return found


@onnx_op("NonZero", tolerance={})
def import_nonzero(n: Import) -> None:
    x = n.input(0)
    if not x.shape:
        x = n.reshape(x, (1,), "vector")
    n.bind(0, places(n, x))
