"""What is said of the extent of a dim, by ``--dim`` or in a shape: the grammar, and what others are computed of.

    VALUE   = NUMBER | RANGE | NUMBERS | FORMULA
    RANGE   = 1..128 | 32..128:32               given when the program runs; of multiples of 32
    NUMBERS = 16,64,128                         of which one is given when the program runs
    FORMULA = s0 | past+1 | 2*(n+3)//4          of other dims, by their names in the file

Worked example:

>>> read("32..128:32", "dim 'w'", "w"), read("16,64", "dim 'n'", "n"), read("past+1", "dim 'total'", "total")
(Span(low=32, high=128, step=32), Several(numbers=(16, 64)), Formula(text='past+1'))
>>> computed(Formula("past.1+1"), {"past.1": symbol("past_1", 0, 7)})
past_1+1
"""

from __future__ import annotations

import operator
import re
from collections.abc import Collection, Mapping

from mccompile._dataclass import dataclass
from mccompile.ir.dims import Dim, UndecidedError, chosen, span, symbol
from mccompile.ir.dims_text import parse
from mccompile.ir.errors import UsageError


@dataclass(frozen=True)
class Span:
    """A range, ends included, of multiples of ``step``."""

    low: int
    high: int
    step: int = 1


@dataclass(frozen=True)
class Several:
    """Numbers to choose from, in ascending order."""

    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Formula:
    """What is computed of other dims."""

    text: str


_MOST = 2**63 - 1

Said = int | Span | Several | Formula


def read(value: object, what: str, name: str = "") -> Said:
    """What ``value`` says of ``what``. Without a ``name`` to go by it is no range and no list.

    UsageError for what is no value, a range that is empty, or does not begin and end at multiples of its step.
    """
    if hasattr(value, "__index__") and not isinstance(value, bool) and (number := operator.index(value)) >= 0:
        return _extent(number, what)
    text = value.strip() if isinstance(value, str) else ""
    if text.isdecimal():
        return _extent(int(text), what)
    ends = re.fullmatch(r"(\d*)\s*\.\.\s*(\d*)\s*(?::\s*(\d+))?", text)
    if ends and not name:
        raise UsageError(f"{what}: only a dim with a name may be a range",
                         hint=f"give it a name, n, in its place, and say --dim n={text}")  # fmt: skip
    if ends:
        return _span(ends, what, name)
    if "," in text and name:
        return _several(text, name)
    if re.search(r"[^\W\d]", text) and ".." not in text:
        return Formula(text)
    raise UsageError(
        f"{what} has to be a whole number of at least 0, a range like 1..128 or 32..128:32, or computed of others "
        f"like past+1, not {value!r}"
    )


def _extent(number: int, what: str) -> int:
    """A number that is an extent. UsageError for one that ONNX cannot say."""
    if number > _MOST:
        raise UsageError(f"{what} is {number}, but no extent is above {_MOST}")
    return number


def _span(ends: re.Match[str], what: str, name: str) -> Span:
    value = ends[0]
    if not ends[2]:
        raise UsageError(f"{what}: memory is planned for the largest extent, which {value!r} leaves open",
                         hint=f"say where it ends: --dim {name}={ends[1] or 1}..1024")  # fmt: skip
    step = int(ends[3] or 1)
    low, high = int(ends[1] or step), _extent(int(ends[2]), what)
    if low > high:
        raise UsageError(f"{what}: the range {value!r} is empty")
    if step < 1 or low % step or high % step:
        least, most = (-(-low // step) * step, high // step * step) if step else (low, high)
        raise UsageError(f"{what}: the range {value!r} does not begin and end at multiples of its step",
                         hint=f"say --dim {name}={least}..{max(least, most)}:{max(step, 1)}")  # fmt: skip
    return Span(low, high, step)


def _several(text: str, name: str) -> Several:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts) or len(set(parts)) != len(parts):
        raise UsageError(
            f"dim {name!r} has to be different whole numbers of at least 1, not {text!r}",
            hint=f"say for example --dim {name}=16,64,128",
        )
    return Several(tuple(sorted(_extent(int(part), f"dim {name!r}") for part in parts)))


def extent_of(said: int | Span | Several, word: str) -> int:
    """The extent that is called so, as it is given."""
    match said:
        case Span():
            return symbol(word, said.low, said.high, said.step)
        case Several():
            return chosen(word, said.numbers) if len(said.numbers) > 1 else said.numbers[0]
    return said


def listed(dims: Mapping[str, int | str]) -> tuple[str, tuple[int, ...]] | None:
    """The dim that is given as several numbers, and these in ascending order; None without one.

    UsageError for several such dims, or what is no list of numbers.
    """
    said = {name: read(value, f"dim {name!r}", name) for name, value in dims.items()}
    lists = {name: value.numbers for name, value in said.items() if isinstance(value, Several)}
    if len(lists) > 1:
        first, second, *_ = lists
        raise UsageError(
            f"several dims are lists: {', '.join(lists)}",
            hint=f"give one of them as a list, and the others by it, like --dim {second}={first}",
        )
    return next(iter(lists.items()), None)


def names_in(formula: Formula, known: Collection[str]) -> list[str]:
    """The dims that a formula is computed of: those that are ``known``, and what else looks like a name."""
    return list(dict.fromkeys(m[0] for m in _names(known).finditer(formula.text)))


def computed(formula: Formula, known: Mapping[str, int]) -> int:
    """The extent that a formula gives. ValueError for what is none, or may be less than 0."""
    places = {name: f"d{i}" for i, name in enumerate(known)}
    text = _names(known).sub(lambda m: places.get(m[0], m[0]), formula.text)
    try:
        found = parse(text, {places[name]: e for name, e in known.items()})
    except ZeroDivisionError:
        raise ValueError("it divides by 0") from None
    except UndecidedError:
        raise
    except ValueError:
        raise ValueError("it is no sum, product or whole quotient of dims and numbers") from None
    if isinstance(found, Dim) and span(found)[0] < 0:
        raise ValueError(f"it may be {span(found)[0]}")
    if found < 0:
        raise ValueError(f"it is {found}")
    return found


def _names(known: Collection[str]) -> re.Pattern[str]:
    """Finds the longest known names first, as some files have names such as p.1 or past + 1; then any other name.
    A dim that is called 1 is none of them: that is the number."""
    parts = [re.escape(name) for name in sorted(known, key=len, reverse=True) if name and not name.isdecimal()]
    names = "|".join([*parts, r"[^\W\d][\w.]*"])
    return re.compile(rf"(?<![\w.])(?:{names})(?![\w.])")
