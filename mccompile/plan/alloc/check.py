"""Proof that a plan is sound, from the definition alone: it shares no code with the allocators it judges."""

from __future__ import annotations

from collections.abc import Set
from heapq import heappop, heappush

import numpy as np

from mccompile.ir.errors import InternalError
from mccompile.plan.alloc.problem import Interval, Near, Overwrite, Plan, Problem

Places = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


def check_plan(problem: Problem, plan: Plan) -> None:
    """Raise InternalError, naming the intervals, unless `plan` is a sound plan of `problem`.

    Verified: one aligned address per interval; intervals alive together are disjoint in their bytes (rounded
    up to alignment) unless an offer allows it that is listed in `plan.used`, made by the problem and true of
    the addresses; an overwriter lies inside what it overwrites; the peak is the highest byte; the lower bound
    is at most what is live (the peak, where there are diagonal offers).
    """
    if len(plan.offsets) != len(problem.intervals):
        raise InternalError(f"plan has {len(plan.offsets)} addresses for {len(problem.intervals)} intervals")
    spans: list[tuple[int, int]] = []
    for interval, offset in zip(problem.intervals, plan.offsets, strict=True):
        if offset < 0 or offset % interval.align != 0:
            raise InternalError(f"{interval.name}: address {offset} breaks alignment {interval.align}")
        spans.append((offset, offset + _round_up(interval.nbytes, interval.align)))
    made: set[Overwrite | Near] = {*problem.overwrites, *problem.nears}
    allowed = {_check_offer(problem, spans, offer, made) for offer in plan.used}
    _check_pairs(problem.intervals, spans, allowed)
    top = max((span[1] for span, i in zip(spans, problem.intervals, strict=True) if i.nbytes > 0), default=0)
    if plan.peak != top:
        raise InternalError(f"plan says peak {plan.peak}, its highest byte is {top}")
    # Diagonal overlaps one above the other need more than is live at any moment.
    live = top if problem.nears else _most_live_bytes(problem.intervals, spans, plan.lower_bound)
    if not 0 <= plan.lower_bound <= live:
        raise InternalError(f"plan says lower bound {plan.lower_bound}, but only {live} bytes are ever live")


def _round_up(nbytes: int, align: int) -> int:
    rest = nbytes % align
    return nbytes if rest == 0 else nbytes + align - rest


def _check_offer(
    problem: Problem, spans: list[tuple[int, int]], offer: Overwrite | Near, made: Set[Overwrite | Near]
) -> tuple[int, int]:
    """The pair (older, younger) that `offer`, one of those `made`, excuses, once it is known to hold."""
    src, dst = problem.intervals[offer.src], problem.intervals[offer.dst]
    names = f"{src.name} and {dst.name}"
    if offer not in made:
        raise InternalError(f"{names}: nobody offered {offer}")
    (src_low, src_high), (dst_low, dst_high) = spans[offer.src], spans[offer.dst]
    if isinstance(offer, Overwrite):
        if dst.end - 1 != src.begin or dst.begin >= src.begin:
            raise InternalError(f"{names}: {dst.name} does not die where {src.name}, its overwriter, is born")
        if src_low != dst_low + offer.offset:
            raise InternalError(f"{names}: {src.name} is not at offset {offer.offset} of {dst.name}")
        if src_low < dst_low or src_high > dst_high:
            raise InternalError(f"{names}: the overwriter {src.name} sticks out of {dst.name}")
        return offer.dst, offer.src
    if src.end - 1 != dst.begin:
        raise InternalError(f"{names}: {src.name} does not die where {dst.name} is born")
    disjoint = src_high <= dst_low or dst_high <= src_low
    if not disjoint and src_low < dst_low + offer.distance:
        raise InternalError(f"{names}: {src.name} is less than {offer.distance} bytes above {dst.name}")
    return offer.src, offer.dst


def _check_pairs(
    intervals: tuple[Interval, ...], spans: list[tuple[int, int]], allowed: set[tuple[int, int]]
) -> None:
    order = sorted((k for k, i in enumerate(intervals) if i.nbytes), key=lambda k: intervals[k].begin)
    end = np.array([intervals[k].end for k in order], np.int64)
    low, high = np.array([spans[k] for k in order], np.int64).reshape(-1, 2).T
    begin = np.array([intervals[k].begin for k in order], np.int64)
    for first in range(0, len(order), _AT_ONCE):
        rows = np.s_[first : first + _AT_ONCE]
        before = np.s_[: first + _AT_ONCE]  # of which those that are no earlier are left out below
        live = end[before] > begin[rows, None]
        meet = live & (low[before] < high[rows, None]) & (low[rows, None] < high[before])
        for at, k in zip(*(found.tolist() for found in np.nonzero(meet)), strict=True):
            i, j = order[first + at], order[k]
            if k < first + at and (j, i) not in allowed and (i, j) not in allowed:
                raise InternalError(
                    f"{intervals[j].name} at {spans[j]} and {intervals[i].name} at {spans[i]} overlap "
                    f"and are both alive at {intervals[i].begin}"
                )


_AT_ONCE = 256
"""Intervals that are compared together with all that begin before them."""


def _most_live_bytes(intervals: tuple[Interval, ...], spans: list[tuple[int, int]], enough: int) -> int:
    """The largest union of live bytes, or one that is ``enough``; it can only grow at a birth.

    A union is no larger than the sum, which is at hand at each moment: where that is not enough, none is built.
    """
    most = total = 0
    order = sorted(range(len(intervals)), key=lambda k: intervals[k].begin)
    by_address = sorted(order, key=lambda k: spans[k])
    begin = np.array([intervals[k].begin for k in by_address], np.int64)
    end = np.array([intervals[k].end for k in by_address], np.int64)
    low, high = np.array([spans[k] for k in by_address], np.int64).reshape(-1, 2).T
    ends: list[tuple[int, int]] = []
    for position, i in enumerate(order):
        now = intervals[i].begin
        while ends and ends[0][0] <= now:
            total -= heappop(ends)[1]
        nbytes = spans[i][1] - spans[i][0]
        heappush(ends, (intervals[i].end, nbytes))
        total += nbytes
        if position + 1 < len(order) and intervals[order[position + 1]].begin == now:
            continue
        if total <= most:
            continue
        live = (begin <= now) & (end > now)
        most = max(most, _union(low[live], high[live]))
        if most >= enough:
            break
    return most


def _union(low: Places, high: Places) -> int:
    """The bytes that lie in one of the spans at least, by the lowest byte of which they are in order.

    >>> _union(np.array([0, 2, 8]), np.array([4, 6, 12]))
    10
    """
    covered = np.maximum.accumulate(np.concatenate(([0], high[:-1])))
    return int(np.maximum(high - np.maximum(low, covered), 0).sum())
