"""Long sums of extents, of which ``run`` keeps the value: each is said by one that it differs little from.

Worked example: what ninety steps have found lies one behind the other. The place of the fifth and of those behind it
are sums of more than four counts:

>>> from mccompile.ir.dims import symbol
>>> counts = [symbol(f"k{i}", 0, 9) for i in range(8)]
>>> sums = LongSums(())
>>> for n in (5, 6, 8):
...     print(sums.short(sum(counts[:n])), [str(value) for _, value in sums.taken()])
sum_0 ['k0+k1+k2+k3+k4']
sum_1 ['k5+sum_0']
sum_2 ['k6+k7+sum_1']
>>> print(sums.short(4 * sum(counts) + 12), sums.taken())
4*sum_2+12 ()
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

from mccompile.codegen.c_extent import NARROW
from mccompile.ir.dims import (
    Dim,
    maximum,
    minimum,
    polynomial,
    reach,
    span,
    symbol,
    symbols,
    with_atoms,
    with_symbols,
)
from mccompile.ir.dims_terms import Atom, Least, Monomial, Quotient, Symbol, combined, inner_of, terms_of

LONG = 4
"""Atoms that are said as they are."""
NEAR = 2
"""Terms by which a sum of a kernel may differ from a kept one to be said by it, and not kept as well: what is kept is
another number that it is given."""
RECENT = 8
"""Kept sums that a new one is compared with."""


class LongSums:
    """The sums of a function, which it keeps by names that are not ``taken``. Sums of more than ``most`` atoms are
    long; one that differs from a kept one by ``near`` terms, or by a number, is said by it, and not kept.
    """

    def __init__(self, taken: Iterable[str], near: int = 0, most: int = LONG) -> None:
        self._taken, self._near, self._most = frozenset(taken), near, most
        self._kept: dict[int, int] = {}
        self._new: list[tuple[str, int]] = []
        self.kept: dict[str, int] = {}
        """What is kept, by the name that stands for it."""
        self.index: dict[str, int] = {}
        """Which of the kept ones a name is."""

    def taken(self) -> tuple[tuple[str, int], ...]:
        """The names of what was kept since the last time, and what it is by those before."""
        new, self._new = self._new, []
        return tuple(new)

    def short(self, n: int) -> int:
        """A number by the symbols of what is kept."""
        if not isinstance(n, Dim) or n.atoms <= self._most:
            return n
        if any(self._is_long(a) for m, _ in n.terms for a in m):
            n = self._with_short_atoms(n)
        return self._of_kept(n) if isinstance(n, Dim) and len(n.terms) > self._most and reach(n) <= NARROW else n

    def _with_short_atoms(self, n: Dim) -> int:
        changing = {m: c for m, c in n.terms if any(map(self._is_long, m))}
        others = {m: c for m, c in n.terms if m not in changing}
        return polynomial(others) + with_atoms(polynomial(changing), self._atom)

    def _atom(self, atom: Atom) -> int:
        match atom:
            case Symbol():
                return polynomial({(atom,): 1})
            case Least():
                least = minimum if atom.sign > 0 else maximum
                return least(self.short(polynomial(dict(atom.left.terms))), atom.right)
            case Quotient():
                return self.short(polynomial(dict(atom.of.terms))) // atom.by

    def _of_kept(self, n: int) -> int:
        """A long sum as one that is kept, as a multiple of one, or as one and a little more."""
        assert isinstance(n, Dim)
        if n in self._kept:
            return self._kept[n]
        common = math.gcd(*(c for _, c in n.terms))
        if common > 1:
            return common * self._of_kept(polynomial({m: c // common for m, c in n.terms}))
        rest: int = n
        recent = list(self._kept)[-RECENT:]
        less, other = min(((_difference(n, k), k) for k in recent), key=lambda d: len(d[0]), default=({}, None))
        if other is not None and len(less) < len(n.terms) - 1:
            near = self._kept[other] + polynomial(less)
            rest = near if max(map(abs, span(near))) <= NARROW else n
        if rest is not n and (len(less) <= self._near or not any(less)):
            return rest
        names = (f"sum_{i}" for i in itertools.count(len(self._kept)))
        name = next(name for name in names if name not in self._taken and name not in self.kept)
        self._new.append((name, rest))
        own = {s.name: self.kept.get(s.name, polynomial({(s,): 1})) for s in symbols(n)}
        self.kept[name] = with_symbols(n, own)  # by symbols that others know
        self.index[name] = len(self.index)
        self._kept[n] = symbol(name, *span(n))
        return self._kept[n]

    def _is_long(self, atom: Atom) -> bool:
        return not isinstance(atom, Symbol) and inner_of(atom).atoms > self._most


def _difference(n: int, other: int) -> dict[Monomial, int]:
    return {m: c for m, c in combined(terms_of(n), terms_of(other), -1).items() if c}
