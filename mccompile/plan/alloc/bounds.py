"""A lower bound of the arena that any plan needs: the live bytes at the worst moment, or a stack of overlaps.

Worked example: a (8 bytes) is read in step 1, which writes b (8). Both are alive in step 1, so 16 bytes; if b may
overwrite a they count once, 8; if a may lie over b from 2 bytes behind its beginning on, 10.

>>> from mccompile.plan.alloc.problem import Interval, Near
>>> lives = (Interval("a", 0, 2, 8, 1), Interval("b", 1, 3, 8, 1))
>>> lower_bound(Problem(lives), ())
16
>>> lower_bound(Problem(lives), (Overwrite(src=1, dst=0),))
8
>>> lower_bound(Problem(lives, nears=(Near(src=0, dst=1, distance=2),)), ())
10
"""

from __future__ import annotations

from dataclasses import dataclass

from mccompile.plan.alloc.problem import Overwrite, Problem, near_holds, padded


def lower_bound(problem: Problem, chosen_overwrites: tuple[Overwrite, ...]) -> int:
    """Most live bytes over time; each overwritten chain and each possible diagonal overlap is counted once.

    Overlaps one after the other stand on each other's shoulders, which may need more than any moment.
    Sizes are rounded up to alignment. Holds for any plan that uses a subset of `chosen_overwrites`.
    """
    sizes = [padded(interval) for interval in problem.intervals]
    saved: dict[tuple[int, int], int] = {}
    distances: dict[tuple[int, int], int] = {}
    for link in chosen_overwrites:
        saved[link.src, link.dst] = sizes[link.src]
        distances[link.src, link.dst] = -link.offset
    for near in problem.nears:
        if near_holds(problem, near):
            pair = (near.dst, near.src)
            distances[pair] = min(near.distance, distances.get(pair, near.distance))
            overlap = max(0, min(sizes[near.src], sizes[near.dst], sizes[near.dst] - near.distance))
            saved[pair] = max(saved.get(pair, 0), overlap)
    change: dict[int, int] = {}

    def add(begin: int, end: int, nbytes: int) -> None:
        change[begin] = change.get(begin, 0) + nbytes
        change[end] = change.get(end, 0) - nbytes

    for interval, size in zip(problem.intervals, sizes, strict=True):
        add(interval.begin, interval.end, size)
    for (born, _), nbytes in saved.items():
        begin = problem.intervals[born].begin
        add(begin, begin + 1, -nbytes)
    live, needs = 0, {}
    for time in sorted(change):
        live += change[time]
        needs[time] = live
    # A single buffer bounds too where several diagonal offers make the sum weak.
    most = max([*needs.values(), *sizes], default=0)
    begins = [interval.begin for interval in problem.intervals]
    links = [
        _Link(src, dst, distance, needs[begins[dst]] + saved[dst, src])
        for (dst, src), distance in distances.items()
        if begins[src] < begins[dst]
    ]
    return max([most, *(_chain_need(chain, sizes) for chain in _chains(links))])


@dataclass(frozen=True)
class _Link:
    """An offer: the sides are apart, which takes `apart` bytes, or `src`, which dies, is `distance` above `dst`."""

    src: int
    dst: int
    distance: int
    apart: int


def _chains(links: list[_Link]) -> list[list[_Link]]:
    """The links in chains, as long as can be, in which one's `dst` is the next one's `src`."""
    by_src = {link.src: link for link in links}
    inner = {link.dst for link in links}
    chains = []
    for link in links:
        if link.src not in inner:
            chain = [link]
            while (following := by_src.get(chain[-1].dst)) is not None:
                chain.append(following)
            chains.append(chain)
    return chains


def _chain_need(chain: list[_Link], sizes: list[int]) -> int:
    """The least peak of the buffers of a chain, over all ways to take some links and to have the others apart."""
    buffers = [chain[0].src, *(link.dst for link in chain)]
    # ended[k]: the least peak where a run of taken links ends at buffer k.
    ended: list[int] = []
    for last in range(len(buffers)):
        address, need = 0, sizes[buffers[last]]
        ways = []
        for first in range(last, -1, -1):
            if first < last:
                address = max(0, address + chain[first].distance)
                need = max(need, address + sizes[buffers[first]])
            ways.append(max(need, ended[first - 1], chain[first - 1].apart) if first else need)
        ended.append(min(ways))
    return ended[-1]
