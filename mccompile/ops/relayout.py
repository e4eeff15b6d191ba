"""Relayout: the operand unchanged, stored in another order."""

from __future__ import annotations

from mccompile._dataclass import dataclass
from mccompile.ir.affine import Move, box
from mccompile.ir.types import TensorType
from mccompile.ops.movement import Movement


@dataclass(frozen=True)
class Relayout(Movement):
    """Operand and result differ in their layouts only."""

    name = "relayout"

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = types
        assert x is not None
        return (TensorType(x.dtype, x.shape),)

    def moves(self, types: tuple[TensorType, ...], results: tuple[TensorType, ...]) -> tuple[Move, ...]:
        along = ((0, 1),) * results[0].rank
        return (box(results[0].shape, along, along),)
