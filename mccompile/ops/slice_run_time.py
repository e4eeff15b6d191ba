"""Slice whose starts, ends, axes or steps are computed at run time.

Worked example: x[s:e] of an axis of 10. The kernel that reads s and e counts from the end and clamps as ONNX says: of
s = -3 and e = 99 it makes first 7 and length 3. The extent of the result is ``least(length, 10 - first)``, so that
whoever reads the expression knows that the slice lies inside. Where the model states that the result has 4 elements,
first is 0 to 6, and length has to be 4.
"""

from __future__ import annotations

from mccompile._dataclass import dataclass
from mccompile.ir.dims import bound, minimum, varies
from mccompile.ir.graph import Value
from mccompile.ir.limits import MOST_INDEX
from mccompile.ops.elements import Elements, Whole
from mccompile.ops.frontend import Import
from mccompile.ops.picked import ByAxis, places, take
from mccompile.ops.run_time import RunTime
from mccompile.ops.slice import Slice


@dataclass(frozen=True)
class _Line:
    """What is taken along an axis: the first index, how many, the step; numbers of the run."""

    first: Whole
    count: Whole
    step: Whole


def clamped(start: Whole, stop: Whole, step: Whole, extent: Whole) -> _Line:
    """An axis sliced as ONNX says (operator Slice, clamping rules): `slice.clamp_range` of numbers of the run."""
    step = step.most(-MOST_INDEX).least(MOST_INDEX)  # no axis is longer; a sum with a larger one would wrap
    rising = Whole.of(0).below(step)

    def index(i: Whole, low: Whole) -> Whole:
        own = i.below(0).otherwise(i + extent, i).most(low)
        return rising.otherwise(own.least(extent), own.least(extent - 1))

    first, last = index(start, Whole.of(0)), index(stop, rising.otherwise(0, -1))
    away = rising.otherwise(last - first, first - last)
    size = rising.otherwise(step, Whole.of(0) - step).most(1)
    count = (away + size - 1).most(0) // size
    return _Line(count.equals(0).otherwise(0, first), count, step)


def import_slice(n: Import) -> None:
    x, e = n.input(0), Elements(n)
    rank = len(x.shape)
    starts, ends = e.of(1, "starts"), e.of(2, "ends")
    axes = e.of(3, "axes") if n.optional(3) is not None else tuple(map(Whole.of, range(len(starts))))
    steps = e.of(4, "steps") if n.optional(4) is not None else (Whole.of(1),) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) <= rank:
        raise n.error(f"starts, ends, axes and steps must have equal lengths of at most {rank}")
    for step in steps:
        e.require(step.equals(0).negated())
    by = ByAxis(e, axes, rank)
    begin, extents, later = [0] * rank, list(x.shape), list[tuple[int, int, _Line]]()
    for a in range(rank):
        if by.given(a).known is False:
            continue
        extent = e.extent(x.shape[a])
        stop = by.of(a, ends, 0)
        stop = by.given(a).otherwise(stop, extent)
        line = clamped(by.of(a, starts, 0), stop, by.of(a, steps, 1), extent)
        count = _count(n, e, a, line)
        if line.step.known == 1:
            begin[a], extents[a] = _part(e, a, line, count, x.shape[a], _stated(n, a) is not None)
        else:
            later.append((a, count, line))
    if tuple(extents) != x.shape or varies(begin):
        x = n.inner(Slice(tuple(begin), (1,) * rank, tuple(extents)), [x], "part")
    for a, count, line in later:
        x = _stepped(n, e, x, a, count, line)
    n.bind(0, x)


def _stated(n: Import, axis: int) -> int | None:
    """The extent that the model states for the result, if it is a number."""
    stated = n.declared_extent(axis)
    return None if stated is None or varies([stated]) else stated


def _count(n: Import, e: Elements, axis: int, line: _Line) -> int:
    """How many elements are taken along an axis: as many as the model states, or a number of the run."""
    stated = _stated(n, axis)
    low, high = (0, bound(n.input(0).shape[axis])) if stated is None else (stated, stated)
    return e.number(f"count{axis}", line.count, low, high)


def _part(e: Elements, axis: int, line: _Line, count: int, extent: int, stated: bool) -> tuple[int, int]:
    """First element and extent of a part without steps, which together do not leave the axis."""
    least = int(count) if stated and not varies((extent,)) else 0
    top = max(bound(extent) - max(least, 1), 0)
    first = e.number(f"first{axis}", line.first, 0, top)
    if least or (stated and not varies((extent,))):
        return first, count
    first = minimum(first, extent)
    return first, minimum(count, extent - first)


def _stepped(n: Import, e: Elements, x: Value, axis: int, count: int, line: _Line) -> Value:
    top = max(bound(x.shape[axis]) - 1, 0)
    at = places(n, e, f"axis{axis}", count, (line.first, 0, top), (line.step, top + 1))
    return take(n, x, axis, at, f"taken{axis}")


RUN_TIME = {"Slice": RunTime(import_slice, (1, 2, 3, 4), undecided=True)}
