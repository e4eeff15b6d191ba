"""Finds arithmetic that takes an extent of the run for the number of its longest run.

An extent n = 1 .. 7 is an int to Python, 7: `1 / n`, `float(n)` and `2 ** n` are numbers of that run without a word,
where sums, products and comparisons keep n or say that it is not decided. Here they end, so that whoever means the
longest run has to say so: `bound(n)`. Shapes of numpy's arrays are not seen: `mccompile.ops.filled` is for those.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from mccompile.ir.dims import Dim

_FUNCTIONS = ("float", "round", "invert")
_OPERATORS = ("truediv", "pow", "lshift", "rshift", "and", "or", "xor")


class LostExtentError(AssertionError):
    """An extent of the run was taken for a number."""


def _refused(extent: Dim, *_: object) -> object:
    raise LostExtentError(f"{extent} is taken for {int.__index__(extent)}: bound() where that is meant")


@contextmanager
def strict_extents() -> Iterator[None]:
    """Within, extents of the run have the arithmetic alone that keeps them."""
    names = [f"__{f}__" for f in _FUNCTIONS] + [f"__{side}{o}__" for o in _OPERATORS for side in ("", "r")]
    with mock.patch.multiple(Dim, create=True, **dict.fromkeys(names, _refused)):
        yield
