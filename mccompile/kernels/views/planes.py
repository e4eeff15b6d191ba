"""One or two spatial axes as a plane: a single one is a line of it.

Worked example: a signal of 8 channels and 9 samples is an image of one line; kernel 3 is a window of 1 x 3, and its
pads are (0, 1).

>>> from mccompile.ir.kernel import Buffer
>>> from mccompile.ir.types import F32, TensorType
>>> signal = View(Buffer("x", TensorType(F32, (1, 8, 9)), "arena", 16), (1, 8, 9), row_major(3), (72, 9, 1))
>>> plane(signal).shape, plane_last(signal).shape, plane_last(signal).strides
((1, 8, 1, 9), (1, 1, 9, 8), (72, 0, 1, 9))
>>> pair((3,)), pair((1,), missing=0), pair((3, 5))
((1, 3), (0, 1), (3, 5))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mccompile.ir.types import row_major
from mccompile.ir.views import View
from mccompile.kernels.views.channels import last
from mccompile.ops.conv import Conv


def pair(values: Sequence[int], missing: int = 1) -> tuple[int, int]:
    """Numbers of two spatial axes; of one axis, ``missing`` stands for the axis before it."""
    return (missing, *values)[-2], values[-1]


def plane(view: View) -> View:
    """A view [N, C, spatial...] as [N, C, H, W]; a missing H of extent 1 comes before W. [N, C, D, H, W] stays."""
    if view.rank >= 4:
        return view
    strides = view.axis_strides()
    shape = (*view.shape[:2], 1, view.shape[2])
    return View(view.buffer, shape, row_major(4), (*strides[:2], 0, strides[2]), view.offset)


def plane_last(view: View) -> View:
    """The view [N, C, spatial...] as [N, H, W, C], or [N, D, H, W, C]."""
    return last(plane(view))


class PlaneWindow(NamedTuple):
    """A window over lines and columns; ``pads`` are what comes before the first of each."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int]


POINT = PlaneWindow((1, 1), (1, 1), (1, 1), (0, 0))


def plane_window(op: Conv, kernel: Sequence[int], turned: bool = False) -> PlaneWindow:
    """The window of a convolution over one or two axes; ``turned``: lines are what columns were."""

    def two(values: Sequence[int], missing: int = 1) -> tuple[int, int]:
        first, second = pair(values, missing)
        return (second, first) if turned else (first, second)

    return PlaneWindow(two(kernel), two(op.strides), two(op.dilations), two(op.pads[: len(op.strides)], 0))
