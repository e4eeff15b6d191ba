"""Which in-place offers are taken, and the blocks of overwritten intervals that result.

Worked example: a (16 bytes) is overwritten by b (16), which is overwritten by c (8) in its upper half. All three move
together: one block of 16 bytes, in which b lies at 0 and c at 8.

>>> from mccompile.plan.alloc.problem import Interval
>>> lives = [("a", 0, 2, 16), ("b", 1, 3, 16), ("c", 2, 4, 8)]
>>> intervals = tuple(Interval(name, begin, end, size, 8) for name, begin, end, size in lives)
>>> problem = Problem(intervals, (Overwrite(src=1, dst=0), Overwrite(src=2, dst=1, offset=8)))
>>> (block,) = build_blocks(problem, choose_overwrites(problem))
>>> block.members, block.offsets, block.nbytes
((0, 1, 2), (0, 0, 8), 16)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mccompile._dataclass import dataclass
from mccompile.plan.alloc.problem import Overwrite, Problem, padded


@dataclass(frozen=True)
class Block:
    """A chain of intervals that move together: interval `members[k]` lives at addr(block) + offsets[k].

    Members are in order of birth; the first, the root, is the largest and at offset 0. `align` suits all.
    """

    members: tuple[int, ...]
    offsets: tuple[int, ...]
    nbytes: int
    align: int
    begin: int
    end: int


def choose_overwrites(problem: Problem) -> tuple[Overwrite, ...]:
    """The offers to take, in order of birth: each source once, each interval overwritten by its largest."""
    by_dst: dict[int, Overwrite] = {}
    linked: set[int] = set()
    for offer in problem.overwrites:
        if offer.src in linked or not _fits(problem, offer):
            continue
        rival = by_dst.get(offer.dst)
        if rival is not None:
            if padded(problem.intervals[offer.src]) <= padded(problem.intervals[rival.src]):
                continue
            linked.discard(rival.src)
        by_dst[offer.dst] = offer
        linked.add(offer.src)
    return _aligned_chains(problem, tuple(by_dst.values()))


def _fits(problem: Problem, offer: Overwrite) -> bool:
    src, dst = problem.intervals[offer.src], problem.intervals[offer.dst]
    return (
        src.nbytes > 0
        and src.begin == dst.end - 1
        and dst.begin < src.begin
        and offer.offset >= 0
        and offer.offset % src.align == 0
        and offer.offset + padded(src) <= padded(dst)
    )


def _aligned_chains(problem: Problem, links: tuple[Overwrite, ...]) -> tuple[Overwrite, ...]:
    """Drop the links whose offset from the root of their chain breaks the alignment of the member."""
    from_root: dict[int, int] = {}
    kept = []
    for link in sorted(links, key=lambda o: (problem.intervals[o.src].begin, o.src)):
        offset = from_root.get(link.dst, 0) + link.offset
        if offset % problem.intervals[link.src].align == 0:
            from_root[link.src] = offset
            kept.append(link)
    return tuple(kept)


def build_blocks(problem: Problem, chosen: tuple[Overwrite, ...]) -> tuple[Block, ...]:
    """Every interval of non-zero size in exactly one block, in order of the roots' indices."""
    next_link = {link.dst: link for link in chosen}
    inner = {link.src for link in chosen}
    blocks = []
    for root, interval in enumerate(problem.intervals):
        if root in inner or interval.nbytes == 0:
            continue
        members, offsets = [root], [0]
        while (link := next_link.get(members[-1])) is not None:
            offsets.append(offsets[-1] + link.offset)
            members.append(link.src)
        align = math.lcm(*(problem.intervals[m].align for m in members))
        end = problem.intervals[members[-1]].end
        blocks.append(Block(tuple(members), tuple(offsets), padded(interval), align, interval.begin, end))
    return tuple(blocks)


def expand(problem: Problem, blocks: tuple[Block, ...], addresses: Sequence[int]) -> tuple[int, ...]:
    """The address of each interval from the address of each block; intervals without bytes get 0."""
    offsets = [0] * len(problem.intervals)
    for block, address in zip(blocks, addresses, strict=True):
        for member, offset in zip(block.members, block.offsets, strict=True):
            offsets[member] = address + offset
    return tuple(offsets)
