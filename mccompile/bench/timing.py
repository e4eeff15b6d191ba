"""Takes times on a machine that is never quite still: bursts of several things in turn, medians, quartiles."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from mccompile._dataclass import dataclass

BURST = 0.05
"""Seconds that a burst should take."""
MAX_RUNS = 2000
"""Of one burst."""


@dataclass(frozen=True)
class Spread:
    """Seconds: the median over the rounds of each round's median, its quartiles, and the shortest of all."""

    median: float
    low: float
    high: float
    best: float

    def to_json(self, unit: float = 1e3) -> dict[str, float]:
        """In milliseconds, or whatever ``unit`` of them make a second."""
        return {
            "median": round(self.median * unit, 6),
            "quartile1": round(self.low * unit, 6),
            "quartile3": round(self.high * unit, 6),
            "best": round(self.best * unit, 6),
        }


def spread(rounds: Sequence[float], best: float) -> Spread:
    """Of one median per round."""
    low, median, high = (float(np.percentile(rounds, p)) for p in (25, 50, 75))
    return Spread(median, low, high, best)


Clock = Callable[[], float]


def burst(run: Callable[[], object], count: int, clock: Clock = time.perf_counter) -> list[float]:
    """Seconds of each of ``count`` runs, after one that makes caches and branch predictors warm."""
    run()
    seconds = []
    for _ in range(count):
        begin = clock()
        run()
        seconds.append(clock() - begin)
    return seconds


def runs_for(run: Callable[[], object], seconds: float = BURST, clock: Clock = time.perf_counter) -> int:
    """How many runs make a burst of about so many seconds: one at least, three of what is not very long."""
    one = float(np.median(burst(run, 3, clock)))
    return max(1 if one > seconds else 3, min(MAX_RUNS, int(seconds / max(one, 1e-9))))


@dataclass(frozen=True)
class Rounds:
    """What was measured in turn: ``medians`` hold one number per round, in seconds, for each name."""

    medians: Mapping[str, tuple[float, ...]]
    bests: Mapping[str, float]

    def spread(self, name: str) -> Spread:
        return spread(self.medians[name], self.bests[name])

    def ratio(self, above: str, below: str) -> float:
        """The median over the rounds of one time by another: what slows the machine in a round slows both."""
        pairs = zip(self.medians[above], self.medians[below], strict=True)
        return float(np.median([a / b for a, b in pairs]))


def interleave(
    things: Mapping[str, Callable[[], object]],
    rounds: int,
    seconds: float = BURST,
    clock: Clock = time.perf_counter,
    tick: Callable[[int], None] = lambda n: None,
) -> Rounds:
    """Run bursts of several things in turn, ``rounds`` times, each time beginning with another one."""
    counts = {name: runs_for(run, seconds, clock) for name, run in things.items()}
    found: dict[str, list[list[float]]] = {name: [] for name in things}
    names = list(things)
    for n in range(rounds):
        tick(n)
        first = n % len(names)
        for name in names[first:] + names[:first]:
            found[name].append(burst(things[name], counts[name], clock))
    medians = {name: tuple(float(np.median(b)) for b in bursts) for name, bursts in found.items()}
    bests = {name: min(min(b) for b in bursts) for name, bursts in found.items()}
    return Rounds(medians, bests)


def duration(seconds: float) -> str:
    """A time as a person reads it, with four digits.

    >>> duration(8.91e-7), duration(0.01234), duration(2.5)
    ('0.8910 us', '12.34 ms', '2.500 s')
    """
    for unit, size in (("us", 1e-6), ("ms", 1e-3), ("s", 1.0)):
        if seconds < 1000 * size or unit == "s":
            break
    number = seconds / size
    return f"{number:.{4 if number < 1 else max(0, 4 - len(str(int(number))))}f} {unit}"


@contextmanager
def pinned() -> Iterator[None]:
    """Keep this process on one of the cores it may use, where the system allows that: moving it costs caches."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})  # core 0 is where most interrupts go
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
