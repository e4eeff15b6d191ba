"""Numbers that a compilation computes, with the same bits on every processor.

numpy has functions of f32 by vectors, and leaves products of matrices to BLAS: both choose code by the processor that
they find, with other last places. The blobs of one model would differ then, from machine to machine. Here functions
are those of f64, rounded once: they would have to differ beside a tie of f32. Products are added up in f64, one after
the other.

>>> product(np.float32([[1, 2], [3, 4]]), np.float32([[1, 10], [100, 1000]])).tolist()
[[201.0, 2010.0], [403.0, 4030.0]]
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mccompile.ir.small_floats import Array

_TOGETHER = 1 << 15
"""Sums that are added to at once: they stay in the first caches."""


def by_f64(function: Callable[..., Array]) -> Callable[..., Array]:
    """A function of floats, by numpy's of f64."""

    def of(*arrays: Array) -> Array:
        return np.asarray(function(*(a.astype(np.float64) for a in arrays))).astype(arrays[0].dtype)

    return of


exp, log = by_f64(np.exp), by_f64(np.log)


def product(a: Array, b: Array) -> Array:
    """``a @ b`` of matrices [.., M, K] and [.., K, N], of the type that numpy has for both."""
    dtype = np.result_type(a, b)
    if dtype.kind != "f":
        return np.asarray(np.matmul(a, b))
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    wide = [np.broadcast_to(x.astype(np.float64), (*lead, *x.shape[-2:])) for x in (a, b)]
    out = np.zeros((*lead, a.shape[-2], b.shape[-1]))
    step = max(_TOGETHER // max(b.shape[-1], 1), 1)
    for at in np.ndindex(*lead):
        left, right = (x[at] for x in wide)
        for first in range(0, a.shape[-2], step):
            sums = out[at][first : first + step]
            for column, row in zip(left[first : first + step].T, right, strict=True):
                sums += column[:, None] * row
    return out.astype(dtype)
