"""Tables of a resized axis whose extent is known at run time only: computed by nodes, as `resize_tables` does it.

Worked example: n elements become 2 n by linear interpolation, half_pixel. Of the result coordinates 0, 1, 2 .. a
node makes 0.5 * i - 0.25, cut to 0 .. n - 1; its floor is the first index, one more the second; what is left is the
weight. The arithmetic is that of the tables, in f32 and in the same order, so that the numbers are the same.
"""

from __future__ import annotations

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.graph import Value
from mccompile.ir.types import F32, F64, I32, I64, DType
from mccompile.ops.concat import Concat
from mccompile.ops.extents import Extents
from mccompile.ops.frontend import Import
from mccompile.ops.map import Map
from mccompile.ops.resize_tables import TIE, Sampling

AT, EXTENT, OUT = ex.var(0, F32), ex.var(1, I64), ex.var(2, I64)
"""What nodes read: the result coordinate, and both extents."""

TRANSFORMS = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")


def run_time_table(
    n: Import, s: Sampling, extent: int, out: int, scale: float | None, compute: DType, suffix: str
) -> tuple[Value, Value | None]:
    """Indices i32[out, taps], and weights of ``compute`` where there are any; ``scale`` None: ``out / extent``.

    CompileError for a mode that has to be known when the network is compiled.
    """
    symmetric = s.transform == "half_pixel_symmetric" and scale is not None and out == extent * int(scale)
    if s.mode == "cubic" or s.antialias or not (symmetric or s.transform in TRANSFORMS):
        what = "antialias" if s.antialias else f"mode {s.mode!r} with coordinates {s.transform!r}"
        raise n.error(f"Resize with {what} is not supported along an extent that is known at run time only",
                      "give each dim that it depends on one number: --dim NAME=N")  # fmt: skip
    extents = [n.inner(Extents((e,), (1,)), [], f"{suffix}.{what}") for e, what in ((extent, "extent"), (out, "out"))]
    known = [n.steps(out, F32, f"{suffix}.at"), *extents]

    def computed(body: ex.Expr, name: str) -> Value:
        """A column of a table."""
        read = sorted(ex.variables(body))
        renamed = ex.substitute(body, lambda v: ex.var(read.index(v.index), v.dtype))
        made = n.inner(Map(renamed), [known[i] for i in read], f"{suffix}.{name}")
        return n.reshape(made, (out, 1), f"{suffix}.{name}.column")

    at = _coordinate(s, scale)
    last = ex.apply("sub", ex.convert(EXTENT, F32), ex.num(1, F32))
    if s.mode == "nearest":
        index = ex.convert(_within(nearest(ex.convert(at, F64), s.nearest), ex.convert(last, F64), F64), I32)
        return computed(index, "index"), None
    inside = _within(at, last, F32)
    low = ex.apply("floor", inside)
    high = ex.apply("min", ex.apply("add", low, ex.num(1, F32)), last)
    alone = ex.apply("eq", low, high)
    indices, weights = [], []
    for name, tap, other in (("low", low, high), ("high", high, low)):
        share = ex.apply("abs", ex.apply("sub", inside, other))
        weight = ex.apply("select", alone, ex.num(0.5, F32), share)
        indices.append(computed(ex.convert(tap, I32), name))
        weights.append(computed(ex.convert(weight, compute), f"{name}.share"))
    table, shares = (n.inner(Concat(1), c, f"{suffix}.{w}") for c, w in ((indices, "index"), (weights, "weight")))
    return table, shares


def _coordinate(s: Sampling, scale: float | None) -> ex.Expr:
    """The input coordinate of each result coordinate: see `resize_tables`."""
    one, extent, out = ex.num(1, F32), ex.convert(EXTENT, F32), ex.convert(OUT, F32)
    factor = ex.apply("div", out, extent) if scale is None else ex.num(np.float32(scale), F32)
    if s.transform == "asymmetric":
        return ex.apply("div", AT, factor)
    if s.transform == "align_corners":
        product = ex.apply("mul", AT, ex.apply("sub", extent, one))
        return ex.apply("div", product, ex.apply("max", ex.apply("sub", out, one), one))  # 0 of one element
    if s.transform == "half_pixel_symmetric":  # in doubles; nothing is added on both sides where all is resampled
        return ex.convert(_centre(ex.convert(AT, F64), ex.convert(factor, F64), F64), F32)
    centre = _centre(AT, factor, F32)
    if s.transform == "half_pixel":
        return centre
    return ex.apply("select", ex.apply("eq", out, one), ex.num(0, F32), centre)


def _centre(at: ex.Expr, scale: ex.Expr, dtype: DType) -> ex.Expr:
    half = ex.num(0.5, dtype)
    return ex.apply("sub", ex.apply("div", ex.apply("add", at, half), scale), half)


def nearest(at: ex.Expr, mode: str) -> ex.Expr:
    """A coordinate in f64 as the whole one that ``nearest_mode`` says, as `resize_tables` rounds it."""
    if mode in ("floor", "ceil"):
        return ex.apply(mode, at)
    half, tie = ex.num(0.5, F64), ex.num(TIE, F64)
    if mode == "round_prefer_floor":
        return ex.apply("ceil", ex.apply("sub", ex.apply("sub", at, half), tie))
    return ex.apply("floor", ex.apply("add", ex.apply("add", at, half), tie))


def _within(at: ex.Expr, last: ex.Expr, dtype: DType) -> ex.Expr:
    return ex.apply("min", ex.apply("max", at, ex.num(0, dtype)), last)
