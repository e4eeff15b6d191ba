"""Channels-last storage as vector kernels see it: the same elements, the channel as the last coordinate.

Worked example: an image of 8 channels, channels-last, has strides of 1 along axis 1; as [N, H, W, C] they are in
falling order.

>>> from mccompile.ir.kernel import Buffer
>>> from mccompile.ir.types import F32, TensorType, row_major
>>> image = Buffer("x", TensorType(F32, (1, 8, 4, 5), channels_last(4)), "arena", 16)
>>> stored = View(image, (1, 8, 4, 5), row_major(4), (160, 1, 40, 8))
>>> last(stored).shape, last(stored).strides
((1, 4, 5, 8), (160, 40, 8, 1))
"""

from __future__ import annotations

from mccompile.ir.graph import Value
from mccompile.ir.types import channels_last
from mccompile.ir.views import View


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
