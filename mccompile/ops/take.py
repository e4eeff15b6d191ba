"""`take`: elements of an operand at coordinates that are affine in those of the result. Windows, frames, repeats."""

from __future__ import annotations

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.affine import Affine, Move, loop
from mccompile.ir.op import TypeRuleError
from mccompile.ir.places import is_on_axis
from mccompile.ir.scalar import Array
from mccompile.ir.types import Shape, TensorType
from mccompile.ops.movement import Movement

Maps = tuple[tuple[int, ...], ...]
"""One coordinate per axis of a tensor: a start, then a step per axis of the loops."""


@dataclass(frozen=True)
class Take(Movement):
    """Result[i] = operand[maps(i)]; ``shape`` is the result's."""

    name = "take"

    shape: tuple[int, ...]
    maps: tuple[tuple[int, ...], ...]

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = types
        assert x is not None
        require_inside(self.maps, self.shape, x)
        return (TensorType(x.dtype, self.shape),)

    def moves(self, types: tuple[TensorType, ...], results: tuple[TensorType, ...]) -> tuple[Move, ...]:
        rank = len(self.shape)
        return (Move(0, 0, self.shape, affine_maps(self.maps), tuple(loop(a, rank) for a in range(rank))),)


def affine_maps(maps: Maps) -> tuple[Affine, ...]:
    return tuple(Affine(m[0], m[1:]) for m in maps)


def require_inside(maps: Maps, loops: Shape, t: TensorType) -> None:
    """Raises TypeRuleError if a coordinate leaves ``t`` somewhere in the loops."""
    if len(maps) != t.rank or any(len(m) != len(loops) + 1 for m in maps):
        raise TypeRuleError(f"{len(maps)} maps over {len(loops)} loops do not address {t}")
    for axis, (start, *steps) in enumerate(maps):
        reaches = [s * (e - 1) for s, e in zip(steps, loops, strict=True)]
        low, high = start + sum(min(r, 0) for r in reaches), start + sum(max(r, 0) for r in reaches)
        if 0 not in loops and (low < 0 or not is_on_axis(t.shape[axis], high, loops)):
            raise TypeRuleError(f"coordinates [{low}, {high}] leave axis {axis} of {t}")


def own_axis(axis: int, rank: int) -> tuple[int, ...]:
    """The map of a coordinate that is the loop ``axis`` itself."""
    return (0, *(int(a == axis) for a in range(rank)))


def fit(coordinates: Array, first: int, rank: int) -> tuple[int, ...] | None:
    """The map that gives ``coordinates``, whose axes are the loops from ``first`` on; None if it is not affine."""
    if coordinates.size == 0:
        return None
    known = coordinates.astype(np.int64)
    start = int(known[(0,) * known.ndim])
    steps, line = [], np.int64(start) + np.zeros((), np.int64)
    for axis, extent in enumerate(known.shape):
        one = tuple(int(a == axis) for a in range(known.ndim))
        steps.append(int(known[one]) - start if extent > 1 else 0)
        line = line + steps[-1] * np.arange(extent).reshape(-1, *(1,) * (known.ndim - 1 - axis))
    if not np.array_equal(np.broadcast_to(line, known.shape), known):
        return None
    return (start, *(0,) * first, *steps, *(0,) * (rank - first - known.ndim))
