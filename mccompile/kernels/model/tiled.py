"""Variants that work in register tiles: the one that the model of cycles prefers, or one that tuning tries."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import replace

from mccompile._dataclass import dataclass
from mccompile.ir.dims import bound
from mccompile.ir.graph import Node, Value
from mccompile.kernels.model.tiles import Tile, best_tile, ranked_tiles
from mccompile.kernels.variant import Offer, Variant
from mccompile.targets.target import Target

TRIED = 5
"""Tiles that tuning tries beside the preferred one."""


@dataclass(frozen=True)
class Rows:
    """A tile that was chosen for ``rows`` rows; with ``wanted`` it is to be used whatever their number."""

    tile: Tile
    rows: int
    wanted: bool = False

    def tile_for(self, rows: int, columns: int, steps: int, target: Target, packed: bool = True) -> Tile:
        """The tile for what the views turned out to be: where axes of rows merge less than thought, one for these."""
        if self.wanted or bound(rows) == self.rows:
            return self.tile
        return best_tile(bound(rows), columns, steps, target, packed)[1]


class Tiled(Variant):
    """A product of rows by packed columns. Its offers' params are `Rows`."""

    def extents(self, node: Node) -> tuple[int, int, int]:
        """Rows, columns, and the length of the reduction."""
        raise NotImplementedError

    def cycles(self, node: Node, tiles: float, target: Target) -> float:
        """Cycles of the node where those of the tiles of `extents` are ``tiles``."""
        return tiles

    def offer_of(self, node: Node, target: Target) -> Offer:
        """The offer for a node that is supported."""
        rows, columns, steps = self.extents(node)
        tiles, tile = best_tile(rows, columns, steps, target, packed=True)
        return Offer(self.label, self.cycles(node, tiles, target), Rows(tile, rows))

    def offers(self, node: Node, target: Target, constants: Container[Value]) -> Iterator[Offer]:
        preferred = self.offer(node, target, constants)
        if isinstance(preferred, str):
            return
        yield preferred
        rows, *rest = self.extents(node)
        for tiles, tile in ranked_tiles(rows, *rest, target, packed=True)[1 : TRIED + 1]:
            label = f"{self.label} {tile.rows}x{tile.vectors}"
            cycles = self.cycles(node, tiles, target)
            yield replace(preferred, label=label, cycles=cycles, params=Rows(tile, rows, wanted=True))
