"""Packed weights have the columns that tiles read: a block that is narrower than a tile ends in as much room as the
kernel's vectors take there, in half a vector or in a whole one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mccompile.kernels.conv.channels import PackedTaps
from mccompile.kernels.matmul.packed import PackedColumns
from mccompile.kernels.matmul.quantised import Blocks, QuantisedTile
from mccompile.kernels.matmul.words import Repeated, Words, WordTile
from mccompile.kernels.model.tiles import PackedTile
from mccompile.targets.target import targets

LANES = sorted({t.lanes for t in targets().values() if t.lanes > 1})
MOST_COLUMNS = 150


def _packings(vectors: int, lanes: int) -> list[tuple[Any, Any, np.ndarray]]:
    """Tiles, what packs their operands, and a row of these without columns yet: each packs to one row."""
    width = vectors * lanes
    floats, whole = PackedTile(2, vectors, lanes, axis=0, chunk=2), QuantisedTile(2, vectors, lanes)
    words = WordTile(2, vectors, lanes, chunk=2, block=4, least=0)
    f32, i8 = np.ones((1, 1), np.float32), np.ones((1, 1), np.int8)
    return [
        (floats, PackedColumns(width, False, lanes), f32),
        (floats, PackedTaps(width, lanes), f32.reshape(1, 1, 1, 1)),
        (whole, Blocks(width, lanes), i8),
        (whole, Blocks(width, lanes, bits=4), i8),
        (words, Words(width, lanes, bits=8, least=0, block=4), np.repeat(i8, 4, axis=0)),
        (words, Words(width, lanes, bits=4, least=0, block=4, halves=True), np.repeat(i8, 4, axis=0)),
        (words, Repeated(width, lanes, parts=1, count=1), f32),
    ]


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("vectors", [1, 2, 4])
def test_packed_rows_are_as_wide_as_tiles_read_them(vectors: int, lanes: int) -> None:
    for tile, packing, row in _packings(vectors, lanes):
        axis = 0 if isinstance(packing, PackedTaps) else 1
        for count in range(1, MOST_COLUMNS):
            read = sum((s.stop - s.start) // s.size * tile.pitch(s.size) for s in tile.tiles_n(count))
            assert packing.pack(np.repeat(row, count, axis=axis)).size == read, (packing, count)
