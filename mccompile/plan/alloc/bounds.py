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

from mccompile._dataclass import dataclass
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
    chained = sorted(_chained(links), key=lambda link: -begins[link.src])
    return _chains_need(chained, sizes, most)


@dataclass(frozen=True)
class _Link:
    """An offer: the sides are apart, which takes `apart` bytes, or `src`, which dies, is `distance` above `dst`."""

    src: int
    dst: int
    distance: int
    apart: int


def _chained(links: list[_Link]) -> list[_Link]:
    """The links of all chains, each once: a chain begins with what is no other's `dst`, and where several go on from
    a buffer it goes on with the last."""
    following = {link.src: link for link in links}
    inner = {link.dst for link in links}
    found: dict[_Link, None] = {}
    for first in links:
        link = None if first.src in inner else first
        while link is not None and link not in found:
            found[link] = None
            link = following.get(link.dst)
    return list(found)


def _chains_need(links: list[_Link], sizes: list[int], least: int) -> int:
    """The least peak of the buffers of chains, over all ways to take some links and to have the others apart; or
    ``least`` if that is more. ``links`` of a chain are given last first. By bisection: `_fits` is one walk."""
    if _fits(links, sizes, least):
        return least
    step = 1
    while not _fits(links, sizes, least + step):
        step *= 2
    low, high = least + step // 2, least + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _fits(links, sizes, middle) else (middle, high)
    return high


def _fits(links: list[_Link], sizes: list[int], peak: int) -> bool:
    """Whether some links can be taken, and the others be apart, within ``peak`` bytes. No buffer is larger.

    A link whose sides may be apart is best not taken; those between are. A buffer then lies above the lowest
    that follows it in such a run by a sum of distances: of a, 2 bytes above b, 2 bytes above c

        c 0    b 0 + 2 = 2    a 2 + 2 = 4    a of 8 bytes ends at 12 or above

    Chains that run together share what is behind: from the last link to the first, each is looked at once.
    """
    above: dict[int, int] = {}
    for link in links:
        if link.apart > peak:
            height = max(0, link.distance + above.get(link.dst, 0))
            if height + sizes[link.src] > peak:
                return False
            above[link.src] = height
    return True
