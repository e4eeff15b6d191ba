"""Tables of resized axes that the program computes: what `resize_tables` makes of numbers, nodes make of what the run
knows. An extent may be one of the run; the scale and the region may be computed.

Worked example: n elements become 2 n by linear interpolation, half_pixel. Of the result coordinates 0, 1, 2 .. a
node makes 0.5 * i - 0.25, cut to 0 .. n - 1; its floor is the first index, one more the second; what is left is the
weight. The arithmetic is that of the tables, in f32 and in the same order, so that the numbers are the same. What is
known is folded: a table of known numbers alone is a constant.
"""

from __future__ import annotations

import math

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.dims import Dim, span
from mccompile.ir.graph import Value
from mccompile.ir.scalar import Array
from mccompile.ir.types import F32, F64, I32, I64, DType
from mccompile.ops.extents import Extents
from mccompile.ops.frontend import Import
from mccompile.ops.map import Map
from mccompile.ops.reduce import Reduce
from mccompile.ops.resize_tables import CROP, TIE, Sampling

AT, SCALE, START, END = (ex.var(i, F32) for i in range(4))
EXTENT, OUT = ex.var(4, I64), ex.var(5, I64)
TAP = ex.var(6, I32)
GROWTH = ex.var(7, I64)
"""What nodes read: the coordinate of a result, [out, 1]; numbers, [1, 1]; the number of a tap, [1, taps]."""


@dataclass(frozen=True)
class Axis:
    """An axis of ``extent`` elements that gets ``out``, either of which may be known at run time only.

    ``scale`` is f32[1, 1], or None where it is their quotient; ``start`` and ``end`` of the region are as well, or
    None where they are those of the sampling. ``factor`` is the scale, if it is known. Where the run finds ``growth``
    to be 0 the axis stays as it is, whatever the scale.
    """

    number: int
    extent: int
    out: int
    scale: Value | None = None
    start: Value | None = None
    end: Value | None = None
    factor: float | None = None
    growth: int = 1


def may_stay(growth: int) -> bool:
    """Whether the growth of all axes may be 0 in some run."""
    low, high = span(growth)
    return low <= 0 <= high


class Table:
    """The indices i32[out, taps] and weights f32[out, taps] of one axis, as `resize_tables.axis_table` makes them."""

    def __init__(self, n: Import, axis: Axis, sampling: Sampling) -> None:
        """CompileError for a filter of antialias whose width is known at run time only."""
        self.n, self.axis, self.s = n, axis, sampling
        filters = sampling.antialias and sampling.mode != "nearest"
        if filters and isinstance(axis.extent - axis.out, Dim) and axis.factor is None:
            raise n.error("Resize with antialias is not supported where the scale is known at run time only",
                          "give each dim that it depends on one number: --dim NAME=N")  # fmt: skip
        self.widened = filters and (axis.out < axis.extent if axis.factor is None else axis.factor < 1)
        self.operands: dict[int, Value] = {}
        for at, value in ((SCALE, axis.scale), (START, axis.start), (END, axis.end)):
            if value is not None:
                self.operands[at.index] = value
        self.extent, self.out = self._extent(EXTENT, axis.extent), self._extent(OUT, axis.out)
        self.start, self.end = (
            at if at.index in self.operands else ex.num(np.float32(known), F32)
            for at, known in ((START, sampling.start), (END, sampling.end))
        )
        out, extent = ex.convert(self.out, F32), ex.convert(self.extent, F32)
        self.scale: ex.Expr = SCALE if axis.scale is not None else ex.apply("div", out, extent)
        if axis.scale is None and axis.factor is not None:
            self.scale = ex.num(np.float32(axis.factor), F32)
        self.last = ex.apply("sub", extent, ex.num(1, F32))
        steps = n.steps(axis.out, F32, self._name("k"))
        self.operands[AT.index] = n.reshape(steps, (axis.out, 1), self._name("column"))
        if not (filters and axis.extent == axis.out):
            coordinate = self._coordinate()
            if may_stay(axis.growth):
                grown = self._extent(GROWTH, axis.growth)
                coordinate = ex.apply("select", ex.apply("eq", grown, ex.num(0, I64)), AT, coordinate)
            self.operands[AT.index] = self._map(coordinate, "at")

    def made(self) -> tuple[Value, Value | None]:
        """No weights where there is one tap."""
        weight: Value | None
        if self.widened:
            index, weight = self._antialias()
        elif self.s.mode == "nearest":
            at, last = rounded(ex.convert(AT, F64), self.s.nearest), ex.convert(self.last, F64)
            index, weight = self._map(ex.convert(_within(at, last, F64), I32), "index"), None
        else:
            index, weight = self._linear() if self.s.mode == "linear" else self._cubic()
        if self.s.transform == CROP:
            beyond = ex.apply("or", ex.apply("lt", AT, ex.num(0, F32)), ex.apply("lt", self.last, AT))
            index = self._chosen(ex.apply("select", beyond, ex.num(-1, I32), TAP), index, "inside")
            if weight is not None:
                kept = ex.apply("select", beyond, ex.num(0, F32), ex.var(TAP.index, F32))
                weight = self._chosen(kept, weight, "kept")
        return index, weight

    # -- parts -------------------------------------------------------------------------------------------
    def _name(self, suffix: str) -> str:
        return f"axis{self.axis.number}.{suffix}"

    def _extent(self, at: ex.Var, extent: int) -> ex.Expr:
        """An extent as i64: a number, or what stands at ``at``."""
        if not isinstance(extent, Dim):
            return ex.num(extent, I64)
        what = {EXTENT.index: "extent", OUT.index: "out", GROWTH.index: "growth"}[at.index]
        self.operands[at.index] = self.n.inner(Extents((extent,), (1, 1)), [], self._name(what))
        return at

    def _map(self, body: ex.Expr, suffix: str) -> Value:
        read = sorted(ex.variables(body))
        renamed = ex.substitute(body, lambda v: ex.var(read.index(v.index), v.dtype))
        return self.n.map(renamed, [self.operands[i] for i in read], self._name(suffix))

    def _chosen(self, body: ex.Expr, value: Value, suffix: str) -> Value:
        """``body`` where the taps are ``value``."""
        self.operands[TAP.index] = value
        return self._map(body, suffix)

    def _taps(self, first: int, count: int) -> None:
        taps: Array = np.arange(first, first + count, dtype=np.int32).reshape(1, count)
        self.operands[TAP.index] = self.n.constant(self._name("tap"), taps)

    def _coordinate(self) -> ex.Expr:
        """`resize_tables._coordinates`."""
        half, zero, one = (ex.num(x, F32) for x in (0.5, 0, 1))
        out = ex.convert(self.out, F32)
        steps = ex.apply("max", ex.apply("sub", out, one), one)
        single = ex.apply("eq", self.out, ex.num(1, I64))
        match self.s.transform:
            case "asymmetric":
                return ex.apply("div", AT, self.scale)
            case "align_corners":
                return ex.apply("div", ex.apply("mul", AT, self.last), steps)  # 0 of one element
            case "tf_crop_and_resize":
                middle = ex.apply("mul", ex.apply("mul", half, ex.apply("add", self.start, self.end)), self.last)
                moved = ex.apply("mul", ex.apply("mul", AT, ex.apply("sub", self.end, self.start)), self.last)
                begun = ex.apply("add", ex.apply("mul", self.start, self.last), ex.apply("div", moved, steps))
                return ex.apply("select", single, middle, begun)
            case "half_pixel_symmetric":
                return self._symmetric()
        centre = ex.apply("sub", ex.apply("div", ex.apply("add", AT, half), self.scale), half)
        return ex.apply("select", single, zero, centre) if self.s.transform == "pytorch_half_pixel" else centre

    def _symmetric(self) -> ex.Expr:
        extent, out = ex.convert(self.extent, F32), ex.convert(self.out, F32)
        adjustment = ex.apply("div", out, ex.apply("mul", self.scale, extent))
        half = ex.apply("div", extent, ex.num(2, F32))
        offset = ex.apply("mul", half, ex.apply("sub", ex.num(1, F32), adjustment))
        begun = ex.apply("add", ex.convert(AT, F64), ex.num(0.5, F64))
        steps = ex.apply("div", begun, ex.convert(self.scale, F64))
        moved = ex.apply("sub", ex.apply("add", ex.convert(offset, F64), steps), ex.num(0.5, F64))
        return ex.convert(moved, F32)

    def _end(self) -> ex.Expr:
        """The last index."""
        return ex.convert(ex.apply("sub", self.extent, ex.num(1, I64)), I32)

    def _clipped(self, index: ex.Expr) -> ex.Expr:
        return ex.apply("max", ex.apply("min", index, self._end()), ex.num(0, I32))

    def _inside(self, index: ex.Expr) -> ex.Expr:
        return ex.apply("and", ex.apply("le", ex.num(0, I32), index), ex.apply("le", index, self._end()))

    def _linear(self) -> tuple[Value, Value]:
        """The two taps around a coordinate; beside the last element both are that, and weigh a half."""
        self._taps(0, 2)
        inside = _within(AT, self.last, F32)
        low = ex.convert(inside, I32)
        index = ex.apply("min", ex.apply("add", low, TAP), self._end())
        high = ex.apply("min", ex.apply("add", low, ex.num(1, I32)), self._end())
        first = ex.apply("eq", TAP, ex.num(0, I32))
        other = ex.apply("select", first, high, low)
        away = ex.apply("abs", ex.apply("sub", inside, ex.convert(other, F32)))
        weight = ex.apply("select", ex.apply("eq", low, high), ex.num(0.5, F32), away)
        return self._map(index, "index"), self._map(weight, "weight")

    def _cubic(self) -> tuple[Value, Value]:
        """Four taps from one before the coordinate (R. Keys, Cubic Convolution Interpolation, 1981)."""
        self._taps(-1, 4)
        base = ex.apply("floor", AT)
        index = ex.apply("add", ex.convert(base, I32), TAP)
        away = ex.apply("abs", ex.apply("sub", ex.apply("sub", AT, base), ex.convert(TAP, F32)))
        weight = _keys(away, float(np.float32(self.s.cubic)))
        if self.s.exclude_outside:
            weight = ex.apply("select", self._inside(index), weight, ex.num(0, F32))
        weights = self._map(weight, "weight")
        weights = self._normalised(weights) if self.s.exclude_outside else weights
        return self._map(self._clipped(index), "index"), weights

    def _normalised(self, weights: Value) -> Value:
        total = self.n.inner(Reduce("sum", (1,)), [weights], self._name("weights.sum"))
        quotient = Map(ex.apply("div", ex.var(0, F32), ex.var(1, F32)))
        return self.n.inner(quotient, [weights, total], self._name("weights"))

    def _antialias(self) -> tuple[Value, Value]:
        """The filter widened by 1 / scale and normalised, in f64 (`resize_tables._antialias`)."""
        reach = 1 if self.s.mode == "linear" else 2
        width = self.axis.extent / self.axis.out if self.axis.factor is None else 1 / self.axis.factor
        self._taps(0, math.floor(2 * reach * width * (1 + 1e-5)) + 2)
        half = ex.num(0.5, F64)
        center = ex.apply("add", ex.convert(AT, F64), half)
        scale = ex.convert(self.scale, F64)
        support = ex.apply("div", ex.num(reach, F64), scale)
        first = ex.convert(ex.apply("floor", ex.apply("add", ex.apply("sub", center, support), half)), I32)
        end = ex.convert(ex.apply("floor", ex.apply("add", ex.apply("add", center, support), half)), I32)
        index = ex.apply("add", first, TAP)
        away = ex.apply("abs", ex.apply("sub", ex.apply("add", ex.convert(index, F64), half), center))
        distance = ex.apply("mul", away, scale)
        if self.s.mode == "linear":
            weight: ex.Expr = ex.apply("max", ex.apply("sub", ex.num(1, F64), distance), ex.num(0, F64))
        else:
            weight = _keys(distance, self.s.cubic)
        wanted = ex.apply("lt", index, end)
        if self.s.exclude_outside:
            wanted = ex.apply("and", wanted, self._inside(index))
        weights = self._map(ex.convert(ex.apply("select", wanted, weight, ex.num(0, F64)), F32), "weight")
        return self._map(self._clipped(index), "index"), self._normalised(weights)


def rounded(at: ex.Expr, mode: str) -> ex.Expr:
    """A coordinate in f64 as the whole one that ``nearest_mode`` says, as `resize_tables` rounds it."""
    if mode in ("floor", "ceil"):
        return ex.apply(mode, at)
    half, tie = ex.num(0.5, F64), ex.num(TIE, F64)
    if mode == "round_prefer_floor":
        return ex.apply("ceil", ex.apply("sub", ex.apply("sub", at, half), tie))
    return ex.apply("floor", ex.apply("add", ex.apply("add", at, half), tie))


def _within(at: ex.Expr, last: ex.Expr, dtype: DType) -> ex.Expr:
    return ex.apply("max", ex.apply("min", at, last), ex.num(0, dtype))


def _keys(x: ex.Expr, a: float) -> ex.Expr:
    """The weight of an element ``x`` away: `resize_tables.keys`."""
    d = x.dtype

    def polynomial(*factors: float) -> ex.Expr:
        found: ex.Expr = ex.num(factors[0], d)
        for f in factors[1:]:
            found = ex.apply("add", ex.apply("mul", found, x), ex.num(f, d))
        return found

    near, far = polynomial(a + 2, -(a + 3), 0, 1), polynomial(a, -5 * a, 8 * a, -4 * a)
    outer = ex.apply("select", ex.apply("lt", x, ex.num(2, d)), far, ex.num(0, d))
    return ex.apply("select", ex.apply("lt", x, ex.num(1, d)), near, outer)


