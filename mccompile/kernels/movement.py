"""How the elements of a copy are moved: by which loops, decided from the two views alone."""

from __future__ import annotations

from enum import Enum

from mccompile._dataclass import dataclass
from mccompile.ir.dims import bound, varies
from mccompile.ir.types import F32, DType
from mccompile.ir.views import View
from mccompile.kernels.views.collapse import collapse, in_stored_order

WOVEN = 4
"""Up to so many vectors are woven into one run, or one run into so many."""
NARROW = 16
"""Bytes of the vectors of all elements but f32: every instruction set weaves two of them by few instructions."""


def lanes_of(dtype: DType, lanes: int) -> int:
    """Elements in the vectors that a copy moves, where vectors have ``lanes`` floats; 0: one by one.

    >>> from mccompile.ir.types import F16, I64
    >>> [lanes_of(d, 16) for d in (F32, F16, I64)], lanes_of(F16, 1)
    ([16, 8, 2], 0)
    """
    if dtype == F32:
        return lanes
    return NARROW // dtype.nbytes if lanes * F32.nbytes >= NARROW else 0


class Way(Enum):
    """``PLAIN``: one element after the other. ``ROWS``: runs that are contiguous on both sides.

    Where the contiguous axis of one side is not that of the other, the last two axes of the views are these, that of
    the source first: ``TURN`` turns squares of vectors, ``WEAVE`` makes one run of few, ``UNWEAVE`` few of one.
    """

    PLAIN = "plain"
    ROWS = "rows"
    TURN = "turn"
    WEAVE = "weave"
    UNWEAVE = "unweave"


@dataclass(frozen=True)
class Movement:
    """The views with their axes in the order of the loops."""

    way: Way
    source: View
    result: View


def movement(source: View, result: View, lanes: int) -> Movement:
    """The best way to copy one linear view to another of its shape, where vectors have ``lanes`` floats: none are of
    0 or 1."""
    if not source.linear or not result.linear:
        return Movement(Way.PLAIN, source, result)
    found = collapse(in_stored_order([source, result]))
    if isinstance(found, str):
        return Movement(Way.PLAIN, source, result)
    x, y = found
    if not y.rank:
        return Movement(Way.PLAIN, x, y)
    if x.strides[-1] == y.strides[-1] == 1:
        return Movement(Way.ROWS, x, y)
    lanes, near = lanes_of(x.dtype, lanes) if lanes > 1 else 0, _near(x)
    if not lanes or y.strides[-1] != 1 or near in (-1, x.rank - 1):
        return Movement(Way.PLAIN, x, y)
    extents = x.shape[near], x.shape[-1]
    if any(varies([e]) and bound(e) < lanes for e in extents):
        return Movement(Way.PLAIN, x, y)
    if x.dtype != F32 and max(map(bound, extents)) < lanes:
        return Movement(Way.PLAIN, x, y)
    order = [*(a for a in range(x.rank - 1) if a != near), near, x.rank - 1]
    x, y = x.along(order), y.along(order)
    return Movement(_crossing(x, y), x, y)


def _near(view: View) -> int:
    """The axis along which vectors are read: neighbours, or every second float if these are few; -1 if none."""
    first, second = (next((a for a, s in enumerate(view.strides) if s == step), -1) for step in (1, 2))
    if view.dtype != F32:
        return first
    if first < 0 or second < 0:
        return max(first, second)
    return second if bound(view.shape[first]) <= WOVEN and view.strides[-1] != view.shape[first] else first


def _crossing(x: View, y: View) -> Way:
    """Of views whose last axis but one is contiguous in the source, and whose last one is in the result."""
    few, many = x.shape[-2:]
    if x.strides[-2] != 1:
        return Way.TURN
    if bound(many) <= WOVEN and y.strides[-2] == many and not varies([many, few]):
        return Way.WEAVE
    if bound(few) <= WOVEN and x.strides[-1] == few and not varies([few, many]):
        return Way.UNWEAVE
    return Way.TURN
