"""What an allocator is given and what it answers: intervals, sharing offers, plans.

Sharing rules, used alike by all members of the portfolio and verified on their own by `check`:

- an interval occupies `padded(interval)` bytes: its size rounded up to its alignment;
- two intervals of non-zero size alive together occupy disjoint bytes, unless an offer allows it;
- an offer holds only in the one time step in which one side dies and the other is born.
"""

from __future__ import annotations

from mccompile._dataclass import dataclass
from mccompile.ir.errors import InternalError


@dataclass(frozen=True)
class Interval:
    """A buffer alive in the half-open time [begin, end); `nbytes` without padding, `align` in bytes."""

    name: str
    begin: int
    end: int
    nbytes: int
    align: int

    def __post_init__(self) -> None:
        if self.end <= self.begin:
            raise InternalError(f"interval {self.name}: empty life [{self.begin}, {self.end})")
        if self.nbytes < 0 or self.align < 1:
            raise InternalError(f"interval {self.name}: {self.nbytes} bytes at alignment {self.align}")


@dataclass(frozen=True)
class Overwrite:
    """`src` may live inside the bytes of `dst`, at addr(dst) + offset, as `dst` dies where `src` is born.

    `src` and `dst` are indices of intervals. It holds if begin(src) == end(dst) - 1, begin(dst) < begin(src)
    and the padded `src` ends inside the padded `dst`; an offer for which it does not hold is ignored.
    """

    src: int
    dst: int
    offset: int = 0


@dataclass(frozen=True)
class Near:
    """`src` and `dst` are disjoint, or addr(src) >= addr(dst) + distance ("diagonal" overlap).

    `src` is read and dies in the step in which `dst` is written and born: begin(dst) == end(src) - 1; an
    offer for which this does not hold is ignored.
    """

    src: int
    dst: int
    distance: int


@dataclass(frozen=True)
class Problem:
    """The intervals of one arena and the overlaps that kernels allow."""

    intervals: tuple[Interval, ...]
    overwrites: tuple[Overwrite, ...] = ()
    nears: tuple[Near, ...] = ()

    def __post_init__(self) -> None:
        count = len(self.intervals)
        offers: tuple[Overwrite | Near, ...] = (*self.overwrites, *self.nears)
        for offer in offers:
            if not (0 <= offer.src < count and 0 <= offer.dst < count) or offer.src == offer.dst:
                raise InternalError(f"{offer} does not name two of {count} intervals")


@dataclass(frozen=True)
class Plan:
    """An address per interval in bytes, and what it costs.

    `peak` is the arena size: the largest address + padded size. `lower_bound` holds for every choice among
    the in-place offers that was tried: if the peak equals it, no member can do better. `used` are the offers
    by which two intervals really share bytes.
    """

    offsets: tuple[int, ...]
    peak: int
    lower_bound: int
    algorithm: str
    used: tuple[Overwrite | Near, ...]


def padded(interval: Interval) -> int:
    """The bytes that `interval` occupies: its size rounded up to its alignment."""
    return -(-interval.nbytes // interval.align) * interval.align


def near_holds(problem: Problem, near: Near) -> bool:
    """Whether the lives of a diagonal offer meet in the one step in which `src` dies and `dst` is born."""
    return problem.intervals[near.dst].begin == problem.intervals[near.src].end - 1
