"""Whether places lie on axes whose extents are known when the program runs.

`dims` takes an axis that may have elements for one that has: ``0 < n`` is true of n = 0..7. What is said of a place
has to hold for each run, though: the first element of n is there where n is at least 1, or nobody reads it.

>>> from mccompile.ir.dims import symbol
>>> n = symbol("n", 0, 7)
>>> is_on_axis(n + 1, 0, (1,)), is_on_axis(n, n, (1,)), is_on_axis(n, 0, (2, n))
(True, False, True)
>>> is_on_axis(n, 0, (1,))
Traceback (most recent call last):
mccompile.ir.dims.UndecidedError: 0 < n depends on n = 0..7
"""

from __future__ import annotations

from collections.abc import Sequence

from mccompile.ir.dims import UndecidedError, ranges, span


def is_on_axis(extent: int, place: int, read: Sequence[int]) -> bool:
    """Whether ``place``, of at least 0, is less than ``extent`` in each run in which something is read: what is read
    has the extents ``read``. UndecidedError where that depends on the run."""
    left = extent - place
    low, high = span(left)
    if low > 0 or high <= 0:
        return low > 0
    if left in read:
        return True  # where nothing is left, nothing is read
    raise UndecidedError(f"{place} < {extent} depends on {ranges(extent, place)}")
