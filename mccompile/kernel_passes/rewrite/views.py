"""Views seen through a copy: the same elements, addressed where the copy takes them from or puts them.

Worked example: a copy takes the right half of x[2,6] to a[2,3]. Row 1 of a, which lies at 3, is row 1 of that half:
at 9 in x. All of a as one run of six is no run in x any more: its axis is cut in two rows of three, six apart.

>>> from mccompile.ir.kernel import Buffer
>>> from mccompile.ir.kernel_text import view_text
>>> from mccompile.ir.types import F32, TensorType
>>> x, a = (Buffer(name, TensorType(F32, (2, n)), "arena", 16) for name, n in (("x", 6), ("a", 3)))
>>> near, far = View(a, (2, 3), row_major(2), (3, 1)), View(x, (2, 3), row_major(2), (6, 1), offset=3)
>>> view_text(seen_through(View(a, (3,), row_major(1), (1,), offset=3), near, far).whole)
'x+9[3]{1}'
>>> run = seen_through(View(a, (6,), row_major(1), (1,)), near, far)
>>> run.whole, run.parts, run.offset
(None, (((2, 6), (3, 1)),), 3)
"""

from __future__ import annotations

import math

from mccompile._dataclass import dataclass
from mccompile.ir.dims import UndecidedError, bound
from mccompile.ir.places import is_on_axis
from mccompile.ir.types import Factor, row_major
from mccompile.ir.views import View

Parts = tuple[tuple[int, int], ...]
"""(extent, stride) of what an axis becomes, outermost first."""


@dataclass(frozen=True)
class Refined:
    """A view whose axes may have been cut in several: ``parts`` by axis, extents multiplying to the axis's own."""

    view: View
    parts: tuple[Parts, ...]
    offset: int

    @property
    def whole(self) -> View | None:
        """The view with the axes it had, None if one of them was cut."""
        if any(len(p) != 1 for p in self.parts):
            return None
        shape, strides = (tuple(p[0][k] for p in self.parts) for k in (0, 1))
        return View(self.view.buffer, shape, row_major(len(shape)), strides, self.offset)


    @property
    def regrouped(self) -> View:
        """The view with the axes it had, of which each may lie in several strides: a blocked layout."""
        factors: list[Factor] = []
        strides: list[int] = []
        for axis, parts in enumerate(self.parts):
            inner = 1
            for k, (extent, stride) in reversed(list(enumerate(parts))):
                factors.append(Factor(axis, inner, extent if k else 0))
                strides.append(stride)
                inner *= extent
        return View(self.view.buffer, self.view.shape, tuple(factors), tuple(strides), self.offset)


@dataclass
class _Digits:
    """The axes of a copy's near side, in which places are written as numbers are in mixed radix."""

    extents: list[int]
    near: list[int]
    far: list[int]
    used: list[int]

    def holding(self, stride: int) -> int | None:
        """The axis of the largest stride that divides into ``stride``."""
        fits = [j for j, d in enumerate(self.near) if _divides(d, stride)]
        return max(fits, key=lambda j: bound(self.near[j]), default=None)


def _divides(step: int, stride: int) -> bool:
    """Whether a stride is a multiple of a step, whatever varies."""
    try:
        return stride % step == 0 and stride // step >= 1
    except UndecidedError:
        return False


def seen_through(view: View, near: View, far: View) -> Refined | str:
    """``view``, which addresses elements of ``near``, as a view of the elements at the same coordinates of ``far``.

    ``near`` and ``far`` are the two sides of a copy, of one shape. Returns the reason if some element of
    ``view`` lies outside of ``near``, or the places do not follow one stride per axis.
    """
    digits = _digits(near, far)
    if isinstance(digits, str) or not view.linear:
        return digits if isinstance(digits, str) else "the layout is blocked"
    strides = view.axis_strides()
    rest = view.offset - near.offset + sum(s * (e - 1) for s, e in zip(strides, view.shape, strict=True) if s < 0)
    offset = far.offset
    for j in sorted(range(len(digits.near)), key=lambda j: -bound(digits.near[j])):
        digits.used[j], rest = divmod(rest, digits.near[j])
        offset += digits.used[j] * digits.far[j]
    places = zip(digits.used, digits.extents, strict=True)
    if rest or not all(place >= 0 and is_on_axis(e, place, view.shape) for place, e in places):
        return "it reads or writes beside what is copied"
    parts = []
    for extent, stride in zip(view.shape, strides, strict=True):
        found = _axis(extent, abs(stride), digits, view)
        if isinstance(found, str):
            return found
        if stride < 0:
            offset += sum(s * (e - 1) for e, s in found)
            found = tuple((e, -s) for e, s in found)
        parts.append(found)
    return Refined(View(far.buffer, view.shape, view.factors, view.strides), tuple(parts), offset)


def _digits(near: View, far: View) -> _Digits | str:
    if not near.linear or not far.linear:
        return "the layout is blocked"
    axes = [a for a in zip(near.shape, near.axis_strides(), far.axis_strides(), strict=True) if a[0] != 1]
    reach = 0
    for extent, stride, _ in sorted(axes, key=lambda a: bound(a[1])):
        if stride <= reach:
            return "the copied elements do not lie in nested strides"
        reach += stride * (extent - 1)
    return _Digits([a[0] for a in axes], [a[1] for a in axes], [a[2] for a in axes], [0] * len(axes))


def _axis(extent: int, stride: int, digits: _Digits, view: View) -> Parts | str:
    """What one axis of ``view`` becomes: in one piece, or cut where it runs over several axes of the copy."""
    if extent == 1 or stride == 0:
        return ((extent, 0),)
    parts: list[tuple[int, int]] = []
    while True:
        j = digits.holding(stride)
        if j is None:
            return "its steps are none of the copy's"
        step, n = stride // digits.near[j], digits.extents[j]
        if is_on_axis(n, digits.used[j] + step * (extent - 1), view.shape):
            digits.used[j] += step * (extent - 1)
            parts.append((extent, step * digits.far[j]))
            return _joined(parts)
        count = n // step
        if count < 2 or n % step or digits.used[j] >= step or extent % count or extent == count:
            return "it runs over the borders of what is copied"
        digits.used[j] += step * (count - 1)
        parts.append((count, step * digits.far[j]))
        extent, stride = extent // count, n * digits.near[j]


def _joined(inner_first: list[tuple[int, int]]) -> Parts:
    """Parts, outermost first; neighbours that are contiguous are one."""
    out: list[tuple[int, int]] = []
    for extent, stride in reversed(inner_first):
        if out and out[-1][1] == stride * extent:
            out[-1] = (out[-1][0] * extent, stride)
        else:
            out.append((extent, stride))
    return tuple(out)


def cut(view: View, parts: list[tuple[int, ...]]) -> View:
    """The view with each axis cut into parts of the given extents, outermost first."""
    shape: list[int] = []
    strides: list[int] = []
    for stride, extents in zip(view.axis_strides(), parts, strict=True):
        for i, extent in enumerate(extents):
            shape.append(extent)
            strides.append(stride * math.prod(extents[i + 1 :]))
    return View(view.buffer, tuple(shape), row_major(len(shape)), tuple(strides), view.offset)
