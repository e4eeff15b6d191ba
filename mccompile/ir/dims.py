"""Extents that are known when the program runs: polynomials over symbols, each of which has a range.

Worked example: a sequence of 1 to 128 tokens in 12 heads. All arithmetic on extents stays exact, and every extent
is a number as well, that of its *bound*, for which memory is planned:

>>> n = symbol("n", 1, 128)
>>> n * 12 + 4, int(n * 12 + 4)
(12*n+4, 1540)
>>> (n * 12) // 12, (n + 1) // 2, (n * n - n * n)
(n, ((n+1)//2), 0)

Two extents are equal if they always are. An order that depends on the symbols cannot be decided:

>>> n == n * 1, n == 7, n <= 128
(True, False, True)
>>> n < 64
Traceback (most recent call last):
mccompile.ir.dims.UndecidedError: n < 64 depends on n = 1..128

An axis whose extent varies is never taken for one of 1, nor for an empty one, whatever it is when the program runs:
``n > 1`` and ``bool(n)`` are true, also of n from 0 to 1, and nothing broadcasts along it.

Of an extent that has a step only the multiples are taken: halves are whole, and what was undecided is decided:

>>> h, w = symbol("h", 32, 128), symbol("w", 32, 128, 32)
>>> (h + 1) // 2 * 2 - h, (w + 1) // 2 * 2 - w, (w // 2 + 1) // 2, ((h + 1) // 2 + 1) // 2
(2*((h+1)//2)-h, 0, 8*(w//32), ((h+3)//4))
>>> w, w * 3, w * h
(w, 3*w, w*h)

Who plans for the bound says so by `bound`; nothing else may take an extent for a number.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from mccompile._dataclass import dataclass

MAX_TRIED = 2048
"""A range is found by trying all values of the symbols where they are so few, else by intervals."""


MAX_CORNERS = 10
"""A sum that is linear in each of so many atoms at most is tried where they are at their ends."""
MAX_EXTREMES = 6
"""The range of so many least and greatest numbers in one sum is found by trying both sides of each, else by
intervals: one more doubles the time."""
MAX_ATOMS = 4096
"""No extent is written with more atoms; networks need a few dozen."""


class UndecidedError(ValueError):
    """What was asked of an extent depends on values that are known at run time only: what to do instead is found by
    trying ``decide`` of ``numbers`` again (`dims_hints.hint_of`)."""

    def __init__(self, rule: str, decide: Callable[..., object] | None = None, *numbers: int) -> None:
        super().__init__(rule)
        self.decide, self.numbers = decide, numbers


@dataclass(frozen=True, order=True)
class Symbol:
    """A number given when the program runs: by the caller, or by a kernel that counts. ``low`` to ``high``, which are
    multiples of ``step`` as all that lies between; or only one of ``choices``, if there are any. It is less than
    the extents in ``under``, of which there is one at most: the turn of a loop, than how many there are."""

    name: str
    low: int
    high: int
    step: int = 1
    choices: tuple[int, ...] = ()
    under: tuple[Dim, ...] = ()

    @property
    def values(self) -> Sequence[int]:
        """All that it may be."""
        return self.choices or range(self.low, self.high + 1, self.step)

    def __str__(self) -> str:
        if self.choices:
            return "|".join(map(str, self.choices))
        return f"{self.low}..{self.high}" + (f":{self.step}" if self.step > 1 else "")


@dataclass(frozen=True)
class Quotient:
    """``floor(of / by)``, both whole and ``by`` positive, where it is no polynomial."""

    of: Dim
    by: int


@dataclass(frozen=True)
class Least:
    """The least of two extents that no order can be told of; ``sign`` -1: the greatest."""

    left: Dim
    right: int
    sign: int = 1


Atom = Symbol | Quotient | Least
Monomial = tuple[Atom, ...]
"""A product of atoms, in the order of their text; empty: 1."""


class Dim(int):
    """An extent that varies: see the module's text. As a number it is its bound."""

    terms: tuple[tuple[Monomial, int], ...]
    low: int
    atoms: int
    """How many atoms it is written with, those within others as well."""

    def __new__(cls, terms: Mapping[Monomial, int]) -> Dim:
        """Use `polynomial`, which gives a plain number where nothing varies. UndecidedError above `MAX_ATOMS`."""
        made_of = itertools.chain.from_iterable(terms)
        atoms = sum(1 if isinstance(a, Symbol) else 1 + inner_of(a).atoms for a in made_of)
        if atoms > MAX_ATOMS:
            raise UndecidedError(f"an extent is computed of others in more than {MAX_ATOMS} places")
        ordered = tuple(sorted(terms.items(), key=_order))
        low, high = _range(ordered)
        made = super().__new__(cls, high)
        made.terms, made.low, made.atoms = ordered, low, atoms
        return made

    # -- arithmetic ----------------------------------------------------------------------------------------
    def __add__(self, other: int) -> int:
        return _combined(self, other, 1)

    def __radd__(self, other: int) -> int:
        return _combined(self, other, 1)

    def __sub__(self, other: int) -> int:
        return _combined(self, other, -1)

    def __rsub__(self, other: int) -> int:
        return _combined(-self, other, 1) if isinstance(other, int) else NotImplemented

    def __neg__(self) -> int:
        return _combined(0, self, -1)

    def __mul__(self, other: int) -> int:
        if not isinstance(other, int):
            return NotImplemented
        product: dict[Monomial, int] = {}
        for (a, p), (b, q) in itertools.product(_terms(self), _terms(other)):
            key = tuple(sorted((*a, *b), key=_atom_text))
            product[key] = product.get(key, 0) + p * q
        return polynomial(product)

    __rmul__ = __mul__

    def __floordiv__(self, other: int) -> int:
        if isinstance(other, Dim):
            return _quotient(self, other)
        if other < 0:
            return (-self) // -other
        if other == 1:
            return self
        undivided = {m: c for m, c in self.terms if not m or c % other}
        if any(undivided) and all(c < 0 for m, c in undivided.items() if m):  # rounded up as (n + 1) // 2 is
            whole = polynomial({m: c // other for m, c in self.terms if m not in undivided})
            return whole - (other - 1 - polynomial(undivided)) // other
        whole = polynomial({m: c // other for m, c in self.terms})
        rest = polynomial({m: c % other for m, c in self.terms})
        if not isinstance(rest, Dim):
            return whole + rest // other
        shared = math.gcd(other, *(c for m, c in rest.terms if m))
        if shared > 1:  # (6 * n + 5) // 4 is (3 * n + 2) // 2
            return whole + polynomial({m: c // shared for m, c in rest.terms}) // (other // shared)
        inner = [m[0] for m, c in rest.terms if c == 1 and len(m) == 1 and isinstance(m[0], Quotient)]
        if inner and isinstance(inner[0], Quotient):  # (n // 2 + 1) // 2 is (n + 2) // 4
            beside = rest - polynomial({(inner[0],): 1})
            return whole + (inner[0].of + beside * inner[0].by) // (inner[0].by * other)
        return whole + polynomial({(Quotient(rest, other),): 1})

    def __rfloordiv__(self, other: int) -> int:
        return _quotient(other, self)

    def __mod__(self, other: int) -> int:
        return self - (self // other) * other

    def __rmod__(self, other: int) -> int:
        return other - (other // self) * self

    def __divmod__(self, other: int) -> tuple[int, int]:
        return self // other, self % other

    def __rdivmod__(self, other: int) -> tuple[int, int]:
        return other // self, other % self

    def __abs__(self) -> int:
        return self if self >= 0 else -self

    # -- order -----------------------------------------------------------------------------------------------
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dim) and self.terms == other.terms

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.terms)

    def __lt__(self, other: int) -> bool:
        if self._may_fall_short(other):
            return True
        return self._decided("<", other, lambda low, high: True if high < 0 else False if low >= 0 else None)

    def __le__(self, other: int) -> bool:
        if self._may_exceed(other):
            return False
        return self._decided("<=", other, lambda low, high: True if high <= 0 else False if low > 0 else None)

    def __gt__(self, other: int) -> bool:
        if self._may_exceed(other):
            return True
        return self._decided(">", other, lambda low, high: True if low > 0 else False if high <= 0 else None)

    def __ge__(self, other: int) -> bool:
        if self._may_fall_short(other):
            return False
        return self._decided(">=", other, lambda low, high: True if low >= 0 else False if high < 0 else None)

    def __bool__(self) -> bool:
        if self.low >= 0 or bound(self) <= 0:
            return True
        raise UndecidedError(f"whether {self} is 0 depends on {ranges(self)}", bool, self)

    def _may_exceed(self, other: int) -> bool:
        """Whether it is to be taken for more than 0 or 1, see the module's text."""
        return not isinstance(other, Dim) and other in (0, 1) and self.low >= 0

    def _may_fall_short(self, other: int) -> bool:
        """Whether it is to be taken for less than 0, as what it is the negative of is for more."""
        return not isinstance(other, Dim) and other == 0 and self.low < 0 and bound(self) == 0

    def _decided(self, sign: str, other: int, rule: Callable[[int, int], bool | None]) -> bool:
        if not isinstance(other, int):
            return NotImplemented
        found = rule(*span(self - other))
        if found is None:
            what = f"{self} {sign} {other} depends on {ranges(self, other)}"
            raise UndecidedError(what, _SIGNS[sign], self, other)
        return found

    # -- text ------------------------------------------------------------------------------------------------
    def __str__(self) -> str:
        return text(self)

    def __repr__(self) -> str:
        return text(self)

    def __format__(self, spec: str) -> str:
        return format(bound(self) if spec else text(self), spec)

    def __reduce__(self) -> tuple[object, ...]:
        return polynomial, (dict(self.terms),)


_SIGNS: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def require_equal(left: int, right: int) -> None:
    """UndecidedError where it depends on values that are known at run time only whether two extents are equal."""
    difference = left - right
    if isinstance(difference, Dim) and difference.low <= 0 <= bound(difference):
        rule = f"whether {left} is {right} depends on {ranges(left, right)}"
        raise UndecidedError(rule, require_equal, left, right)


def require_same(left: Sequence[int], right: Sequence[int]) -> bool:
    """Whether two shapes are equal; UndecidedError where that depends on the run.

    >>> require_same((2, 3), (2, 4))
    False
    """
    if len(left) != len(right):
        return False
    for one, other in zip(left, right, strict=True):
        require_equal(one, other)
    return tuple(left) == tuple(right)


def symbol(name: str, low: int, high: int, step: int = 1) -> int:
    """The extent of that name; a plain number if its range has one. With a step it is that times a whole number."""
    return _extent(Symbol(name, low, high, step))


def counter(name: str, count: int) -> int:
    """The extent of that name which counts from 0 to less than ``count``.

    >>> n = symbol("n", 1, 9)
    >>> minimum(counter("i", n) + 1, n)
    i+1
    """
    if not isinstance(count, Dim):
        return symbol(name, 0, max(count - 1, 0))
    return polynomial({(Symbol(name, 0, max(bound(count) - 1, 0), under=(count,)),): 1})


def chosen(name: str, choices: tuple[int, ...]) -> int:
    """The extent of that name which is one of several numbers, in ascending order."""
    return polynomial({(Symbol(name, choices[0], choices[-1], 1, choices),): 1})


def _extent(s: Symbol) -> int:
    number = polynomial({(s,): 1})
    if s.step == 1 or not isinstance(number, Dim):
        return number
    return polynomial({(Quotient(number, s.step),): s.step})


def identifier(name: str) -> str:
    """A name as our text and C can say it: of letters, digits and underscores."""
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)
    return plain if plain[:1].isalpha() else f"n{plain}"


def polynomial(terms: Mapping[Monomial, int]) -> int:
    """A sum of products of atoms; a plain number where nothing varies."""
    left = {m: c for m, c in terms.items() if c}
    if all(not m for m in left):
        return left.get((), 0)
    made = Dim(left)
    return bound(made) if made.low == bound(made) else made


def bound(n: int) -> int:
    """The largest value of an extent, a plain number."""
    return int.__add__(n, 0)


def span(n: int) -> tuple[int, int]:
    """The least and the largest value of an extent."""
    return (n.low, bound(n)) if isinstance(n, Dim) else (n, n)


def may_reach(place: int, extent: int) -> bool:
    """Whether a place may be ``extent`` or more: also one of 1, which comparisons take no extent of the run for.

    >>> may_reach(1, symbol("n", 1, 2)), 1 >= symbol("n", 1, 2)
    (True, False)
    """
    return span(place - extent)[1] >= 0


def reach(n: int) -> int:
    """The largest magnitude of what is computed on the way to an extent: of the sum of its terms whatever their
    signs, and of what its atoms are made of.

    >>> n = symbol("n", 1, 100)
    >>> reach((n * n + 6 * n) // 7)
    10600
    """
    terms = _terms(n)
    total = sum(product_reach(m, c) for m, c in terms)
    return max([total, *(reach(inner_of(a)) for m, _ in terms for a in m if not isinstance(a, Symbol))])


def product_reach(product: Monomial, times: int) -> int:
    """The largest magnitude of a term."""
    return abs(times) * math.prod(max(map(abs, atom_span(a))) for a in product)


def may_be_none(extents: Iterable[int]) -> bool:
    """Whether one of the extents may be 0 in some run."""
    return any(span(e)[0] == 0 for e in extents)


def varies(numbers: Iterable[int]) -> bool:
    """Whether one of the numbers is known at run time only."""
    return Dim in map(type, numbers)  # three times as fast as `any`: it is asked of all there is


def minimum(left: int, right: int) -> int:
    """The lesser of two extents, one of which may be a plain number."""
    return _extreme(left, right, 1)


def maximum(left: int, right: int) -> int:
    """The greater of two extents, one of which may be a plain number."""
    return _extreme(left, right, -1)


def _extreme(left: int, right: int, sign: int) -> int:
    low, high = span(left - right)
    if high <= 0 or low >= 0:
        return left if (high <= 0) == (sign > 0) else right
    if isinstance(right, Dim) and not isinstance(left, Dim):
        left, right = right, left
    if isinstance(right, Dim):
        return right + _extreme(left - right, 0, sign)  # min(a, b) = b + min(a - b, 0)
    assert isinstance(left, Dim)
    return polynomial({(Least(left, right, sign),): 1})


def exact(left: int, right: int) -> int | None:
    """``left / right``; None where that leaves a rest, or where it depends on the run whether it does."""
    try:
        found = left // right
    except UndecidedError:
        return None
    return found if found * right == left else None


def _quotient(left: int, right: int) -> int:
    """``left / right`` where what is left is below ``right`` in every run: of a product, one of its factors."""
    if not isinstance(left, Dim) and left == 0:
        return 0
    if isinstance(left, Dim) and isinstance(right, Dim):
        done, rest = _divided(dict(left.terms), dict(right.terms))
        if span(rest)[0] >= 0 and span(right - rest)[0] > 0:
            return done
        if span(rest)[1] < 0 <= span(right + rest)[0]:  # (n * k + k - 1) // k is n
            return done - 1
    raise UndecidedError(f"{left} // {right} depends on {ranges(left, right)}", operator.floordiv, left, right)


def _divided(left: dict[Monomial, int], right: dict[Monomial, int]) -> tuple[int, int]:
    """Long division of polynomials as far as it goes: the quotient, and what is left."""
    lead, factor = max(right.items(), key=_lead)
    done, rest = dict[Monomial, int](), dict[Monomial, int]()
    while left:
        top, count = max(left.items(), key=_lead)
        key = _without(top, lead)
        if key is None or count % factor:
            rest[top] = left.pop(top)
            continue
        step = count // factor
        done[key] = step
        for m, c in right.items():
            at = tuple(sorted((*m, *key), key=_atom_text))
            left[at] = left.get(at, 0) - c * step
            if not left[at]:
                del left[at]
    return polynomial(done), polynomial(rest)


def _without(product: Monomial, factors: Monomial) -> Monomial | None:
    """The other factors of a product; None where these are not all in it."""
    rest = list(product)
    for atom in factors:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def _lead(term: tuple[Monomial, int]) -> tuple[int, list[str]]:
    return len(term[0]), [_atom_text(a) for a in term[0]]


def _terms(n: int) -> tuple[tuple[Monomial, int], ...]:
    return n.terms if isinstance(n, Dim) else (((), n),)


def _combined(left: int, right: int, sign: int) -> int:
    if not isinstance(right, int):
        return NotImplemented
    total = dict(_terms(left))
    for m, c in _terms(right):
        total[m] = total.get(m, 0) + sign * c
    return polynomial(total)


def _order(term: tuple[Monomial, int]) -> tuple[int, list[str]]:
    return -len(term[0]), [_atom_text(a) for a in term[0]]


# -- ranges and values -----------------------------------------------------------------------------------------
def symbols(*numbers: int) -> list[Symbol]:
    """The symbols that extents depend on, by name. Mostly there are none among very many numbers."""
    if not any(issubclass(kind, Dim) for kind in set(map(type, numbers))):
        return []
    terms = [m for n in numbers if isinstance(n, Dim) for m, _ in n.terms]
    return sorted({s for m in terms for atom in m for s in _symbols_of(atom)})


def ranges(*numbers: int) -> str:
    """The symbols of extents with their ranges, for messages."""
    return ", ".join(f"{s.name} = {s}" for s in symbols(*numbers)) or "nothing"


def with_symbols(n: int, known: Mapping[str, int]) -> int:
    """An extent with others for its symbols."""
    total = 0
    for m, c in _terms(n):
        for atom in m:
            match atom:
                case Symbol():
                    c = c * known[atom.name]
                case Quotient():
                    c = c * (with_symbols(atom.of, known) // atom.by)
                case Least():
                    c = c * _extreme(with_symbols(atom.left, known), atom.right, atom.sign)
        total = total + c
    return total


def value(n: int, values: Mapping[str, int]) -> int:
    """An extent where its symbols have values."""
    return _sum(_terms(n), values)


def _sum(terms: tuple[tuple[Monomial, int], ...], values: Mapping[str, int]) -> int:
    return sum(c * math.prod(_atom_value(a, values) for a in m) for m, c in terms)


def _atom_value(atom: Atom, values: Mapping[str, int]) -> int:
    match atom:
        case Symbol():
            return values[atom.name]
        case Quotient():
            return value(atom.of, values) // atom.by
        case Least():
            return (min if atom.sign > 0 else max)(value(atom.left, values), atom.right)


@functools.lru_cache(maxsize=1 << 14)
def _range(terms: tuple[tuple[Monomial, int], ...]) -> tuple[int, int]:
    inner = sorted({s for m, _ in terms for a in m for s in _symbols_of(a)})
    if math.prod(len(s.values) for s in inner) <= MAX_TRIED:
        names = [s.name for s in inner]
        places = (dict(zip(names, at, strict=True)) for at in itertools.product(*(s.values for s in inner)))
        tried = [_sum(terms, at) for at in places if all(_may_be(s, at) for s in inner)]
        return min(tried), max(tried)
    atoms = list(dict.fromkeys(a for m, _ in terms for a in m))
    extremes = [a for a in atoms if isinstance(a, Least)]
    if extremes and sum(map(_extremes_in, atoms)) <= MAX_EXTREMES:
        # those first that are in no other, which would be taken for another number there
        outer = (a for a in extremes if not any(_is_within(a, other) for other in atoms))
        return _within_both(_range_without(terms, next(outer, extremes[0])), _range_of_ends(terms, atoms))
    counters = [a for a in atoms if isinstance(a, Symbol) and a.under and _is_linear(terms, a)]
    if counters:  # it is least and largest where the counter is at an end
        first, count = counters[0], counters[0].under[0]
        found = [span(_where_positive(count, replaced(terms, first, end))) for end in (first.low, count - 1)]
        return min(low for low, _ in found), max(high for _, high in found)
    found = _range_of_ends(terms, atoms)
    for q in [a for a in atoms if isinstance(a, Quotient) and _stands_with_others(terms, atoms, a)][:1]:
        found = _within_both(found, _range_by_rest(terms, q))
    return found


def _within_both(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return max(one[0], other[0]), min(one[1], other[1])


def _stands_with_others(terms: tuple[tuple[Monomial, int], ...], atoms: list[Atom], q: Quotient) -> bool:
    """Whether other atoms of a sum tell of a quotient in it: no other range than its own is of use where none does."""
    once = all(m.count(q) <= 1 for m, _ in terms)
    own = _symbols_of(q)
    return once and any(s in own for a in atoms if a != q for s in _symbols_of(a))


def _range_of_ends(terms: tuple[tuple[Monomial, int], ...], atoms: list[Atom]) -> tuple[int, int]:
    """The range of a sum as far as the ranges of its atoms tell it."""
    powers = {a for a in atoms if max(m.count(a) for m, _ in terms) > 1}
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


def _may_be(s: Symbol, values: Mapping[str, int]) -> bool:
    """False where a counter is not less than its count; true where that is not among the values."""
    known = [n for n in s.under if all(other.name in values for other in symbols(n))]
    return all(values[s.name] < value(n, values) for n in known)


def _is_linear(terms: tuple[tuple[Monomial, int], ...], s: Symbol) -> bool:
    return all(m.count(s) <= 1 and all(a == s or s not in _symbols_of(a) for a in m) for m, _ in terms)


def _range_of_corners(terms: tuple[tuple[Monomial, int], ...], atoms: list[Atom]) -> tuple[int, int]:
    """The range of a sum that is linear in each of its atoms: it is least and largest where all are at an end.

    Of (h - 2) * (w - 2), which stands as h * w - 2 * h - 2 * w + 4, that is what the factors make of it.
    """
    found = []
    for corner in itertools.product(*map(atom_span, atoms)):
        at = dict(zip(atoms, corner, strict=True))
        found.append(sum(c * math.prod(at[a] for a in m) for m, c in terms))
    return min(found), max(found)


def _range_of_square(
    terms: tuple[tuple[Monomial, int], ...], atoms: list[Atom], squared: Atom
) -> tuple[int, int]:
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


def _range_by_rest(terms: tuple[tuple[Monomial, int], ...], q: Quotient) -> tuple[int, int]:
    """The range of a sum that has a quotient once in each of some terms: that is what is divided, less a rest below
    the divisor.

    In 160 * (n // 160) - n, n up to 3200, it is (n - r) / 160, r from 0 to 159: the sum is -r.
    """
    factor, others = _factor(terms, q), polynomial({m: c for m, c in terms if q not in m})
    rest = symbol(f"rest of {_atom_text(q)}", 0, q.by - 1)
    low, high = span(others * q.by + factor * (q.of - rest))
    return -(-low // q.by), high // q.by


def _range_without(terms: tuple[tuple[Monomial, int], ...], extreme: Least) -> tuple[int, int]:
    """The range of a sum that has a least (greatest) of two: it is one of the two, and not above (below) the other.

    In least(n; 10) - n, n up to 100, it is n or 10: the sum is 0 or up to 10 - n, and at most 0.
    """
    found = [span(replaced(terms, extreme, by)) for by in (extreme.left, extreme.right)]
    low, high = min(low for low, _ in found), max(high for _, high in found)
    if all(m.count(extreme) <= 1 for m, _ in terms):
        least, most = span(_factor(terms, extreme))
        rising, falling = least >= 0, most <= 0
        if rising if extreme.sign > 0 else falling:
            high = min(high for _, high in found)
        elif falling if extreme.sign > 0 else rising:
            low = max(low for low, _ in found)
    return low, high


def _factor(terms: tuple[tuple[Monomial, int], ...], atom: Atom) -> int:
    """What an atom is multiplied by in a sum in which it stands once in a term at most."""
    cofactors = ((_without(m, (atom,)), c) for m, c in terms)
    return polynomial({rest: c for rest, c in cofactors if rest is not None})


def _where_positive(count: Dim, n: int) -> int:
    """A number while a loop with so many turns has one: a count of n - 1, n from 1 to 9, leaves 2 to 9 for n."""
    (product, times), *rest = count.terms
    match product:
        case (Symbol(choices=(), step=1) as s,) if times == 1 and all(not m for m, _ in rest) and count.low < 1:
            raised = symbol(s.name, s.low + 1 - count.low, s.high)
            return with_symbols(n, {o.name: raised if o == s else polynomial({(o,): 1}) for o in symbols(n)})
    return n


def replaced(terms: tuple[tuple[Monomial, int], ...], atom: Atom, by: int) -> int:
    """A sum with an atom replaced."""
    total = 0
    for m, c in terms:
        for a in m:
            c = c * (by if a == atom else polynomial({(a,): 1}))
        total = total + c
    return total


def _symbols_of(atom: Atom) -> list[Symbol]:
    match atom:
        case Symbol():
            return [atom]
        case Quotient():
            return symbols(atom.of)
        case Least():
            return symbols(atom.left)


def inner_of(atom: Quotient | Least) -> Dim:
    """What an atom is made of."""
    return atom.of if isinstance(atom, Quotient) else atom.left


def _within(atom: Atom) -> list[Atom]:
    """The atoms of what an atom is made of, each as often as it stands there."""
    return [] if isinstance(atom, Symbol) else [a for m, _ in inner_of(atom).terms for a in m]


def _extremes_in(atom: Atom) -> int:
    return isinstance(atom, Least) + sum(map(_extremes_in, _within(atom)))


def _is_within(atom: Atom, other: Atom) -> bool:
    """True if an atom is a part of another one."""
    return any(a == atom or _is_within(atom, a) for a in _within(other))


def atom_span(atom: Atom) -> tuple[int, int]:
    """The least and the largest value of an atom."""
    match atom:
        case Symbol():
            return atom.low, atom.high
        case Quotient():
            low, high = span(atom.of)
            return low // atom.by, high // atom.by
        case Least():
            low, high = span(atom.left)
            pick = min if atom.sign > 0 else max
            return pick(low, atom.right), pick(high, atom.right)


# -- text -----------------------------------------------------------------------------------------------------
def text(n: int) -> str:
    """An extent as text, which `dims_text.parse` reads; `codegen.c_extent` prints C."""
    if not isinstance(n, Dim):
        return str(n)
    out = ""
    for m, c in n.terms:
        factors, times = factored(m, c)
        written = [f if isinstance(f, str) else _atom_text(f) for f in factors]
        if abs(times) != 1 or not m:
            written.insert(0, str(abs(times)))
        out += ("-" if c < 0 else "+" if out else "") + "*".join(written)
    return out


def factored(product: Monomial, times: int) -> tuple[list[Atom | str], int]:
    """The factors of a term as they are printed, and its number: 2 * (n // 2), where n is even, is n, by name."""
    factors: list[Atom | str] = []
    for atom in product:
        whole = stepped(atom)
        if whole is None or times % whole.step:
            factors.append(atom)
            continue
        factors.append(whole.name)
        times //= whole.step
    return factors, times


def stepped(atom: Atom) -> Symbol | None:
    """The symbol of whose steps an atom is the number."""
    if isinstance(atom, Quotient):
        for s in _symbols_of(atom):
            if s.step == atom.by > 1 and atom.of.terms == (((s,), 1),):
                return s
    return None


def _atom_text(atom: Atom) -> str:
    match atom:
        case Symbol():
            return atom.name
        case Quotient():
            inner = text(atom.of)
            return f"({inner if inner.isidentifier() else f'({inner})'}//{atom.by})"
        case Least():
            return f"{'least' if atom.sign > 0 else 'most'}({text(atom.left)};{atom.right})"
