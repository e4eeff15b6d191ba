"""Resampling along axes by tables of indices and weights made at compile time (ONNX operator Resize)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.affine import Move, combine, loop
from mccompile.ir.dims import Dim, exact, may_be_none, ranges, span, varies
from mccompile.ir.graph import Value
from mccompile.ir.op import Kind, Layouts, Op, TypeRuleError, has_axes
from mccompile.ir.ranges import Range, hull, of_number, zero_or_free
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Nest, Structure, axis_loops
from mccompile.ir.types import F32, TensorType
from mccompile.ops.extents import holds
from mccompile.ops.folding import Arrays, Attributes, Folding, present
from mccompile.ops.frontend import Import
from mccompile.ops.movement import Movement
from mccompile.ops.registry import onnx_op
from mccompile.ops.resize_nodes import Axis, Table, may_stay
from mccompile.ops.resize_tables import CROP, MODES, NEAREST_MODES, AxisTable, Sampling, axis_table, table_bytes
from mccompile.ops.sampling import Case, Draw
from mccompile.ops.slice import Slice


@dataclass(frozen=True)
class Resize(Op):
    """Result = sum over taps of weight * operand, separately along each of ``axes``.

    Operands: x; then per axis indices i32[extent, taps]; then, if ``weighted``, per axis weights[extent, taps]
    of the compute type. If ``partial``, an element with a negative first index along any axis is ``outside``.
    """

    name = "resize"
    kind = Kind.COMPLEX
    layouts = Layouts.ALIKE
    wants_channels_last = True

    axes: tuple[int, ...]
    weighted: bool = False
    partial: bool = False
    outside: float = 0.0

    @property
    def trusted(self) -> tuple[int, ...]:
        return tuple(range(1, 1 + len(self.axes)))

    @property
    def multilinear(self) -> tuple[int, ...]:
        return () if self.partial and self.outside else (0,)

    @property
    def selects(self) -> bool:
        return not self.weighted and not self.partial

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        """Loops: the result's; then the taps of each axis."""
        tables = types[1:]
        (y,) = self.infer(*types)
        count = len(self.axes)
        loops = (*y.shape, *(0 if t is None else t.shape[1] for t in tables[:count]))
        n = len(loops)
        own = axis_loops(y.rank, n)
        read = tuple(None if a in self.axes else at for a, at in enumerate(own))
        rows = [(own[self.axes[i % count]], loop(y.rank + i % count, n)) for i in range(len(tables))]
        return (Nest(loops, own, (read, *rows)),)

    def value_range(self, types: Sequence[TensorType | None], ranges: Sequence[Range | None]) -> tuple[Range, ...]:
        x = ranges[0]
        assert x is not None
        found = zero_or_free(x) if self.weighted else x
        return (hull([found, of_number(self.outside, self.infer(*types)[0].dtype)]) if self.partial else found,)

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        x, *tables = types
        assert x is not None
        shape = list(x.shape)
        n = len(self.axes)
        if not has_axes(x, self.axes):
            raise TypeRuleError(f"{x} cannot be resized along axes {list(self.axes)}")
        if len(tables) != n * (2 if self.weighted else 1):
            raise TypeRuleError(f"{n} axes need as many tables, not {len(tables)}")
        for i, table in enumerate(tables):
            assert table is not None
            dtype = "i32" if i < n else x.dtype.compute.name
            if table.dtype.name != dtype or table.rank != 2:
                raise TypeRuleError(f"{table} is no table of {dtype}")
            if may_be_none([x.shape[self.axes[i % n]]]) and not may_be_none([table.shape[0]]):
                raise TypeRuleError(f"{x} may have no element to be sampled")
            shape[self.axes[i % n]] = table.shape[0]
        return (TensorType(x.dtype, tuple(shape)),)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        x, *tables = (np.asarray(a) for a in arrays)
        n = len(self.axes)
        y = x.astype(np.promote_types(x.dtype, np.float32)) if self.weighted else x
        missing = np.zeros((1,) * x.ndim, dtype=bool)
        for i, axis in enumerate(self.axes):
            index = tables[i]
            spread = [-1 if a == axis else 1 for a in range(x.ndim)]
            missing = missing | (index[:, 0] < 0).reshape(spread)
            taps = [y.take(np.maximum(index[:, t], 0), axis) for t in range(index.shape[1])]
            if self.weighted:
                weights = tables[n + i].astype(y.dtype)
                taps = [taps[t] * weights[:, t].reshape(spread) for t in range(len(taps))]
            y = np.add.reduce(taps) if len(taps) > 1 else taps[0]
        return (np.where(missing, np.asarray(self.outside, dtype=y.dtype), y).astype(x.dtype),)


@dataclass(frozen=True)
class Repeat(Movement):
    """Each element ``counts[axis]`` times in a row along each axis: nearest upsampling by whole factors."""

    name = "repeat"
    layouts = Layouts.ALIKE

    counts: tuple[int, ...]

    @property
    def times(self) -> tuple[int, ...]:
        return self.counts

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = types
        assert x is not None
        if len(self.counts) != x.rank or min(self.counts, default=1) < 1:
            raise TypeRuleError(f"counts {list(self.counts)} do not fit {x}")
        return (TensorType(x.dtype, tuple(e * c for e, c in zip(x.shape, self.counts, strict=True))),)

    def moves(self, types: tuple[TensorType, ...], results: tuple[TensorType, ...]) -> tuple[Move, ...]:
        shape = types[0].shape
        loops = tuple(e for pair in zip(shape, self.counts, strict=True) for e in pair)
        rank = len(loops)
        src = tuple(loop(2 * a, rank) for a in range(len(shape)))
        dst = tuple(combine(rank, {2 * a: c, 2 * a + 1: 1}) for a, c in enumerate(self.counts))
        return (Move(0, 0, loops, src, dst),)


def _sample(d: Draw) -> Case:
    mode = d.choice(["nearest", "nearest", "linear", "cubic"])
    transform = d.choice([*MODES, CROP])
    attrs: dict[str, object] = {"mode": mode, "coordinate_transformation_mode": transform}
    if mode == "nearest":
        attrs["nearest_mode"] = d.choice(NEAREST_MODES)
    spatial = 3 if mode != "cubic" and d.int(0, 3) == 0 else 2
    dtype = "i32" if mode == "nearest" and d.bool() else "f32"
    x = d.array((d.int(1, 2), d.int(1, 3), *d.shape(spatial, 1, 7)), dtype)
    if mode == "cubic":
        attrs |= {"cubic_coeff_a": d.choice([-0.75, -0.5]), "exclude_outside": d.int(0, 1)}
    if mode != "nearest" and spatial == 2 and transform != CROP:
        attrs["antialias"] = d.int(0, 1)
    axes = tuple(range(2, x.ndim)) if transform == CROP or d.bool() else ()
    kept = [a < 2 for a in range(2 if axes else 0, x.ndim)]
    roi, scales, sizes = None, None, None
    if transform == CROP:
        starts = [d.choice([0.0, 0.25, -0.125]) for _ in kept]
        roi = np.array([*starts, *(d.choice([1.0, 0.75, 1.25]) for _ in kept)], dtype=np.float32)
        attrs["extrapolation_value"] = d.choice([0.0, 10.0])
    if axes:
        attrs["axes"] = axes
    given = x.shape[2:] if axes else x.shape
    if d.bool():
        factors = [d.choice([2.0, 3.0, 1.3, 2.5] if e == 1 else [2.0, 3.0, 0.5, 1.3, 0.7, 2.5]) for e in given]
        scales = np.array([1.0 if k else f for f, k in zip(factors, kept, strict=True)], dtype=np.float32)
    else:
        grown = [d.choice([1, 2, 5, e] if e == 1 else [-1, 1, 2, 5, e]) for e in given]
        same = d.int(0, 7) == 0
        more = [0 if k or same else g for g, k in zip(grown, kept, strict=True)]
        sizes = np.array(given) + np.array(more)
        if axes and transform != CROP and 1 not in given:
            attrs["keep_aspect_ratio_policy"] = d.choice(["stretch", "not_larger", "not_smaller"])
    # onnxruntime has the weights of antialias from a chain of f32 operations, we from f64.
    tolerance = 2e-5 if attrs.get("antialias") else None
    return Case([x, roi, scales, sizes], attrs, frozenset({1, 2, 3}), tolerance=tolerance)


def _resized_bytes(attrs: Attributes, arrays: Arrays) -> int:
    x = present(arrays)[0]
    scales, sizes = (arrays[i] if i < len(arrays) else None for i in (2, 3))
    shape: list[float] = list(x.shape)
    given = attrs.get("axes")
    axes = [a for a in given if isinstance(a, int)] if isinstance(given, tuple) else list(range(len(shape)))
    if any(not -len(shape) <= axis < len(shape) for axis in axes):
        return 8 * x.size
    if sizes is not None and sizes.size:
        for axis, size in zip(axes, sizes.reshape(-1).tolist(), strict=False):
            shape[axis] = max(size, 1)
    elif scales is not None:
        for axis, scale in zip(axes, scales.reshape(-1).tolist(), strict=False):
            shape[axis] *= max(scale, 0) if math.isfinite(scale) else 1e30
    return int(min(8 * math.prod(shape), 1e30))


@onnx_op("Resize", sample=_sample, tolerance={"f32": 3e-6, "f16": 2e-3}, folding=Folding(_resized_bytes, sized=True))
def import_resize(n: Import) -> None:
    x, outside = n.input(0), extrapolated(n)
    tables, changing = _tables(n)
    weighted = n.attr("mode", "nearest") != "nearest"
    x, tables = _as_movement(n, x, tables, not weighted)
    if not weighted:
        x, changing = _as_repeats(n, x, changing)
    axes = tuple(sorted((*tables, *changing)))
    if not axes:
        n.bind(0, x)
        return
    whole = weighted and not x.dtype.is_float
    compute = F32 if whole else x.dtype.compute
    indices, weights = [], list[Value]()
    for a in axes:
        if a in tables:
            indices.append(n.constant("index", tables[a].index))
            weights.append(n.constant("weight", tables[a].weight.astype(compute.numpy)))
        else:
            c = changing[a]
            index, weight = Table(n, Axis(a, c.extent, c.out, factor=c.scale, growth=c.growth), c.sampling).made()
            indices.append(index)
            if weight is not None:
                wide = ex.convert(ex.var(0, F32), compute)
                weights.append(weight if compute == F32 else n.map(wide, [weight], f"axis{a}.wide"))
    operands = [x, *indices, *(weights if weighted else ())]
    partial = any((t.index < 0).any() for t in tables.values())
    partial = partial or any(c.sampling.transform == CROP for c in changing.values())
    op = Resize(axes, weighted, partial, outside if partial else 0.0)
    bodies = ex.convert(ex.acc(x.dtype), F32), ex.convert(ex.acc(F32), x.dtype)
    n.emit(op, operands, pre={0: bodies[0]} if whole else {}, post={0: bodies[1]} if whole else {})


def extrapolated(n: Import) -> float:
    """What an element outside of the region is, if there is one; of integers the whole part."""
    value, dtype = n.attr("extrapolation_value", 0.0), n.input(0).dtype
    if dtype.is_float or n.attr("coordinate_transformation_mode", "half_pixel") != CROP:
        return value
    if not math.isfinite(value) or not holds(dtype, int(value)):
        raise n.error(f"extrapolation_value {value} is no number of {dtype}")
    return float(int(value))


@dataclass(frozen=True)
class _Changing:
    """An axis that changes from an extent to another, one of which is known at run time only, or that stays as it is
    where the run finds ``growth`` to be 0. ``scale`` None: their quotient."""

    sampling: Sampling
    extent: int
    out: int
    scale: float | None
    growth: int

    def factor(self) -> int:
        """How often each element is repeated, for any extent; 0 where it is no such thing."""
        if self.scale is None or self.scale != int(self.scale) or self.out != self.extent * int(self.scale):
            return 0
        count, (low, high) = int(self.scale), span(self.extent)
        for extent in range(low, high + 1) if high - low < _MOST_TRIED else (low, high):
            index = axis_table(self.sampling, extent, extent * count, self.scale).index[:, 0]
            if not np.array_equal(index, np.arange(extent * count) // count):
                return 0
        return count


_MOST_TRIED = 256
"""Of longer ranges of extents the ends are looked at: the coordinates do not depend on what lies behind them."""


def _as_repeats(n: Import, x: Value, changing: dict[int, _Changing]) -> tuple[Value, dict[int, _Changing]]:
    """As `_as_movement` for axes that are known at run time only."""
    counts, left = [1] * len(x.shape), dict(changing)
    for a, c in changing.items():
        if factor := c.factor():
            counts[a] = factor
            del left[a]
    return (n.inner(Repeat(tuple(counts)), [x], "repeats") if len(left) < len(changing) else x), left


def _tables(n: Import) -> tuple[dict[int, AxisTable], dict[int, _Changing]]:
    """The tables of the axes that change; and those axes whose tables are known at run time only."""
    x = n.input(0)
    rank = len(x.shape)
    mode, transform = n.attr("mode", "nearest"), n.attr("coordinate_transformation_mode", "half_pixel")
    if mode not in ("nearest", "linear", "cubic") or transform not in (*MODES, CROP):
        raise n.error(f"Resize with mode {mode!r} and coordinates {transform!r} is not supported")
    nearest = n.attr("nearest_mode", "round_prefer_floor")
    if nearest not in NEAREST_MODES:
        raise n.error(f"nearest_mode {nearest!r} is unknown")
    axes = n.axes(n.attr("axes", tuple(range(rank))), rank)
    scales, extents = _targets(n, axes)
    roi = [0.0] * len(axes) + [1.0] * len(axes)
    if transform == CROP:
        roi = [float(v) for v in n.const(1, "roi").reshape(-1)]
        if len(roi) != 2 * len(axes):
            raise n.error(f"roi of {len(roi)} numbers does not fit {len(axes)} axes")
    cubic, exclude, antialias = n.attr("cubic_coeff_a", -0.75), n.flag("exclude_outside"), n.flag("antialias")
    if extents == [x.shape[a] for a in axes] and transform != CROP:
        return {}, {}  # onnxruntime copies, even where a scale of 1.1 would resample to the same extent
    growth = 1 if transform == CROP else _growth(x.shape, axes, extents, scales)
    found, changing = dict[int, AxisTable](), dict[int, _Changing]()
    for i, a in enumerate(axes):
        sampling = Sampling(mode, transform, nearest, cubic, exclude, antialias, roi[i], roi[len(axes) + i])
        if varies((x.shape[a], extents[i])):
            if may_be_none([x.shape[a]]) and (scales[i] is None or span(extents[i])[0]):
                where = f"where {ranges(x.shape[a])}: begin the range higher"
                raise n.error(f"axis {a} of {x.type} may have no element to be sampled, {where}")
            if x.shape[a] != extents[i] or scales[i] != 1 or transform == CROP:
                # `axis_table` leaves an axis that keeps its extent as it is by itself where filters are widened.
                alone = antialias and mode != "nearest" and (scales[i] or 0) > 1
                grown = extents[i] - x.shape[a] if alone else growth
                changing[a] = _Changing(sampling, x.shape[a], extents[i], scales[i], grown)
            continue
        scale = scales[i]
        assert scale is not None
        n.require_foldable(table_bytes(sampling, extents[i], scale), f"axis{a}")
        table = axis_table(sampling, x.shape[a], extents[i], scale)
        if not table.is_identity(x.shape[a]):
            if may_stay(growth):
                changing[a] = _Changing(sampling, x.shape[a], extents[i], scale, growth)
            else:
                found[a] = table
    return found, changing


def _growth(shape: Sequence[int], axes: Sequence[int], extents: Sequence[int], scales: Sequence[float | None]) -> int:
    """How many elements more the axes have in all: where that is 0, the result is a copy, as where all is known. 1
    where some axis shrinks, or by extents that are equal every coordinate is its own.

    n elements by 1.25 grow by n // 4, which is none where n is less than 4.
    """
    if any(s is None or s < 1 for s in scales):
        return 1
    return sum((e - shape[a] for a, e in zip(axes, extents, strict=True)), 0)


def scaled(n: Import, extent: int, factor: np.float32) -> int:
    """The extent that a scale makes of one: a fraction of powers of two of one that is known at run time only."""
    if not isinstance(extent, Dim):
        return int(np.floor(factor * np.float32(extent)))
    above, below = float(factor).as_integer_ratio()
    if below > _LARGEST_PART:
        raise n.error(f"a scale of {factor} of an extent that is known at run time only is not supported",
                      "give each dim that it depends on one number: --dim NAME=N")  # fmt: skip
    return extent * above // below


_LARGEST_PART = 64
"""Scales are multiples of this part of 1, where products with extents are exact."""


def _quotient(size: int, extent: int) -> float | None:
    """The scale of an axis; None where it is known at run time only."""
    if not varies((size, extent)):
        return float(np.float32(size) / np.float32(extent))
    if size == extent:
        return 1.0
    for above, below in ((size, extent), (extent, size)):
        whole = exact(above, below)
        if whole is not None and not isinstance(whole, Dim):
            return float(np.float32(whole) if above is size else np.float32(1) / np.float32(whole))
    return None


def _targets(n: Import, axes: tuple[int, ...]) -> tuple[list[float | None], list[int]]:
    """Scale (f32; None: the quotient of extents that are known at run time only) and result extent per axis of
    ``axes``, from whichever of scales and sizes is given."""
    x = n.input(0)
    given, policy = [x.shape[a] for a in axes], n.attr("keep_aspect_ratio_policy", "stretch")
    if policy not in ("stretch", "not_larger", "not_smaller"):
        raise n.error(f"keep_aspect_ratio_policy {policy!r} is unknown")
    if n.optional(2) is not None and n.input(2).type.count:
        factors = n.const(2, "scales").reshape(-1).astype(np.float32)
        if len(factors) != len(axes) or (factors <= 0).any():
            raise n.error(f"scales {factors.tolist()} must be {len(axes)} positive numbers")
        extents = [scaled(n, e, f) for f, e in zip(factors, given, strict=True)]
    else:
        sizes = n.ints(3, "sizes")
        if len(sizes) != len(axes):
            raise n.error(f"sizes {list(sizes)} must be {len(axes)} numbers")
        extents = list(sizes)
        if varies((*sizes, *given)):
            if policy != "stretch":
                raise n.error(f"keep_aspect_ratio_policy {policy!r} is not supported where extents are known at run "
                              "time only", "give each dim that it depends on one number: --dim NAME=N")  # fmt: skip
            return [_quotient(s, e) for s, e in zip(sizes, given, strict=True)], extents
        after, before = np.array(sizes, np.float32), np.array(given, np.float32)
        if ((after != 0) & (before == 0)).any():
            raise n.error(f"extents {given} cannot be stretched to {list(sizes)}: nothing lies along one of them")
        factors = np.divide(after, before, out=np.ones_like(before), where=before != 0)
        if policy != "stretch":
            common = factors.min() if policy == "not_larger" else factors.max()
            factors = np.full_like(factors, common)
            extents = [math.floor(float(np.float32(common * np.float32(e))) + 0.5) for e in given]
    if any(span(e)[0] < 1 <= span(before)[0] for e, before in zip(extents, given, strict=True)):
        raise n.error(f"Resize to extents {extents} leaves no elements")
    return [float(f) for f in factors], extents


def _as_movement(
    n: Import, x: Value, tables: dict[int, AxisTable], nearest: bool
) -> tuple[Value, dict[int, AxisTable]]:
    """The value after the axes that need data movement only, and the tables of the others.

    A single element is repeated in every mode; nearest by whole factors is a slice or a repeat.
    """
    rank, left = len(x.shape), dict(tables)
    starts, steps, extents = [0] * rank, [1] * rank, list(x.shape)
    counts = [1] * rank
    for a, table in tables.items():  # of axes that are known
        index = table.index[:, 0]
        count = len(index) // x.shape[a]
        if x.shape[a] == 1 and index.min() >= 0:
            counts[a] = len(index)
        elif not nearest:
            continue
        elif (step := _even_step(index)) is not None:
            starts[a], steps[a], extents[a] = int(index[0]), step, len(index)
        elif count and np.array_equal(index, np.arange(len(index)) // count) and len(index) % x.shape[a] == 0:
            counts[a] = count
        else:
            continue
        del left[a]
    if tuple(extents) != x.shape:
        x = n.inner(Slice(tuple(starts), tuple(steps), tuple(extents)), [x], "steps")
    if any(c > 1 for c in counts):
        x = n.inner(Repeat(tuple(counts)), [x], "repeat")
    return x, left


def _even_step(index: Array) -> int | None:
    """The step between indices that are all valid and evenly apart by at least 1."""
    if index.min() < 0:
        return None
    steps = set(np.diff(index).tolist()) or {1}
    return int(steps.pop()) if len(steps) == 1 and min(steps) > 0 else None
