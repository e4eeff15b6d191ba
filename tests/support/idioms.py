"""What exporters write in several operators: forms that passes recognise, drawn into random graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from mccompile.ir.graph import Value

if TYPE_CHECKING:
    from tests.support.random_graphs import RandomGraph


def _scalar(g: RandomGraph, value: float, like: Value) -> Value:
    return g.constant(np.array(value, dtype=like.dtype.numpy))


def _float(g: RandomGraph, rank: int = 1) -> Value | None:
    """A value of f32 with a last axis of several elements."""
    return g.pick(lambda v: v.dtype.name == "f32" and len(v.shape) >= rank and v.shape[-1] > 1)


def layer_norm(g: RandomGraph) -> list[Value]:
    """(x - mean) / sqrt(variance + epsilon), in one of its forms; with E[x^2] the sums are no means of squares."""
    x = _float(g)
    if x is None:
        return []
    keep, axis = g.d.int(0, 1), g.ints(len(x.shape) - 1)
    (m,) = g.apply("ReduceMean", [x, axis], keepdims=1)
    (d,) = g.apply("Sub", [x, m])
    (q,) = g.apply("Mul", [d, d])
    (v,) = g.apply("ReduceMean", [q, axis], keepdims=keep)
    if not keep:
        (v,) = g.apply("Reshape", [v, g.ints(*m.shape)])
    (e,) = g.apply("Add", [v, _scalar(g, 1e-2, x)])
    (s,) = g.apply("Sqrt", [e])
    if g.d.bool():
        return g.apply("Div", [d, s])
    (i,) = g.apply("Reciprocal", [s])
    if g.d.bool():
        (i,) = g.apply("Mul", [i, g.constant(g.d.array(x.shape[-1:], "f32"))])
    return [*g.apply("Mul", [d, i]), *([m] if g.d.int(0, 3) == 0 else [])]


def group_norm(g: RandomGraph) -> list[Value]:
    """Channels made groups, normalised, made channels again, scaled."""
    x = g.pick(lambda v: v.dtype.name == "f32" and len(v.shape) > 2 and v.shape[1] % 2 == 0 and v.shape[-1] > 1)
    if x is None:
        return []
    (r,) = g.apply("Reshape", [x, g.ints(x.shape[0], 2, -1)])
    (m,) = g.apply("ReduceMean", [r, g.ints(2)], keepdims=1)
    (d,) = g.apply("Sub", [r, m])
    (q,) = g.apply("Mul", [d, d])
    (v,) = g.apply("ReduceMean", [q, g.ints(2)], keepdims=1)
    (e,) = g.apply("Add", [v, _scalar(g, 1e-2, x)])
    (s,) = g.apply("Sqrt", [e])
    (n,) = g.apply("Div", [d, s])
    (y,) = g.apply("Reshape", [n, g.ints(*x.shape)])
    column = (x.shape[1],) + (1,) * (len(x.shape) - 2)
    return g.apply("Mul", [y, g.constant(g.d.array(column, "f32"))])


def unit_norm(g: RandomGraph) -> list[Value]:
    """x / max(norm, epsilon), or by the inverse root of the largest square sum."""
    x = _float(g)
    if x is None:
        return []
    (q,) = g.apply("Mul", [x, x])
    (t,) = g.apply("ReduceSum", [q, g.ints(len(x.shape) - 1)], keepdims=1)
    if g.d.bool():
        (f,) = g.apply("Max", [t, _scalar(g, g.d.choice([1e-2, 5.0]), x)])
        (r,) = g.apply("Sqrt", [f])
        (i,) = g.apply("Reciprocal", [r])
        return g.apply("Mul", [i, x])
    (r,) = g.apply("Sqrt", [t])
    (f,) = g.apply("Clip", [r, _scalar(g, g.d.choice([1e-2, 3.0]), x)])
    return g.apply("Div", [x, f])


def softmax(g: RandomGraph) -> list[Value]:
    """exp(x - max) / sum of it, or the logarithm."""
    x = _float(g)
    if x is None:
        return []
    axis = g.ints(g.d.int(0, len(x.shape) - 1))
    (m,) = g.apply("ReduceMax", [x, axis], keepdims=1)
    (d,) = g.apply("Sub", [x, m])
    (e,) = g.apply("Exp", [d])
    (s,) = g.apply("ReduceSum", [e, axis], keepdims=1)
    if g.d.bool():
        return g.apply("Div", [e, s])
    (t,) = g.apply("Log", [s])
    return g.apply("Sub", [d, t])


def gates(g: RandomGraph) -> list[Value]:
    """GELU by tanh, SiLU by exponentials, or HardSwish by Clip."""
    x = _float(g)
    if x is None:
        return []
    if g.d.int(0, 3) == 0:
        (a,) = g.apply("Add", [x, _scalar(g, 3, x)])
        (c,) = g.apply("Clip", [a, _scalar(g, 0, x), _scalar(g, 6, x)])
        (p,) = g.apply("Mul", [x, c])
        return g.apply("Div", [p, _scalar(g, 6, x)])
    if g.d.bool():
        (n,) = g.apply("Neg", [x])
        (e,) = g.apply("Exp", [n])
        (s,) = g.apply("Add", [e, _scalar(g, 1, x)])
        return g.apply("Div", [x, s])
    (u,) = g.apply("Mul", [x, _scalar(g, 0.8, x)])
    (t,) = g.apply("Tanh", [u])
    (p,) = g.apply("Add", [t, _scalar(g, 1, x)])
    (h,) = g.apply("Mul", [x, _scalar(g, 0.5, x)])
    return g.apply("Mul", [h, p])


def scaled_before(g: RandomGraph) -> list[Value]:
    """A scale and a shift before a convolution or a product; sometimes through zero padding."""
    x = g.pick(lambda v: v.dtype.name == "f32" and len(v.shape) in (2, 3, 4))
    if x is None:
        return []
    product = len(x.shape) == 2
    c = x.shape[-1] if product else x.shape[1]
    column = (c,) if product else (c,) + (1,) * (len(x.shape) - 2)
    (y,) = g.apply("Mul", [x, g.constant(g.d.array(column, "f32", 0.3, 1.5))])
    if g.d.bool():
        (y,) = g.apply("Add", [y, g.constant(g.d.array(column, "f32"))])
    if product:
        return g.apply("MatMul", [y, g.make_weights((c, 3), "f32", c)])
    pad = g.d.int(0, 1)
    kernel = (2 * pad + 1,) * (len(x.shape) - 2)
    w = g.make_weights((3, c, *kernel), "f32", 3 * c)
    return g.apply("Conv", [y, w], pads=(pad,) * 2 * len(kernel))


def two_products(g: RandomGraph) -> list[Value]:
    """A convolution or a product, and after it one that narrows."""
    x = g.pick(lambda v: v.dtype.name == "f32" and len(v.shape) in (2, 3))
    if x is None:
        return []
    if len(x.shape) == 2:
        (y,) = g.apply("MatMul", [x, g.make_weights((x.shape[1], 5), "f32", x.shape[1])])
        return g.apply("MatMul", [y, g.make_weights((5, 1), "f32", 5)])
    first = g.make_weights((5, x.shape[1], g.d.int(1, 2)), "f32", x.shape[1])
    if x.shape[2] < first.shape[2]:
        return []
    bias = g.constant(g.d.array((5,), "f32")) if g.d.bool() else None
    (y,) = g.apply("Conv", [x, first, bias])
    return g.apply("Conv", [y, g.make_weights((1, 5, 1), "f32", 5)])


def focus(g: RandomGraph) -> list[Value]:
    """Blocks of two by two pixels made channels by slices, and mostly convolved."""
    x = g.pick(lambda v: len(v.shape) == 4 and v.shape[2] % 2 == v.shape[3] % 2 == 0)
    if x is None:
        x = g.pick(lambda v: v.dtype.name == "f32" and v.type.count % 4 == 0)
        if x is None:
            return []
        (x,) = g.apply("Reshape", [x, g.ints(1, 1, x.type.count // 2, 2)])
    if g.d.int(0, 3) == 0:
        return [_unshuffled(g, x)]
    parts = []
    for row, column in g.d.choice([((0, 0), (1, 0), (0, 1), (1, 1)), ((0, 0), (0, 1), (1, 0), (1, 1))]):
        bounds = [g.ints(row, column), g.ints(*x.shape[2:]), g.ints(2, 3), g.ints(2, 2)]
        parts += g.apply("Slice", [x, *bounds])
    (y,) = g.apply("Concat", parts, axis=1)
    if not y.dtype.is_float or g.d.int(0, 2) == 0:
        return [y]
    w = g.make_weights((2, y.shape[1], 1, 3), y.dtype.name, y.shape[1])
    return g.apply("Conv", [y, w], pads=(0, 1, 0, 1))


def _unshuffled(g: RandomGraph, x: Value) -> Value:
    """Blocks of two by two pixels made channels by a transpose, convolved where that is possible."""
    n, c, h, w = x.shape
    (r,) = g.apply("Reshape", [x, g.ints(n, c, h // 2, 2, w // 2, 2)])
    (t,) = g.apply("Transpose", [r], perm=g.d.choice([(0, 1, 3, 5, 2, 4), (0, 3, 5, 1, 2, 4), (0, 1, 5, 3, 2, 4)]))
    (y,) = g.apply("Reshape", [t, g.ints(n, c * 4, h // 2, w // 2)])
    if not y.dtype.is_float:
        return y
    return g.apply("Conv", [y, g.make_weights((2, c * 4, 1, 1), y.dtype.name, c * 4)])[0]


def shuffle(g: RandomGraph) -> list[Value]:
    """Groups of channels exchanged, and cut apart again."""
    x = g.pick(lambda v: len(v.shape) >= 2 and v.type.count % 4 == 0)
    if x is None:
        return []
    (a,) = g.apply("Reshape", [x, g.ints(2, 2, x.type.count // 4)])
    (b,) = g.apply("Transpose", [a], perm=g.d.choice([(1, 0, 2), (2, 1, 0), (1, 2, 0)]))
    (c,) = g.apply("Reshape", [b, g.ints(4, x.type.count // 4)])
    made = [g.apply("Slice", [c, *map(g.ints, (i, i + 2, 0, 1))])[0] for i in (0, 2)]
    return [*made, c] if g.d.int(0, 3) == 0 else made


def joined_and_cut(g: RandomGraph) -> list[Value]:
    """A slice of a concat; a transpose of a concat of rows."""
    x = g.pick(lambda v: len(v.shape) == 2)
    if x is None:
        return []
    (y,) = g.apply("Concat", [x, x], axis=0)
    if g.d.bool():
        first = g.d.int(0, x.shape[0])
        return g.apply("Slice", [y, *map(g.ints, (first, first + x.shape[0], 0, 1))])
    (row,) = g.apply("Reshape", [x, g.ints(1, x.type.count)])
    (rows,) = g.apply("Concat", [row, row], axis=0)
    return g.apply("Transpose", [rows], perm=(1, 0))


def padded_twice(g: RandomGraph) -> list[Value]:
    """A pad of a pad, by zeros or not, or a slice of it."""
    x = g.pick(lambda v: v.dtype.name == "f32" and len(v.shape) == 2)
    if x is None:
        return []
    (y,) = g.apply("Pad", [x, g.ints(1, 0, 0, 1)])
    if g.d.bool():
        return g.apply("Slice", [y, *map(g.ints, (g.d.int(0, 1), 1 + x.shape[0], 0, 1))])
    return g.apply("Pad", [y, g.ints(0, 1, 1, 0), _scalar(g, g.d.choice([0.0, 0.0, 1.0]), x)])


def spread(g: RandomGraph) -> list[Value]:
    """An expanded value that a map reads; a reduction along an axis of one element."""
    x = g.pick(lambda v: 1 <= len(v.shape) <= 3 and v.type.count <= 100)
    if x is None:
        return []
    (one,) = g.apply("Reshape", [x, g.ints(1, *x.shape)])
    if g.d.bool():
        return g.apply("ReduceSum", [one, g.ints(0)], keepdims=g.d.int(0, 1))
    (wide,) = g.apply("Expand", [one, g.ints(2, *x.shape)])
    return g.apply("Add", [wide, g.constant(g.d.array((2, *x.shape), x.dtype.name))])


def turned_product(g: RandomGraph) -> list[Value]:
    """The transpose of a product of two values."""
    x = g.pick(lambda v: len(v.shape) == 2)
    if x is None:
        return []
    (t,) = g.apply("Transpose", [x], perm=(1, 0))
    (y,) = g.apply("MatMul", [t, x])
    return g.apply("Transpose", [y], perm=(1, 0))


def summed(g: RandomGraph) -> list[Value]:
    """The sum of two convolutions of one value, with windows of different sizes."""
    v = g.pick(lambda w: w.dtype.is_float and len(w.shape) in (3, 4))
    if v is None:
        return []
    rank, c = len(v.shape) - 2, v.shape[1]
    made: list[Value] = []
    for window in (1, 3):
        w = g.make_weights((2, c, *(window,) * rank), v.dtype.name, c * window**rank)
        bias = g.constant(g.d.array((2,), v.dtype.name)) if g.d.bool() else None
        made += g.apply("Conv", [v, w, bias], pads=(window // 2,) * (2 * rank))
    return g.apply("Add", made)


def siblings(g: RandomGraph) -> list[Value]:
    """Convolutions of one value, each of a channel, perhaps with a depthwise one behind each; or products."""
    v = g.pick(lambda w: w.dtype.is_float and len(w.shape) in (2, 3, 4) and w.shape[1] > 3)
    if v is None:
        return []
    rank, c, dtype = len(v.shape) - 2, v.shape[1], v.dtype.name
    if rank == 0:
        return [g.apply("MatMul", [v, g.constant(g.d.array((c, 1), dtype, -0.5))])[0] for _ in range(3)]
    made: list[Value] = []
    for _ in range(3):
        w = g.constant(g.d.array((1, c, *(1,) * rank), dtype, -0.5))
        bias = g.constant(g.d.array((1,), dtype)) if g.d.bool() else None
        made += g.apply("Conv", [v, w, bias])
    if g.d.bool():
        kernels = [g.constant(g.d.array((1, 1, *(3,) * rank), dtype, -0.3)) for _ in made]
        pads = (1,) * (2 * rank)
        made = [g.apply("Conv", [m, w], pads=pads)[0] for m, w in zip(made, kernels, strict=True)]
    return [g.apply("Relu", [m])[0] if g.d.bool() else m for m in made]


def unlike_windows(g: RandomGraph) -> list[Value]:
    """Two convolutions of one value, with windows of different sizes and few filters."""
    v = g.pick(lambda w: w.dtype.name == "f32" and w.type.count < 100)
    if v is None:
        return []
    (row,) = g.apply("Reshape", [v, g.ints(1, 1, v.type.count)])
    (x,) = g.apply("Concat", [row] * 12, axis=1)
    made = []
    for window in (1, 3):
        weights = g.constant(g.d.array((1, 12, window), "f32", -0.3, 0.3))
        made += g.apply("Conv", [x, weights], pads=(window // 2,) * 2)
    return g.apply("Sub", made)


def attention(g: RandomGraph) -> list[Value]:
    """Queries, keys and values of one value; with two heads, which are merged with the batch for each product."""
    flat = g.pick(lambda v: v.dtype.name == "f32" and v.type.count in range(4, 300, 2))
    if flat is None:
        return []
    rows = flat.type.count // 2
    (x,) = g.apply("Softsign", g.apply("Reshape", [flat, g.ints(rows, 2)]))
    q, k, v = (g.apply("MatMul", [x, g.make_weights((x.shape[1], 4), "f32", x.shape[1])])[0] for _ in range(3))
    if g.d.int(0, 3):
        (s,) = g.apply("MatMul", [q, *g.apply("Transpose", [k], perm=(1, 0))])
        (p,) = g.apply("Softmax", [s], axis=1)
        return g.apply("MatMul", [p, v])

    def heads(value: Value, *shape: int) -> Value:
        (apart,) = g.apply("Reshape", [value, g.ints(1, *shape)])
        return g.apply("Reshape", [apart, g.ints(*shape)])[0]

    (s,) = g.apply("MatMul", [heads(q, 2, rows, 2), heads(k, 2, 2, rows)])
    (t,) = g.apply("Reshape", [s, g.ints(1, 2, rows, rows)])
    (p,) = g.apply("Softmax", [t], axis=3)
    (y,) = g.apply("MatMul", [*g.apply("Reshape", [p, g.ints(2, rows, rows)]), heads(v, 2, rows, 2)])
    return g.apply("Reshape", [y, g.ints(1, 2, rows, 2)])


def positions(g: RandomGraph) -> list[Value]:
    """Where the largest integers are, joined with constant positions, as indices of a gather or as numbers."""
    x = g.pick(lambda v: v.dtype.name in ("i32", "i64") and len(v.shape) > 0 and v.shape[-1] > 1)
    if x is None:
        return []
    (p,) = g.apply("ArgMax", [x], axis=len(x.shape) - 1, keepdims=1)
    (r,) = g.apply("Reshape", [p, g.ints(p.type.count)])
    (q,) = g.apply("Concat", [r, g.ints(1, 0)], axis=0)
    if g.d.bool():
        return g.apply("Gather", [x, q], axis=len(x.shape) - 1)
    return g.apply("Cast", [q], to=1)


def behind_reshape(g: RandomGraph) -> list[Value]:
    """A product, its columns split in two axes, then what is added there."""
    v = g.pick(lambda w: w.dtype.name == "f32" and len(w.shape) >= 2)
    if v is None:
        return []
    (p,) = g.apply("MatMul", [v, g.make_weights((v.shape[-1], 4), "f32", v.shape[-1])])
    (r,) = g.apply("Reshape", [p, g.ints(*v.shape[:-1], 2, 2)])
    shape = g.d.choice([(2, 2), (1, 1), (2, 1), r.shape])
    return g.apply("Add", [r, g.constant(g.d.array(shape, "f32"))])


def behind_movement(g: RandomGraph) -> list[Value]:
    """A product, moved, then a function and a constant per column of it."""
    v = g.pick(lambda w: w.dtype.name == "f32" and len(w.shape) == 2)
    if v is None:
        return []
    (p,) = g.apply("MatMul", [v, g.make_weights((v.shape[1], 4), "f32", v.shape[1])])
    match g.d.int(0, 2):
        case 0:
            (q,) = g.apply("Transpose", [p], perm=(1, 0))
        case 1:
            (q,) = g.apply("Concat", [p, v] if g.d.bool() else [v, p, v], axis=1)
        case _:
            (q,) = g.apply("Pad", [p, g.ints(1, 0, 0, 2), _scalar(g, g.d.choice([0.0, 1.5]), p)])
    shape = g.d.choice([q.shape[-1:], (q.shape[0], 1), q.shape, (1, 1)])
    (y,) = g.apply("Tanh", [q]) if g.d.bool() else g.apply("Add", [q, g.constant(g.d.array(shape, "f32"))])
    (z,) = g.apply("Transpose", [y], perm=(1, 0))
    return g.apply("Relu", [z])


def dense_block(g: RandomGraph) -> list[Value]:
    """Joins of all that was made before, each with one part more."""
    x = g.pick(lambda v: v.dtype.name == "f32" and len(v.shape) == 2 and v.type.count <= 100)
    if x is None:
        return []
    parts = [x, *g.apply("Relu", [x])]
    for _ in range(2):
        (joined,) = g.apply("Concat", parts, axis=1)
        w = g.make_weights((joined.shape[1], 2), "f32", joined.shape[1])
        parts += g.apply("MatMul", [joined, w])
    return g.apply("Concat", parts, axis=1)


def volume(g: RandomGraph) -> list[Value]:
    """A convolution or a pool over three axes."""
    x = g.pick(lambda v: v.dtype.name == "f32" and v.type.count % 4 == 0 and v.type.count <= 200)
    if x is None:
        return []
    (v,) = g.apply("Reshape", [x, g.ints(1, 2, 2, x.type.count // 4, 1)])
    pads = (g.d.int(0, 1), 0, 0, g.d.int(0, 1), 0, 0)
    if g.d.bool():
        return g.apply("MaxPool", [v], kernel_shape=(2, 1, 1), pads=pads)
    w = g.make_weights((2, 2, 2, 1, 1), "f32", 4)
    return g.apply("Relu", g.apply("Conv", [v, w], pads=pads))


IDIOMS: tuple[Callable[[RandomGraph], list[Value]], ...] = (
    layer_norm, layer_norm, softmax, softmax, gates, scaled_before, scaled_before, two_products, two_products,
    focus, focus, shuffle, joined_and_cut, padded_twice, spread, turned_product, siblings, siblings, summed, summed,
    behind_reshape, behind_reshape, behind_movement, behind_movement,
    behind_movement, group_norm, unit_norm, focus, unlike_windows, unlike_windows,
    positions, positions, *(attention,) * 5, *(dense_block, volume) * 3,
)  # fmt: skip
