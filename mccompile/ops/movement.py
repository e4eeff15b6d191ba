"""What the operators that only move elements have in common: their meaning is a list of affine moves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.affine import Move, places
from mccompile.ir.op import Kind, Layouts, Op
from mccompile.ir.ranges import Range, hull, of_number
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Structure, of_moves
from mccompile.ir.types import TensorType, dtype_of


@dataclass(frozen=True)
class Movement(Op):
    """Base of the movement operators. One kernel family (`copy`) serves them all."""

    kind = Kind.INJECTIVE
    layouts = Layouts.ANY

    def moves(self, types: tuple[TensorType, ...], results: tuple[TensorType, ...]) -> tuple[Move, ...]:
        """The moves; those of one result write disjoint elements."""
        raise NotImplementedError

    @property
    def background(self) -> float | None:
        """The value of result elements that no move writes; None if every element is written."""
        return None

    @property
    def multilinear(self) -> tuple[int, ...]:
        return () if self.background else (0,)

    @property
    def selects(self) -> bool:
        return self.background is None

    @property
    def told(self) -> tuple[int, ...]:
        return ()

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        given = tuple(t for t in types if t is not None)
        return of_moves(self.moves(given, self.infer(*types)), len(types))

    def value_range(self, types: Sequence[TensorType | None], ranges: Sequence[Range | None]) -> tuple[Range, ...]:
        results, given = self.infer(*types), [r for r in ranges if r is not None]
        if self.background is not None:
            given.append(of_number(self.background, results[0].dtype))
        return (hull(given),) * len(results)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        given = [np.asarray(a) for a in arrays]
        types = tuple(TensorType(dtype_of(a), a.shape) for a in given)
        results = self.infer(*types)
        fill = 0 if self.background is None else self.background
        out = [np.full(t.shape, fill, dtype=given[0].dtype) for t in results]
        for move in self.moves(types, results):
            taken = given[move.operand][places(move.src, move.loops)]
            out[move.result][places(move.dst, move.loops)] = taken
        return tuple(out)

