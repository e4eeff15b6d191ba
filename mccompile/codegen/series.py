"""Steps of ``run`` that come again with other operands: printed once, in a loop over a table of where these lie.

Worked example: six steps call two kernels three times over::

    k0(x, w0, a)   k1(a, b)   k0(b, w1, a)   k1(a, b)   k0(b, w2, a)   k1(a, b)

Each has a form: what is called, with operands and counts from where. The forms are 0 1 0 1 0 1, so that two of them
come three times, and what would be printed of the other four is saved. Of the operands, a is the same in all turns
and keeps its name; x, b, b are a column of the table, and so are w0, w1, w2, or numbers that kernels are given:

>>> recurring([0, 1, 0, 1, 0, 1], [400] * 6, least=1000)
[Recurring(first=0, count=2, times=3)]

It is for programs of a thousand lines of steps: in shorter ones each call is better read where it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.codegen.facts import Repeat, Series, Step, StepOfSeries

MOST_STEPS = 512
"""Steps of a turn that are looked for."""
LEAST_LETTERS = 1500
"""Of C that a loop must save: a reader has to look its operands up."""
STEP_LETTERS = 120
"""Of the table, for a step: two or three operands that differ from turn to turn."""


NUMBER = "number"
"""The base of what the table says itself."""


@dataclass(frozen=True)
class Place:
    """What a kernel is given: ``c`` in C; and of what lies in a ``member`` of the arena or the weights, by which
    local these go, and how many bytes behind the beginning of the member. A number that is kept there is ``read`` as
    this type of C. A number that is known has `NUMBER` for a local, is a ``member`` of the table, and there ``read``
    as this type."""

    c: str
    base: str = ""
    member: str = ""
    offset: int = 0
    read: str = ""


def number_given(n: int) -> Place:
    """A number that a kernel is given."""
    return Place(str(n), NUMBER, f"{n}u", read="int32_t") if n >= 0 else Place(str(n))


def size_given(nbytes: int) -> Place:
    """A size that hooks are given."""
    return Place(f"{nbytes}u", NUMBER, f"{nbytes}u")


@dataclass(frozen=True)
class PlainCall:
    """A call that a loop could make: its kernel, arguments, what it writes of so many bytes, whether it answers a
    status."""

    kernel: str
    arguments: tuple[Place, ...]
    traced: tuple[tuple[Place, Place], ...]
    checked: bool

    @property
    def form(self) -> tuple[object, ...]:
        """What calls of one series have in common."""
        bases = tuple((p.base, p.read) if p.base else p.c for p in self.places)
        return self.kernel, len(self.arguments), bases, self.checked

    @property
    def places(self) -> tuple[Place, ...]:
        return (*self.arguments, *chain.from_iterable(self.traced))


@dataclass(frozen=True)
class Recurring:
    """``times`` turns of ``count`` items each, from ``first`` on."""

    first: int
    count: int
    times: int

    @property
    def stop(self) -> int:
        return self.first + self.count * self.times


def with_series(
    name: str, items: Sequence[Step | Repeat], calls: Mapping[int, PlainCall | None]
) -> list[Step | Repeat | Series]:
    """The items of the program ``name`` with steps that come again as series; ``calls`` are those of steps that a
    loop could make, by their numbers."""
    plain = [calls.get(item.number) if isinstance(item, Step) else None for item in items]
    known: dict[object, int] = {}
    forms = [known.setdefault(c.form if c else i, len(known)) for i, c in enumerate(plain)]
    saved = [item.letters - STEP_LETTERS if isinstance(item, Step) else 0 for item in items]
    done: list[Step | Repeat | Series] = []
    at = 0
    for found in recurring(forms, saved, LEAST_LETTERS):
        steps = [item for item in items[found.first : found.stop] if isinstance(item, Step)]
        made = [c for c in plain[found.first : found.stop] if c is not None]
        done += [*items[at : found.first], _series(name, steps, made, found)]
        at = found.stop
    return [*done, *items[at:]]


def recurring(forms: Sequence[int], saved: Sequence[int], least: int) -> list[Recurring]:
    """What comes again, in order: first what saves most, at ``least`` so many letters; ``saved`` are those of each
    item that is not printed."""
    x = np.array(forms, np.int64)
    sums = np.concatenate([[0], np.cumsum(saved, dtype=np.int64)])
    chosen: list[Recurring] = []
    while True:
        found = {
            c: int(sums[c.stop] - sums[c.first + c.count])
            for count in range(1, min(MOST_STEPS, len(x) // 2) + 1) for c in _of_period(x, count)
        }  # fmt: skip
        taken = np.zeros(len(x), bool)
        for c in sorted(found, key=lambda c: -found[c]):
            if found[c] >= least and not taken[c.first : c.stop].any():
                taken[c.first : c.stop] = True
                chosen.append(c)
        if not taken.any():
            return sorted(chosen, key=lambda c: c.first)
        x[taken] = -1 - len(chosen) * len(x) - np.flatnonzero(taken)  # like nothing else


def _of_period(x: np.ndarray[tuple[int], np.dtype[np.int64]], count: int) -> Iterable[Recurring]:
    """The longest stretches of items that are equal to those ``count`` before them, as whole turns."""
    same = np.concatenate([[False], x[count:] == x[:-count], [False]]).astype(np.int8)
    begins, ends = np.flatnonzero(np.diff(same) == 1), np.flatnonzero(np.diff(same) == -1)
    for first, stop in zip(begins, ends, strict=True):
        if stop - first >= count:
            yield Recurring(int(first), count, 1 + int(stop - first) // count)


def _series(name: str, steps: Sequence[Step], calls: Sequence[PlainCall], found: Recurring) -> Series:
    """The series of the steps of some turns."""
    columns: dict[tuple[str, tuple[str, ...]], int] = {}
    printed = []
    for i, (step, call) in enumerate(zip(steps[: found.count], calls, strict=False)):
        turns = zip(*(c.places for c in calls[i :: found.count]), strict=True)
        given = [_given(name, places, columns) for places in turns]
        number = f"{step.number}u + {found.count}u * turn" if found.count > 1 else f"{step.number}u + turn"
        results = given[len(call.arguments) :]
        first, *others = map(", ".join, zip(results[::2], results[1::2], strict=True))
        made = f"{call.kernel}({', '.join(given[: len(call.arguments)])})"
        begin = f"MCC_STATUS_STEP_TO({number}, st, " if call.checked else f"MCC_STEP_TO({number}, "
        lines = [f"{begin}{made}, {first});", *(f"MCC_TRACE({number}, {other});" for other in others)]
        printed.append(StepOfSeries(step.number, step.comment, "\n".join(lines), call.checked))
    rows = tuple(zip(*(cells for _, cells in columns), strict=True))
    bases, firsts = frozenset(base for base, _ in columns) - {NUMBER}, tuple(s.comment for s in steps[:: found.count])
    return Series(steps[0].number, found.count, found.times, tuple(printed), rows, bases, firsts)


def _given(name: str, places: tuple[Place, ...], columns: dict[tuple[str, tuple[str, ...]], int]) -> str:
    """What turns are given as C: by its name, or by a column of the table, which it is put into."""
    if len({p.c for p in places}) == 1:
        return places[0].c
    base, offsets = places[0].base, {p.offset for p in places}
    if base == NUMBER:
        cast = f"({places[0].read})" if places[0].read else ""
        return f"{cast}at[{columns.setdefault((base, tuple(p.member for p in places)), len(columns))}]"
    behind = f" + {places[0].offset}u" if len(offsets) == 1 and offsets != {0} else ""
    cells = [f"IN_{base.upper()}({p.member})" for p in places]
    if not behind:
        cells = [cell + (f" + {p.offset}u" if p.offset else "") for cell, p in zip(cells, places, strict=True)]
    read = f"*(const {places[0].read} *)" if places[0].read else ""
    return f"{read}{name}_{base}({base}, at[{columns.setdefault((base, tuple(cells)), len(columns))}]{behind})"
