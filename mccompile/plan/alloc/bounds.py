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

from bisect import bisect_left
from itertools import accumulate

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
    for chain in _chains(links):
        most = _chain_need(chain, sizes, most)
    return most


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


def _chain_need(chain: list[_Link], sizes: list[int], least: int) -> int:
    """The least peak of the buffers of a chain, over all ways to take some links and to have the others apart; or
    ``least`` if that is more. By bisection: `_Chain.fits` is one walk, so that long chains take little more."""
    walk = _Chain.of(chain, sizes)
    if walk.fits(least):
        return least
    step = 1
    while not walk.fits(least + step):
        step *= 2
    low, high = least + step // 2, least + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if walk.fits(middle) else (middle, high)
    return high


@dataclass(frozen=True)
class _Chain:
    """The buffers of a chain, 0, 1, 2, ..., and what the link behind each takes if its sides are apart.

    Where the links from buffer p to buffer j are taken, p begins at least ``rise[j] - rise[p]`` bytes above j, and
    ends ``rise[j] + tops[p]`` bytes above the floor: of a (8 bytes), 2 bytes above b (8), 2 bytes above c (8)

        rise 0 2 4    tops 8 6 4    a ends at 4 + 8 = 12, b at 4 + 6 = 10, c at 4 + 4 = 8

    A run of taken links fits into a peak if that does not exceed it for any p and any j behind p in the run.
    """

    rise: list[int]
    tops: list[int]
    apart: list[int]

    @classmethod
    def of(cls, chain: list[_Link], sizes: list[int]) -> _Chain:
        rise = list(accumulate((link.distance for link in chain), initial=0))
        buffers = [chain[0].src, *(link.dst for link in chain)]
        tops = [sizes[b] - r for b, r in zip(buffers, rise, strict=True)]
        return cls(rise, tops, [link.apart for link in chain])

    def fits(self, peak: int) -> bool:
        """Whether some links can be taken, and the others be apart, within ``peak`` bytes.

        The run of taken links that ends at a buffer begins as late as it may, and must begin behind every buffer
        that would stand too high.
        """
        begin = earliest = 0
        # The buffers whose top is above those of all behind them: the last one too high is found by bisection.
        high: list[int] = []
        negated: list[int] = []
        for j, (rise, top) in enumerate(zip(self.rise, self.tops, strict=True)):
            if j and self.apart[j - 1] <= peak:
                begin = j
            while high and self.tops[high[-1]] <= top:
                high.pop()
                negated.pop()
            high.append(j)
            negated.append(-top)
            too_high = bisect_left(negated, rise - peak)
            if too_high:
                earliest = max(earliest, high[too_high - 1] + 1)
            if begin < earliest:
                return False
        return True
