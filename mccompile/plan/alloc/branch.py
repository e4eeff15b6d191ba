"""Branch and bound for small sets: blocks in order of rising address, each as low as it can go.

Complete for blocks without sharing offers: every plan can be pushed down until each block rests on the floor
or on another one, and then be built in order of rising addresses. With chains it is a search, not a proof.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from mccompile.plan.alloc.conflicts import Conflicts
from mccompile.plan.alloc.greedy import UNPLACED, lowest_address, peak_of

MOST_BLOCKS = 48


@dataclass(slots=True)
class _Search:
    conflicts: Conflicts
    sections: list[range]
    waiting: list[int]
    peak: int
    bound: int
    nodes: int
    addresses: list[int]
    best: list[int] | None = None
    levels: list[int] = field(default_factory=list)

    def hopeless(self, floor: int) -> bool:
        """Whether some moment cannot stay below the best peak with what is still waiting."""
        return any(
            need > 0 and max(floor, level) + need >= self.peak
            for need, level in zip(self.waiting, self.levels, strict=True)
        )

    def descend(self, todo: tuple[int, ...], floor: int) -> None:
        """Place all of `todo` at or above `floor` in every order worth trying."""
        conflicts, blocks = self.conflicts, self.conflicts.blocks
        if not todo:
            self.best, self.peak = list(self.addresses), peak_of(conflicts, self.addresses)
            return
        lowest = (lowest_address(conflicts, self.addresses, i, floor) for i in todo)
        choices = sorted((address, k, todo[k]) for k, address in enumerate(lowest))
        # A block that would start above the top of another one can wait: that one fits below it.
        ceiling = min(address + blocks[i].nbytes for address, _, i in choices)
        for address, k, i in choices:
            if address >= ceiling or self.nodes <= 0 or self.peak <= self.bound:
                break
            if address + blocks[i].nbytes >= self.peak:
                continue
            self.nodes -= 1
            self.addresses[i] = address
            saved = [self.levels[s] for s in self.sections[i]]
            for s in self.sections[i]:
                self.waiting[s] -= blocks[i].nbytes
                self.levels[s] = max(self.levels[s], address + blocks[i].nbytes)
            if not self.hopeless(address):
                self.descend(todo[:k] + todo[k + 1 :], address)
            for s, level in zip(self.sections[i], saved, strict=True):
                self.waiting[s] += blocks[i].nbytes
                self.levels[s] = level
            self.addresses[i] = UNPLACED


def branch_and_bound(conflicts: Conflicts, peak: int, bound: int, nodes: int) -> list[int] | None:
    """The best addresses with a peak below `peak` found within `nodes` placements, or None.

    Stops at `bound`. For at most MOST_BLOCKS blocks (the search is recursive); None for more.
    """
    blocks = conflicts.blocks
    if len(blocks) > MOST_BLOCKS:
        return None
    sections, waiting = _sections(conflicts)
    search = _Search(conflicts, sections, waiting, peak, bound, nodes, [UNPLACED] * len(blocks))
    search.levels = [0] * len(waiting)
    search.descend(tuple(sorted(range(len(blocks)), key=lambda i: (-blocks[i].nbytes, i))), 0)
    return search.best


def _sections(conflicts: Conflicts) -> tuple[list[range], list[int]]:
    """The moments each block lives through, and the bytes alive at each moment.

    None where blocks share bytes, by chains or diagonal overlaps: there the sums bound nothing.
    """
    blocks = conflicts.blocks
    sizes = [b.nbytes for b in blocks]
    sharing = any(len(b.members) > 1 for b in blocks) or any(
        (low, high) != (-sizes[i], sizes[j])
        for i, rivals in enumerate(conflicts.rivals)
        for j, low, high in rivals
    )
    if sharing:
        return [range(0)] * len(blocks), []
    times = sorted({b.begin for b in blocks})
    sections = [range(bisect_left(times, b.begin), bisect_left(times, b.end)) for b in blocks]
    waiting = [0] * len(times)
    for block, section in zip(blocks, sections, strict=True):
        for s in section:
            waiting[s] += block.nbytes
    return sections, waiting
