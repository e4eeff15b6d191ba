"""Which values are whole numbers times a scale: (q - zero) * scale, as DequantizeLinear says it.

Found by what a map computes, not by what it was made of:

    %x = map(%q) {expr={((f32((i32(x0) - i32(3))) * 0.5) / 2)}}      integers %q, zero 3, scale 0.25
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.affine import Affine
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.scalar import Array, uniform
from mccompile.ir.structure import Nest
from mccompile.ir.types import F32, I32, DType, Shape
from mccompile.ops.map import Map
from mccompile.passes.analysis.absorption import absorbs

_WHOLE = 2.0**-20
"""How far from a whole number a zero point may seem to be: it is found by divisions."""


@dataclass(frozen=True)
class Quantised:
    """A value is ``(integers - zero) * scale``, element by element; the arrays broadcast to its shape.

    Attributes:
        integers: of 8 to 32 bits, of the value's own shape; less the zero point they are 32 bits with a sign.
        scale: f32, not 0.
        zero: whole numbers, as i64.
    """

    integers: Value
    scale: Array
    zero: Array


@dataclass(frozen=True)
class _Linear:
    """(x - zero) * scale of the integers x, in f64 but for the scale, which is rounded as the network rounds it."""

    scale: Array
    zero: Array


def quantised(graph: Graph, node: Node | None) -> Quantised | None:
    """What the result of a node is, if that is whole numbers times a scale."""
    if node is None or node.op.elementwise is None or node.pre or node.post or node.result.dtype.name != "f32":
        return None
    operands = [v for v in node.operands if v is not None]
    main = [v for v in operands if v.dtype.kind in "iu" and v.shape == node.result.shape]
    if not main:
        return None
    others = [v for i, v in enumerate(operands) if i != operands.index(main[0])]  # of which it may be one again
    if any(not isinstance(graph.constants.get(v), np.ndarray) for v in others):
        return None
    found = linear(node.op.elementwise, operands.index(main[0]), lambda i: graph.array(operands[i]))
    if found is None:
        return None
    with np.errstate(invalid="ignore"):  # a zero point that is infinite is none
        whole = np.rint(found.zero)
        exact = np.abs(found.zero - whole) <= _WHOLE * (1 + np.abs(whole))
    if not (np.isfinite(found.scale) & (found.scale != 0) & exact).all() or not _fits(main[0].dtype, whole):
        return None
    return Quantised(main[0], found.scale.astype(np.float32), whole.astype(np.int64))


def _fits(dtype: DType, zero: Array) -> bool:
    """Whether integers less a zero point are of 32 bits, whatever they are."""
    most, info = np.iinfo(np.int32), np.iinfo(dtype.numpy.name)
    return bool(info.min - zero.max() >= most.min and info.max - zero.min() <= most.max)


def linear(body: ex.Expr, main: int, constant: Callable[[int], Array]) -> _Linear | None:
    """The scale and the zero of an expression over variable ``main``; None if it is no such expression."""

    def made(e: ex.Expr, of: Callable[[ex.Expr], _Linear | Array | None]) -> _Linear | Array | None:
        match e:
            case ex.Var(index=index) if index == main:
                return _Linear(np.ones((), np.float32), np.zeros(())) if e.dtype.kind in "iu" else None
            case ex.Var(index=index):
                return constant(index)
            case ex.Num():
                return np.asarray(e.value, e.dtype.numpy)
            case ex.Convert(dtype=dtype, operand=operand):
                inner = of(operand)
                if isinstance(inner, np.ndarray | np.generic):
                    return ex.saturating_cast(np.asarray(inner), dtype.numpy)
                whole = operand.dtype.kind in "iu"
                widens = dtype.is_float or (whole and dtype.kind == "i" and dtype.nbytes > operand.dtype.nbytes)
                return inner if widens or dtype == operand.dtype else None
            case ex.Apply(fn=("add" | "sub" | "mul" | "div") as fn, operands=(a, b)):
                left, right = of(a), of(b)
                return None if left is None or right is None else _combined(fn, left, right, e.dtype)
        return None

    with np.errstate(all="ignore"):
        found = ex.OfParts(made)(body)
    return found if isinstance(found, _Linear) else None


def _combined(fn: str, a: _Linear | Array, b: _Linear | Array, dtype: DType) -> _Linear | Array | None:
    if isinstance(a, _Linear) and isinstance(b, _Linear):
        return None
    if not isinstance(a, _Linear) and not isinstance(b, _Linear):
        both = (a, b)
        return ex.evaluate(ex.apply(fn, ex.var(0, dtype), ex.var(1, dtype)), lambda i: both[i])
    if not isinstance(a, _Linear):
        if fn not in ("add", "mul"):
            return None
        a, b = b, a
    assert isinstance(a, _Linear)
    assert not isinstance(b, _Linear)
    if not dtype.is_float and dtype.nbytes < 4:  # may wrap
        return None
    if fn in ("add", "sub"):
        shift = b.astype(np.float64) / a.scale
        if dtype.is_float and absorbs(a.zero, shift):
            return None
        return _Linear(a.scale, a.zero - shift if fn == "add" else a.zero + shift)
    if not dtype.is_float:
        return None
    return _Linear((a.scale * b if fn == "mul" else a.scale / b).astype(np.float32), a.zero)


def dequantised(
    graph: Graph, integers: Value, scale: Array | Value, zero: Array | Value, name: str
) -> tuple[Map, list[Value]]:
    """The map that makes floats of integers, and what it reads beside them. Scales of f32 and zero points of i32 may
    be computed."""
    others: list[Value] = []

    def operand(found: Array | Value, dtype: DType, suffix: str) -> ex.Expr:
        if not isinstance(found, Value):
            if uniform(found):
                return ex.num(found.reshape(-1)[0], dtype)
            found = graph.constant(f"{name}.{suffix}", found.astype(dtype.numpy))
        others.append(found)
        return ex.var(len(others), dtype)

    whole = ex.convert(ex.var(0, integers.dtype), I32)
    if isinstance(zero, Value) or zero.any():
        whole = ex.apply("sub", whole, operand(zero, I32, "zero"))
    return Map(ex.apply("mul", ex.convert(whole, F32), operand(scale, F32, "scale"))), others


def followed(nest: Nest, operand: int, scale: Array, result: Shape) -> Array | None:
    """A scale of an operand as one of the result: None if it varies along an axis that the result does not have, or
    not all of, as that of a transposed convolution whose pads cut off the rest.

    Where an axis of the result has that of the operand several times over, once for each group, it has the scale so.
    """
    reads = nest.reads[operand]
    assert reads is not None
    padded = np.asarray(scale).reshape((1,) * (len(reads) - scale.ndim) + scale.shape)
    axes: dict[int, int] = {}
    for a, extent in enumerate(padded.shape):
        if extent == 1:
            continue
        found = ((k, _times(nest, at, reads[a], extent)) for k, at in enumerate(nest.writes))
        own = [(k, times) for k, times in found if times and result[k] == times * extent]
        if not own:
            return None
        axes[a], times = own[0]
        padded = np.concatenate([padded] * times, axis=a)
    order = sorted(axes, key=lambda a: axes[a])
    turned = padded.transpose([*order, *(a for a in range(padded.ndim) if a not in axes)])
    shape = [1] * len(result)
    for a in order:
        shape[axes[a]] = padded.shape[a]
    return turned.reshape(shape)


def _times(nest: Nest, write: Affine, read: Affine | None, extent: int) -> int:
    """How often a coordinate of the result runs over one of ``extent`` places of an operand; 0 if it does not, or
    runs on over padding.

    Channel 5 of 3 in each of 2 groups is channel 2 of the operand: 3 * group + channel runs over it twice.
    """
    if read is None or read.const != write.const:
        return 0
    if read.const + sum(c * (nest.loops[k] - 1) for k, c in enumerate(read.coefs) if c) != extent - 1:
        return 0
    steps = {k: w - r for k, (w, r) in enumerate(zip(write.coefs, read.coefs, strict=True)) if nest.loops[k] != 1}
    outer = [k for k, step in steps.items() if step]
    if not outer:
        return 1
    return nest.loops[outer[0]] if len(outer) == 1 and steps[outer[0]] == extent and not read.coefs[outer[0]] else 0
