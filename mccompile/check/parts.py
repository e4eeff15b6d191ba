"""Which part of a reference's tensor a node computes, where channels are gone, or in another order."""

from __future__ import annotations

from typing import Any

import numpy as np

from mccompile.check.rounding import TIE

Array = np.ndarray[Any, np.dtype[Any]]


def part_of(got: Array, theirs: Array, moves: bool, real: Array | None = None) -> tuple[Any, ...] | None:
    """The index of the part of the reference's tensor that a node computes: all, or the channels that are left of it
    where the others were constant and are gone, in another order if it ``moves`` them. None if neither is so.

    Of ``[[1, 2], [7, 7], [3, 4]]`` the rows that ``[[1, 2], [3, 5]]`` is closest to, in this order, are 0 and 2. Of
    ``[[1], [3], [5]]`` those of ``[[1], [4]]`` are told by what theirs was before it was rounded, if that is known:
    4.5 became 5, and is 4 as well.
    """
    if got.shape == theirs.shape:
        return _other_order(got, theirs, real) if moves and not _close(got, theirs) else ()
    if got.ndim != theirs.ndim:
        return None
    axes = [a for a in range(got.ndim) if got.shape[a] != theirs.shape[a]]
    if len(axes) != 1 or not 0 < got.shape[axes[0]] < theirs.shape[axes[0]]:
        return None
    own, all_ = (_rows(a, axes[0]) for a in (got, theirs))
    reals = None if real is None else _rows(real, axes[0])
    gone = len(all_) - len(own)
    # Of row k, skipping d of theirs before it: the differences up to there, and the d of the row before.
    least, before = np.zeros(gone + 1, np.int64), []
    for k, row in enumerate(own):
        reached = np.minimum.accumulate(least)
        before.append(np.maximum.accumulate(np.where(least == reached, np.arange(gone + 1), 0)))
        some = slice(k, k + gone + 1)
        least = reached + _distances(row, all_[some], None if reals is None else reals[some])
    d, kept = int(least.argmin()), []
    for k in reversed(range(len(own))):
        kept.append(k + d)
        d = int(before[k][d])
    part: tuple[Any, ...] = (*(slice(None),) * axes[0], np.array(kept[::-1]))
    return part if not moves or axes[0] != 1 or _close(got, theirs[part]) else _other_order(got, theirs, real) or part


def _close(got: Array, theirs: Array) -> bool:
    """Whether two tensors are one but for ties: one that differs in more than a hundredth is another tensor."""
    return int((theirs != got).sum()) * 100 <= got.size


def _rows(array: Array, axis: int) -> Array:
    rows: Array = np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1)
    return rows


def _distances(row: Array, theirs: Array, reals: Array | None) -> Array:
    """How far a row is from each of theirs: first by what no tie explains, then by what differs at all."""
    differs = theirs != row
    found: Array = differs.sum(axis=1, dtype=np.int64)
    if reals is not None:
        info = np.iinfo(theirs.dtype)
        wrong = differs & (np.abs(np.clip(reals, info.min, info.max) - row) > TIE)
        found += wrong.sum(axis=1) * (row.size + 1)
    return found


def _other_order(got: Array, theirs: Array, real: Array | None = None) -> tuple[Any, ...]:
    """The index by which a tensor has its channels, or those that are left of them, as another one has them: each the
    closest that is free. Nothing where that makes them no more alike."""
    if got.ndim < 2:
        return ()
    own, left = (_rows(a, 1) for a in (got, theirs))
    reals = None if real is None else _rows(real, 1)
    free = np.ones(len(left), bool)
    order = np.zeros(len(own), np.int64)
    for k, row in enumerate(own):
        order[k] = np.where(free, _distances(row, left, reals), (row.size + 1) ** 2).argmin()
        free[order[k]] = False
    part = (slice(None), order)
    return part if _close(got, theirs[part]) else ()
