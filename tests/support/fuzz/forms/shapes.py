"""Shapes computed of shapes, slices, joins, what runs along an axis: where extents of the run have to be followed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.support.compose import operands as on
from tests.support.compose.network import dtype_number
from tests.support.fuzz.family import MAIN, FamilyComposer

REDUCTIONS = (
    "ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceProd", "ReduceSumSquare",
    "ReduceLogSumExp",
)  # fmt: skip


def _joined(c: FamilyComposer, *parts: str) -> str:
    return c.one("Concat", *parts, axis=0)


def _merged_by_shape(c: FamilyComposer, v: str, shape: str, axis: int) -> list[str]:
    """Two extents multiplied, as exporters fold a batch and heads together."""
    rank = c.array(v).ndim
    one, other = (c.one("Gather", shape, c.index(i % rank), axis=0) for i in (axis, axis + 1))
    both = c.one("Unsqueeze", c.one("Mul", one, other), c.ints(0))
    return c.apply("Reshape", [v, _joined(c, *([both, c.ints(-1)] if c.d.bool() else [c.ints(-1), both]))])


def reshaped(c: FamilyComposer) -> list[str]:
    """Reshape by a computed shape, Flatten, Squeeze, Tile."""
    v = c.some(rank=2)
    shape, rank, axis, way = c.one("Shape", v), c.array(v).ndim, c.axis(v), c.d.int(0, 8)
    if way == 0:
        return c.apply("Reshape", [v, c.ints(*[0] * axis, -1)])
    if way == 1:
        return c.apply("Flatten", [v], axis=c.d.int(-rank, rank))
    if way == 2:
        first = c.one("Slice", shape, c.ints(0), c.ints(axis), c.ints(0))
        return c.apply("Reshape", [v, _joined(c, first, c.ints(-1))])
    if way == 3:
        return _merged_by_shape(c, v, shape, axis)
    if way == 4:
        return c.apply("Squeeze", [c.one("Unsqueeze", v, c.ints(axis)), c.ints(axis)])
    if way == 5:
        turned = c.one("Transpose", v, perm=c.d.permutation(rank))
        flat = c.one("Reshape", turned, c.ints(-1))
        return [c.one("Reshape", flat, c.one("Shape", turned)), flat]
    if way == 7:
        backwards = c.one("Slice", shape, c.ints(-1), c.ints(-on.END), "", c.ints(-1))
        return c.apply("Reshape", [v, backwards])
    if way == 6:
        return c.apply("Reshape", [on.mapped(c, c.one("Reshape", v, c.ints(-1))), shape])
    return c.apply("Tile", [v, c.ints(*(c.d.choice([1, 1, 2]) for _ in range(rank)))])


def _extent(c: FamilyComposer, v: str, axis: int) -> str:
    """An extent as a number."""
    return c.one("Squeeze", c.one("Gather", c.one("Shape", v), c.ints(axis), axis=0), c.ints(0))


def expanded(c: FamilyComposer) -> list[str]:
    """Expand, ConstantOfShape, Range, a causal mask, Pad, Trilu."""
    v = c.some(rank=2)
    dtype, rank, axis, way = c.array(v).dtype, c.array(v).ndim, c.axis(v), c.d.int(0, 5)
    if way == 0:
        number = on._tensor(np.array([c.d.choice([0, 1.5])], dtype))
        return c.apply("Add", [v, c.one("ConstantOfShape", c.one("Shape", v), value=number)])
    if way == 1:
        return c.apply("Expand", [c.one("ReduceSum", v, c.ints(axis), keepdims=1), c.one("Shape", v)])
    if way == 2 and c.chance(30):  # as arange was written before Range
        ones = on._tensor(np.ones(1, np.int64))
        same = c.one("ConstantOfShape", c.one("Slice", c.one("Shape", v), c.ints(rank - 1), c.ints(rank)), value=ones)
        places = c.one("Squeeze", c.one("NonZero", same), c.ints(0))
        return [places, c.one("Add", c.one("Cast", v, to=dtype_number("float32")), c.one("Cast", places, to=1))]
    if way == 2 and c.chance(25):
        return _multiples(c, _extent(c, v, axis))
    if way == 2:
        row = c.one("Range", c.index(0), _extent(c, v, axis), c.index(c.d.choice([1, 1, 2])))
        return [row, c.one("Cast", row, to=dtype_number("float32"))]
    if way == 3:
        row = c.one("Range", c.index(0), _extent(c, v, rank - 1), c.index(1))
        sides = (c.one("Unsqueeze", row, c.ints(0)), c.one("Unsqueeze", row, c.ints(1)))
        mask = c.one(c.d.choice(["Less", "GreaterOrEqual"]), *sides)
        return [mask, c.one("Where", mask, c.scalar(0, np.float32), c.scalar(-1e4, np.float32))]
    if way == 4 and c.chance(30):
        return _padded_by_a_count(c, v, axis)
    if way == 4:
        pads = [0] * (2 * rank)
        pads[axis], pads[axis + rank] = c.d.int(-1, 2), c.d.int(-1, 2)
        filled = [c.scalar(c.d.choice([0, -1.5]), dtype)] if c.d.bool() else []
        return c.apply("Pad", [v, c.ints(*pads), *filled], mode=c.d.choice(["constant", "edge", "reflect", "wrap"]))
    return c.apply("Trilu", [v, c.index(c.d.int(-1, 1))], upper=c.d.int(0, 1))


STEPS = (5, 6, 2**31 - 1, 2**31, 2**34 + 7, 3 * 2**33 + 11)
"""Of numbers, within 32 bits and beyond."""


def _multiples(c: FamilyComposer, count: str) -> list[str]:
    """So many multiples of two numbers: their kernels differ in these alone."""
    rows = []
    for _ in range(2):
        step = c.index(c.d.choice(STEPS))
        rows.append(c.one("Range", c.index(0), c.one("Mul", count, step), step))
    return [*rows, c.one("Cast", rows[0], to=dtype_number("float32"))]


def _padded_by_a_count(c: FamilyComposer, v: str, axis: int) -> list[str]:
    """Padded behind by as many elements as another value has that are not 0."""
    rank, found = c.array(v).ndim, c.one("NonZero", c.one("Cast", c.some(), to=dtype_number("bool")))
    count = c.one("Slice", c.one("Shape", found), c.ints(1), c.ints(2))
    parts = [c.ints(*[0] * (rank + axis)), count, *([c.ints(*[0] * (rank - axis - 1))] if axis < rank - 1 else [])]
    return c.apply("Pad", [on.mapped(c, v), c.one("Concat", *parts, axis=0)], mode="constant")


def sliced(c: FamilyComposer) -> list[str]:
    """Slices forwards and backwards with ends outside, joins, splits, Gather."""
    v = c.some("fiub")
    rank, axis, way = c.array(v).ndim, c.axis(v), c.d.int(0, 6)
    if way < 4:
        step, start = c.d.choice([1, 1, 2, -1, -1, -2, 3]), c.d.choice([0, 1, -1, 2, -2, -3, 5, 100, -100])
        forwards, backwards = [on.END, -on.END - 1, -1, 1, 3, 100, -100], [-on.END - 1, -on.END - 1, 0, 1, -100]
        end = c.d.choice(forwards if step > 0 else backwards)
        return c.apply("Slice", [v, c.ints(start), c.ints(end), c.ints(axis - c.d.choice([0, rank])), c.ints(step)])
    if way == 4:
        return c.apply("Concat", [v, on.mapped(c, v), v], axis=axis)
    if way == 5:
        return c.apply("Split", [c.one("Concat", v, v, axis=axis)], outputs=2, axis=axis, num_outputs=2)
    return c.apply("Gather", [v, c.ints(*(c.d.choice([0, -1, 0]) for _ in range(c.d.int(1, 3))))], axis=axis)


def along(c: FamilyComposer) -> list[str]:
    """Normalised, summed, searched or counted along an axis."""
    v = c.some()
    axis, way = c.axis(v), c.d.int(0, 7)
    if way == 0:
        return c.apply(c.d.choice(["Softmax", "LogSoftmax", "Hardmax", "LpNormalization"]), [v], axis=axis)
    if way == 1:
        return c.apply("CumSum", [v, c.index(axis)], reverse=c.d.int(0, 1), exclusive=c.d.int(0, 1))
    if way == 2:
        flags = {name: c.d.int(0, 1) for name in ("keepdims", "select_last_index")}
        return c.apply(c.d.choice(["ArgMax", "ArgMin"]), [v], axis=axis, **flags)
    if way == 3:
        return c.apply("TopK", [v, c.ints(c.d.int(1, 3))], outputs=2, axis=axis, largest=c.d.int(0, 1))
    if way == 4:
        return c.apply("NonZero", [c.one("Cast", v, to=dtype_number("bool")) if c.d.bool() else on.mapped(c, v)])
    axes = c.ints(*sorted({axis, c.axis(v)} if c.d.bool() else {axis}))
    return c.apply(c.d.choice(REDUCTIONS), [v, axes], keepdims=c.d.int(0, 1))


def resized(c: FamilyComposer) -> list[str]:
    """Resize by factors or to an extent that another value has."""
    v = c.fresh(np.asarray(c.d.array((c.d.int(1, 2), c.d.choice([1, 3, 8]), c.d.choice([MAIN, 4]), MAIN), "f32")))
    mode = c.d.choice(["nearest", "linear", "linear", "cubic"])
    attrs: dict[str, object] = {"mode": mode}
    where = ["half_pixel", "asymmetric", "pytorch_half_pixel", "align_corners", "half_pixel_symmetric"]
    attrs["coordinate_transformation_mode"] = c.d.choice(where)
    if mode == "nearest":
        attrs["nearest_mode"] = c.d.choice(["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
    if mode != "nearest" and c.chance(30):
        attrs["antialias"] = 1
    if mode == "cubic" and c.d.bool():
        attrs["cubic_coeff_a"] = -0.5
    way = c.d.int(0, 3)
    if way == 0:
        factors = [1.0, 1.0, c.d.choice([1.0, 2.0, 0.5]), c.d.choice([2.0, 3.0, 0.5, 1.5])]
        return c.apply("Resize", [v, "", c.constant(np.array(factors, np.float32))], **attrs)
    if way == 1:
        sizes = c.ints(c.d.choice([3, 8, 14]), c.d.choice([3, 8, 14]))
        return c.apply("Resize", [v, "", "", sizes], axes=[2, 3], **attrs)
    twice = c.one("Mul", c.one("Shape", v, start=2), c.ints(c.d.choice([1, 2]), c.d.choice([1, 2, 3])))
    if way == 2:
        return c.apply("Resize", [v, "", "", twice], axes=[2, 3], **attrs)
    return c.apply("Resize", [v, "", "", _joined(c, c.one("Shape", v, end=2), twice)], **attrs)


def _to_multiples(c: FamilyComposer, v: str) -> list[str]:
    """Zeros behind some axes up to multiples, as exporters write it: by a remainder twice, or by a quotient."""
    shape, rank = c.one("Shape", v), c.array(v).ndim
    by = [c.d.choice([1, 2, 4, 7, 8]) for _ in range(rank)]
    k = c.ints(*by)
    if c.d.bool():
        more = c.one("Mod", c.one("Sub", k, c.one("Mod", shape, k)), k)
    else:
        whole = c.one("Div", c.one("Add", shape, c.ints(*(e - 1 for e in by))), k)
        more = c.one("Sub", c.one("Mul", whole, k), shape)
    padded = c.one("Pad", v, _joined(c, c.ints(*[0] * rank), more))
    return [padded, c.one("ReduceSum", padded, c.ints(c.axis(v)), keepdims=0)] if c.d.bool() else [padded]


def _halves(c: FamilyComposer, v: str) -> list[str]:
    """Both halves of an axis, mapped, and joined the other way round."""
    axis = c.axis(v)
    extent = c.one("Gather", c.one("Shape", v), c.ints(axis))
    half = c.one("Div", c.one("Add", extent, c.ints(c.d.int(0, 1))), c.ints(2))
    first = c.one("Slice", v, c.ints(0), half, c.ints(axis))
    second = c.one("Slice", v, half, c.ints(on.END), c.ints(axis))
    return [c.one("Concat", on.mapped(c, second), on.mapped(c, first), axis=axis), second]


def _behind(c: FamilyComposer, v: str) -> list[str]:
    """What is behind an extent of another value, by itself or with the front of it."""
    other, axis = c.some("fiub"), c.array(v).ndim - 2
    extent = c.one("Gather", c.one("Shape", other), c.ints(c.axis(other)))
    kept = c.one("Slice", v, extent, c.ints(on.END), c.ints(axis))
    rows = c.one("Concat", kept, v, axis=axis) if c.d.bool() else kept
    perm = [*range(axis), axis + 1, axis]
    return [c.one("MatMul", kept, c.one("Transpose", rows, perm=perm)), rows]


def _up_to(c: FamilyComposer, v: str) -> list[str]:
    """Parts of two values that make a fixed extent together, and a constant along it."""
    axis, whole = c.axis(v), c.d.int(2, 9)
    extent = c.one("Gather", c.one("Shape", v), c.ints(axis))
    shape = list(c.array(v).shape)
    shape[axis] = whole
    fixed = [c.fresh(np.asarray(c.d.array([e if e != MAIN else 3 for e in shape], "f32", -2, 2))) for _ in range(2)]
    first = c.one("Slice", fixed[0], c.ints(0), extent, c.ints(axis))
    second = c.one("Slice", fixed[1], extent, c.ints(on.END), c.ints(axis))
    joined = c.one("Concat", on.mapped(c, first), on.mapped(c, second), axis=axis)
    along_it = [whole if a == axis else 1 for a in range(len(shape))]
    return [c.one(c.d.choice(["Mul", "Add"]), joined, c.constant(np.asarray(c.d.array(along_it, "f32", -2, 2))))]


def stretched(c: FamilyComposer) -> list[str]:
    """Axes padded to multiples, halved, cut off behind another extent, or joined to a fixed one: several at once."""
    return c.d.choice([_to_multiples, _halves, _behind, _up_to])(c, c.some(rank=2))


SHAPES: tuple[Callable[[FamilyComposer], list[str]], ...] = (reshaped, expanded, sliced)
