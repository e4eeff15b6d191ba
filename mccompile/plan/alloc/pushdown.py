"""Push-down allocation: order the blocks by a best fit without addresses, then let everything fall.

After MegEngine's static_mem_alloc. Two intervals alive together were both in the list when the later one was
placed, and neighbours in the list get an edge, so all such pairs are ordered.

Worked example, four buffers in time (rows are steps, 8 bytes each but c, which takes 16):

    step 0: a b        the list, low to high: a, b
    step 1: b c        a is free, too small for c: it grows below b.       list: c, b     edge b above c
    step 2: c d        b's place is free, and large enough for d.          list: c, d     edge d above c
    edges: b on a, b on c, d on c.  All fall: a and c to 0, b to 16 (on c), d to 16: the peak is 24, the bound too.

>>> from mccompile.plan.alloc.problem import Interval, Problem
>>> from mccompile.plan.alloc.chains import build_blocks
>>> lives = [("a", 0, 1, 8), ("b", 0, 2, 8), ("c", 1, 3, 16), ("d", 2, 3, 8)]
>>> problem = Problem(tuple(Interval(name, begin, end, size, 1) for name, begin, end, size in lives))
>>> push_down(problem, build_blocks(problem, ()))
[0, 16, 0, 16]
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import field

from mccompile._dataclass import dataclass
from mccompile.plan.alloc.chains import Block
from mccompile.plan.alloc.problem import Problem, padded

FREE = -1


@dataclass(eq=False, slots=True)
class _Span:
    """One entry of the list, low to high: used by interval `user`, or FREE."""

    user: int
    nbytes: int
    age: int
    below: _Span | None = None
    above: _Span | None = None


@dataclass(slots=True)
class _List:
    bottom: _Span | None = None
    top: _Span | None = None
    free: list[tuple[int, int]] = field(default_factory=list)
    by_age: dict[int, _Span] = field(default_factory=dict)
    births: int = 0

    def insert_above(self, anchor: _Span | None, user: int, nbytes: int) -> _Span:
        """A new entry above `anchor` (None: at the bottom); a FREE one becomes available."""
        span = _Span(user, nbytes, self.births, anchor, self.bottom if anchor is None else anchor.above)
        self.births += 1
        if span.below is None:
            self.bottom = span
        else:
            span.below.above = span
        if span.above is None:
            self.top = span
        else:
            span.above.below = span
        if user == FREE:
            insort(self.free, (nbytes, span.age))
            self.by_age[span.age] = span
        return span

    def remove(self, span: _Span) -> None:
        if span.below is None:
            self.bottom = span.above
        else:
            span.below.above = span.above
        if span.above is None:
            self.top = span.below
        else:
            span.above.below = span.below
        if span.user == FREE:
            del self.by_age[span.age]
            self.free.pop(bisect_left(self.free, (span.nbytes, span.age)))

    def release(self, span: _Span) -> None:
        """Make a used entry FREE, merged with its free neighbours."""
        nbytes = span.nbytes
        for neighbour in (span.below, span.above):
            if neighbour is not None and neighbour.user == FREE:
                nbytes += neighbour.nbytes
                self.remove(neighbour)
        anchor = span.below
        self.remove(span)
        if nbytes > 0:
            self.insert_above(anchor, FREE, nbytes)

    def take(self, user: int, nbytes: int) -> _Span:
        """Best fit; if nothing is large enough the largest free entry grows, which moves what lies above."""
        if not self.free:
            return self.insert_above(self.top, user, nbytes)
        index = bisect_left(self.free, (nbytes, -1))
        hole = self.by_age[self.free[min(index, len(self.free) - 1)][1]]
        anchor, rest = hole.below, hole.nbytes - nbytes
        self.remove(hole)
        span = self.insert_above(anchor, user, nbytes)
        if rest > 0:
            self.insert_above(span, FREE, rest)
        return span


def push_down(problem: Problem, blocks: tuple[Block, ...]) -> list[int]:
    """The address of each block."""
    return _fall(problem, blocks, _edges(problem, blocks))


def _edges(problem: Problem, blocks: tuple[Block, ...]) -> dict[int, list[int]]:
    """For each interval those that must lie below it."""
    intervals = problem.intervals
    below: dict[int, list[int]] = {m: [] for block in blocks for m in block.members}
    roots: dict[int, list[int]] = {}
    deaths: dict[int, list[int]] = {}
    heirs: dict[int, list[tuple[int, int, int]]] = {}
    for block in blocks:
        roots.setdefault(block.begin, []).append(block.members[0])
        deaths.setdefault(block.end, []).append(block.members[-1])
        for k in range(1, len(block.members)):
            heir = (block.members[k], block.members[k - 1], block.offsets[k] - block.offsets[k - 1])
            heirs.setdefault(intervals[heir[0]].begin, []).append(heir)
    spans: dict[int, _Span] = {}
    order = _List()
    for time in sorted({*roots, *deaths, *heirs}):
        for i in deaths.get(time, ()):
            order.release(spans.pop(i))
        for i in roots.get(time, ()):
            spans[i] = order.take(i, padded(intervals[i]))
            _link_neighbours(spans[i], below)
        # Heirs come last: until the step is over, what they overwrite is still read, head and tail included.
        for src, dst, offset in heirs.get(time, ()):
            spans[src] = _inherit(order, spans.pop(dst), src, offset, padded(intervals[src]))
    return below


def _link_neighbours(span: _Span, below: dict[int, list[int]]) -> None:
    lower = span.below
    while lower is not None and lower.user == FREE:
        lower = lower.below
    upper = span.above
    while upper is not None and upper.user == FREE:
        upper = upper.above
    if lower is not None:
        below[span.user].append(lower.user)
    if upper is not None:
        below[upper.user].append(span.user)


def _inherit(order: _List, old: _Span, user: int, head: int, nbytes: int) -> _Span:
    """`user` takes the place of `old`, `head` bytes above its low end; what is left over becomes FREE."""
    tail = old.nbytes - head - nbytes
    anchor = old.below
    order.remove(old)
    span = order.insert_above(anchor, user, nbytes)
    for rest, place in ((head, anchor), (tail, span)):
        if rest > 0:
            order.release(order.insert_above(place, user, rest))
    return span


def _fall(problem: Problem, blocks: tuple[Block, ...], below: dict[int, list[int]]) -> list[int]:
    """Addresses by depth-first search over "below", with a stack of its own as blocks can be thousands."""
    home = {
        m: (b, off)
        for b, block in enumerate(blocks)
        for m, off in zip(block.members, block.offsets, strict=True)
    }
    supports: list[list[tuple[int, int]]] = []
    for b, block in enumerate(blocks):
        supports.append([])
        for member, offset in zip(block.members, block.offsets, strict=True):
            for j in below[member]:
                supports[b].append((home[j][0], home[j][1] + padded(problem.intervals[j]) - offset))
    addresses: list[int | None] = [None] * len(blocks)
    for start in range(len(blocks)):
        stack = [start]
        while stack:
            b = stack[-1]
            missing = [s for s, _ in supports[b] if addresses[s] is None]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            floor = max(((addresses[s] or 0) + reach for s, reach in supports[b]), default=0)
            addresses[b] = -(-max(floor, 0) // blocks[b].align) * blocks[b].align
    return [a for a in addresses if a is not None]
