"""The least arena any plan can reach: the live bytes at the worst moment."""

from __future__ import annotations

from mccompile.plan.alloc.problem import Overwrite, Problem, near_holds, padded


def lower_bound(problem: Problem, chosen_overwrites: tuple[Overwrite, ...]) -> int:
    """Most live bytes over time; each overwritten chain and each possible diagonal overlap is counted once.

    Sizes are rounded up to alignment. Holds for any plan that uses a subset of `chosen_overwrites`.
    """
    sizes = [padded(interval) for interval in problem.intervals]
    change: dict[int, int] = {}

    def add(begin: int, end: int, nbytes: int) -> None:
        change[begin] = change.get(begin, 0) + nbytes
        change[end] = change.get(end, 0) - nbytes

    for interval, size in zip(problem.intervals, sizes, strict=True):
        add(interval.begin, interval.end, size)
    saved: dict[tuple[int, int], int] = {}
    for link in chosen_overwrites:
        saved[link.src, link.dst] = sizes[link.src]
    for near in problem.nears:
        if near_holds(problem, near):
            overlap = max(0, min(sizes[near.src], sizes[near.dst], sizes[near.dst] - near.distance))
            pair = (near.dst, near.src)
            saved[pair] = max(saved.get(pair, 0), overlap)
    for (born, _), nbytes in saved.items():
        begin = problem.intervals[born].begin
        add(begin, begin + 1, -nbytes)
    # A single buffer bounds too where several diagonal offers make the sum weak.
    live, most = 0, max(sizes, default=0)
    for time in sorted(change):
        live += change[time]
        most = max(most, live)
    return most
