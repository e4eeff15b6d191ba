"""What several extents can be at once, where their symbols have few values.

Worked example: of n pixels of 3 to 6, windows of stride 2 make (n + 1) // 2:

>>> from mccompile.ir.dims import symbol
>>> n = symbol("n", 3, 6)
>>> sorted(joint_values(n, (n + 1) // 2))
[(3, 2), (4, 2), (5, 3), (6, 3)]
>>> n = symbol("n", 1, 9999)
>>> joint_values(n) is None, period(n - (n + 1) // 3 * 3)
(True, 3)
"""

from __future__ import annotations

import itertools
import math

from mccompile.ir.dims import Dim, symbols, value
from mccompile.ir.dims_ranges import MAX_TRIED
from mccompile.ir.dims_terms import Quotient, Symbol


def joint_values(*numbers: int) -> frozenset[tuple[int, ...]] | None:
    """All that some extents can be at once; None where that is too much to be tried."""
    inner = symbols(*numbers)
    if math.prod(len(s.values) for s in inner) > MAX_TRIED:
        return None
    names, every = [s.name for s in inner], itertools.product(*(s.values for s in inner))
    places = (dict(zip(names, at, strict=True)) for at in every)
    return frozenset(tuple(value(n, at) for n in numbers) for at in places)


def period(number: int) -> int | None:
    """So many steps of its one symbol after which an extent is more by the same each time; None if it has no such, or
    too many."""
    if not isinstance(number, Dim) or len(symbols(number)) != 1:
        return None
    found = 1
    for monomial, _ in number.terms:
        if len(monomial) > 1 or not all(isinstance(a, Symbol) or _is_step(a) for a in monomial):
            return None
        found = math.lcm(found, *(a.by for a in monomial if isinstance(a, Quotient)))
    return found if found <= MAX_TRIED // 2 else None


def _is_step(atom: object) -> bool:
    """Whether an atom is a quotient of a sum that is linear in a symbol."""
    inner = atom.of.terms if isinstance(atom, Quotient) else ()
    return bool(inner) and all(len(m) <= 1 and all(isinstance(a, Symbol) for a in m) for m, _ in inner)
