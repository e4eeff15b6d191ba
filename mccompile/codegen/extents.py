"""Extents that are known at run time only, in C: where their symbols are held, and how they are computed of these.

Worked example: n is what the caller has set, k what a kernel has counted into the arena.

>>> from mccompile.ir.dims import symbol
>>> n, k = symbol("n", 1, 9), symbol("k", 0, 4)
>>> c_number(n * 2 + k + 1, {"n": "net->dim_n", "k": "a->count.v[0]"})
'a->count.v[0] + 2 * net->dim_n + 1'
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mccompile.ir.dims import Dim, Symbol, ranges, symbols, text


@dataclass(frozen=True)
class GivenExtent:
    """A symbol that the caller sets: its name, its range, the field of the network's struct that holds it."""

    name: str
    low: int
    high: int
    step: int = 1

    @property
    def field(self) -> str:
        return f"dim_{self.name}"

    @property
    def range(self) -> str:
        """What it may be, for readers."""
        return f"{self.low} to {self.high}" + (f", multiples of {self.step}" if self.step > 1 else "")


def given_extents(of: Iterable[Symbol], counted: Mapping[str, object]) -> list[GivenExtent]:
    """The symbols but those that kernels count."""
    return [GivenExtent(s.name, s.low, s.high, s.step) for s in of if s.name not in counted]


def c_number(n: int, places: Mapping[str, str]) -> str:
    """A number as C; ``places`` are expressions for symbols."""
    return text(n, lambda name: places[name], c_code=True) if isinstance(n, Dim) else str(n)


def shape_text(shape: Iterable[int]) -> str:
    """Extents for readers: ``n,64``, and behind them what they may be."""
    extents = list(shape)
    varying = f", {ranges(*extents)}" if symbols(*extents) else ""
    return f"[{','.join(map(str, extents))}]{varying}"
