"""Slice: every ``step``-th element from ``start`` along each axis, steps of either sign."""

from __future__ import annotations

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.affine import Move, box
from mccompile.ir.dims import UndecidedError, maximum, minimum, ranges, span, varies
from mccompile.ir.op import Layouts, TypeRuleError
from mccompile.ir.places import is_on_axis
from mccompile.ir.types import TensorType
from mccompile.ops.frontend import Import
from mccompile.ops.movement import Movement
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw


@dataclass(frozen=True)
class Slice(Movement):
    """Result index i of an axis is operand index start + i * step, for i < extent.

    ``view``: it is to be no copy wherever its readers can do without, whatever that means for the arena.
    """

    name = "slice"
    layouts = Layouts.ALIKE

    starts: tuple[int, ...]
    steps: tuple[int, ...]
    extents: tuple[int, ...]
    view: bool = False

    @property
    def is_view(self) -> bool:
        return self.view

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = types
        assert x is not None
        for e, start, step, extent in zip(x.shape, self.starts, self.steps, self.extents, strict=True):
            last = start + (extent - 1) * step
            low, high = (start, last) if step > 0 else (last, start)
            if extent and not (low >= 0 and is_on_axis(e, high, self.extents)):
                raise TypeRuleError(f"slice [{start}, {last}] is outside of an axis of {e}")
        return (TensorType(x.dtype, self.extents),)

    def moves(self, types: tuple[TensorType, ...], results: tuple[TensorType, ...]) -> tuple[Move, ...]:
        src = tuple(zip(self.starts, self.steps, strict=True))
        return (box(self.extents, src, ((0, 1),) * len(src)),)


def clamp_range(start: int, stop: int, step: int, extent: int) -> tuple[int, int]:
    """(first index, how many) of an ONNX slice of an axis (operator Slice, clamping rules).

    Raises UndecidedError where it depends on what is known at run time only from which end an index counts.
    """
    first, last = _clamped(start, 0, extent, step), _clamped(stop, 0 if step > 0 else -1, extent, step)
    count = maximum((last - first + step - 1) // step if step > 0 else (first - last - step - 1) // -step, 0)
    return (first, count) if varies((first, count)) or count else (0, 0)


def is_below_0(index: int) -> bool:
    """Whether an index counts from the end. UndecidedError where the run decides: -n
    of an n that may be 0 is the first element then, not the one behind the last."""
    least, most = span(index)
    if least < 0 <= most:
        raise UndecidedError(f"from which end {index} counts depends on {ranges(index)}", is_below_0, index)
    return most < 0


def _clamped(index: int, low: int, extent: int, step: int) -> int:
    """An index counted from the beginning, at least ``low``: a slice that goes backwards begins with the first one
    if not before it, and stops at -1. (One of numpy begins at -1, too, and is empty.)"""
    own = index + extent if is_below_0(index) else index
    return minimum(maximum(own, low), extent if step > 0 else extent - 1)


def _sample(d: Draw) -> Case:
    shape = d.shape(d.int(1, 4), 3, 7)
    axes = sorted({d.int(0, len(shape) - 1) for _ in range(2)})
    starts: list[int] = []
    ends: list[int] = []
    steps: list[int] = []
    for a in axes:
        if d.bool():
            first = d.int(0, shape[a] - 1)
            starts.append(first)
            ends.append(d.choice([first + 1, shape[a], 2**31]))
            steps.append(d.int(1, 3))
        else:
            starts.append(d.choice([-1, shape[a] + 3, -shape[a] - 2]))
            ends.append(d.choice([-(2**31), -shape[a] - 1, 0]))
            steps.append(-d.int(1, 3))
    tensors = [np.array(v, dtype=np.int64) for v in (starts, ends, axes, steps)]
    return Case([d.array(shape, d.choice(["f32", "i32"])), *tensors], {}, frozenset({1, 2, 3, 4}))


@onnx_op("Slice", sample=_sample, tolerance={})
def import_slice(n: Import) -> None:
    x = n.input(0)
    rank = len(x.shape)
    starts, ends = n.ints(1, "starts"), n.ints(2, "ends")
    axes = n.ints(3, "axes") if n.optional(3) is not None else tuple(range(len(starts)))
    steps = n.ints(4, "steps") if n.optional(4) is not None else (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise n.error("starts, ends, axes and steps must have equal lengths and no step may be 0")
    begin, stride, extent = [0] * rank, [1] * rank, list(x.shape)
    for start, stop, a, step in zip(starts, ends, n.axes(axes, rank), steps, strict=True):
        begin[a], extent[a] = clamp_range(start, stop, step, x.shape[a])
        stride[a] = step
    if tuple(extent) == x.shape and set(stride) == {1}:
        n.bind(0, x)
    else:
        n.emit(Slice(tuple(begin), tuple(stride), tuple(extent)), [x])
