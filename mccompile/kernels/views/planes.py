"""One or two spatial axes as a plane: a single one is a line of it."""

from __future__ import annotations

from collections.abc import Sequence

from mccompile.ir.kernel import View
from mccompile.ir.types import row_major
from mccompile.kernels.views.channels import last


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
