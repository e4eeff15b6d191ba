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

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from mccompile.ir.dims_ranges import range_of
from mccompile.ir.dims_terms import (
    Atom,
    Least,
    Monomial,
    Quotient,
    Sum,
    Symbol,
    Terms,
    added,
    atom_span,
    combined,
    divided,
    inner_of,
    ordered,
    product,
    span_of,
    symbols_in,
    terms_of,
    text_of,
    value_of,
)

MAX_ATOMS = 4096
"""No extent is written with more atoms; networks need a few dozen."""


class UndecidedError(ValueError):
    """What was asked of an extent depends on values that are known at run time only: what to do instead is found by
    trying ``decide`` of ``numbers`` again (`dims_hints.hint_of`)."""

    def __init__(self, rule: str, decide: Callable[..., object] | None = None, *numbers: int) -> None:
        super().__init__(rule)
        self.decide, self.numbers = decide, numbers


class Dim(Sum):
    """An extent that varies: see the module's text. As a number it is its bound."""

    is_narrowed = False
    """Whether more is known of its range than its terms tell; what is computed of it is not to depend on that."""

    def __new__(cls, terms: Terms, ends: tuple[int, int] | None = None) -> Dim:
        """Use `polynomial`, which gives a plain number where nothing varies. UndecidedError above `MAX_ATOMS`."""
        made = super().__new__(cls, terms, *(ends or range_of(terms)))
        if made.atoms > MAX_ATOMS:
            raise UndecidedError(f"an extent is computed of others in more than {MAX_ATOMS} places")
        return made

    # -- arithmetic ----------------------------------------------------------------------------------------
    def __add__(self, other: int) -> int:
        return _sum(self, other) if isinstance(other, int) else NotImplemented

    __radd__ = __add__

    def __sub__(self, other: int) -> int:
        return _sum(self, -other) if isinstance(other, int) else NotImplemented

    def __rsub__(self, other: int) -> int:
        return _sum(-self, other) if isinstance(other, int) else NotImplemented

    def __neg__(self) -> Dim:
        return _scaled(self, -1)

    def __mul__(self, other: int) -> int:
        if not isinstance(other, int):
            return NotImplemented
        if not isinstance(other, Dim):
            return _scaled(self, other) if other else 0
        made = polynomial(product(self.terms, other.terms))
        if not isinstance(made, Dim) or made.low >= 0 or min(self.low, other.low) < 0:
            return made
        narrowed = Dim(made.terms, (0, bound(made)))  # what its terms alone do not tell
        narrowed.is_narrowed = True
        return narrowed

    __rmul__ = __mul__

    def __floordiv__(self, other: int) -> int:
        if isinstance(other, Dim):
            return _quotient(self, other)
        if other < 0:
            return (-self) // -other
        if other == 1:
            return self
        near = _near_quotient(self, other)
        if near is not None:
            return near
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
    made = Dim(ordered(left))
    return bound(made) if made.low == bound(made) else made


def bound(n: int) -> int:
    """The largest value of an extent, a plain number."""
    return int.__add__(n, 0)


def span(n: int) -> tuple[int, int]:
    """The least and the largest value of an extent."""
    return span_of(n)


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
    terms = terms_of(n)
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
    """``left / right``; None where that leaves a rest, or where it depends on the run whether it does. Where both
    are 0 in some run, it is what it is in the others.

    >>> k = symbol("k", 0, 8)
    >>> exact(6 * k * k + 6 * k, 3 * k), exact(k + 1, k)
    (2*k+2, None)
    """
    if isinstance(left, Dim) and isinstance(right, Dim):
        done, rest = map(polynomial, divided(left.terms, right.terms))
        if rest == 0:
            return done
    try:
        found = left // right
    except UndecidedError:
        return None
    return found if found * right == left else None


def shares(of: int, by: int) -> list[int]:
    """How many times ``by`` may be taken out of ``of``, by what the one has of each term of the other.

    >>> h, w = symbol("h", 1, 9), symbol("w", 1, 9)
    >>> shares(h * w + 2 * h + 1, w + 2), shares(4 * h + 9, 4)
    ([h], [h+2])
    >>> shares(h * (w + w // 2) + w // 2, w + w // 2)
    [h+1, h]
    """
    if not isinstance(of, Dim) or by == 0:
        return [0 if isinstance(by, Dim) or by == 0 else of // by]
    if not isinstance(by, Dim):
        return [polynomial({m: c // by for m, c in of.terms if not m or c % by == 0})]
    single = [term for term in by.terms if len(term[0]) == 1]
    leads = single if len(single) == sum(bool(m) for m, _ in by.terms) else [None]
    return list(dict.fromkeys(polynomial(divided(of.terms, by.terms, lead)[0]) for lead in leads))


def _quotient(left: int, right: int) -> int:
    """``left / right`` where what is left is below ``right`` in every run: of a product, one of its factors."""
    if not isinstance(left, Dim) and left == 0:
        return 0
    if isinstance(left, Dim) and isinstance(right, Dim):
        done, rest = map(polynomial, divided(left.terms, right.terms))
        if span(rest)[0] >= 0 and span(right - rest)[0] > 0:
            return done
        if span(rest)[1] < 0 <= span(right + rest)[0]:  # (n * k + k - 1) // k is n
            return done - 1
    raise UndecidedError(f"{left} // {right} depends on {ranges(left, right)}", operator.floordiv, left, right)


def _near_quotient(of: Dim, by: int) -> int | None:
    """``of // by`` where that is always a quotient in ``of`` and the same number; None where no quotient is so near.

    A window of 3 at stride 2 whose pads keep all of n pixels but every other one leaves n + (n + 1) // 2 - n // 2 - 2
    pixels to go: half of that is (n + 1) // 2 - 1.
    """
    if sum(bool(m) for m, _ in of.terms) < 2:  # (n // 2 + 1) // 2 is one quotient
        return None
    atoms = [m[0] for m, _ in of.terms if len(m) == 1]
    within = [m[0] for a in atoms if isinstance(a, Least) for m, _ in a.left.terms if len(m) == 1]
    for atom in dict.fromkeys([*atoms, *within]):
        if isinstance(atom, Quotient):
            quotient = polynomial({(atom,): 1})
            low, high = span(of - quotient * by)
            if low // by == high // by:
                return quotient + low // by
    return None


def _sum(left: Dim, right: int) -> int:
    """The sum of two extents. Its range is that of both where no symbol is in both, which is told at once."""
    if not isinstance(right, Dim):
        if right == 0 or not left.is_narrowed:
            return Dim(added(left.terms, terms_of(right)), (left.low + right, bound(left) + right)) if right else left
    elif not (left.is_narrowed or right.is_narrowed) and left.origins.isdisjoint(right.origins):
        return Dim(added(left.terms, right.terms), (left.low + right.low, bound(left) + bound(right)))
    return polynomial(combined(left.terms, terms_of(right)))


def _scaled(n: Dim, times: int) -> Dim:
    """An extent times a number other than 0."""
    low, high = sorted((n.low * times, bound(n) * times))
    made = Dim(tuple((m, c * times) for m, c in n.terms), (low, high))
    made.is_narrowed = n.is_narrowed
    return made


# -- symbols and values -----------------------------------------------------------------------------------------
def symbols(*numbers: int) -> list[Symbol]:
    """The symbols that extents depend on, by name. Mostly there are none among very many numbers."""
    if not any(issubclass(kind, Dim) for kind in set(map(type, numbers))):
        return []
    return symbols_in(t for n in numbers if isinstance(n, Dim) for t in n.terms)


def ranges(*numbers: int) -> str:
    """The symbols of extents with their ranges, for messages."""
    return ", ".join(f"{s.name} = {s}" for s in symbols(*numbers)) or "nothing"


def with_symbols(n: int, known: Mapping[str, int]) -> int:
    """An extent with others for its symbols."""

    def of(atom: Atom) -> int:
        match atom:
            case Symbol():
                return known[atom.name]
            case Quotient():
                return with_symbols(atom.of, known) // atom.by
            case Least():
                return _extreme(with_symbols(atom.left, known), atom.right, atom.sign)

    return with_atoms(n, of)


def with_atoms(n: int, of: Callable[[Atom], int]) -> int:
    """An extent with others for its atoms."""
    made = [(c, math.prod(map(of, m))) for m, c in terms_of(n)]
    if len(made) == 1:
        ((c, one),) = made
        return c * one
    return polynomial(combined((), ((m, c * times) for c, one in made for m, times in terms_of(one))))


def value(n: int, values: Mapping[str, int]) -> int:
    """An extent where its symbols have values."""
    return value_of(terms_of(n), values)


def text(n: int) -> str:
    """An extent as text, which `dims_text.parse` reads; `codegen.c_extent` prints C."""
    return text_of(n.terms) if isinstance(n, Dim) else str(n)
