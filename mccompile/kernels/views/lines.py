"""Loops of reductions and normalisations: axes that are kept, axes that belong together, the one of the lanes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mccompile.ir.errors import InternalError
from mccompile.ir.graph import Value
from mccompile.ir.kernel import View
from mccompile.ir.types import Shape, row_major
from mccompile.kernels.views.collapse import collapse


@dataclass(frozen=True)
class Lines:
    """The axes of the views: ``kept`` leading ones, then those that belong together, the last of which has the lanes.

    Unless vectors run ``along`` what belongs together: then the last axis is one that is kept.
    """

    kept: int
    along: bool

    def count(self, shape: Shape) -> int:
        """How many elements belong together in an operand of this shape."""
        return math.prod(shape[self.kept :] if self.along else shape[self.kept : -1])


def join_axes(outer: View, inner: View) -> View:
    """Axes of one view followed by those of another of the same buffer and offset."""
    shape = outer.shape + inner.shape
    return View(outer.buffer, shape, row_major(len(shape)), outer.strides + inner.strides, outer.offset)


def nest(views: Sequence[View], axes: Sequence[int]) -> list[View]:
    """The views along some axes, those with the largest steps of the first view outside, merged where they can be."""
    steps = views[0].axis_strides()
    order = sorted(axes, key=lambda a: -abs(steps[a]))
    found = collapse([v.along(order) for v in views])
    if isinstance(found, str):
        raise InternalError(found)
    return found


def innermost(value: Value) -> int:
    """The logical axis of more than one element whose neighbours lie next to each other; -1 if there is none."""
    return next((f.axis for f in reversed(value.type.factors) if value.shape[f.axis] != 1), -1)


def lanes_last(outer: View, inner: View, along: bool) -> View:
    """The axes of two views of one buffer, the kept ``outer`` ones before, with the axis of the lanes at the end."""
    if along:
        return join_axes(outer, inner)
    rank = outer.rank + inner.rank
    both = join_axes(outer, inner)
    return both.along([*range(outer.rank - 1), *range(outer.rank, rank), outer.rank - 1])
