"""Resize whose scales or region are computed at run time: what `resize_tables` makes is made by the program.

Worked example: of an axis of 4 the model states 8 for the result, so that a scale s has to be 2 to 2.25, which is
checked by floor(s * 4) = 8. The table of mode nearest is a column of 8 indices; number k of them is made of
(k + 0.5) / s - 0.5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.graph import Value
from mccompile.ir.scalar import Array
from mccompile.ir.types import F32, F64, I32, I64
from mccompile.ops.elements import Elements, Test, Whole
from mccompile.ops.frontend import Import
from mccompile.ops.map import Map
from mccompile.ops.reduce import Reduce
from mccompile.ops.resize import Resize
from mccompile.ops.resize_of_extents import nearest as rounded
from mccompile.ops.resize_tables import CROP, MODES, NEAREST_MODES
from mccompile.ops.run_time import RunTime
from mccompile.ops.slice import Slice


@dataclass(frozen=True)
class _Axis:
    """An axis of ``extent`` elements that gets ``out``, and the numbers that may not be known: f32[1, 1] each."""

    number: int
    extent: int
    out: int
    scale: Value | None
    start: Value | None
    end: Value | None


def import_resize(n: Import) -> None:
    x, stated = n.input(0), n.declared()
    rank = len(x.shape)
    mode, transform = n.attr("mode", "nearest"), n.attr("coordinate_transformation_mode", "half_pixel")
    nearest = n.attr("nearest_mode", "round_prefer_floor")
    if mode not in ("nearest", "linear", "cubic") or transform not in (*MODES, CROP) or nearest not in NEAREST_MODES:
        raise n.error(f"Resize with mode {mode!r}, coordinates {transform!r} and {nearest!r} is not supported")
    if n.attr("keep_aspect_ratio_policy", "stretch") != "stretch" or (mode != "nearest" and not x.dtype.is_float):
        raise n.error("scales that are computed at run time are supported of floats, and without a policy")
    for name in ("antialias", "exclude_outside", "cubic_coeff_a", "extrapolation_value"):
        n.attr(name)  # modes that have no use for them have them all the same
    axes = [n.axis(a, rank) for a in n.attr("axes", tuple(range(rank)))]
    chosen = _axes(n, axes, _extents(n, axes, stated), transform == CROP)
    if not chosen or (all(a.extent == a.out for a in chosen) and transform != CROP):
        n.bind(0, x)
        return
    made = [_Table(n, a, mode, transform).made(nearest) for a in chosen]
    partial = transform == CROP
    op = Resize(tuple(a.number for a in chosen), mode != "nearest", partial,
                n.attr("extrapolation_value", 0.0) if partial else 0.0)  # fmt: skip
    weights = [w for _, w in made] if mode != "nearest" else []
    n.emit(op, [x, *(i for i, _ in made), *weights])


def _extents(n: Import, axes: list[int], stated: tuple[int, ...] | None) -> list[int]:
    """The extents of the result along ``axes``: as sizes say, or as the model states."""
    if n.optional(3) is not None and n.input(3).type.count:
        return list(n.ints(3, "sizes"))
    if n.is_const(2):
        factors = n.const(2, "scales").reshape(-1).astype(np.float32)
        return [int(np.floor(f * np.float32(n.input(0).shape[a]))) for f, a in zip(factors, axes, strict=True)]
    if stated is None or len(stated) != len(n.input(0).shape) or 0 in stated:
        raise n.error(
            "scales are computed at run time, and nothing says how large the result becomes",
            "state the shape of the result in the model, or fix what they depend on with --constant",
        )
    return [stated[a] for a in axes]


def _axes(n: Import, axes: list[int], out: list[int], crop: bool) -> list[_Axis]:
    """The axes that change, in order; the program ends where the scale of any does not give its extent."""
    x, e = n.input(0), Elements(n)
    scaled = n.optional(2) is not None and n.input(2).type.count > 0
    given = n.input(2) if scaled else None
    if given is not None and given.type.count != len(axes):
        raise n.error(f"scales of {given.type.count} numbers do not fit {len(axes)} axes")
    found = []
    for i, a in enumerate(axes):
        extent = x.shape[a]
        same = extent == out[i] and not crop and (extent == 1 or a < len(x.shape) - 2)
        if given is not None:
            _require_scale(e, given, i, extent, out[i], same)
        if not same:
            scale = n.constant("scale", np.full((1, 1), np.float32(out[i]) / np.float32(extent), np.float32))
            if given is not None:
                scale = _scalar(n, given, i)
            roi = [_scalar(n, n.input(1), i + k * len(axes)) if crop else None for k in (0, 1)]
            found.append(_Axis(a, extent, out[i], scale, *roi))
    return sorted(found, key=lambda axis: axis.number)


def _require_scale(e: Elements, given: Value, i: int, extent: int, out: int, same: bool) -> None:
    """The extent of the result is what the scale says. An axis that stays the ``same`` has the scale 1."""
    if given in e.node.graph.constants:
        return
    factor = e.raw(given)[i]
    product = ex.apply("floor", ex.apply("mul", factor, ex.num(extent, F32)))
    e.require(Whole(ex.convert(product, I64)).equals(out))
    if same and extent > 1:
        e.require(Test(ex.apply("eq", factor, ex.num(1, F32))))


def _scalar(n: Import, vector: Value, i: int) -> Value:
    """Element ``i`` of a vector as f32[1, 1]."""
    if vector in n.graph.constants:
        return n.constant(f"number{i}", n.graph.array(vector).reshape(-1)[i : i + 1].astype(np.float32).reshape(1, 1))
    part = n.inner(Slice((i,), (1,), (1,)), [vector], f"part{i}") if vector.shape != (1,) else vector
    part = n.reshape(part, (1, 1), f"number{i}")
    return part if part.dtype == F32 else n.map(ex.convert(ex.var(0, part.dtype), F32), [part], f"f32.{i}")


class _Table:
    """The indices and weights of one axis, as `resize_tables.axis_table` makes them."""

    def __init__(self, n: Import, axis: _Axis, mode: str, transform: str) -> None:
        self.n, self.axis, self.mode, self.transform = n, axis, mode, transform
        self.antialias = n.flag("antialias") and mode != "nearest" and axis.out < axis.extent
        self.at = self._coordinates()

    def made(self, nearest: str) -> tuple[Value, Value]:
        extent = self.axis.extent
        at = ex.var(0, F32)
        last = ex.num(extent - 1, F32)
        if self.antialias:
            index, weight = self._antialias()
        elif self.mode == "nearest":
            index, weight = self._column(rounded(ex.convert(at, F64), nearest), extent), self.at
        elif self.mode == "linear":
            index, weight = self._linear()
        else:
            index, weight = self._cubic()
        if self.transform == CROP:
            beyond = ex.apply("or", ex.apply("lt", at, ex.num(0, F32)), ex.apply("lt", last, at))
            index = self._map(ex.apply("select", beyond, ex.num(-1, I32), ex.var(1, I32)), [self.at, index], "inside")
            if self.mode != "nearest":
                kept = ex.apply("select", beyond, ex.num(0, F32), ex.var(1, F32))
                weight = self._map(kept, [self.at, weight], "kept")
        return index, weight

    # -- parts -------------------------------------------------------------------------------------------
    def _map(self, body: ex.Expr, operands: list[Value], suffix: str) -> Value:
        return self.n.map(body, operands, f"axis{self.axis.number}.{suffix}")

    def _constant(self, array: Array, suffix: str) -> Value:
        return self.n.constant(f"axis{self.axis.number}.{suffix}", array)

    def _column(self, index: ex.Expr, extent: int) -> Value:
        """Whole coordinates of any type within the axis."""
        low, high = ex.num(0, index.dtype), ex.num(extent - 1, index.dtype)
        inside = ex.apply("max", ex.apply("min", index, high), low)
        return self._map(ex.convert(inside, I32), [self.at], "index")

    def _coordinates(self) -> Value:
        """f32[out, 1]: `resize_tables._coordinates`."""
        a = self.axis
        counter = self._constant(np.arange(a.out, dtype=np.float32).reshape(-1, 1), "k")
        if self.n.flag("antialias") and self.mode != "nearest" and a.extent == a.out:
            return counter
        at, half, last = ex.var(0, F32), ex.num(0.5, F32), ex.num(a.extent - 1, F32)
        body: ex.Expr
        if self.transform == CROP:
            assert a.start is not None
            assert a.end is not None
            start, end = ex.var(1, F32), ex.var(2, F32)
            if a.out == 1:
                middle = ex.apply("mul", ex.apply("mul", half, ex.apply("add", start, end)), last)
                body = ex.apply("add", ex.apply("mul", at, ex.num(0, F32)), middle)
            else:
                moved = ex.apply("mul", ex.apply("mul", at, ex.apply("sub", end, start)), last)
                steps = ex.apply("div", moved, ex.num(a.out - 1, F32))
                body = ex.apply("add", ex.apply("mul", start, last), steps)
            return self._map(body, [counter, a.start, a.end], "at")
        if self.transform == "align_corners" or (self.transform == "pytorch_half_pixel" and a.out == 1):
            step = 0.0 if a.out == 1 or self.transform != "align_corners" else 1.0
            whole = np.arange(a.out, dtype=np.float32) * np.float32((a.extent - 1) * step)
            return self._constant((whole / np.float32(max(a.out - 1, 1))).reshape(-1, 1), "at")
        assert a.scale is not None
        scale = ex.var(1, F32)
        if self.transform == "asymmetric":
            body = ex.apply("div", at, scale)
        elif self.transform == "half_pixel_symmetric":
            body = self._symmetric(at, scale)
        else:
            body = ex.apply("sub", ex.apply("div", ex.apply("add", at, half), scale), half)
        return self._map(body, [counter, a.scale], "at")

    def _symmetric(self, at: ex.Expr, scale: ex.Expr) -> ex.Expr:
        a, wide = self.axis, F64
        adjustment = ex.apply("div", ex.num(a.out, F32), ex.apply("mul", scale, ex.num(a.extent, F32)))
        offset = ex.apply("mul", ex.num(np.float32(a.extent) / 2, F32), ex.apply("sub", ex.num(1, F32), adjustment))
        steps = ex.apply("div", ex.apply("add", ex.convert(at, wide), ex.num(0.5, wide)), ex.convert(scale, wide))
        moved = ex.apply("sub", ex.apply("add", ex.convert(offset, wide), steps), ex.num(0.5, wide))
        return ex.convert(moved, F32)

    def _linear(self) -> tuple[Value, Value]:
        """The two taps around a coordinate; beside the last element both are that, and weigh a half."""
        extent = self.axis.extent
        tap = self._constant(np.arange(2, dtype=np.int32).reshape(1, 2), "tap")
        zero, last = ex.num(0, F32), ex.num(extent - 1, F32)
        inside = ex.apply("max", ex.apply("min", ex.var(0, F32), last), zero)
        low = ex.convert(inside, I32)
        end = ex.num(extent - 1, I32)
        index = ex.apply("min", ex.apply("add", low, ex.var(1, I32)), end)
        high = ex.apply("min", ex.apply("add", low, ex.num(1, I32)), end)
        first = ex.apply("eq", ex.var(1, I32), ex.num(0, I32))
        other = ex.apply("select", first, high, low)
        away = ex.apply("abs", ex.apply("sub", inside, ex.convert(other, F32)))
        weight = ex.apply("select", ex.apply("eq", low, high), ex.num(0.5, F32), away)
        return self._map(index, [self.at, tap], "index"), self._map(weight, [self.at, tap], "weight")

    def _cubic(self) -> tuple[Value, Value]:
        """Four taps from one before the coordinate (R. Keys, Cubic Convolution Interpolation, 1981)."""
        extent, a = self.axis.extent, np.float32(self.n.attr("cubic_coeff_a", -0.75))
        tap = self._constant(np.arange(-1, 3, dtype=np.int32).reshape(1, 4), "tap")
        base = ex.apply("floor", ex.var(0, F32))
        index = ex.apply("add", ex.convert(base, I32), ex.var(1, I32))
        within = ex.apply("sub", ex.var(0, F32), base)
        away = ex.apply("abs", ex.apply("sub", within, ex.convert(ex.var(1, I32), F32)))
        weight = _keys(away, float(a))
        inside = ex.apply("and", ex.apply("le", ex.num(0, I32), index), ex.apply("lt", index, ex.num(extent, I32)))
        if self.n.flag("exclude_outside"):
            weight = ex.apply("select", inside, weight, ex.num(0, F32))
        clipped = ex.apply("max", ex.apply("min", index, ex.num(extent - 1, I32)), ex.num(0, I32))
        weights = self._map(weight, [self.at, tap], "weight")
        if self.n.flag("exclude_outside"):
            weights = self._normalised(weights, "weights")
        return self._map(clipped, [self.at, tap], "index"), weights

    def _normalised(self, weights: Value, suffix: str) -> Value:
        name = f"axis{self.axis.number}.{suffix}"
        total = self.n.inner(Reduce("sum", (1,)), [weights], f"{name}.sum")
        return self.n.inner(Map(ex.apply("div", ex.var(0, F32), ex.var(1, F32))), [weights, total], name)

    def _antialias(self) -> tuple[Value, Value]:
        """The filter widened by 1 / scale and normalised, in f64 (`resize_tables._antialias`)."""
        a, reach = self.axis, 1 if self.mode == "linear" else 2
        assert a.scale is not None
        most = math.floor(2 * reach * a.extent / a.out * (1 + 1e-5)) + 2
        tap = self._constant(np.arange(most, dtype=np.int32).reshape(1, most), "tap")
        half = ex.num(0.5, F64)
        center = ex.apply("add", ex.convert(ex.var(0, F32), F64), half)
        scale = ex.convert(ex.var(1, F32), F64)
        support = ex.apply("div", ex.num(reach, F64), scale)
        first = ex.convert(ex.apply("floor", ex.apply("add", ex.apply("sub", center, support), half)), I32)
        end = ex.convert(ex.apply("floor", ex.apply("add", ex.apply("add", center, support), half)), I32)
        index = ex.apply("add", first, ex.var(2, I32))
        away = ex.apply("abs", ex.apply("sub", ex.apply("add", ex.convert(index, F64), half), center))
        distance = ex.apply("mul", away, scale)
        if self.mode == "linear":
            weight: ex.Expr = ex.apply("max", ex.apply("sub", ex.num(1, F64), distance), ex.num(0, F64))
        else:
            weight = _keys(distance, float(self.n.attr("cubic_coeff_a", -0.75)))
        wanted = ex.apply("lt", index, end)
        if self.n.flag("exclude_outside"):
            lower = ex.apply("le", ex.num(0, I32), index)
            wanted = ex.apply("and", wanted, ex.apply("and", lower, ex.apply("lt", index, ex.num(a.extent, I32))))
        weight = ex.convert(ex.apply("select", wanted, weight, ex.num(0, F64)), F32)
        clipped = ex.apply("max", ex.apply("min", index, ex.num(a.extent - 1, I32)), ex.num(0, I32))
        operands = [self.at, a.scale, tap]
        weights = self._map(weight, operands, "weight")
        return self._map(clipped, operands, "index"), self._normalised(weights, "weights")


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


RUN_TIME = {"Resize": RunTime(import_resize, (1, 2))}
