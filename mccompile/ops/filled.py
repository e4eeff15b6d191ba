"""Tensors of one number in each place, whose extents the run may say.

    f32[3,2] of 1.0                            is      a constant
    f32[n,2] of 1.0, where n is 1 .. 7         is      Expand of f32[1,1], which is 1.0, to [n,2]
    f32[n,0], of no place in any run           is      Empty, of which the extents are known

An array of numpy has one extent: that of the longest run, were it asked for n.
"""

from __future__ import annotations

import math

import numpy as np

from mccompile.ir.dims import varies
from mccompile.ir.graph import Value
from mccompile.ir.types import DType
from mccompile.ops.empty import Empty
from mccompile.ops.expand import Expand
from mccompile.ops.frontend import Import


def filled(n: Import, number: float, dtype: DType, shape: tuple[int, ...], suffix: str) -> Value:
    """A tensor of ``shape`` with ``number`` in each place; a constant if no run says what its extents are."""
    if not varies(shape):
        return n.constant(suffix, np.full(shape, number, dtype.numpy))
    if math.prod(shape) == 0:
        return n.inner(Empty(dtype.name, shape), [], suffix)
    one = n.constant(f"{suffix}.one", np.full((1,) * len(shape), number, dtype.numpy))
    return n.inner(Expand(shape), [one], suffix)
