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
from mccompile.ir.dims_ranges import MAX_TRIED, period_of


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
    return period_of(number.terms) if isinstance(number, Dim) else None
