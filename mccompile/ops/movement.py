"""What the operators that only move elements have in common: their meaning is a list of affine moves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mccompile.ir.affine import Move, places
from mccompile.ir.op import Kind, Layouts, Op
from mccompile.ir.scalar import Array
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

