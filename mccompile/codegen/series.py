"""Steps of ``run`` that come again with other operands: printed once, in a loop over a table of where these lie.

Worked example: six steps call two kernels three times over::

    k0(x, w0, a)   k1(a, b)   k0(b, w1, a)   k1(a, b)   k0(b, w2, a)   k1(a, b)

Each has a form: what is called, with operands and counts from where. The forms are 0 1 0 1 0 1, so that two of them
come three times, and what would be printed of the other four is saved. Of the operands, a is the same in all turns
and keeps its name; x, b, b are a column of the table, and so are w0, w1, w2, or numbers that kernels are given. What
is more by as much in each turn, as rows of one array or 5, 7, 9, is in no table, and nothing is in two of them.

>>> recurring([0, 1, 0, 1, 0, 1], [400] * 6, least=1000)
[Recurring(first=0, count=2, times=3)]

It is for programs of a thousand lines of steps: in shorter ones each call is better read where it is.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.codegen.facts import Repeat, Series, Step, StepOfSeries
from mccompile.codegen.run_calls import NUMBER, Place, RunCall

MOST_STEPS = 512
"""Steps of a turn that are looked for."""
LEAST_LETTERS = 1500
"""Of C that a loop must save: a reader has to look its operands up."""
CELL_LETTERS = 9
"""Of the table, for an operand: what stands around the name of a member."""

Tables = dict[str, list[tuple[str, ...]]]
"""The columns of tables, by the name of each."""


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
    name: str, items: Sequence[Step | Repeat], calls: Mapping[int, RunCall | None]
) -> list[Step | Repeat | Series]:
    """The items of the program ``name`` with steps that come again as series; ``calls`` are those of steps that a
    loop could make, by their numbers."""
    plain = [calls.get(item.number) if isinstance(item, Step) else None for item in items]
    known: dict[object, int] = {}
    forms = [known.setdefault(c.form if c else i, len(known)) for i, c in enumerate(plain)]
    saved = [
        item.letters - _cells(call) if isinstance(item, Step) and call else 0
        for item, call in zip(items, plain, strict=True)
    ]
    done: list[Step | Repeat | Series] = []
    tables: Tables = {}
    at = 0
    for found in recurring(forms, saved, LEAST_LETTERS):
        steps = [item for item in items[found.first : found.stop] if isinstance(item, Step)]
        made = [c for c in plain[found.first : found.stop] if c is not None]
        done += [*items[at : found.first], _series(name, steps, made, found, tables)]
        at = found.stop
    return [*done, *items[at:]]


def _cells(call: RunCall) -> int:
    """The letters that a table has at most of a call."""
    return sum(CELL_LETTERS + len(member) for member in {p.member for p in call.places if p.base})


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


def _series(name: str, steps: Sequence[Step], calls: Sequence[RunCall], found: Recurring, known: Tables) -> Series:
    """The series of the steps of some turns."""
    table = _Table(name, known)
    printed = []
    for i, (step, call) in enumerate(zip(steps[: found.count], calls, strict=False)):
        turns = zip(*(c.places for c in calls[i :: found.count]), strict=True)
        places = iter([table.given(of_turns) for of_turns in turns])
        before, arguments, traced = ([g.with_places(places) for g in of] for of in call.parts)
        number = f"{step.number}u + {found.count}u * turn" if found.count > 1 else f"{step.number}u + turn"
        first, *others = map(", ".join, zip(traced[::2], traced[1::2], strict=True))
        begin = f"MCC_STATUS_STEP_TO({number}, st, " if call.checked else f"MCC_STEP_TO({number}, "
        lines = [f"{begin}{call.kernel}({', '.join(arguments)}), {first});"]
        lines += [f"MCC_TRACE({number}, {other});" for other in others]
        printed.append(StepOfSeries(step.number, step.comment, "\n".join([*before, *lines]), call.checked))
    known[f"{name}_turns{steps[0].number}"] = table.columns
    firsts = tuple(s.comment for s in steps[:: found.count])
    return Series(steps[0].number, found.count, found.times, tuple(printed), table.rows, table.bases, firsts)


class _Table:
    """What differs from turn to turn in the program ``name``; ``known`` are the tables before it.

    Of 1, 3, 5, or of places 8 elements apart in one array, a turn knows its own: ``1u + 2u * turn``. What another
    table has below one another is taken from there. The rest are columns.
    """

    def __init__(self, name: str, known: Tables) -> None:
        self._name, self._known = name, known
        self.columns: list[tuple[str, ...]] = []
        self.bases: frozenset[str] = frozenset()
        """The beginnings that offsets of it are behind."""

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        return tuple(zip(*self.columns, strict=True))

    def given(self, places: Sequence[Place]) -> str:
        """What turns are given as C, of one form: by its name, by what the turn is, or from a table."""
        first = places[0]
        if len({p.c for p in places}) == 1:
            return first.c
        if (step := _step_of(places)) is not None:
            return step
        if first.base == NUMBER:
            cast = f"({first.read})" if first.read else ""
            return cast + self._cell([p.member for p in places])
        self.bases |= {first.base}
        behind = f" + {first.offset}u" if first.offset and len({p.offset for p in places}) == 1 else ""
        cells = [f"IN_{first.base.upper()}({p.member})" for p in places]
        if not behind:
            cells = [cell + (f" + {p.offset}u" if p.offset else "") for cell, p in zip(cells, places, strict=True)]
        read = f"*(const {first.read} *)" if first.read else ""
        return f"{read}{self._name}_{first.base}({first.base}, {self._cell(cells)}{behind})"

    def _cell(self, cells: Sequence[str]) -> str:
        """The cell of this turn."""
        wanted = tuple(cells)
        if wanted in self.columns:
            return f"at[{self.columns.index(wanted)}]"
        for table, columns in self._known.items():
            for c, column in enumerate(columns):
                row = column.index(wanted[0]) if wanted[0] in column else len(column)
                if column[row : row + len(wanted)] == wanted:
                    return f"{table}[{f'{row}u + ' if row else ''}turn][{c}]"
        self.columns.append(wanted)
        return f"at[{len(self.columns) - 1}]"


def _step_of(places: Sequence[Place]) -> str | None:
    """Numbers, or places in one array, of which each is so much more than the one before, as C."""
    first = places[0]
    is_number = first.base == NUMBER
    at = [int(p.member.rstrip("u")) if is_number else p.offset // p.item for p in places]
    steps = set(map(operator.sub, at[1:], at))
    inside = is_number or (len({p.member for p in places}) == 1 and not first.read)
    if not inside or len(steps) > 1 or min(steps) <= 0:
        return None
    (step,) = steps
    more = f"{step}u * turn" if step > 1 else "turn"
    if not is_number:
        return f"{first.c} + {more}"
    number = more if first.member == "0u" else f"{first.member} + {more}"
    return f"(int32_t)({number})" if first.read else number
