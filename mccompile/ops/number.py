"""`number`: a whole number of which kernels and checks depend when the program runs, made of a few elements."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.errors import CompileError
from mccompile.ir.op import Op, TypeRuleError
from mccompile.ir.ranges import Range, constant
from mccompile.ir.scalar import Array
from mccompile.ir.types import I32, I64, TensorType

MAX_ELEMENTS = 64
"""So many elements are arguments; what has more is data."""


@dataclass(frozen=True)
class ReadNumber(Op):
    """The value of ``expr``, i64, as i32[]. Its variable i is element i of the operands, vectors that are counted one
    after the other. Where it is not in ``low`` to ``high`` the program ends with MCC_E_DIM: kernels that depend on
    the number come later. So it is kept where nothing reads it.
    """

    name = "number"
    ends_run: ClassVar[bool] = True

    expr: ex.Expr
    low: int
    high: int

    @property
    def decides(self) -> bool:
        return True

    @classmethod
    def operand_of(cls, variable: int, shapes: Sequence[Sequence[int]]) -> int:
        ends = itertools.accumulate(math.prod(s) for s in shapes)
        return next((i for i, end in enumerate(ends) if variable < end), len(shapes))

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        known = [t for t in types if t is not None]
        count = sum(t.shape[0] for t in known if t.rank == 1)
        if len(known) != len(types) or any(t.rank != 1 for t in known) or not 0 < count <= MAX_ELEMENTS:
            raise TypeRuleError(f"a number is made of vectors of up to {MAX_ELEMENTS} elements in all")
        if self.expr.dtype != I64 or not ex.variables(self.expr) <= set(range(count)):
            raise TypeRuleError(f"{ex.text(self.expr)} is no i64 made of {count} elements")
        if not 0 <= self.low <= self.high < 2**31:
            raise TypeRuleError(f"a number of {self.low} to {self.high} is no extent")
        return (TensorType(I32, ()),)

    def value_range(self, types: Sequence[TensorType | None], ranges: Sequence[Range | None]) -> tuple[Range, ...]:
        return (constant(self.low, self.high, 1),)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        elements = [e for a in arrays for e in np.asarray(a)]
        found = ex.evaluate(self.expr, lambda i: np.asarray(elements[i]))
        if not self.low <= found <= self.high:
            raise CompileError(f"MCC_E_DIM: {found} is not in {self.low} to {self.high}")
        return (found.astype(np.int32),)
