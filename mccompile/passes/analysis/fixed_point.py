"""Multiplications of integers that round as floats do: y = sat(asr(mulhi(a, m) + c, s)), and the proof that they do.

Worked example: y = u8(rne(a * 0.004) + 3) for sums a from -1000 to 70,000. mulhi(a, m) is a * m / 2^32, rounded down,
so m = 0.004 * 2^(32 + s) gives a * 0.004 * 2^s, and c = (3 << s) + (1 << (s - 1)) adds the zero point and a half.
Both sides are steps: y becomes j at a = t[j]. The t[j] of both are found by bisection, of the expression itself
too, and the multiplication is taken only if each of its steps is right. Thus all results are: both never fall.

Right means that the real result is at least j - 1/2 there, and was less before, but for 2^-13: which side of a tie a
result falls to is the engines' own affair. Where an expression does not round to nearest, all steps have to be its.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.scalar import Array, uniform

TIE = 0.5 + 2.0**-13
"""How far from the real result a rounded one may be."""

_MOST_SHIFT = 24
_USUAL_SHIFT = 4
"""A shift that most layers can have: factors from 2^-13 of 24 bits, which is what floats have, are whole numbers."""


_ABOUT = 2
"""How far from the tie of the real result steps are expected to be."""

Channels = Array | slice
"""The channels of some sums: one for each, or `EVERY`, where they are the last axis."""
EVERY = slice(None)
_TOGETHER = 2048
"""Channels of which all steps are in memory at once."""


def parts(channels: int) -> list[slice]:
    """All channels, so many at a time that what is computed of each may take some kilobytes.

    >>> parts(3000)
    [slice(0, 2048, None), slice(2048, 4096, None)]
    """
    return [slice(i, i + _TOGETHER) for i in range(0, channels, _TOGETHER)]


def _some(numbers: Array, of: slice) -> Array:
    """The numbers of some of the channels, or the one of all."""
    return numbers if np.size(numbers) == 1 else numbers[of]


@dataclass(frozen=True)
class Fixed:
    """y = clip(asr(mulhi((a + start) << up, m) + c, s), low, high), with numbers of each channel or of all."""

    start: Array
    m: Array
    c: Array
    s: int
    up: int
    low: int
    high: int

    def evaluate(self, a: Array, of: Channels = EVERY) -> Array:
        """The results for sums of i64, [.., channels], or one of each of the channels ``of``."""
        start, m, c = (own if np.size(own) == 1 else own[of] for own in (self.start, self.m, self.c))
        product = (((a + start) << self.up) * m) >> 32
        return np.asarray(np.clip((product + c) >> self.s, self.low, self.high))

    def part(self, of: slice) -> Fixed:
        """That of some of the channels."""
        return replace(self, start=_some(self.start, of), m=_some(self.m, of), c=_some(self.c, of))


@dataclass(frozen=True)
class Steps:
    """What is to be met: a function that never falls, of sums in ``low..high`` of each channel.

    ``value`` gives the results of sums [.., channels] of i64, or of one of each of the channels that it is told.
    ``ties`` says that they are rounded to nearest: of a function that drops what is behind the point, 187.5 is 187.
    """

    value: Callable[[Array, Channels], Array]
    low: Array
    high: Array
    ties: bool = True

    @cached_property
    def varies(self) -> Array:
        """Which channels have more than one result."""
        lowest, highest = (self.value(end[None], EVERY)[0] for end in (self.low, self.high))
        return np.broadcast_to(lowest != highest, self.low.shape)

    @cached_property
    def channel_ends(self) -> tuple[Array, Array]:
        """Where the results of each channel are cut off."""
        everything = (np.full((1, self.low.size), end, np.int64) for end in (-(2**31), 2**31 - 1))
        least, most = (self.value(end, EVERY)[0] for end in everything)
        return least, most

    @cached_property
    def ends(self) -> tuple[int, int]:
        """Where the results of all channels together are cut off."""
        least, most = self.channel_ends
        return int(least.min()), int(most.max())

    def part(self, of: slice) -> Steps:
        """That of some of the channels."""
        places = np.arange(self.low.size)[of]
        return Steps(lambda a, within: self.value(a, places[within]), self.low[of], self.high[of], self.ties)

    def cut_alike(self) -> bool:
        """Whether that is the same in all channels: not where what is clipped to is a constant of each."""
        return all(map(uniform, self.channel_ends))


Test = Callable[[Array, Array, Channels], Array]
"""Which of some sums pass: (sums, the result that each is asked for, their channels)."""
_AT_ONCE = 2**15
"""Sums that are asked for together: what they become on the way stays in a cache."""


def least(reaches: Test, results: Array, low: Array, high: Array, near: Array) -> Array:
    """The least sum of each result and channel for which a test, false and then true, holds; high + 1 if none.

    ``near``, [results, channels], is about where, which spares most of the bisection; it need not be right.
    """
    rows = max(_AT_ONCE // max(low.size, 1), 1)
    parts = [slice(i, i + rows) for i in range(0, len(results), rows)]
    return np.concatenate([_least(reaches, results[p], low, high, near[p]) for p in parts] or [near])


def _least(reaches: Test, results: Array, low: Array, high: Array, near: Array) -> Array:
    """`least` for some of the results. It is ``near``, or the end that is nearest, where the test holds there but not
    one before; only the others are searched for."""
    here = np.minimum(np.maximum(near, low), high)
    before = np.maximum(here - 1, low)
    holds, held = (reaches(place, results[:, None], EVERY) for place in (here, before))
    found = np.where(holds, here, here + 1)
    left = np.nonzero(np.where(holds, held & (here > low), here < high))
    if not left[0].size:
        return found
    a = np.where(holds[left], low[left[1]], found[left])
    b = np.where(holds[left], before[left], high[left[1]] + 1)
    found[left] = _bisected(lambda sums: reaches(sums, results[left[0]], left[1]), a, b, near[left])
    return found


def _bisected(reaches: Callable[[Array], Array], a: Array, b: Array, near: Array) -> Array:
    """The least sums from a to b, all different searches, for which the test holds; b of those that it does not."""
    for by in (-_ABOUT, _ABOUT):
        place = np.clip(near + by, a, b - 1)
        found = reaches(place)
        a, b = np.where(found | (a >= b), a, place + 1), np.where(found & (a < b), place, b)
    while (a < b).any():
        middle = (a + b) >> 1
        found = reaches(np.minimum(middle, b - 1))
        a, b = np.where(found | (a >= b), a, middle + 1), np.where(found & (a < b), middle, b)
    return b


def fit(scale: Array, offset: Array, f: Steps) -> tuple[Fixed, int] | str:
    """The multiplication for ``real = scale * sum + offset`` and for how many sums of all channels together it is on
    the other side of a tie than the expression; or why there is none.

    ``scale`` and ``offset`` are of each channel or of all.
    """
    if not (np.isfinite(scale).all() and np.isfinite(offset).all() and (scale > 0).all()):
        return "a scale is no positive number"
    if scale.min() < 1 / _MOST_REAL or max(scale.max(), np.abs(offset).max()) > _MOST_REAL:
        return "a scale or an offset is far beyond the numbers of 32 bits"
    met = [_Met.of(_some(scale, of), _some(offset, of), f.part(of), f.ends) for of in parts(f.low.size)]
    found: tuple[Fixed, int] | str = "sums would not fit 32 bits"
    for raised in _RAISED:
        candidate = _candidate(scale, offset, f, raised)
        if candidate is None:
            return found
        found = _right(candidate, met, f)
        if not isinstance(found, str):
            return _usual(found, scale, offset, met, f)
    return found


@dataclass(frozen=True)
class _Met:
    """What the steps of any multiplication are compared with, for each result above the lowest and each channel.

    Attributes:
        results: the results, one row each.
    """

    scale: Array
    offset: Array
    f: Steps
    results: Array

    @staticmethod
    def of(scale: Array, offset: Array, f: Steps, ends: tuple[int, int] | None = None) -> _Met:
        """What is compared in some of the channels, where the results of all together are cut off at ``ends``."""
        lowest, highest = ends or f.ends
        return _Met(scale, offset, f, np.arange(lowest + 1, highest + 1)[:, None])

    @cached_property
    def wanted(self) -> Array:
        """The first sums of which the expression makes the results."""
        return self.first(self.f.value)

    def first(self, value: Callable[[Array, Channels], Array]) -> Array:
        """The first sums of which a function makes the results: about where the real result, scale * sum + offset, is
        on a tie."""
        ties = (self.results - 0.5 - self.offset) / self.scale
        ties = np.ceil(np.minimum(np.maximum(ties, self.f.low), self.f.high)).astype(np.int64)
        results = self.results[:, 0]
        return least(lambda a, result, of: value(a, of) >= result, results, self.f.low, self.f.high, ties)

    def wrong(self, steps: Array) -> Array:
        """Which of the first sums for the results are not right: the real result must have reached it there, but for
        so much, and not have reached it by so much one before. No sum reaches it: right if the last does not."""
        early = (self.scale * steps + self.offset < self.results - TIE) & (steps <= self.f.high)
        late = (self.scale * (steps - 1) + self.offset >= self.results - (1 - TIE)) & (steps > self.f.low)
        return np.asarray(early | late)


def _right(g: Fixed, met: Sequence[_Met], f: Steps) -> tuple[Fixed, int] | str:
    """`_compared` of all channels, or that of the multiplication with what is constant apart."""
    found = _compared_in_parts(g, met)
    if isinstance(found, str) and not f.varies.all():
        found = _compared_in_parts(_constants_apart(g, f), met)
    return found


def _compared_in_parts(g: Fixed, met: Sequence[_Met]) -> tuple[Fixed, int] | str:
    differing = 0
    for of, part in zip(parts(sum(m.f.low.size for m in met)), met, strict=True):
        found = _compared(g.part(of), part, part.f)
        if isinstance(found, str):
            return found
        differing += found[1]
    return g, differing


def _usual(found: tuple[Fixed, int], scale: Array, offset: Array, met: Sequence[_Met], f: Steps) -> tuple[Fixed, int]:
    """The multiplication with the usual shift, if that is right, too, and on hardly more sums on the other side of a
    tie: layers of one shift may be one function, that knows it."""
    if found[0].s <= _USUAL_SHIFT or found[0].up:
        return found
    candidate = _candidate(scale, offset, f, 0, _USUAL_SHIFT)
    if candidate is None:
        return found
    usual = _right(candidate, met, f)
    return found if isinstance(usual, str) or usual[1] > found[1] * 5 // 4 + 4 else usual


_RAISED = (0, 4, 8, 12, 16)
"""Bits by which sums are raised, beside what their scale asks for: a large scale leaves the offset few bits."""
_LARGEST_START = 2**24
"""What a sum may begin with to be nearer to the offset: of a tiny scale it would be much."""
_MOST_REAL = 2.0**500
"""Scales, their inverses and offsets, at most: what is computed of them are numbers of f64."""
_FAR = 2.0**40
"""No sum with an offset so far away fits 32 bits, which `_compared` says."""
_NEAR = 64
"""Offsets tried on both sides of the nearest."""


def _candidate(scale: Array, offset: Array, f: Steps, raised: int, most: int = _MOST_SHIFT) -> Fixed | None:
    """The multiplication with as large a factor as 31 bits allow, its offset as near as may be; None if sums, raised
    by so many bits, do not fit 32."""
    varies = f.varies
    top = float(np.broadcast_to(scale, f.low.shape)[varies].max(initial=0.0)) or 2.0**-31
    shift = -1 - math.frexp(top)[1]  # top * 2^(32 + shift) lies in 2^30 .. 2^31
    up = max(0, 1 - shift) + raised
    s = min(shift + up, most)
    m = np.clip(np.rint(scale * 2.0 ** (32 + s - up)), 1, 2**31 - 1).astype(np.int64)
    # (start * scale) + c / 2^s is to be the offset and a half. c alone moves results by many sums: start fills in.
    wanted = offset + 0.5
    channels = max(np.size(wanted), np.size(scale))
    if channels > 1:
        found = [_nearest(_some(wanted, of), _some(scale, of), s) for of in parts(channels)]
        start, c = (np.concatenate(numbers) for numbers in zip(*found, strict=True))
    else:
        start, c = _nearest(wanted, scale, s)
    reach = np.maximum(np.abs(f.low + start), np.abs(f.high + start)).max()
    if int(reach) << up >= 2**31:
        return None
    return Fixed(start, m, c, s, up, *f.ends)


def _nearest(wanted: Array, scale: Array, s: int) -> tuple[Array, Array]:
    """The start and the offset, of integers with ``s`` bits behind the point, that are nearest to a number of each
    channel together."""
    nearest = np.clip(np.rint(wanted * 2.0**s), -_FAR, _FAR)
    tried = nearest + np.arange(-_NEAR, _NEAR + 1).reshape(-1, *(1,) * np.ndim(nearest))
    starts = np.rint((wanted - tried / 2.0**s) / scale)
    starts = np.where(np.abs(starts) <= _LARGEST_START, starts, 0)
    missed = np.abs(wanted - tried / 2.0**s - starts * scale) + np.abs(starts) * 1e-12
    best = np.expand_dims(missed.argmin(0), 0)
    c, start = (np.take_along_axis(a, best, 0)[0].astype(np.int64) for a in np.broadcast_arrays(tried, starts))
    return start, c


def _constants_apart(g: Fixed, f: Steps) -> Fixed:
    """The multiplication with nothing but the result for channels that have only one: what is far beyond the ends of
    the type (a bias of -500) needs more than 32 bits, though nothing depends on it."""
    varies = f.varies
    if not varies.any():
        g = replace(g, s=min(g.s, _MOST_SHIFT - 2), up=0)
    result = np.broadcast_to(f.value(f.low[None], EVERY)[0], f.low.shape)
    constant = (result << g.s) + (1 << g.s >> 1)
    start, m, c = (np.where(varies, own, else_) for own, else_ in ((g.start, 0), (g.m, 1), (g.c, constant)))
    return replace(g, start=start, m=m, c=c)


def _compared(g: Fixed, met: _Met, f: Steps) -> tuple[Fixed, int] | str:
    """The multiplication and on how many sums it differs; or why it is not right for all of them."""
    reach = np.maximum(np.abs(f.low + g.start), np.abs(f.high + g.start))
    product = reach.astype(np.float64) * 2.0**g.up * g.m / 2.0**32
    if (product + np.abs(g.c) + 1 >= 2**31).any():
        return "its sum does not fit 32 bits"
    own = met.first(g.evaluate)
    for name, steps in (("the multiplication", own), ("the expression", met.wanted)):
        wrong = met.wrong(steps)
        if wrong.any():
            return f"{int(wrong.sum())} of {wrong.size} steps of {name} are no ties of the real result"
    differing = int(np.abs(own - met.wanted).sum())
    if differing and not f.ties:
        return f"it has another result on {differing} sums, and does not round to nearest"
    return g, differing
