"""MatMulInteger and ConvInteger: products of 8-bit operands in 32 bits; zero points are subtracted as they are read.

Sums that 32 bits may not hold are 64 bits wide and converted at the end, which is what sums that wrap would give:

    65 * 10**3 terms of up to 255 * 255 are up to 4.2e9: i32(acc) of an i64 sum
"""

from __future__ import annotations

import math

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.graph import Value
from mccompile.ir.types import I32, I64, DType
from mccompile.ops.conv import Conv
from mccompile.ops.folding import WINDOW
from mccompile.ops.frontend import Import
from mccompile.ops.matmul import MatMul
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw
from mccompile.ops.window import read_window


def _largest(n: Import, value: Value, zero: Value | None) -> int:
    """The largest |element - zero point| of an operand: of a constant its own, else what its type can hold."""
    known = zero is None or zero in n.graph.constants
    zeros = n.graph.array(zero).astype(np.int64) if zero is not None and known else np.zeros(1, np.int64)
    if value in n.graph.constants:
        x = n.graph.array(value).astype(np.int64)
        low, high = int(x.min(initial=0)), int(x.max(initial=0))
    else:
        info = np.iinfo(value.dtype.numpy.name)
        low, high = int(info.min), int(info.max)
    if not known:
        info = np.iinfo(value.dtype.numpy.name)
        zeros = np.array([info.min, info.max], np.int64)
    if not zeros.size:  # of no columns
        zeros = np.zeros(1, np.int64)
    return max(high - int(zeros.min()), int(zeros.max()) - low)


def _widened(n: Import, terms: int) -> tuple[DType, dict[int, ex.Expr] | None]:
    """The type that sums of ``terms`` products of inputs 0 and 1 fit, and the epilogue that makes i32 of them."""
    sizes = [_largest(n, n.input(i), n.optional(2 + i)) for i in range(2)]
    if terms * sizes[0] * sizes[1] < 2**31:
        return I32, None
    return I64, {0: ex.convert(ex.acc(I64), I32)}


def _require_bytes(n: Import) -> None:
    for i in range(2):
        x, zero = n.input(i), n.optional(2 + i)
        if x.dtype.name not in ("i8", "u8"):
            raise n.error(f"operand {i} of {x.dtype} is not supported", "int8 and uint8 are")
        if zero is not None and zero.dtype != x.dtype:
            raise n.error(f"a zero point of {zero.dtype} for elements of {x.dtype}")


def _zero(n: Import, i: int, sums: DType) -> Value | None:
    """The zero point of operand ``i``; if it is known, of the type of sums: expressions may have it then."""
    zero = n.optional(2 + i)
    if zero is None or zero not in n.graph.constants:
        return zero
    return n.constant(f"known_zero{i}", n.graph.array(zero).astype(sums.numpy))


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
    _require_bytes(n)
    if not a.shape or not b.shape:
        raise n.error("operands of rank 0 have no matrix product")
    shapes = [(1, *a.shape) if row else a.shape, (*b.shape, 1) if column else b.shape]
    rank = max(map(len, shapes))
    # Of one rank: then a zero point has the same axes whether it is read under its operand or under the result.
    operands = [n.reshape(v, (1,) * (rank - len(s)) + s, "matrix") for v, s in zip((a, b), shapes, strict=True)]
    extras: list[Value] = []
    pre: dict[int, ex.Expr] = {}
    sums, post = _widened(n, a.shape[-1])
    for i, value in enumerate(operands):
        wide = ex.convert(ex.acc(value.dtype), sums)
        zero = _zero(n, i, sums)
        if zero is not None:
            wide = ex.apply("sub", wide, ex.convert(ex.var(len(extras), zero.dtype), sums))
            extras.append(n.reshape(zero, _zero_shape(n, zero, value, i), f"zero{i}"))
        pre[i] = wide
    if not (row or column):
        n.emit(MatMul(), operands, extras=extras, pre=pre, post=post)
        return
    product = n.inner(MatMul(), operands, "product", extras=extras, pre=pre, post=post)
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
    shape = (1,) * (len(operand.shape) - len(shape)) + shape  # the operand has been given leading axes, too
    if len(shape) != len(operand.shape) or any(s not in (1, e) for s, e in zip(shape, operand.shape, strict=True)):
        raise n.error(f"zero point {zero.type} does not fit its operand {operand.type}")
    return shape


def _sample_conv(d: Draw) -> Case:
    rank, groups = d.choice([1, 2, 2, 3]), d.choice([1, 1, 2])
    left, right = "u8", d.choice(["u8", "i8"])  # onnxruntime has no other
    cin, cout = d.int(1, 4), d.int(1, 5) * groups
    x = d.array((d.int(1, 2), cin * groups, *d.shape(rank, 5, 8)), left, 0, 255)
    w = d.array((cout, cin, *d.shape(rank, 1, 3)), right, 0 if right == "u8" else -128, 255 if right == "u8" else 127)
    x_zero = d.array((), left, 0, 255) if d.bool() else None
    w_zero = d.array((), right, 0, 20) if d.bool() else None
    attrs: dict[str, object] = {"group": groups, "strides": d.shape(rank, 1, 2)}
    if d.bool():
        attrs["pads"] = d.shape(2 * rank, 0, 2)
    else:
        attrs["auto_pad"] = d.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
    return Case([x, w, x_zero, w_zero], attrs, frozenset({1, 2, 3}) if d.bool() else frozenset())


@onnx_op("ConvInteger", sample=_sample_conv, tolerance={}, folding=WINDOW)
def import_conv_integer(n: Import) -> None:
    """The zero point of x is one number, that of w one or one for each filter. Padding holds x's zero point."""
    _require_bytes(n)
    x, w = n.input(0), n.input(1)
    rank = len(x.shape)
    if rank < 3 or len(w.shape) != rank:
        raise n.error(f"{x.type} cannot be convolved with {w.type}: equal ranks of at least 3 are needed")
    kernel = n.attr("kernel_shape", w.shape[2:])
    if kernel != w.shape[2:]:
        raise n.error(f"kernel_shape {list(kernel)} differs from the weights' {list(w.shape[2:])}")
    window = read_window(n, kernel)
    sums, post = _widened(n, math.prod(w.shape[1:]))
    extras: list[Value] = []
    pre: dict[int, ex.Expr] = {}
    for i, value in enumerate((x, w)):
        pre[i] = ex.convert(ex.acc(value.dtype), sums)
        zero = _zero(n, i, sums)
        if zero is None:
            continue
        if zero.type.count != 1 and (i == 0 or zero.shape != w.shape[:1]):
            raise n.error(f"zero point {zero.type} does not fit its operand {value.type}")
        pre[i] = ex.apply("sub", pre[i], ex.convert(ex.var(len(extras), zero.dtype), sums))
        shape = (1,) * rank if zero.type.count == 1 else (zero.type.count, *(1,) * (rank - 1))
        extras.append(n.reshape(zero, shape, f"zero{i}"))
    op = Conv(window.strides, window.pads, window.dilations, n.attr("group", 1))
    n.emit(op, [x, w], extras=extras, pre=pre, post=post)
