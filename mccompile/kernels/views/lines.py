"""Loops of reductions and normalisations: axes that are kept, axes that belong together, the one of the lanes.

Worked example: x[2,5,3,4] is summed over its axes 2 and 3, which lie together: 10 lines that are kept, of 12
elements each. Over axis 1 it keeps 2 by 12, of which those of the last axis lie side by side: they are the lanes,
and the 5 of a line lie 12 apart.

>>> from mccompile.ir.kernel import Buffer
>>> from mccompile.ir.types import F32, TensorType
>>> x = View(Buffer("x", TensorType(F32, (2, 5, 3, 4)), "arena", 16), (2, 5, 3, 4), row_major(4), (60, 12, 4, 1))
>>> (kept,), (line,) = nest([x], (0, 1)), nest([x], (2, 3))
>>> lanes_last(kept, line, lanes_reduced=True).shape, Lines(kept=1, lanes_reduced=True).count((10, 12))
((10, 12), 12)
>>> (kept,), (line,) = nest([x], (0, 2, 3)), nest([x], (1,))
>>> across = lanes_last(kept, line, lanes_reduced=False)
>>> across.shape, across.strides, Lines(kept=1, lanes_reduced=False).count(across.shape)
((2, 5, 12), (60, 12, 1), 5)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mccompile._dataclass import dataclass
from mccompile.ir.dims import bound
from mccompile.ir.errors import InternalError
from mccompile.ir.graph import Value
from mccompile.ir.types import Shape, row_major
from mccompile.ir.views import View
from mccompile.kernels.views.collapse import collapse


@dataclass(frozen=True)
class Lines:
    """The axes of the views: ``kept`` leading ones, then those that belong together, the last of which has the lanes.

    ``lanes_reduced``: vectors run along what is reduced; else the last axis is one that is kept, of which up to
    ``beside`` vectors are reduced at a time.
    """

    kept: int
    lanes_reduced: bool
    beside: int = 8

    def count(self, shape: Shape) -> int:
        """How many elements belong together in an operand of this shape."""
        return math.prod(shape[self.kept :] if self.lanes_reduced else shape[self.kept : -1])


def join_axes(outer: View, inner: View) -> View:
    """Axes of one view followed by those of another of the same buffer and offset."""
    shape = outer.shape + inner.shape
    return View(outer.buffer, shape, row_major(len(shape)), outer.strides + inner.strides, outer.offset)


def nest(views: Sequence[View], axes: Sequence[int]) -> list[View]:
    """The views along some axes, those with the largest steps of the first view outside, merged where they can be."""
    steps = views[0].axis_strides()
    order = sorted(axes, key=lambda a: -abs(bound(steps[a])))
    found = collapse([v.along(order) for v in views])
    if isinstance(found, str):
        raise InternalError(found)
    return found


def innermost(value: Value) -> int:
    """The logical axis of more than one element whose neighbours lie next to each other; -1 if there is none."""
    return next((f.axis for f in reversed(value.type.factors) if value.shape[f.axis] != 1), -1)


def far(value: Value, result: Value) -> bool:
    """Whether neighbours of a result on its innermost axis lie apart in a value that is not broadcast there."""
    axis = innermost(result) - len(result.shape) + len(value.shape)
    return innermost(result) >= 0 and axis >= 0 and value.shape[axis] != 1 and innermost(value) != axis


def lanes_last(outer: View, inner: View, lanes_reduced: bool) -> View:
    """The axes of two views of one buffer, the kept ``outer`` ones before, with the axis of the lanes at the end."""
    if lanes_reduced:
        return join_axes(outer, inner)
    rank = outer.rank + inner.rank
    both = join_axes(outer, inner)
    return both.along([*range(outer.rank - 1), *range(outer.rank, rank), outer.rank - 1])
