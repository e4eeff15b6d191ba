"""The range of a sum of products of atoms: exact where few values can be tried, else as narrow as its form tells.

Worked example: of h rows, up to 4000, half are in one part and the others in the other one, each w long. That the
rows of the second part are never negative is told by what h // 2 is, (h - r) / 2:

>>> from mccompile.ir.dims import minimum, span, symbol
>>> h, w = symbol("h", 1, 4000), symbol("w", 1, 4000)
>>> span((h - h // 2) * w)
(1, 8002000)

Of the rows behind the first w there are none, or some:

>>> span((h - minimum(h, w)) * w)
(0, 4000000)
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping
from dataclasses import replace

from mccompile.ir.dims_terms import (
    Atom,
    Least,
    Monomial,
    Quotient,
    Sum,
    Symbol,
    Terms,
    apart,
    atom_span,
    combined,
    inner_of,
    ordered,
    product,
    replaced,
    symbols_in,
    symbols_of,
    terms_of,
    value_of,
    without,
)

MAX_TRIED = 2048
"""A range is found by trying all values of the symbols where they are so few, else by intervals."""
MAX_CORNERS = 10
"""A sum that is linear in each of so many atoms at most is tried where they are at their ends."""
MAX_EXTREMES = 6
"""The range of so many least and greatest numbers in one sum is found by trying both sides of each, else by
intervals: one more doubles the time."""

Range = tuple[int, int]


def range_of(terms: Terms) -> Range:
    """The least and the largest value of a sum, or what none is below or above: the sum of those of its parts that
    have nothing to do with each other. Of 2 * n + m * k + m + 1 these are 2 * n, m * k + m and 1."""
    ranges = [_range_of(tuple(terms[i] for i in part)) for part in apart([m for m, _ in terms])]
    return sum(low for low, _ in ranges), sum(high for _, high in ranges)


@functools.lru_cache(maxsize=1 << 14)
def _range_of(terms: Terms) -> Range:
    inner = symbols_in(terms)
    if math.prod(len(s.values) for s in inner) <= MAX_TRIED:
        names = [s.name for s in inner]
        places = (dict(zip(names, at, strict=True)) for at in itertools.product(*(s.values for s in inner)))
        tried = [value_of(terms, at) for at in places if all(_may_be(s, at) for s in inner)]
        return min(tried), max(tried)
    if len(inner) == 1 and (steps := period_of(terms)) is not None:
        return _range_of_periods(terms, inner[0], steps)
    atoms = list(dict.fromkeys(a for m, _ in terms for a in m))
    extremes = [a for a in atoms if isinstance(a, Least)]
    if extremes and sum(map(_extremes_in, atoms)) <= MAX_EXTREMES:
        # those first that are in no other, which would be taken for another number there
        outer = (a for a in extremes if not any(_is_within(a, other) for other in atoms))
        first = next(outer, extremes[0])
        found = _within_both(_range_without(terms, first), _range_of_ends(terms, atoms))
        around = [a for a in atoms if isinstance(a, Quotient) and _is_within(first, a)]
        return _within_rest(found, terms, [q for q in around if _stands_with_others(terms, atoms, q)])
    counters = [a for a in atoms if isinstance(a, Symbol) and a.under and _is_linear(terms, a)]
    if counters:  # it is least and largest where the counter is at an end
        counter, count = counters[0], counters[0].under[0]
        last = ordered(combined(count.terms, terms_of(1), -1))
        ends = [replaced(terms, counter, end) for end in (terms_of(counter.low), last)]
        return _hull([range_of(_where_positive(count, end)) for end in ends])
    quotients = [a for a in atoms if isinstance(a, Quotient) and _stands_with_others(terms, atoms, a)]
    return _within_rest(_range_of_ends(terms, atoms), terms, quotients)


def _within_both(one: Range, other: Range) -> Range:
    return max(one[0], other[0]), min(one[1], other[1])


def _hull(found: list[Range]) -> Range:
    return min(low for low, _ in found), max(high for _, high in found)


# -- ends ------------------------------------------------------------------------------------------------------
def _range_of_ends(terms: Terms, atoms: list[Atom]) -> Range:
    """The range of a sum as far as the ranges of its atoms tell it."""
    powers = {a for m, _ in terms for a in m if m.count(a) > 1}
    if len(atoms) <= MAX_CORNERS and not powers:
        return _range_of_corners(terms, atoms)
    if len(atoms) <= MAX_CORNERS and len(powers) == 1 and max(m.count(*powers) for m, _ in terms) == 2:
        return _range_of_square(terms, atoms, *powers)
    low = high = 0
    for m, c in terms:
        ends = [atom_span(a) for a in m]
        products = [math.prod(corner) * c for corner in itertools.product(*ends)]
        low, high = low + min(products), high + max(products)
    return low, high


def _range_of_corners(terms: Terms, atoms: list[Atom]) -> Range:
    """The range of a sum that is linear in each of its atoms: it is least and largest where all are at an end.

    Of (h - 2) * (w - 2), which stands as h * w - 2 * h - 2 * w + 4, that is what the factors make of it.
    """
    found = []
    for corner in itertools.product(*map(atom_span, atoms)):
        at = dict(zip(atoms, corner, strict=True))
        found.append(sum(c * math.prod(at[a] for a in m) for m, c in terms))
    return min(found), max(found)


def _range_of_square(terms: Terms, atoms: list[Atom], squared: Atom) -> Range:
    """The range of a sum that is linear in each of its atoms but one, in which it is a parabola where the others are
    at their ends: it is least and largest where that one is at an end, or beside the vertex.

    6 * n * n - 6 * n, n from 1 to 3000, is 0 for 1; what its two terms tell apart from each other is less than that.
    """
    low, high = atom_span(squared)
    others = [a for a in atoms if a != squared]
    found = []
    for corner in itertools.product(*map(atom_span, others)):
        at = dict(zip(others, corner, strict=True))
        by_power = [0, 0, 0]
        for m, c in terms:
            by_power[m.count(squared)] += c * math.prod(at[a] for a in m if a != squared)
        constant, slope, bend = by_power
        vertex = -slope // (2 * bend) if bend else low
        places = {low, high, *(min(max(n, low), high) for n in (vertex, vertex + 1))}
        found += [constant + (slope + bend * n) * n for n in places]
    return min(found), max(found)


# -- periods ---------------------------------------------------------------------------------------------------
def _range_of_periods(terms: Terms, s: Symbol, steps: int) -> Range:
    """The range of a sum that is more by the same after so many steps of its one symbol: it is least and largest in
    the first of these periods, or in the last.

    3 * ((n + 2) // 3) - n is 0, 2, 1, 0, 2, ..
    """
    tried = [value_of(terms, {s.name: at}) for at in (*s.values[:steps], *s.values[-steps:])]
    return min(tried), max(tried)


def period_of(terms: Terms) -> int | None:
    """So many steps of its one symbol after which a sum is more by the same each time; None if it has no such, or too
    many to try them."""
    found = _period_and_rise(terms) if len(symbols_in(terms)) == 1 else None
    return found[0] if found is not None and 2 * found[0] <= MAX_TRIED else None


def _period_and_rise(terms: Terms) -> tuple[int, int] | None:
    """A period of a sum, and by how much it is more behind one."""
    parts: list[tuple[int, int]] = []
    for m, c in terms:
        match m:
            case ():
                continue
            case (Symbol(choices=(), under=()) as s,):
                parts.append((1, c * s.step))
            case (Quotient(of, by),):
                inner = _period_and_rise(of.terms)
                if inner is None:
                    return None
                times = by // math.gcd(by, inner[1])
                parts.append((inner[0] * times, c * (inner[1] * times // by)))
            case _:
                return None
    steps = math.lcm(*(own for own, _ in parts))
    return steps, sum(rise * (steps // own) for own, rise in parts)


# -- quotients -------------------------------------------------------------------------------------------------
def _stands_with_others(terms: Terms, atoms: list[Atom], q: Quotient) -> bool:
    """Whether other atoms of a sum tell of a quotient in it, which is in no product twice. Where none does, its range
    is all there is to know."""
    own = symbols_of(q)
    once = all(m.count(q) <= 1 for m, _ in terms)
    return once and any(s in own for a in atoms if a != q for s in symbols_of(a))


def _within_rest(found: Range, terms: Terms, quotients: list[Quotient]) -> Range:
    """What is found of a sum, and what the first of some quotients in it tells."""
    return _within_both(found, _range_by_rest(terms, quotients[0])) if quotients else found


def _range_by_rest(terms: Terms, q: Quotient) -> Range:
    """The range of a sum that has a quotient once in each of some products: that is what is divided, less a rest, by
    the divisor.

    In 160 * (n // 160) - n, n up to 3200, it is (n - r) / 160, r from 0 to 159: the sum is -r.
    """
    rest = Symbol(f"rest of {q.text}", 0, q.by - 1)
    exact = ordered(combined(q.of.terms, [((rest,), 1)], -1))
    others = [(m, c * q.by) for m, c in terms if q not in m]
    low, high = range_of(ordered(combined(others, product(_cofactor(terms, q), exact).items())))
    return -(-low // q.by), high // q.by


def _cofactor(terms: Terms, atom: Atom) -> Terms:
    """What an atom is multiplied by in a sum that has it once in each of some products."""
    rests = ((without(m, (atom,)), c) for m, c in terms)
    return ordered({m: c for m, c in rests if m is not None})


# -- least and greatest ----------------------------------------------------------------------------------------
def _range_without(terms: Terms, extreme: Least) -> Range:
    """The range of a sum that has a least (greatest) of two: it is one of the two, and not above (below) the other.

    In least(n; 10) - n, n up to 100, it is n or 10: the sum is 0 or up to 10 - n, and at most 0.
    """
    found = [range_of(replaced(terms, extreme, terms_of(by))) for by in (extreme.left, extreme.right)]
    low, high = _hull(found)
    if all(m.count(extreme) <= 1 for m, _ in terms):
        least, most = range_of(_cofactor(terms, extreme))
        rising, falling = least >= 0, most <= 0
        if rising if extreme.sign > 0 else falling:
            high = min(high for _, high in found)
        elif falling if extreme.sign > 0 else rising:
            low = max(low for low, _ in found)
    opposite = replace(extreme, sign=-extreme.sign)
    both = combined(extreme.left.terms, terms_of(extreme.right))
    other = replaced(terms, extreme, ordered(combined(both.items(), [((opposite,), 1)], -1)))
    if len(other) < len(terms):  # (h - least(h; 9)) * (h - least(h; 9)) is a square
        return _within_both((low, high), range_of(other))
    return low, high


def _extremes_in(atom: Atom) -> int:
    return isinstance(atom, Least) + sum(map(_extremes_in, _within(atom)))


def _is_within(atom: Atom, other: Atom) -> bool:
    """True if an atom is a part of another one."""
    return any(a == atom or _is_within(atom, a) for a in _within(other))


def _within(atom: Atom) -> list[Atom]:
    """The atoms of what an atom is made of, each as often as it stands there."""
    return [] if isinstance(atom, Symbol) else [a for m, _ in inner_of(atom).terms for a in m]


# -- counters --------------------------------------------------------------------------------------------------
def _may_be(s: Symbol, values: Mapping[str, int]) -> bool:
    """False where a counter is not less than its count; true where that is not among the values."""
    known = [n for n in s.under if all(other.name in values for other in n.symbols)]
    return all(values[s.name] < value_of(n.terms, values) for n in known)


def _is_linear(terms: Terms, s: Symbol) -> bool:
    return all(m.count(s) <= 1 and all(a == s or s not in symbols_of(a) for a in m) for m, _ in terms)


def _where_positive(count: Sum, terms: Terms) -> Terms:
    """A sum while a loop with so many turns has one: a count of n - 1, n from 1 to 9, leaves 2 to 9 for n."""
    (factors, times), *rest = count.terms
    match factors:
        case (Symbol(choices=(), step=1) as s,) if times == 1 and all(not m for m, _ in rest) and count.low < 1:
            return _with_symbol(terms, s, replace(s, low=s.low + 1 - count.low))
    return terms


def _with_symbol(terms: Terms, old: Symbol, new: Symbol) -> Terms:
    """A sum with another symbol of the same name."""

    def changed(inner: Sum) -> Sum:
        own = _with_symbol(inner.terms, old, new)
        return Sum(own, *range_of(own))

    def atom(a: Atom) -> Atom:
        match a:
            case Symbol():
                return new if a == old else a
            case Quotient():
                return Quotient(changed(a.of), a.by)
            case Least():
                return Least(changed(a.left), a.right, a.sign)

    total: dict[Monomial, int] = {tuple(map(atom, m)): c for m, c in terms}
    return ordered(total)
