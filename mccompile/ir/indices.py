"""Indices of elements along axes, in numpy."""

from __future__ import annotations

import numpy as np

from mccompile.ir.errors import CompileError
from mccompile.ir.scalar import Array


def checked(indices: Array, extents: int | Array) -> Array:
    """Indices in [0, extent), negative ones counted from the end. CompileError names one that is outside.

    >>> checked(np.array([1, -1]), 3).tolist()
    [1, 2]
    """
    wrapped = np.where(indices < 0, indices.astype(np.int64) + extents, indices)
    bad = (wrapped < 0) | (wrapped >= extents)
    if bad.any():
        extent = np.broadcast_to(extents, indices.shape)[bad][0]
        raise CompileError(f"index {indices[bad][0]} is outside of an axis of extent {extent}")
    return wrapped


def grid_along(indices: Array, axis: int) -> tuple[Array, ...]:
    """The coordinates that element-wise indices along ``axis`` address.

    >>> np.array([[1, 2], [3, 4]])[grid_along(np.array([[1, 0]]), 0)].tolist()
    [[3, 2]]
    """
    grid: list[Array] = list(np.indices(indices.shape, sparse=True))
    grid[axis] = indices
    return tuple(grid)
