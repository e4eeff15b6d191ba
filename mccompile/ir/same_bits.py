"""Numbers that a compilation computes, with the same bits on every processor.

numpy has functions of f32 by vectors, and leaves products of matrices to BLAS: both choose code by the processor that
they find, with other last places. The blobs of one model would differ then, from machine to machine. Here functions
are those of f64, rounded once: they would have to differ beside a tie of f32. Products are added up in f64 by
`numpy.einsum`, whose code is the same for all of an architecture.

>>> product(np.float32([[1, 2], [3, 4]]), np.float32([[1, 10], [100, 1000]])).tolist()
[[201.0, 2010.0], [403.0, 4030.0]]
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mccompile.ir.small_floats import Array


def by_f64(function: Callable[..., Array]) -> Callable[..., Array]:
    """A function of floats, by numpy's of f64."""

    def of(*arrays: Array) -> Array:
        return np.asarray(function(*(a.astype(np.float64) for a in arrays))).astype(arrays[0].dtype)

    return of


exp, log = by_f64(np.exp), by_f64(np.log)


def product(a: Array, b: Array) -> Array:
    """``a @ b`` of matrices [.., M, K] and [.., K, N], of the type that numpy has for both."""
    wide = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in (a, b)]
    return np.asarray(np.einsum("...mk,...kn->...mn", *wide)).astype(np.result_type(a, b))
