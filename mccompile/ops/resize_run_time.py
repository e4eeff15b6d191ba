"""Resize whose scales or region are computed at run time: what `resize_tables` makes is made by the program.

Worked example: of an axis of 4 the model states 8 for the result, so that a scale s has to be 2 to 2.25, which is
checked by floor(s * 4) = 8. The table of mode nearest is a column of 8 indices; number k of them is made of
(k + 0.5) / s - 0.5.
"""

from __future__ import annotations

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.dims import bound, maximum, minimum
from mccompile.ir.graph import Value
from mccompile.ir.types import F32, I64
from mccompile.ops.elements import Elements, Test, Whole
from mccompile.ops.frontend import Import
from mccompile.ops.resize import Resize, extrapolated, scaled
from mccompile.ops.resize_nodes import Axis, Table
from mccompile.ops.resize_tables import CROP, MODES, NEAREST_MODES, Sampling
from mccompile.ops.run_time import RunTime
from mccompile.ops.slice import Slice


def import_resize(n: Import) -> None:
    x, stated = n.input(0), n.declared()
    rank = len(x.shape)
    mode, transform = n.attr("mode", "nearest"), n.attr("coordinate_transformation_mode", "half_pixel")
    nearest = n.attr("nearest_mode", "round_prefer_floor")
    if mode not in ("nearest", "linear", "cubic") or transform not in (*MODES, CROP) or nearest not in NEAREST_MODES:
        raise n.error(f"Resize with mode {mode!r}, coordinates {transform!r} and {nearest!r} is not supported")
    if n.attr("keep_aspect_ratio_policy", "stretch") != "stretch" or (mode != "nearest" and not x.dtype.is_float):
        raise n.error("scales that are computed at run time are supported of floats, and without a policy")
    outside = extrapolated(n)
    axes = list(n.axes(n.attr("axes", tuple(range(rank))), rank))
    chosen = _axes(n, axes, _extents(n, axes, stated), transform == CROP)
    if not chosen or (all(a.extent == a.out for a in chosen) and transform != CROP):
        n.bind(0, x)
        return
    sampling = Sampling(
        mode, transform, nearest, n.attr("cubic_coeff_a", -0.75), n.flag("exclude_outside"), n.flag("antialias"), 0, 1
    )
    made = [Table(n, a, sampling).made() for a in chosen]
    partial = transform == CROP
    op = Resize(tuple(a.number for a in chosen), mode != "nearest", partial, outside if partial else 0.0)
    weights = [w for _, w in made if w is not None]
    n.emit(op, [x, *(i for i, _ in made), *weights])


def _extents(n: Import, axes: list[int], stated: tuple[int, ...] | None) -> list[int]:
    """The extents of the result along ``axes``: as sizes say, or as the model states."""
    if n.optional(3) is not None and n.input(3).type.count:
        return list(n.ints(3, "sizes"))
    if n.is_const(2):
        factors = n.const(2, "scales").reshape(-1).astype(np.float32)
        return [scaled(n, n.input(0).shape[a], f) for f, a in zip(factors, axes, strict=True)]
    if stated is None or len(stated) != len(n.input(0).shape) or 0 in stated:
        raise n.error(
            "scales are computed at run time, and nothing says how large the result becomes",
            "state the shape of the result in the model, or fix what they depend on with --constant",
        )
    return [stated[a] for a in axes]


def _axes(n: Import, axes: list[int], out: list[int], crop: bool) -> list[Axis]:
    """The axes that change, in order; the program ends where the scale of any does not give its extent."""
    x, e = n.input(0), Elements(n)
    scaled = n.optional(2) is not None and n.input(2).type.count > 0
    given = n.input(2) if scaled else None
    if given is not None and given.type.count != len(axes):
        raise n.error(f"scales of {given.type.count} numbers do not fit {len(axes)} axes")
    found, growth = [], 1 if crop else sum((_apart(x.shape[a], o) for a, o in zip(axes, out, strict=True)), 0)
    for i, a in enumerate(axes):
        extent = x.shape[a]
        same = extent == out[i] and not crop and (extent == 1 or a < len(x.shape) - 2)
        if given is not None:
            _require_scale(e, given, i, extent, out[i], same)
        if not same:
            factor = float(n.const(2, "scales").reshape(-1)[i]) if given in n.graph.constants else None
            scale = None if given is None or factor is not None else _scalar(n, given, i)
            start, end = (_scalar(n, n.input(1), i + k * len(axes)) if crop else None for k in (0, 1))
            found.append(Axis(a, extent, out[i], scale, start, end, factor, growth))
    return sorted(found, key=lambda axis: axis.number)


def _apart(one: int, other: int) -> int:
    """How far two extents are apart."""
    return maximum(one, other) - minimum(one, other)


def _require_scale(e: Elements, given: Value, i: int, extent: int, out: int, same: bool) -> None:
    """The extent of the result is what the scale says. An axis that stays the ``same`` has the scale 1."""
    if given in e.node.graph.constants:
        return
    factor = e.raw(given)[i]
    product = ex.apply("floor", ex.apply("mul", factor, ex.convert(e.extent(extent).expr, F32)))
    e.require(Whole(ex.convert(product, I64)).equals(e.extent(out)))
    if same and bound(extent) > 1:
        e.require(Test(ex.apply("eq", factor, ex.num(1, F32))))


def _scalar(n: Import, vector: Value, i: int) -> Value:
    """Element ``i`` of a vector as f32[1, 1]."""
    if vector in n.graph.constants:
        return n.constant(f"number{i}", n.graph.array(vector).reshape(-1)[i : i + 1].astype(np.float32).reshape(1, 1))
    part = n.inner(Slice((i,), (1,), (1,)), [vector], f"part{i}") if vector.shape != (1,) else vector
    part = n.reshape(part, (1, 1), f"number{i}")
    return part if part.dtype == F32 else n.map(ex.convert(ex.var(0, part.dtype), F32), [part], f"f32.{i}")


RUN_TIME = {"Resize": RunTime(import_resize, (1, 2))}
