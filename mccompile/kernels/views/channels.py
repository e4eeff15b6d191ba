"""Channels-last storage as vector kernels see it: the same elements, the channel as the last coordinate."""

from __future__ import annotations

from mccompile.ir.graph import Value
from mccompile.ir.kernel import View
from mccompile.ir.types import channels_last


def is_channels_last(value: Value) -> bool:
    """Whether neighbours in memory are channels (axis 1): by its layout, or because no other axis has an extent."""
    shape, layout = value.shape, value.type.layout
    if len(shape) < 3:
        return False
    if layout == channels_last(len(shape)):
        return True
    return layout is None and all(e == 1 for e in shape[2:])


def last(view: View) -> View:
    """The view [N, C, ...] as [N, ..., C]: channels become the axis along which vectors run."""
    return view.along((0, *range(2, view.rank), 1))
