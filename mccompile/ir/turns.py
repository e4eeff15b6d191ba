"""Loops of kernel IR: steps that are made again and again, and what that means for the buffers they touch.

Steps lie in one row; each names the loops it is in, outermost first, and those of one loop are neighbours. Worked
example: step 1 makes t of c, step 2 makes c of t, both in a loop; step 0 begins c, step 3 reads it:

    0  x -> c        1  c -> t  in(i)        2  t -> c  in(i)        3  c -> y

t is made anew in each turn and is alive from step 1 to 2. What is in c goes from turn to turn: it is alive as long as
the loop, and longer for those around. Everything that is read in a loop and comes from outside is needed again in the
next turn, so that it lives to the end of the loop as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from mccompile._dataclass import dataclass
from mccompile.ir.dims import bound, may_be_none

if TYPE_CHECKING:
    from mccompile.ir.kernel import Call, Condition, Fill
    from mccompile.ir.views import Buffer

    Step: TypeAlias = Call | Fill

Life = tuple[int, int]
"""First and last step."""


@dataclass(frozen=True)
class Loop:
    """Its steps are made ``trips`` times; with ``count`` (an i64 of one element) so many times; with ``going`` (a
    bool of one) only as long as that is true. Where it is ``limited``, ``trips`` are the most turns that there may
    be: where another one is due, the run ends. A limited loop without a count is ``endless`` but for that, and for
    ``going``.

    ``turn``, an i32, says in each turn which it is, and afterwards how many there were. ``counts`` hold extents on
    which ``trips`` depends. ``when`` is what has to hold for the whole loop; it is not repeated by its steps.
    """

    turn: Buffer
    trips: int
    count: Buffer | None = None
    going: Buffer | None = None
    limited: bool = False
    counts: tuple[Buffer, ...] = ()
    when: tuple[Condition, ...] = ()

    @property
    def asked(self) -> list[Buffer]:
        """The buffers that decide whether there is another turn."""
        decide = [b for b in (self.count, self.going) if b is not None]
        return [*decide, *self.counts, *(b for b, _ in self.when)]

    @property
    def endless(self) -> bool:
        return self.limited and self.count is None

    @property
    def decided(self) -> bool:
        """Whether it may have fewer turns than ``trips``, none among them."""
        return self.count is not None or self.going is not None


@dataclass(frozen=True)
class Turns:
    """A loop and what is in it: steps with their numbers, and loops."""

    loop: Loop
    inside: tuple[Numbered | Turns, ...]

    def steps(self) -> Iterator[Numbered]:
        for item in self.inside:
            if isinstance(item, Turns):
                yield from item.steps()
            else:
                yield item


Numbered: TypeAlias = "tuple[int, Step]"


def nested(steps: Sequence[Step]) -> tuple[Numbered | Turns, ...]:
    """Steps in a row as the tree of their loops."""
    return _nested(list(enumerate(steps)), 0)


def _nested(steps: Sequence[Numbered], depth: int) -> tuple[Numbered | Turns, ...]:
    found: list[Numbered | Turns] = []
    at = 0
    while at < len(steps):
        loops = steps[at][1].loops
        end = at + 1
        if len(loops) == depth:
            found.append(steps[at])
        else:
            while end < len(steps) and steps[end][1].loops[: depth + 1] == loops[: depth + 1]:
                end += 1
            found.append(Turns(loops[depth], _nested(steps[at:end], depth + 1)))
        at = end
    return tuple(found)


def stretches(steps: Sequence[Step]) -> dict[Loop, Life]:
    """The first and the last step of each loop, inner loops last."""
    found: dict[Loop, Life] = {}
    for t, step in enumerate(steps):
        for loop in step.loops:
            found[loop] = (found.get(loop, (t, t))[0], t)
    return found


def widened(steps: Sequence[Step], lives: Mapping[Buffer, Life]) -> dict[Buffer, Life]:
    """Lives by first and last touch, with what lasts from turn to turn alive throughout the loop."""
    out = dict(lives)
    loops = stretches(steps)
    if not loops:
        return out
    touches: dict[Buffer, list[int]] = {}
    for t, step in enumerate(steps):
        for b in step.buffers():
            touches.setdefault(b, []).append(t)
    for low, high in loops.values():
        for b in dict.fromkeys(b for step in steps[low : high + 1] for b in step.buffers()):
            if b in out and not _made_in_each_turn(steps, b, touches[b], low, high):
                out[b] = (min(out[b][0], low), max(out[b][1], high))
    return out


def _made_in_each_turn(steps: Sequence[Step], b: Buffer, touches: Sequence[int], low: int, high: int) -> bool:
    """Whether nobody outside of a loop touches a buffer, and in the loop it is written before it is read."""
    first = steps[touches[0]]
    inside = low <= touches[0] and touches[-1] <= high and b.role != "input" and not b.kept
    return inside and b in first.written() and b not in first.asked()


def carried(steps: Sequence[Step]) -> frozenset[Buffer]:
    """The buffers that steps of a loop write, and that last from turn to turn or beyond the loop."""
    loops = stretches(steps)
    if not loops:
        return frozenset()
    lives: dict[Buffer, list[int]] = {}
    for t, step in enumerate(steps):
        for b in step.buffers():
            lives.setdefault(b, []).append(t)
    return frozenset(
        b
        for low, high in loops.values()
        for step in steps[low : high + 1]
        for b in step.written()
        if not _made_in_each_turn(steps, b, lives[b], low, high)
    )


def times(step: Step) -> int:
    """How often a step is made in a run, at most."""
    turns = [bound(loop.trips) for loop in step.loops]
    return math.prod(turns)


def on_condition(step: Step) -> bool:
    """Whether there may be runs in which a step is not made at all: those of an If, and of loops without a turn."""
    loops = step.loops
    return bool(step.when) or any(loop.when or loop.decided or may_be_none((loop.trips,)) for loop in loops)
