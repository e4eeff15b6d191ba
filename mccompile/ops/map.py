"""`map`: one scalar expression applied element by element to broadcast operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.op import Kind, Layouts, Op, TypeRuleError
from mccompile.ir.ranges import Range, of_expression
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Structure, elementwise
from mccompile.ir.types import DTYPES, DType, TensorType, broadcast_shapes


@dataclass(frozen=True)
class Map(Op):
    """Result[i] = expr(operands[i]); operands broadcast as numpy arrays do.

    ``storage`` names the result's element type where it is not the expression's: f16 holds f32 values.
    """

    name = "map"
    kind = Kind.INJECTIVE
    layouts = Layouts.ALIKE

    expr: ex.Expr
    storage: str = ""

    @staticmethod
    def of(expr: ex.Expr, dtype: DType) -> Map:
        """The map whose result is stored as ``dtype``: where values of the expression are computed for it."""
        return Map(expr, dtype.name if dtype.compute == expr.dtype != dtype else "")

    @property
    def elementwise(self) -> ex.Expr:
        return self.expr

    def with_elementwise(self, body: ex.Expr) -> Map:
        return replace(self, expr=body)

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        return elementwise(types, self.infer(*types)[0])

    def value_range(self, types: Sequence[TensorType | None], ranges: Sequence[Range | None]) -> tuple[Range, ...]:
        def variable(index: int) -> Range:
            found = ranges[index]
            assert found is not None
            return found

        return (of_expression(self.expr, variable),)

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        known = [t for t in types if t is not None]
        if ex.variables(self.expr) != set(range(len(types))):
            raise TypeRuleError("a map must read each of its operands")
        dtype = DTYPES[self.storage] if self.storage else self.expr.dtype
        if dtype.compute != self.expr.dtype:
            raise TypeRuleError(f"{self.expr.dtype} values cannot be stored as {dtype}")
        return (TensorType(dtype, broadcast_shapes(*(t.shape for t in known))),)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        return self._evaluate(arrays, self._is_wide(arrays))

    def evaluate_wide(self, *arrays: Array | None) -> tuple[Array, ...]:
        return self._evaluate(arrays, True)

    def _is_wide(self, arrays: Sequence[Array | None]) -> bool:
        """Whether a float that the expression has as a narrower one is given in float64. What is float64 itself may
        be rounded: x0 in f64(round_f16(f32(x0)))."""
        read = {e.index: e.dtype for e in ex.distinct(self.expr) if isinstance(e, ex.Var)}
        wide = (i for i, a in enumerate(arrays) if a is not None and a.dtype == np.float64)
        return any(i in read and read[i].numpy != np.float64 for i in wide)

    def _evaluate(self, arrays: Sequence[Array | None], wide: bool) -> tuple[Array, ...]:
        known = [np.asarray(a) for a in arrays]
        result = ex.evaluate(self.expr, lambda i: known[i], wide)
        return (np.broadcast_to(result, np.broadcast_shapes(*(a.shape for a in known))),)
