"""Unique: the different rows of a matrix. How many there are, a kernel counts.

    [2, 1, 2]      is      sorted [1, 2], first at [1, 0]; each row's place among them [1, 0, 1]; how often [1, 2]
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.graph import Value
from mccompile.ir.op import Op, TypeRuleError
from mccompile.ir.ranges import Range, anything, constant
from mccompile.ir.scalar import Array
from mccompile.ir.types import I32, I64, TensorType
from mccompile.ops.frontend import Import
from mccompile.ops.registry import onnx_op
from mccompile.ops.transpose import Transpose


@dataclass(frozen=True)
class Unique(Op):
    """Operand x[n, m]; results: the different rows [count, m], where each was first, i64[count], the place of each
    row of x among them, i64[n], how often each occurs, i64[count], and the count, i32[].

    They rise from the first element on, NaN being the largest, or are in the order of their first places.
    """

    name = "unique"

    count: int
    rising: bool = True

    @property
    def decides(self) -> bool:
        return True

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = types
        assert x is not None
        if x.rank != 2:
            raise TypeRuleError(f"{x} is no matrix")
        places = TensorType(I64, (self.count,))
        rows = TensorType(x.dtype, (self.count, x.shape[1]))
        return (rows, places, TensorType(I64, x.shape[:1]), places, TensorType(I32, ()))

    def value_range(self, types: Sequence[TensorType | None], ranges: Sequence[Range | None]) -> tuple[Range, ...]:
        (x,) = types
        assert x is not None
        n = int(x.shape[0])
        places = constant(0, max(n - 1, 0), 1)
        return (ranges[0] or anything(x.dtype, 1), places, places, constant(1, max(n, 1), 1), constant(0, n, 1))

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        x = np.asarray(arrays[0])
        keys = [tuple((v != v, 0 if v != v else v) for v in row) for row in x.tolist()]
        first: dict[tuple[object, ...], int] = {}
        for i, key in enumerate(keys):
            first.setdefault(key, i)
        order = sorted(first) if self.rising else list(first)
        number = {key: i for i, key in enumerate(order)}
        at = np.array([first[key] for key in order], np.int64)
        places = np.array([number[key] for key in keys], np.int64)
        return x[at], at, places, np.bincount(places, minlength=len(at)).astype(np.int64), np.array(len(at), np.int32)


@onnx_op("Unique", tolerance={})
def import_unique(n: Import) -> None:
    x, axis = n.input(0), n.attr("axis")
    rows, extents, perm = _rows(n, x, axis)
    count = n.counted("count", int(rows.shape[0]))
    op = Unique(count, n.flag("sorted", True))
    found, *others, total = n.inners(op, [rows], ["rows", "first", "places", "times", "count"])
    n.count(count, total)
    if axis is None:
        n.bind(0, n.reshape(found, (count,), "values"))
    else:
        whole = n.reshape(found, (count, *extents), "apart")
        back = tuple(int(p) for p in np.argsort(perm))
        n.bind(0, whole if back == tuple(range(len(back))) else n.inner(Transpose(back), [whole], "turned"))
    for i, value in enumerate(others[: len(n.outputs) - 1], 1):
        n.bind(i, value)


def _rows(n: Import, x: Value, axis: int | None) -> tuple[Value, tuple[int, ...], tuple[int, ...]]:
    """A matrix of what is to be different: elements, or what lies at each place of an axis; the other extents, and
    which axes of x come first."""
    if axis is None:
        return n.reshape(x, (x.type.count, 1), "column"), (), ()
    axis = n.axis(axis, len(x.shape))
    perm = (axis, *(a for a in range(len(x.shape)) if a != axis))
    extents = tuple(x.shape[a] for a in perm[1:])
    turned = x if axis == 0 else n.inner(Transpose(perm), [x], "first")
    return n.reshape(turned, (x.shape[axis], math.prod(extents)), "rows"), extents, perm
