"""Sums of products of atoms, with numbers as coefficients: equal expressions have one form, however they are written.

Worked example: three ways of writing the new state of a GRU, of the update gate z, the old state h and the new n:

>>> z, h, n = atom("z"), atom("h"), atom("n")
>>> first = z * h + (number(1) - z) * n
>>> second = n + z * (h - n)
>>> third = h * z + n - n * z
>>> first == second == third
True
>>> first
z*h + n - z*n

An atom may be anything that can be hashed: two are the same one if they are equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import cached_property

MAX_TERMS = 24
"""Products of sums grow; what has more terms than this is none of the cells that are looked for."""


class TooLargeError(Exception):
    """A product of sums has more than `MAX_TERMS` terms."""


class Monomial:
    """A product of atoms, in the order in which they were multiplied; equal to the one of any other order."""

    def __init__(self, factors: Iterable[Hashable] = ()) -> None:
        self.factors = tuple(factors)

    @cached_property
    def _key(self) -> frozenset[tuple[Hashable, int]]:
        return frozenset(Counter(self.factors).items())

    @cached_property
    def _hash(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Monomial) and self._hash == other._hash and self._key == other._key

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return "*".join(map(str, self.factors))


ONE = Monomial()


class Poly:
    """A sum of products; ``terms`` holds the coefficient of each, none of them 0, in the order they were added."""

    def __init__(self, terms: Mapping[Monomial, float]) -> None:
        self.terms = {m: c for m, c in terms.items() if c != 0}
        if len(self.terms) > MAX_TERMS:
            raise TooLargeError

    @cached_property
    def _hash(self) -> int:
        return hash(frozenset(self.terms.items()))

    @property
    def value(self) -> float | None:
        """The number that it is; None if there are atoms in it."""
        return self.terms.get(ONE, 0.0) if not set(self.terms) - {ONE} else None

    @property
    def only(self) -> Hashable | None:
        """The atom that it is; None if it is anything else."""
        if len(self.terms) != 1:
            return None
        ((m, c),) = self.terms.items()
        return m.factors[0] if c == 1 and len(m.factors) == 1 else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Poly) and self._hash == other._hash and self.terms == other.terms

    def __hash__(self) -> int:
        return self._hash

    def __add__(self, other: Poly) -> Poly:
        terms = dict(self.terms)
        for m, c in other.terms.items():
            terms[m] = terms.get(m, 0.0) + c
        return Poly(terms)

    def __sub__(self, other: Poly) -> Poly:
        return self + other.scaled(-1)

    def __mul__(self, other: Poly) -> Poly:
        terms: dict[Monomial, float] = {}
        for m, c in self.terms.items():
            for n, d in other.terms.items():
                both = Monomial((*m.factors, *n.factors))
                terms[both] = terms.get(both, 0.0) + c * d
        return Poly(terms)

    def scaled(self, factor: float) -> Poly:
        return Poly({m: c * factor for m, c in self.terms.items()})

    def with_atoms(self, change: Callable[[Hashable], Poly]) -> Poly:
        """The sum with every atom replaced by what ``change`` makes of it."""
        total = number(0)
        for m, c in self.terms.items():
            product = number(c)
            for factor in m.factors:
                product = product * change(factor)
            total = total + product
        return total

    def __repr__(self) -> str:
        parts = [f"{'-' if c < 0 else '+'} {_term(m, abs(c))}" for m, c in self.terms.items()]
        return " ".join(parts).removeprefix("+ ") or "0"


def _term(m: Monomial, c: float) -> str:
    if not m.factors:
        return f"{c:g}"
    return repr(m) if c == 1 else f"{c:g}*{m}"


def number(value: float) -> Poly:
    return Poly({ONE: float(value)})


def atom(of: Hashable) -> Poly:
    return Poly({Monomial((of,)): 1.0})
