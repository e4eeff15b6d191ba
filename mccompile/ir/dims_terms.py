"""What extents are made of: sums of products of atoms, as plain data. `dims` computes with them.

>>> n, m = Symbol("n", 1, 8), Symbol("m", 1, 9)
>>> total = ordered(product([((n,), 1), ((), 1)], [((m,), 2)]))
>>> text_of(total), value_of(total, {"n": 3, "m": 5})
('2*m*n+2*m', 40)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

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

    def __str__(self) -> str:
        if self.choices:
            return "|".join(map(str, self.choices))
        return f"{self.low}..{self.high}" + (f":{self.step}" if self.step > 1 else "")


@dataclass(frozen=True)
class Quotient:
    """``floor(of / by)``, both whole and ``by`` positive, where it is no polynomial."""

    of: Sum
    by: int


@dataclass(frozen=True)
class Least:
    """The least of two extents that no order can be told of; ``sign`` -1: the greatest."""

    left: Sum
    right: int
    sign: int = 1


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
    atoms: int
    """How many atoms it is written with, those within others as well."""

    def __new__(cls, terms: Terms, low: int, high: int) -> Self:
        made = super().__new__(cls, high)
        made.terms, made.low, made.atoms = terms, low, atoms_in(m for m, _ in terms)
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sum) and self.terms == other.terms

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.terms)


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


def product(left: Iterable[Term], right: Sequence[Term]) -> dict[Monomial, int]:
    """A sum times another."""
    total: dict[Monomial, int] = {}
    for (a, p), (b, q) in itertools.product(left, right):
        key = tuple(sorted((*a, *b), key=atom_text)) if a and b else a or b
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
    return len(term[0]), [atom_text(a) for a in term[0]]


def _order(term: Term) -> tuple[int, list[str]]:
    return -len(term[0]), [atom_text(a) for a in term[0]]


# -- atoms -----------------------------------------------------------------------------------------------------
def inner_of(atom: Quotient | Least) -> Sum:
    """What an atom is made of."""
    return atom.of if isinstance(atom, Quotient) else atom.left


def atoms_in(products: Iterable[Monomial]) -> int:
    """How many atoms products are written with, those within others as well."""
    made_of = itertools.chain.from_iterable(products)
    return sum(1 if isinstance(a, Symbol) else 1 + inner_of(a).atoms for a in made_of)


def symbols_in(terms: Iterable[Term]) -> list[Symbol]:
    """The symbols that a sum depends on, by name."""
    return sorted({s for m, _ in terms for a in m for s in symbols_of(a)})


def symbols_of(atom: Atom) -> list[Symbol]:
    """The symbols that an atom depends on, by name."""
    return [atom] if isinstance(atom, Symbol) else symbols_in(inner_of(atom).terms)


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


# -- text ------------------------------------------------------------------------------------------------------
def text_of(terms: Iterable[Term]) -> str:
    """A sum as text, which `dims_text.parse` reads; `codegen.c_extent` prints C."""
    out = ""
    for m, c in terms:
        factors, times = factored(m, c)
        written = [f if isinstance(f, str) else atom_text(f) for f in factors]
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


def atom_text(atom: Atom) -> str:
    """An atom as text."""
    match atom:
        case Symbol():
            return atom.name
        case Quotient():
            inner = text_of(atom.of.terms)
            return f"({inner if inner.isidentifier() else f'({inner})'}//{atom.by})"
        case Least():
            return f"{'least' if atom.sign > 0 else 'most'}({text_of(atom.left.terms)};{atom.right})"
