"""The largest elements of windows, and where they lie (ONNX operator MaxPool)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.dims import bound
from mccompile.ir.op import Kind, Op, TypeRuleError
from mccompile.ir.ranges import Range, constant
from mccompile.ir.scalar import Array
from mccompile.ir.types import I64, TensorType
from mccompile.ops.folding import WINDOW
from mccompile.ops.frontend import Import
from mccompile.ops.pool import Pool, read_pool, sample_pool
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw


@dataclass(frozen=True)
class ArgPool(Op):
    """Operand x[N, C, spatial...]; result [N, C, windows...]: the place in row-major order of x, or with
    ``by_columns`` in column-major order of each plane of it, of the largest element. Of equal ones the first counts.
    It says nothing of its `structure`: a place is another number in a part of x, of fewer channels or rows.

    >>> x = np.array([[[3.0, 1.0, 1.0, 5.0]]])
    >>> ArgPool((2,), (2,), (0, 0), (1,)).evaluate(x)[0].tolist()
    [[[0, 3]]]
    """

    name = "arg_pool"
    kind = Kind.REDUCTION

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    ceil: bool = False
    by_columns: bool = False

    @property
    def decides(self) -> bool:
        return True

    @property
    def pool(self) -> Pool:
        """The pool of the largest elements themselves."""
        return Pool("max", self.kernel, self.strides, self.pads, self.dilations, self.ceil)

    def value_range(self, types: Sequence[TensorType | None], ranges: Sequence[Range | None]) -> tuple[Range, ...]:
        (x,) = types
        assert x is not None
        return (constant(0, max(bound(x.count) - 1, 0)),)

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        (found,) = self.pool.infer(*types)
        (x,) = types
        assert x is not None
        if x.count >= 2**31:
            raise TypeRuleError(f"{x} has more elements than are numbered")
        return (TensorType(I64, found.shape),)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        x = np.asarray(arrays[0])
        planes, spatial = x.shape[:2], x.shape[2:]
        count = math.prod(spatial)
        places = np.arange(count).reshape(spatial[::-1]).T if self.by_columns else np.arange(count).reshape(spatial)
        at = (np.arange(math.prod(planes)) * count).reshape(*planes, *(1,) * len(spatial)) + places
        (shape,) = (t.shape for t in self.pool.infer(TensorType(I64, x.shape)))
        best, found = np.full(shape, -np.inf), np.full(shape, -1, np.int64)
        for tap in np.ndindex(*self.kernel):
            index, inside = [], np.ones(shape, bool)
            for a, t in enumerate(tap):
                i = np.arange(shape[2 + a]) * self.strides[a] + t * self.dilations[a] - self.pads[a]
                i = i.reshape(-1, *(1,) * (len(spatial) - 1 - a))
                inside = inside & (i >= 0) & (i < spatial[a])
                index.append(np.clip(i, 0, spatial[a] - 1))
            here, place = (np.broadcast_to(v[(slice(None), slice(None), *index)], shape) for v in (x, at))
            better = inside & ((found < 0) | (here > best))
            best, found = np.where(better, here, best), np.where(better, place, found)
        return (found,)


def _sample(d: Draw) -> Case:
    case = sample_pool(d)
    if d.int(0, 2):
        return case
    return Case(case.inputs, {**case.attrs, "storage_order": d.int(0, 1)}, outputs=2)


@onnx_op("MaxPool", sample=_sample, tolerance={}, folding=WINDOW)
def import_max_pool(n: Import) -> None:
    x, op, by_columns = n.input(0), read_pool(n, "max"), n.flag("storage_order")
    if len(n.outputs) < 2 or not n.node.outputs[1]:
        n.emit(op, [x])
        return
    where = ArgPool(op.kernel, op.strides, op.pads, op.dilations, op.ceil, by_columns)
    largest, places = n.inner(op, [x], "largest"), n.inner(where, [x], "places")
    n.bind(0, largest)
    n.bind(1, places)
