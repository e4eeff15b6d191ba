"""Loop nests over several views at once: axes of extent 1 dropped, neighbours that are contiguous merged.

Worked example: of x[4,1,3,5] laid out row by row all axes are one of sixty. If y leaves a gap behind each row of
five, the last axis does not merge in y, so it does not merge in x either: both are walked as 12 rows of 5.

>>> from mccompile.ir.kernel import Buffer
>>> from mccompile.ir.types import F32, TensorType
>>> shape = (4, 1, 3, 5)
>>> x, y = (Buffer(name, TensorType(F32, (4, 1, 3, n)), "arena", 16) for name, n in (("x", 5), ("y", 8)))
>>> dense = View(x, shape, row_major(4), (15, 15, 5, 1))
>>> gaps = View(y, shape, row_major(4), (24, 24, 8, 1))
>>> [(v.shape, v.strides) for v in collapse([dense])]
[((60,), (1,))]
>>> [(v.shape, v.strides) for v in collapse([dense, gaps])]
[((12, 5), (5, 1)), ((12, 5), (8, 1))]
"""

from __future__ import annotations

from collections.abc import Sequence

from mccompile.ir.types import row_major
from mccompile.ir.views import View


def collapse(views: Sequence[View], groups: Sequence[Sequence[int]] | None = None) -> list[View] | str:
    """The views with as few axes as address the same elements in the same order.

    All views have one shape. ``groups`` are runs of neighbouring axes that may merge (default: all axes).
    Returns the reason if a view's layout is blocked.
    """
    if any(not v.linear for v in views):
        return "the layout is blocked"
    shape = views[0].shape
    strides = [v.axis_strides() for v in views]
    extents: list[int] = []
    steps: list[list[int]] = [[] for _ in views]
    for group in groups if groups is not None else [range(len(shape))]:
        fresh = True
        for axis in group:
            if shape[axis] == 1:
                continue
            merges = not fresh and all(
                mine[-1] == own[axis] * shape[axis] for mine, own in zip(steps, strides, strict=True)
            )
            if merges:
                extents[-1] *= shape[axis]
                for mine, own in zip(steps, strides, strict=True):
                    mine[-1] = own[axis]
            else:
                extents.append(shape[axis])
                for mine, own in zip(steps, strides, strict=True):
                    mine.append(own[axis])
            fresh = False
    rank = len(extents)
    return [
        View(v.buffer, tuple(extents), row_major(rank), tuple(mine), v.offset)
        for v, mine in zip(views, steps, strict=True)
    ]


def in_stored_order(views: Sequence[View]) -> list[View]:
    """Linear views of one shape with their axes in the order in which the last view lies in memory."""
    order = views[-1].by_steps()
    return [v.along(order) for v in views]
