"""What extents are made of: sums of products of atoms, as plain data. `dims` computes with them.

>>> n, m = Symbol("n", 1, 8), Symbol("m", 1, 9)
>>> total = ordered(product([((n,), 1), ((), 1)], [((m,), 2)]))
>>> text_of(total), value_of(total, {"n": 3, "m": 5})
('2*m*n+2*m', 40)
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from mccompile._cached import cached
from mccompile._dataclass import dataclass


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
    under: tuple[Sum, ...] = ()

    @property
    def values(self) -> Sequence[int]:
        """All that it may be."""
        return self.choices or range(self.low, self.high + 1, self.step)

    @property
    def text(self) -> str:
        """It as text: no two symbols of a program have one name."""
        return self.name

    @cached
    def origins(self) -> frozenset[str]:
        """Its name, and those of the symbols that its range depends on."""
        return frozenset([self.name]).union(*(count.origins for count in self.under))

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        if self.choices:
            return "|".join(map(str, self.choices))
        return f"{self.low}..{self.high}" + (f":{self.step}" if self.step > 1 else "")


@dataclass(frozen=True)
class Quotient:
    """``floor(of / by)``, both whole and ``by`` positive, where it is no polynomial."""

    of: Sum
    by: int

    @cached
    def text(self) -> str:
        """It as text."""
        inner = text_of(self.of.terms)
        return f"({inner if inner.isidentifier() else f'({inner})'}//{self.by})"

    @property
    def origins(self) -> frozenset[str]:
        """Those of what is divided."""
        return self.of.origins

    def __hash__(self) -> int:
        return hash(self.text)


@dataclass(frozen=True)
class Least:
    """The least of two extents that no order can be told of; ``sign`` -1: the greatest."""

    left: Sum
    right: int
    sign: int = 1

    @cached
    def text(self) -> str:
        """It as text."""
        return f"{'least' if self.sign > 0 else 'most'}({text_of(self.left.terms)};{self.right})"

    @property
    def origins(self) -> frozenset[str]:
        """Those of the extent that varies."""
        return self.left.origins

    def __hash__(self) -> int:
        return hash(self.text)


Atom = Symbol | Quotient | Least
Monomial = tuple[Atom, ...]
"""A product of atoms, in the order of their text; empty: 1."""
Term = tuple[Monomial, int]
Terms = tuple[Term, ...]
"""A sum of different products, each times a number other than 0, as `ordered` makes it."""


class Sum(int):
    """A sum that varies, with its range. As a number it is its largest value."""

    terms: Terms
    low: int

    def __new__(cls, terms: Terms, low: int, high: int) -> Self:
        made = super().__new__(cls, high)
        made.terms, made.low = terms, low
        return made

    @cached
    def atoms(self) -> int:
        """How many atoms it is written with, those within others as well."""
        return sum(1 if isinstance(a, Symbol) else 1 + inner_of(a).atoms for m, _ in self.terms for a in m)

    @cached
    def symbols(self) -> tuple[Symbol, ...]:
        """The symbols that it depends on, by name."""
        return tuple(symbols_in(self.terms))

    @cached
    def origins(self) -> frozenset[str]:
        """The names of the symbols that it depends on, and of those that the range of one of them depends on."""
        return origins_of(a for m, _ in self.terms for a in m)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sum) and self.terms == other.terms

    def __ne__(self, other: object) -> bool:
        return not self == other

    @cached
    def _hash(self) -> int:
        return hash(self.terms)

    def __hash__(self) -> int:
        return self._hash


def span_of(n: int) -> tuple[int, int]:
    """The least and the largest value of a number or a sum."""
    return (n.low, int.__add__(n, 0)) if isinstance(n, Sum) else (n, n)


# -- sums ------------------------------------------------------------------------------------------------------
def terms_of(n: int) -> Terms:
    """A number as a sum."""
    return n.terms if isinstance(n, Sum) else (((), n),)


def ordered(terms: Mapping[Monomial, int]) -> Terms:
    """The terms that are not 0, in their order."""
    return tuple(sorted(((m, c) for m, c in terms.items() if c), key=_order))


def combined(left: Iterable[Term], right: Iterable[Term], times: int = 1) -> dict[Monomial, int]:
    """A sum, and some times another."""
    total = dict(left)
    for m, c in right:
        total[m] = total.get(m, 0) + times * c
    return total


def added(left: Terms, right: Terms) -> Terms:
    """The sum of two that have no product in common but 1.

    >>> n, m = Symbol("n", 1, 8), Symbol("m", 1, 9)
    >>> text_of(added((((n,), 2), ((), 3)), (((m,), 1), ((), -2))))
    'm+2*n+1'
    """
    number = sum(c for terms in (left, right) for m, c in terms[-1:] if not m)
    varying = tuple(sorted((t for t in (*left, *right) if t[0]), key=_order))
    return (*varying, ((), number)) if number else varying


def product(left: Iterable[Term], right: Sequence[Term]) -> dict[Monomial, int]:
    """A sum times another."""
    total: dict[Monomial, int] = {}
    for (a, p), (b, q) in itertools.product(left, right):
        key = tuple(sorted((*a, *b), key=_text)) if a and b else a or b
        total[key] = total.get(key, 0) + p * q
    return total


def replaced(terms: Terms, atom: Atom, by: Terms) -> Terms:
    """A sum with another one for an atom."""
    total: dict[Monomial, int] = {}
    for m, c in terms:
        one: Mapping[Monomial, int] = {tuple(a for a in m if a != atom): c}
        for _ in range(m.count(atom)):
            one = product(one.items(), by)
        total = combined(total.items(), one.items())
    return ordered(total)


def without(factors: Monomial, some: Monomial) -> Monomial | None:
    """The other factors of a product; None where these are not all in it."""
    rest = list(factors)
    for atom in some:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def divided(
    left: Terms, right: Terms, first: Term | None = None
) -> tuple[dict[Monomial, int], dict[Monomial, int]]:
    """Long division of polynomials as far as it goes: the quotient, and what is left. ``first`` is the term of
    ``right`` that is looked for, where all of them have one atom at most."""
    lead, factor = first or max(right, key=_lead)
    done, rest, todo = dict[Monomial, int](), dict[Monomial, int](), dict(left)
    while todo:
        top, count = max(todo.items(), key=_lead)
        key = without(top, lead)
        if key is None or count % factor:
            rest[top] = todo.pop(top)
            continue
        done[key] = count // factor
        taken = product(right, [(key, done[key])])
        todo = {m: c for m, c in combined(todo.items(), taken.items(), -1).items() if c}
    return done, rest


def _lead(term: Term) -> tuple[int, list[str]]:
    return len(term[0]), [a.text for a in term[0]]


def _order(term: Term) -> tuple[int, list[str]]:
    return -len(term[0]), [a.text for a in term[0]]


_text = operator.attrgetter("text")


# -- atoms -----------------------------------------------------------------------------------------------------
def inner_of(atom: Quotient | Least) -> Sum:
    """What an atom is made of."""
    return atom.of if isinstance(atom, Quotient) else atom.left


def symbols_in(terms: Iterable[Term]) -> list[Symbol]:
    """The symbols that a sum depends on, by name."""
    found = {s for m, _ in terms for a in m for s in symbols_of(a)}
    return sorted(found, key=lambda s: (s.name, s.low, s.high))


def symbols_of(atom: Atom) -> tuple[Symbol, ...]:
    """The symbols that an atom depends on, by name."""
    return (atom,) if isinstance(atom, Symbol) else inner_of(atom).symbols


def origins_of(atoms: Iterable[Atom]) -> frozenset[str]:
    """The names of the symbols that atoms depend on, and of those that the range of one of these depends on."""
    return frozenset().union(*(a.origins for a in atoms))


def atom_span(atom: Atom) -> tuple[int, int]:
    """The least and the largest value of an atom."""
    match atom:
        case Symbol():
            return atom.low, atom.high
        case Quotient():
            low, high = span_of(atom.of)
            return low // atom.by, high // atom.by
        case Least():
            low, high = span_of(atom.left)
            pick = min if atom.sign > 0 else max
            return pick(low, atom.right), pick(high, atom.right)


def value_of(terms: Iterable[Term], values: Mapping[str, int]) -> int:
    """A sum where its symbols have values."""
    return sum(c * math.prod(_atom_value(a, values) for a in m) for m, c in terms)


def _atom_value(atom: Atom, values: Mapping[str, int]) -> int:
    match atom:
        case Symbol():
            return values[atom.name]
        case Quotient():
            return value_of(atom.of.terms, values) // atom.by
        case Least():
            return (min if atom.sign > 0 else max)(value_of(atom.left.terms, values), atom.right)


def apart(products: Sequence[Monomial]) -> list[list[int]]:
    """The places of products that have to do with each other: a symbol is in two of them, or one is the count of a
    counter in another. A product of nothing is alone.

    >>> n, m, k = (Symbol(name, 1, 8) for name in "nmk")
    >>> apart([(n,), (m, k), (m,), ()])
    [[0], [1, 2], [3]]
    """
    origins = list(map(origins_of, products))
    part_of: dict[str, set[str]] = {}
    for own in origins:
        names = set(own)
        for known in [part_of[name] for name in own if name in part_of]:
            names |= known
        part_of.update(dict.fromkeys(names, names))
    parts: dict[int, list[int]] = {}
    for place, own in enumerate(origins):
        parts.setdefault(id(part_of[next(iter(own))]) if own else 0, []).append(place)
    return list(parts.values())


# -- text ------------------------------------------------------------------------------------------------------
def text_of(terms: Iterable[Term]) -> str:
    """A sum as text, which `dims_text.parse` reads; `codegen.c_extent` prints C."""
    out = ""
    for m, c in terms:
        factors, times = factored(m, c)
        written = [f if isinstance(f, str) else f.text for f in factors]
        if abs(times) != 1 or not m:
            written.insert(0, str(abs(times)))
        out += ("-" if c < 0 else "+" if out else "") + "*".join(written)
    return out


def factored(factors: Monomial, times: int) -> tuple[list[Atom | str], int]:
    """The factors of a term as they are printed, and its number: 2 * (n // 2), where n is even, is n, by name."""
    found: list[Atom | str] = []
    for atom in factors:
        whole = stepped(atom)
        if whole is None or times % whole.step:
            found.append(atom)
            continue
        found.append(whole.name)
        times //= whole.step
    return found, times


def stepped(atom: Atom) -> Symbol | None:
    """The symbol of whose steps an atom is the number."""
    if isinstance(atom, Quotient):
        for s in symbols_of(atom):
            if s.step == atom.by > 1 and atom.of.terms == (((s,), 1),):
                return s
    return None
