"""Trilu: the upper or lower triangle of matrices, as one `map` that compares row and column."""

from __future__ import annotations

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.dims import bound
from mccompile.ir.graph import Value
from mccompile.ir.types import F32, I32, I64
from mccompile.ops.frontend import Import
from mccompile.ops.map import Map
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw


def _sample(d: Draw) -> Case:
    x = d.array(d.shape(d.int(2, 4)), d.choice(["f32", "i64"]))
    k = np.array(d.int(-6, 6), dtype=np.int64) if d.bool() else None
    return Case([x, k], {"upper": d.int(0, 1)}, d.choice([frozenset({1}), frozenset()]))


@onnx_op("Trilu", sample=_sample, tolerance={})
def import_trilu(n: Import) -> None:
    """An element stays where column - row >= k (upper) or <= k (lower)."""
    x = n.input(0)
    if len(x.shape) < 2:
        raise n.error("Trilu needs matrices")
    rows, columns = x.shape[-2:]
    # Vectors compare floats, which hold every coordinate below 2^24.
    dtype, extra = F32 if x.dtype == F32 and rows + columns < 2**23 else I32, list[Value]()
    first, least, most = 0, -bound(rows), bound(columns)  # of a k beyond these the triangle is the same
    if n.is_const(1):
        first = max(least, min(int(n.one(1, "k")), most))
    elif n.optional(1) is not None:
        dtype, extra = I64, [n.reshape(n.input(1), (), "k")]
    operands = [
        x,
        n.reshape(n.steps(rows, dtype, "rows", first), (rows, 1), "diagonal"),
        n.steps(columns, dtype, "columns"),
        *extra,
    ]
    diagonal: ex.Expr = ex.var(1, dtype)
    if extra:
        k = ex.apply("min", ex.apply("max", ex.var(3, dtype), ex.num(least, dtype)), ex.num(most, dtype))
        diagonal = ex.apply("add", diagonal, k)
    keep = ex.apply("ge" if n.flag("upper", True) else "le", ex.var(2, dtype), diagonal)
    body = ex.apply("select", keep, ex.var(0, x.dtype), ex.num(0, x.dtype))
    n.emit(Map(body, "f16" if x.dtype.name == "f16" else ""), operands)
