"""Normalisation to mean 0 and variance 1, or norm 1 (ONNX operators LayerNormalization and its kin)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.graph import Value
from mccompile.ir.op import Kind, Layouts, Op, TypeRuleError, has_axes
from mccompile.ir.ranges import Range, anything, zero_or_free
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Structure, over_axes
from mccompile.ir.types import DTYPES, F32, DType, TensorType
from mccompile.ops.frontend import Import
from mccompile.ops.map import Map
from mccompile.ops.reduce import Reduce
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw


@dataclass(frozen=True)
class Normalize(Op):
    """(x - mean) / sqrt(mean((x - mean)^2) + epsilon) over ``axes``; without ``center`` the mean counts as 0.

    With ``floor`` the mean square is not increased by epsilon but at least that. With ``of_sum`` it is the sum of the
    squares: the norm of a vector along an axis is its length then, to the last bit. Scale and bias are the epilogue.
    """

    name = "normalize"
    kind = Kind.COMPLEX
    takes_prologue = True
    layouts = Layouts.ALIKE

    axes: tuple[int, ...]
    epsilon: float
    center: bool = True
    floor: bool = False
    of_sum: bool = False

    @property
    def subtracts(self) -> bool:
        return self.center

    @property
    def makes_products(self) -> bool:
        return True

    @property
    def divides_by_size(self) -> bool:
        return True

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        (x,) = types
        assert x is not None
        return over_axes(x, self.axes, self.infer(x))

    def value_range(self, types: Sequence[TensorType | None], ranges: Sequence[Range | None]) -> tuple[Range, ...]:
        (x,) = ranges
        assert x is not None
        return (zero_or_free(x) if self.epsilon > 0 else anything(self.infer(*types)[0].dtype, x.low.size),)

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = types
        assert x is not None
        if not x.dtype.is_float or not has_axes(x, self.axes):
            raise TypeRuleError(f"normalisation of {x} over axes {list(self.axes)} is not defined")
        return (x,)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        x = np.asarray(arrays[0])
        if not x.size:  # the mean of nothing is not defined
            return (x,)
        d = x.astype(np.promote_types(x.dtype, np.float32))
        if self.center:
            d = d - d.mean(self.axes, keepdims=True)
        # As the C does, epsilon is rounded to the precision of the sum.
        over = np.sum if self.of_sum else np.mean
        square, epsilon = over(np.square(d), axis=self.axes, keepdims=True), d.dtype.type(self.epsilon)
        variance = np.maximum(square, epsilon) if self.floor else square + epsilon
        return ((d / np.sqrt(variance)).astype(x.dtype),)


def scaled(dtype: DType, bias: bool) -> ex.Expr:
    """The epilogue acc * x0 [+ x1]."""
    body = ex.apply("mul", ex.acc(dtype), ex.var(0, dtype))
    return ex.apply("add", body, ex.var(1, dtype)) if bias else body


def _per_channel(d: Draw, c: int) -> list[Array]:
    return [d.array((c,)), d.array((c,))]


def _spatial(d: Draw) -> tuple[int, ...]:
    return d.choice([(d.int(2, 200),), (d.int(1, 12), d.int(2, 12)), (2, 3, d.int(1, 70))])


def _sample_instance(d: Draw) -> Case:
    c = d.int(1, 4)
    x = d.array((d.int(1, 2), c, *_spatial(d)), "f32", d.choice([-2, 10]), 12)
    return Case([x, *_per_channel(d, c)], {"epsilon": d.choice([1e-5, 1e-3])})


_TOLERANCE = {"f32": 4e-6, "f16": 4e-3}


@onnx_op("InstanceNormalization", sample=_sample_instance, tolerance=_TOLERANCE)
def import_instance_norm(n: Import) -> None:
    x = n.input(0)
    rank = len(x.shape)
    column = (x.shape[1],) + (1,) * (rank - 2)
    extras = [n.reshape(n.input(i), column, what) for i, what in ((1, "scale"), (2, "bias"))]
    op = Normalize(tuple(range(2, rank)), n.attr("epsilon", 1e-5))
    n.emit(op, [x], extras=extras, post={0: scaled(x.dtype, True)})


def _sample_group(d: Draw) -> Case:
    groups = d.int(1, 3)
    c = groups * d.int(1, 3)
    x = d.array((d.int(1, 2), c, *_spatial(d)))
    return Case([x, *_per_channel(d, c)], {"num_groups": groups, "epsilon": 1e-3})


_STASHED = {1: "f32", 10: "f16", 11: "f64", 16: "bf16"}


def _read_stash(n: Import) -> None:
    """The type statistics are computed in: ours is f32, or f64 for inputs of that. That may be more than is asked
    for, but not less; statistics that are results have the type asked for, which is f32 or ours."""
    given = n.attr("stash_type", 1)
    stashed, ours = _STASHED.get(given, ""), n.input(0).dtype.compute.name
    stored = any(n.node.outputs[1:]) and stashed != "f32"
    if stashed != ours and (stored or not stashed or stashed == "f64"):
        raise n.error(f"stash_type {given} is not supported", f"statistics are computed in {ours}")


@onnx_op("GroupNormalization", sample=_sample_group, tolerance=_TOLERANCE)
def import_group_norm(n: Import) -> None:
    """Channels of a group are an axis of their own while they are normalised."""
    _read_stash(n)
    x = n.input(0)
    groups, spatial = n.required("num_groups", int), x.shape[2:]
    if groups < 1 or x.shape[1] % groups:
        raise n.error(f"{x.shape[1]} channels do not divide into {groups} groups")
    own = (groups, x.shape[1] // groups)
    grouped = n.reshape(x, (x.shape[0], *own, *spatial), "grouped")
    extras = [n.reshape(n.input(i), own + (1,) * len(spatial), what) for i, what in ((1, "scale"), (2, "bias"))]
    op = Normalize(tuple(range(2, len(grouped.shape))), n.attr("epsilon", 1e-5))
    y = n.inner(op, [grouped], "normalised", extras=extras, post={0: scaled(x.dtype, True)})
    n.bind(0, n.reshape(y, x.shape, "ungrouped"))


def _sample_layer(d: Draw) -> Case:
    shape = (*d.shape(d.int(1, 3), 1, 4), d.choice([1, 3, 64, 65, 300]))
    axis = d.int(0, len(shape) - 1)
    dtype = d.choice(["f32", "f32", "f16"])
    scale = d.array(shape[axis:], dtype)
    attrs = {"axis": axis - d.choice([0, len(shape)]), "epsilon": d.choice([1e-5, 1e-3])}
    bias = d.array(shape[axis:], dtype) if d.bool() else None
    return Case([d.array(shape, dtype), scale, bias], attrs, frozenset({1, 2}) if d.bool() else frozenset())


@onnx_op("LayerNormalization", sample=_sample_layer, tolerance=_TOLERANCE)
def import_layer_norm(n: Import) -> None:
    """The second and third output (mean, inverse deviation) are reductions of their own, gone where unused."""
    _read_stash(n)
    x, bias = n.input(0), n.optional(2)
    rank = len(x.shape)
    axes = tuple(range(n.axis(n.attr("axis", -1), rank), rank))
    epsilon = n.attr("epsilon", 1e-5)
    extras = [n.input(1)] if bias is None else [n.input(1), bias]
    body = scaled(x.dtype, bias is not None)
    n.bind(0, n.inner(Normalize(axes, epsilon), [x], "normalised", extras=extras, post={0: body}))
    if any(n.node.outputs[1:]):
        mean, inverse = _statistics(n, x, axes, epsilon)
        stash = DTYPES[_STASHED[n.attr("stash_type", 1)]]
        for output, value in ((1, mean), (2, inverse)):
            if len(n.node.outputs) > output:
                body = ex.convert(ex.var(0, value.dtype), stash)
                n.bind(output, value if value.dtype == stash else n.map(body, [value], "stored"))


def _statistics(n: Import, x: Value, axes: tuple[int, ...], epsilon: float) -> tuple[Value, Value]:
    """Mean and 1 / sqrt(variance + epsilon) over ``axes``, in f32 at least."""
    if x.dtype.name == "f16":
        x = n.inner(Map(ex.var(0, F32)), [x], "wide")
    dtype = x.dtype
    count = ex.num(math.prod(x.shape[a] for a in axes), dtype)
    mean = ex.apply("div", ex.acc(dtype), count)
    middle = n.inner(Reduce("sum", axes), [x], "mean", post={0: mean})
    shifted = n.inner(Map(ex.apply("sub", ex.var(0, dtype), ex.var(1, dtype))), [x, middle], "centred")
    a = ex.acc(dtype)
    root = ex.apply("sqrt", ex.apply("add", mean, ex.num(epsilon, dtype)))
    inverse = ex.apply("div", ex.num(1, dtype), root)
    bodies = {"pre": {0: ex.apply("mul", a, a)}, "post": {0: inverse}}
    return middle, n.inner(Reduce("sum", axes), [shifted], "inverse", **bodies)


def _sample_rms(d: Draw) -> Case:
    case = _sample_layer(d)
    return Case(case.inputs[:2], case.attrs, case.constant & {1})


@onnx_op("RMSNormalization", sample=_sample_rms, tolerance=_TOLERANCE)
def import_rms_norm(n: Import) -> None:
    """The scale may be of another type by the schema, and the result then is; the operator's function multiplies one
    by the other, and shape inference has the type of x."""
    _read_stash(n)
    x, scale = n.input(0), n.input(1)
    rank = len(x.shape)
    op = Normalize(tuple(range(n.axis(n.attr("axis", -1), rank), rank)), n.attr("epsilon", 1e-5), center=False)
    if scale.dtype != x.dtype:
        rule = f"a scale of {scale.dtype} for an X of {x.dtype} is not defined"
        raise n.error(rule, "cast one to the other's type")
    n.emit(op, [x], extras=[scale], post={0: scaled(x.dtype, False)})


def _sample_mean_variance(d: Draw) -> Case:
    attrs = {} if d.bool() else {"axes": d.choice([(0, 2, 3), (1,), (0, 1, 2, 3)])}
    return Case([d.array((d.int(2, 3), d.int(2, 4), d.int(2, 9), d.int(2, 9)))], attrs)


@onnx_op("MeanVarianceNormalization", sample=_sample_mean_variance, tolerance=_TOLERANCE)
def import_mean_variance_norm(n: Import) -> None:
    """The operator adds 1e-9 to the deviation, which is epsilon = 1e-18 where that matters: at variance 0."""
    x = n.input(0)
    axes = tuple(sorted({n.axis(a, len(x.shape)) for a in n.attr("axes", (0, 2, 3))}))
    n.emit(Normalize(axes, 1e-18), [x])


def _sample_lp(d: Draw) -> Case:
    rank = d.int(1, 4)
    return Case([d.array(d.shape(rank))], {"axis": d.int(-rank, rank - 1), "p": d.int(1, 2)})


@onnx_op("LpNormalization", sample=_sample_lp, tolerance=_TOLERANCE)
def import_lp_norm(n: Import) -> None:
    """x / norm(x), 0 where the norm is 0 (as onnxruntime does)."""
    x, p = n.input(0), n.attr("p", 2)
    a = ex.acc(x.dtype)
    if p not in (1, 2):
        raise n.error(f"LpNormalization with p = {p} is not defined")
    pre = ex.apply("abs", a) if p == 1 else ex.apply("mul", a, a)
    post = {} if p == 1 else {0: ex.apply("sqrt", a)}
    axes = (n.axis(n.attr("axis", -1), len(x.shape)),)
    norm = n.inner(Reduce("sum", axes), [x], "norm", pre={0: pre}, post=post)
    value, length, zero = ex.var(0, x.dtype), ex.var(1, x.dtype), ex.num(0, x.dtype)
    body = ex.apply("select", ex.apply("eq", length, zero), zero, ex.apply("div", value, length))
    n.emit(Map(body, "f16" if x.dtype.name == "f16" else ""), [x, norm])
