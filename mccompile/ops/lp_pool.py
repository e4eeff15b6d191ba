"""Sums of powers over windows, through `pool` and `reduce` (ONNX operators LpPool, GlobalLpPool, LRN)."""

from __future__ import annotations

import math

from mccompile.ir import expr as ex
from mccompile.ir.types import DType
from mccompile.ops.folding import WINDOW
from mccompile.ops.frontend import Import
from mccompile.ops.pool import Pool
from mccompile.ops.reduce import Reduce
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw
from mccompile.ops.window import read_window


def _power(n: Import, dtype: DType) -> tuple[dict[int, ex.Expr], dict[int, ex.Expr]]:
    """Prologue |x|^p and epilogue acc^(1/p) of the node's ``p``."""
    p = n.attr("p", 2)
    if p < 1:
        raise n.error(f"p = {p} must be at least 1")
    a = ex.acc(dtype)
    if p == 1:
        return {0: ex.apply("abs", a)}, {}
    if p == 2:
        return {0: ex.apply("mul", a, a)}, {0: ex.apply("sqrt", a)}
    raised = ex.apply("pow", ex.apply("abs", a), ex.num(p, dtype))
    return {0: raised}, {0: ex.apply("pow", a, ex.num(1 / p, dtype))}


def _sample_lp_pool(d: Draw) -> Case:
    rank = d.choice([1, 2, 2, 3])
    kernel = d.shape(rank, 1, 3)
    attrs: dict[str, object] = {
        "kernel_shape": kernel, "strides": d.shape(rank, 1, 3), "p": d.int(1, 3),
        "pads": tuple(d.int(0, k - 1) for k in kernel * 2),
    }  # fmt: skip
    return Case([d.array((d.int(1, 2), d.int(1, 3), *d.shape(rank, 4, 8)))], attrs)


@onnx_op("LpPool", sample=_sample_lp_pool, tolerance={"f32": 4e-6, "f16": 4e-3}, folding=WINDOW)
def import_lp_pool(n: Import) -> None:
    x = n.input(0)
    w = read_window(n, n.required("kernel_shape", tuple))
    pre, post = _power(n, x.dtype)
    op = Pool("sum", w.kernel, w.strides, w.pads, w.dilations, n.flag("ceil_mode"))
    n.bind(0, n.stored(n.inner(op, [x], "norm", pre=pre, post=post)))


def _sample_global(d: Draw) -> Case:
    return Case([d.array((d.int(1, 2), d.int(1, 3), *d.shape(d.int(1, 3), 1, 6)))], {"p": d.int(1, 3)}, opset=21)


@onnx_op("GlobalLpPool", sample=_sample_global, tolerance={"f32": 4e-6, "f16": 4e-3})
def import_global_lp_pool(n: Import) -> None:
    x = n.input(0)
    pre, post = _power(n, x.dtype)
    op = Reduce("sum", tuple(range(2, len(x.shape))))
    n.bind(0, n.stored(n.inner(op, [x], "norm", pre=pre, post=post)))


def _sample_lrn(d: Draw) -> Case:
    attrs = {
        "size": d.choice([1, 3, 5]), "alpha": d.choice([1e-4, 0.5]), "beta": d.choice([0.75, 0.5]),
        "bias": d.choice([1.0, 2.0]),
    }  # fmt: skip
    return Case([d.array((d.int(1, 2), d.int(1, 9), *d.shape(2, 1, 5)))], attrs)


@onnx_op("LRN", sample=_sample_lrn, tolerance={"f32": 4e-6, "f16": 4e-3})
def import_lrn(n: Import) -> None:
    """x / (bias + alpha / size * sum of squares)^beta: a pool along the channels of [N, 1, C, pixels]."""
    x, size = n.input(0), n.required("size", int)
    if len(x.shape) < 2 or size < 1:
        raise n.error("LRN needs channels and a positive size")
    rows = (x.shape[0], 1, x.shape[1], math.prod(x.shape[2:]))
    flat = n.reshape(x, rows, "rows")
    begin = (size - 1) // 2
    op = Pool("sum", (size, 1), (1, 1), (begin, 0, size - 1 - begin, 0), (1, 1))
    dtype, a = x.dtype, ex.acc(x.dtype)
    weighted = ex.apply("mul", a, ex.num(n.attr("alpha", 1e-4) / size, dtype))
    base = ex.apply("add", ex.num(n.attr("bias", 1.0), dtype), weighted)
    body = ex.apply("div", ex.var(0, dtype), ex.apply("pow", base, ex.num(n.attr("beta", 0.75), dtype)))
    y = n.inner(op, [flat], "scaled", extras=[flat], pre={0: ex.apply("mul", a, a)}, post={0: body})
    n.bind(0, n.reshape(n.stored(y), x.shape, "y"))
