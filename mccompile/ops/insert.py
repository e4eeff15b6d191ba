"""`insert`: a copy of an operand in which a box of elements, at affine coordinates, is replaced."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.affine import positions
from mccompile.ir.dims import bound
from mccompile.ir.graph import Value
from mccompile.ir.op import Op, TypeRuleError
from mccompile.ir.ranges import Range, hull
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Nest, Structure, axis_loops
from mccompile.ir.types import TensorType
from mccompile.ops.frontend import Import
from mccompile.ops.take import Maps, affine_maps, require_inside


@dataclass(frozen=True)
class Insert(Op):
    """Result = data; then result[maps(i)] = updates[i]. No two i have one place."""

    name = "insert"

    maps: tuple[tuple[int, ...], ...]

    @property
    def hands_on(self) -> bool:
        return True

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        x, updates = types
        assert x is not None
        assert updates is not None
        stays, new = axis_loops(x.rank, x.rank), axis_loops(updates.rank, updates.rank)
        return (
            Nest(x.shape, stays, (stays, None)),
            Nest(updates.shape, affine_maps(self.maps), (None, new)),
        )

    def value_range(self, types: Sequence[TensorType | None], ranges: Sequence[Range | None]) -> tuple[Range, ...]:
        return (hull([r for r in ranges if r is not None]),)

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        x, updates = types
        assert x is not None
        assert updates is not None
        require_inside(self.maps, updates.shape, x)
        if updates.dtype != x.dtype:
            raise TypeRuleError(f"updates {updates} do not fit {x}")
        return (TensorType(x.dtype, x.shape),)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        x, updates = (np.asarray(a) for a in arrays)
        result = np.array(x)
        result[positions(affine_maps(self.maps), updates.shape)] = updates
        return (result,)


def emit_insert(n: Import, maps: Maps | None, updates: Value) -> bool:
    """Let output 0 be input 0 with ``updates`` inserted; False if the places are not affine or not distinct."""
    if maps is None:
        return False
    x = n.input(0)
    # Of the longest extents: places that differ there differ among fewer, too.
    longest, of_updates = (tuple(map(bound, v.shape)) for v in (x, updates))
    places = np.ravel_multi_index(positions(affine_maps(maps), of_updates), longest).reshape(-1)
    whole = not x.type.varies and places.size == x.type.count
    if whole and np.array_equal(places, np.arange(places.size)):
        n.bind(0, n.reshape(updates, x.shape, "replaced"))
    elif np.unique(places).size == places.size:
        n.emit(Insert(maps), [n.input(0), updates])
    else:
        return False
    return True
