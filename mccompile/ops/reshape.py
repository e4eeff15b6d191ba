"""`reshape`: the same elements in row-major order under another shape. It costs nothing: a view."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.op import Kind, Layouts, Op, TypeRuleError
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Structure, reshaped
from mccompile.ir.types import TensorType


@dataclass(frozen=True)
class Reshape(Op):
    """Result of the given shape with the operand's elements in row-major order."""

    name = "reshape"
    kind = Kind.INJECTIVE
    layouts = Layouts.ANY
    keeps_order = True

    shape: tuple[int, ...]

    @property
    def multilinear(self) -> tuple[int, ...]:
        return (0,)

    @property
    def selects(self) -> bool:
        return True

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = types
        assert x is not None
        if math.prod(self.shape) - x.count != 0:  # extents may be one number in two ways
            raise TypeRuleError(f"{x} cannot be reshaped to {list(self.shape)}")
        return (TensorType(x.dtype, self.shape),)

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        (x,) = types
        assert x is not None
        return reshaped(x.shape, self.shape)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        return (np.asarray(arrays[0]).reshape(self.shape),)
