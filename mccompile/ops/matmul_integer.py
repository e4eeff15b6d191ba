"""MatMulInteger: a product of 8-bit matrices in 32 bits; the zero points are subtracted as the operands are read."""

from __future__ import annotations

from mccompile.ir import expr as ex
from mccompile.ir.graph import Value
from mccompile.ir.types import I32
from mccompile.ops.frontend import Import
from mccompile.ops.matmul import MatMul
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw


def _sample(d: Draw) -> Case:
    m, k, n = d.shape(3, 1, 9)
    batch = d.shape(d.int(0, 2), 1, 3)
    left, right = d.choice(["u8", "i8"]), d.choice(["u8", "i8"])
    a = d.array((*batch, m, k), left, 0 if left == "u8" else -128, 127)
    b = d.array((k, n) if d.bool() else (*batch, k, n), right, 0 if right == "u8" else -128, 127)
    a_zero = d.array((), left, 0, 20) if d.bool() else None
    b_zero = d.array((n,) if b.ndim == 2 and d.bool() else (), right, 0, 20) if d.bool() else None
    return Case([a, b, a_zero, b_zero], {}, frozenset({1, 2, 3}) if d.bool() else frozenset())


@onnx_op("MatMulInteger", sample=_sample, tolerance={})
def import_matmul_integer(n: Import) -> None:
    """Zero points are scalars, or vectors with one element per row of A or per column of B."""
    a, b = n.input(0), n.input(1)
    row, column = len(a.shape) == 1, len(b.shape) == 1
    if not a.shape or not b.shape:
        raise n.error("operands of rank 0 have no matrix product")
    shapes = [(1, *a.shape) if row else a.shape, (*b.shape, 1) if column else b.shape]
    rank = max(map(len, shapes))
    # Of one rank: then a zero point has the same axes whether it is read under its operand or under the result.
    operands = [n.reshape(v, (1,) * (rank - len(s)) + s, "matrix") for v, s in zip((a, b), shapes, strict=True)]
    extras: list[Value] = []
    pre: dict[int, ex.Expr] = {}
    for i, value in enumerate(operands):
        wide = ex.convert(ex.acc(value.dtype), I32)
        zero = n.optional(2 + i)
        if zero is not None:
            wide = ex.apply("sub", wide, ex.convert(ex.var(len(extras), zero.dtype), I32))
            extras.append(n.reshape(zero, _zero_shape(n, zero, value, i), f"zero{i}"))
        pre[i] = wide
    if not (row or column):
        n.emit(MatMul(), operands, extras=extras, pre=pre)
        return
    product = n.inner(MatMul(), operands, "product", extras=extras, pre=pre)
    shape = product.shape[:-2] + (() if row else product.shape[-2:-1]) + (() if column else product.shape[-1:])
    n.bind(0, n.reshape(product, shape, "vector"))


def _zero_shape(n: Import, zero: Value, operand: Value, i: int) -> tuple[int, ...]:
    """The shape under which a zero point broadcasts to its operand."""
    if zero.type.count == 1:
        return (1,) * len(operand.shape)
    along = len(operand.shape) - 2 + i
    shape = zero.shape
    if len(shape) == 1:
        shape = tuple(shape[0] if axis == along else 1 for axis in range(len(operand.shape)))
    if len(shape) != len(operand.shape) or any(s not in (1, e) for s, e in zip(shape, operand.shape, strict=True)):
        raise n.error(f"zero point {zero.type} does not fit its operand {operand.type}")
    return shape
