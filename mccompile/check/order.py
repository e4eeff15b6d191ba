"""Rows in another order: detections are sorted by a score; where scores are equal but for noise, any order is right.

Worked example: scores [0.9, 0.7, 0.7, 0.2] of boxes a, b, c, d. Where the C gives a, c, b, d, its rows 1 and 2 have
changed places, which is as right:

>>> scores, want, got = np.array([0.9, 0.7, 0.7, 0.2]), np.array([1, 2, 3, 4]), np.array([1, 3, 2, 4])
>>> [order.tolist() for order in orders({"s": scores, "b": got}, {"s": scores, "b": want}, {})]
[[0, 2, 1, 3]]

The scores are an output of one axis, or a column of one of two, which never rises from row to row of the reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mccompile.check.compare import OF_NOISE

Array = np.ndarray[Any, np.dtype[Any]]

LAST_PLACES = 2.0**-20
"""Scores nearer than this, relative to the greatest, are equal where no noise is known: 8 units in the last place."""

MOST_EQUAL = 16
"""Rows of equal scores that may be in any order; more are no detections."""


def orders(got: Mapping[str, Array], want: Mapping[str, Array], noise: Mapping[str, Array]) -> Iterator[Array]:
    """Which rows of ``got`` may be those of ``want``, one after the other, by each of the scores."""
    for count in {a.shape[0] for a in want.values() if a.ndim} - {0}:
        names = [n for n, a in want.items() if a.ndim and a.shape[0] == count and got[n].shape == a.shape]
        sizes = {n: float(np.abs(np.nan_to_num(want[n].astype(np.float64))).max(initial=0.0)) or 1.0 for n in names}
        for scores, unsure in _scores(want, noise, names):
            order = np.arange(count)
            for rows in _equal(scores, unsure):
                order[rows] = _nearest(_distances(got, want, sizes, rows), rows)
            if (order != np.arange(count)).any():
                yield order


def reordered(got: Mapping[str, Array], order: Array) -> dict[str, Array]:
    """The outputs of as many rows with these in the given order, the others as they are."""
    return {n: a[order] if a.ndim and a.shape[0] == len(order) else a for n, a in got.items()}


def _scores(
    want: Mapping[str, Array], noise: Mapping[str, Array], names: Sequence[str]
) -> Iterator[tuple[Array, float]]:
    """Columns of floats that never rise and are not all equal, and how sure they are."""
    for name in names:
        if want[name].dtype.kind != "f" or want[name].ndim > 2:
            continue
        columns = want[name].reshape(len(want[name]), -1).astype(np.float64)
        unsure = np.asarray(noise.get(name, np.zeros(columns.shape)), np.float64).reshape(columns.shape)
        for column, own in zip(columns.T, unsure.T, strict=True):
            if np.isfinite(column).all() and (np.diff(column) <= 0).all() and column[0] > column[-1]:
                yield column, max(OF_NOISE * float(own.max()), LAST_PLACES * float(np.abs(column).max()))


def _equal(scores: Array, unsure: float) -> Iterator[list[int]]:
    """The rows of each run of equal scores, where these are two or more, but no more than `MOST_EQUAL`."""
    ends = [*(np.flatnonzero(np.diff(scores) < -unsure) + 1).tolist(), len(scores)]
    for start, stop in zip([0, *ends], ends, strict=False):
        if 2 <= stop - start <= MOST_EQUAL:
            yield list(range(start, stop))


def _distances(
    got: Mapping[str, Array], want: Mapping[str, Array], sizes: Mapping[str, float], rows: Sequence[int]
) -> Array:
    """How far each of some rows of ``got`` is from each of those of ``want``: the most of all their elements,
    relative to ``sizes``, the greatest of each output."""
    apart = np.zeros((len(rows), len(rows)))
    for name, size in sizes.items():
        g, w = (np.nan_to_num(a[rows].reshape(len(rows), -1).astype(np.float64)) for a in (got[name], want[name]))
        for i, row in enumerate(w):
            apart[i] = np.maximum(apart[i], np.abs(g - row).max(axis=1, initial=0.0) / size)
    return apart


def _nearest(apart: Array, rows: Sequence[int]) -> list[int]:
    """For each row of the reference, the nearest of those of the C that are left."""
    left, found = list(range(len(rows))), []
    for distances in apart:
        best = min(left, key=lambda j: float(distances[j]))
        left.remove(best)
        found.append(rows[best])
    return found
