"""Runs of equal tiles along a line of pixels: which columns of the operand each reads, and for what.

Worked example: tiles of 2 pixels under a window of 3 read 4 columns; the first of a line with a pad of 1 has no
column 0, which tap 0 of pixel 0 would meet:

>>> first = Strip(0, 2, 2, ((1, ((0, 1), (1, 0))), (2, ((0, 2), (1, 1))), (3, ((1, 2),))))
>>> first.first, first.end, first.products
(1, 4, 5)
"""

from __future__ import annotations

from mccompile._dataclass import dataclass

Column = tuple[int, tuple[tuple[int, int], ...]]
"""A column of the operand, from where a tile's first tap would lie, and the (pixel of the tile, tap) it serves."""


@dataclass(frozen=True)
class Strip:
    """A run of tiles along a line whose taps inside of the operand are the same: ``size`` pixels each."""

    start: int
    stop: int
    size: int
    columns: tuple[Column, ...]

    @property
    def first(self) -> int:
        """The leftmost column that is read."""
        return self.columns[0][0] if self.columns else 0

    @property
    def end(self) -> int:
        """The column behind the rightmost that is read."""
        return self.columns[-1][0] + 1 if self.columns else 0

    @property
    def products(self) -> int:
        return sum(len(uses) for _, uses in self.columns)

    def used(self, taps: range) -> list[int]:
        """Those of some taps that any column serves."""
        return sorted({tap for _, uses in self.columns for _, tap in uses if tap in taps})

    def within(self, taps: range) -> list[Column]:
        """The columns that some taps read."""
        parts = [(column, tuple(u for u in uses if u[1] in taps)) for column, uses in self.columns]
        return [(column, uses) for column, uses in parts if uses]
