"""Variants that work in register tiles: the one that the model of cycles prefers, or one that tuning tries."""

from __future__ import annotations

from typing import Self

from mccompile.ir.graph import Node
from mccompile.kernels.model.tiles import Tile, best_tile, ranked_tiles
from mccompile.kernels.variant import Variant
from mccompile.targets.target import Target

TRIED = 5
"""Tiles that tuning tries beside the preferred one."""


class Tiled(Variant):
    """A product of rows by packed columns. ``fixed`` is a tile of its `alternatives`, with its cycles."""

    def __init__(self, fixed: tuple[float, Tile] | None = None) -> None:
        self.fixed = fixed

    @property
    def label(self) -> str:
        return self.kernel if self.fixed is None else f"{self.kernel} {self.fixed[1].rows}x{self.fixed[1].vectors}"

    def extents(self, node: Node) -> tuple[int, int, int]:
        """Rows, columns, and the length of the reduction."""
        raise NotImplementedError

    def tile(self, rows: int, columns: int, steps: int, target: Target) -> tuple[float, Tile]:
        """The tile to work in, and the cycles it is thought to take."""
        return self.fixed or best_tile(rows, columns, steps, target, packed=True)

    def alternatives(self, node: Node, target: Target) -> tuple[Self, ...]:
        if self.fixed is not None:
            return ()
        return tuple(type(self)(t) for t in ranked_tiles(*self.extents(node), target, packed=True)[1 : TRIED + 1])
