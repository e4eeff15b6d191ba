"""What to do where something depends on extents that are known at run time only.

>>> n, m = symbol("n", 1, 8), symbol("m", 1, 9)
>>> equality(m, n + 1)
'--dim m=n+1'
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

from mccompile.ir.dims import (
    Dim,
    UndecidedError,
    polynomial,
    require_equal,
    span,
    symbol,
    symbols,
    text,
    with_symbols,
)
from mccompile.ir.dims_terms import Atom, Least, Quotient, Symbol, replaced, stepped, terms_of

FIX = "give each dim that it depends on one number"
COUNTED = "state the extent in the model, or fix what it depends on with --constant"


def hint_of(error: UndecidedError, counted: Collection[str] = ()) -> str:
    """What to do: to say which extents are equal, to take multiples only, or a smaller range, where that is enough.
    Extents that are ``counted`` are given by no option.

    >>> hint_of(UndecidedError("", None, symbol("k", 0, 8)), ["k"])
    'the run finds out k: state the extent in the model, or fix what it depends on with --constant'
    """
    names = [s.name for s in symbols(*error.numbers) if s.name in counted]
    if names:
        return f"the run finds out {', '.join(names)}: {COUNTED}"
    found = ""
    if error.decide is not None:
        found = proposal(error.decide, *error.numbers) or limits(error.decide, *error.numbers)
    if error.decide is require_equal and not found:
        found = equality(*error.numbers)
        found = found and f"say that they are equal: {found}; or {FIX}"
    return found or f"{FIX}: --dim NAME=N"


def equality(left: int, right: int) -> str:
    """The option that makes two extents equal: one of their symbols by the others; empty where none follows from
    them, or may be what follows."""
    difference = left - right
    found: list[tuple[Symbol, int]] = []
    for without in _without_extremes(difference):
        found += [(s, n) for s, n in _solutions(without) if without is difference or _is_solved(difference, s, n)]
    if not found:
        return ""
    s, n = min(found, key=lambda f: (text(f[1]).count("-"), len(symbols(f[1])), [-ord(ch) for ch in f[0].name]))
    return f"--dim {s.name}={text(n)}"


def _without_extremes(n: int) -> list[int]:
    """What an extent may be, with one of the two for each least or greatest in it."""
    if isinstance(n, Dim):
        for atom in (a for m, _ in n.terms for a in m if isinstance(a, Least)):
            either = [polynomial(dict(replaced(n.terms, atom, terms_of(by)))) for by in (atom.left, atom.right)]
            return [one for number in either for one in _without_extremes(number)]
    return [n]


def _solutions(difference: int) -> list[tuple[Symbol, int]]:
    """The symbols of a sum with what they are, by the others, where it is 0."""
    found = []
    for m, c in difference.terms if isinstance(difference, Dim) else ():
        s = m[0] if len(m) == 1 and isinstance(m[0], Symbol) else stepped(m[0]) if len(m) == 1 else None
        if s is None or abs(c) != s.step:
            continue
        rest = (polynomial({m: c}) - difference) * (1 if c > 0 else -1)
        low, high = span(rest)
        if s not in symbols(rest) and low <= s.high and high >= s.low and low >= 0:
            found.append((s, rest))
    return found


def _is_solved(difference: int, s: Symbol, n: int) -> bool:
    """Whether a difference is 0 wherever a symbol is that."""
    known = {o.name: n if o == s else polynomial({(o,): 1}) for o in symbols(difference)}
    solved = with_symbols(difference, known)
    return not isinstance(solved, Dim) and solved == 0


def proposal(decide: Callable[..., object], *numbers: int) -> str:
    """A hint of which extents only multiples are to be taken, so that ``decide`` no longer raises UndecidedError for
    the numbers; empty where that is not enough.

    >>> h = symbol("h", 32, 192)
    >>> proposal(lambda a, b: a < b, (h + 1) // 2 * 2, h)
    'take only multiples: --dim h=32..192:2; or give each dim that it depends on one number'
    """
    steps = {s: s.step for s in symbols(*numbers)}
    for atom in _atoms(numbers):
        if isinstance(atom, Quotient):
            for s in symbols(atom.of):
                steps[s] = math.lcm(steps[s], atom.by)
    coarse = [
        Symbol(s.name, -(-s.low // step) * step, s.high // step * step, step)
        for s, step in steps.items() if step > s.step
    ]  # fmt: skip
    if not coarse or any(s.low >= s.high for s in coarse):
        return ""
    if not _decides(decide, numbers, {s.name: symbol(s.name, s.low, s.high, s.step) for s in (*steps, *coarse)}):
        return ""
    options = " ".join(f"--dim {s.name}={s}" for s in coarse)
    return f"take only multiples: {options}; or {FIX}"


def limits(decide: Callable[..., object], *numbers: int) -> str:
    """A hint of a smaller range of an extent, so that ``decide`` no longer raises UndecidedError for the numbers: one
    in which it is the least of two, as tokens are where there are positions for so many; empty where there is none.

    >>> from mccompile.ir.dims import minimum
    >>> s = symbol("s", 1, 40)
    >>> limits(require_equal, minimum(s + 2, 32), s + 2)
    'take no others than: --dim s=1..30; or give each dim that it depends on one number'
    """
    for atom in _atoms(numbers):
        if not isinstance(atom, Least) or len(atom.left.symbols) != 1:
            continue
        (s,) = atom.left.symbols
        more = atom.left - polynomial({(s,): 1})
        if isinstance(more, Dim) or s.choices or s.under:
            continue
        end = atom.right - more
        low, high = (s.low, end // s.step * s.step) if atom.sign > 0 else (-(-end // s.step) * s.step, s.high)
        if not s.low <= low < high <= s.high:
            continue
        known = {o.name: polynomial({(o,): 1}) for o in symbols(*numbers)}
        if _decides(decide, numbers, {**known, s.name: symbol(s.name, low, high, s.step)}):
            return f"take no others than: --dim {s.name}={Symbol(s.name, low, high, s.step)}; or {FIX}"
    return ""


def _atoms(numbers: Sequence[int]) -> list[Atom]:
    """The atoms of extents, each once."""
    return list(dict.fromkeys(a for n in numbers if isinstance(n, Dim) for m, _ in n.terms for a in m))


def _decides(decide: Callable[..., object], numbers: Sequence[int], known: Mapping[str, int]) -> bool:
    """Whether ``decide`` can tell of numbers with others for their symbols; of what has to be equal, that it is."""
    narrowed = [with_symbols(n, known) for n in numbers]
    try:
        decide(*narrowed)
    except (UndecidedError, ArithmeticError):  # it may be 0 then, by which nothing is divided
        return False
    return decide is not require_equal or narrowed[0] == narrowed[1]
