"""Split: an axis cut into consecutive parts."""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.affine import Move, box
from mccompile.ir.dims import varies
from mccompile.ir.op import Layouts, TypeRuleError
from mccompile.ir.types import TensorType
from mccompile.ops.elements import of_extent
from mccompile.ops.filled import filled
from mccompile.ops.frontend import Import
from mccompile.ops.movement import Movement
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw


@dataclass(frozen=True)
class Split(Movement):
    """Result i has extent ``sizes[i]`` along ``axis``."""

    name = "split"
    layouts = Layouts.ALIKE

    axis: int
    sizes: tuple[int, ...]

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = types
        assert x is not None
        if sum(self.sizes) != x.shape[self.axis]:
            raise TypeRuleError(f"parts {list(self.sizes)} do not make up axis {self.axis} of {x}")
        a = self.axis
        return tuple(TensorType(x.dtype, (*x.shape[:a], s, *x.shape[a + 1 :])) for s in self.sizes)

    def moves(self, types: tuple[TensorType, ...], results: tuple[TensorType, ...]) -> tuple[Move, ...]:
        moves = []
        for i, (t, start) in enumerate(zip(results, accumulate(self.sizes, initial=0), strict=False)):
            src = tuple((start if a == self.axis else 0, 1) for a in range(t.rank))
            moves.append(box(t.shape, src, ((0, 1),) * t.rank, result=i))
        return tuple(moves)


def _sample(d: Draw) -> Case:
    sizes = d.shape(d.int(1, 3), 1, 3)
    shape = list(d.shape(d.int(1, 3)))
    axis = d.int(-len(shape), len(shape) - 1)
    shape[axis] = sum(sizes)
    if d.bool():
        parts = np.array(sizes, dtype=np.int64)
        return Case([d.array(shape), parts], {"axis": axis}, frozenset({1}), len(sizes))
    shape[axis] = max(shape[axis], 3)
    return Case([d.array(shape), None], {"axis": axis, "num_outputs": 2}, frozenset(), 2)


@onnx_op("Split", sample=_sample, tolerance={})
def import_split(n: Import) -> None:
    x = n.input(0)
    axis = n.axis(n.attr("axis", 0), len(x.shape))
    count = n.attr("num_outputs", len(n.node.outputs))
    if n.optional(1) is not None:
        sizes = n.ints(1, "split")
    else:
        chunk = -(-x.shape[axis] // count)
        sizes = (*(chunk,) * (count - 1), x.shape[axis] - chunk * (count - 1))
    if len(sizes) != len(n.node.outputs):
        raise n.error(f"{len(sizes)} parts for {len(n.node.outputs)} outputs")
    if all(size >= 0 for size in sizes) and not varies(sizes):  # of traced loops over what NonZero found
        x = of_extent(n, x, axis, sum(sizes), "whole")
    if any(size < 0 for size in sizes) or sum(sizes) != x.shape[axis]:
        raise n.error(f"parts {list(sizes)} do not make up axis {axis} of {x.type}")
    if all(sizes):
        n.emit(Split(axis, sizes), [x])
        return
    whole = [i for i, size in enumerate(sizes) if size]
    made = n.inners(Split(axis, tuple(sizes[i] for i in whole)), [x], [f"part{i}" for i in whole]) if whole else []
    for i, part in zip(whole, made, strict=True):
        n.bind(i, part)
    for i in (i for i, size in enumerate(sizes) if not size and n.node.outputs[i]):
        n.bind(i, filled(n, 0, x.dtype, (*x.shape[:axis], 0, *x.shape[axis + 1 :]), f"part{i}"))
