"""Reductions over any set of axes (the ONNX operators Reduce*, GlobalAveragePool, GlobalMaxPool)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.dims import Dim, bound, maximum, span
from mccompile.ir.graph import Value
from mccompile.ir.op import Kind, Layouts, Op
from mccompile.ir.ranges import Range, anything, hull, summed
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Structure, over_axes
from mccompile.ir.types import BOOL, F16, F32, F64, I64, U8, DType, TensorType
from mccompile.ops.extents import Extents
from mccompile.ops.extremes import Extremes, extreme, extreme_range, reduced
from mccompile.ops.frontend import Import
from mccompile.ops.map import Map
from mccompile.ops.nonzero import learn_count
from mccompile.ops.registry import FrontEnd, onnx_op
from mccompile.ops.sampling import Case, Draw

_NUMPY: dict[str, Callable[..., Array]] = {"sum": np.sum, "prod": np.prod}


@dataclass(frozen=True)
class Reduce(Op):
    """``mode`` is sum, prod, max or min; the reduced ``axes`` stay with extent 1.

    Means, norms and logarithms are prologues and epilogues of these.
    """

    name = "reduce"
    kind = Kind.REDUCTION
    layouts = Layouts.ALIKE
    takes_prologue = True
    words = (("mode", ("sum", "prod", "max", "min")),)

    mode: str
    axes: tuple[int, ...]

    @property
    def multilinear(self) -> tuple[int, ...]:
        return (0,) if self.mode == "sum" else ()

    @property
    def selects(self) -> bool:
        return self.mode in ("max", "min")

    @property
    def makes_products(self) -> bool:
        return self.mode == "prod"

    @property
    def picks(self) -> str:
        return {"max": "largest", "min": "least"}.get(self.mode, "")

    def may_pick_none(self, types: Sequence[TensorType | None]) -> bool:
        (x,) = types
        return self.picks != "" and x is not None and span(math.prod(x.shape[a] for a in self.axes))[0] == 0

    def beside(self, other: Op) -> Op | None:
        both = isinstance(other, Reduce) and (self.mode, other.mode, self.axes) == ("min", "max", other.axes)
        return Extremes(self.axes) if both else None

    def as_sum(self, types: Sequence[TensorType | None]) -> tuple[Op, Array] | None:
        return (self, np.ones((), np.float32)) if self.mode == "sum" else None

    def last_axis_first(self, axes: Sequence[int]) -> tuple[Op, Op] | None:
        if len(axes) < 2 or not set(axes) <= set(self.axes):
            return None
        return Reduce(self.mode, (axes[-1],)), Reduce(self.mode, tuple(a for a in self.axes if a != axes[-1]))

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        (x,) = types
        assert x is not None
        return over_axes(x, self.axes, self.infer(x))

    def value_range(self, types: Sequence[TensorType | None], ranges: Sequence[Range | None]) -> tuple[Range, ...]:
        (x,), (found,) = types, ranges
        assert x is not None
        assert found is not None
        count = math.prod(x.shape[a] for a in self.axes)
        if self.mode == "sum":
            return (hull([summed(found, times, x.dtype) for times in span(count)]),)
        if self.selects:
            return (extreme_range(x, self.axes, found),)
        return (anything(x.dtype, found.low.size) if self.mode == "prod" and count > 1 else found,)

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = types
        assert x is not None
        return (reduced(x, self.axes),)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        x = np.asarray(arrays[0])
        if self.selects:
            return (extreme(self.mode, x, self.axes),)
        wide = x.astype(np.float32) if x.dtype == np.float16 else x
        return (_NUMPY[self.mode](wide, axis=self.axes, keepdims=True).astype(x.dtype),)


Before = Callable[[ex.Expr], ex.Expr]
"""An expression over the value."""
Body = Callable[[ex.Expr, ex.Expr], ex.Expr]
"""An expression over the value and the number of elements reduced."""


@dataclass(frozen=True)
class Row:
    """One Reduce operator: the reduction, what is applied to each element before, and to the result after."""

    op_type: str
    mode: str
    pre: Before | None = None
    post: Body | None = None
    dtypes: tuple[str, ...] = ("f32",)
    low: float = -2


def _mean(x: ex.Expr, n: ex.Expr) -> ex.Expr:
    return ex.apply("div", x, n)


def _square(x: ex.Expr) -> ex.Expr:
    return ex.apply("mul", x, x)


def _root(x: ex.Expr, _: ex.Expr) -> ex.Expr:
    """The square root; of a whole number its whole part."""
    return ex.apply("sqrt", x) if x.dtype.is_float else ex.convert(ex.apply("sqrt", ex.convert(x, F64)), x.dtype)


ROWS: tuple[Row, ...] = (
    Row("ReduceSum", "sum", dtypes=("f32", "i32", "i64", "f16")),
    Row("ReduceMean", "sum", post=_mean),
    Row("ReduceProd", "prod"),
    Row("ReduceMax", "max", dtypes=("f32", "i32", "f16")),
    Row("ReduceMin", "min", dtypes=("f32", "i32")),
    Row("ReduceL1", "sum", pre=lambda x: ex.apply("abs", x)),
    Row("ReduceL2", "sum", pre=_square, post=_root),
    Row("ReduceSumSquare", "sum", pre=_square),
    Row("ReduceLogSum", "sum", post=lambda x, n: ex.apply("log", x), low=0.5),
)


def emit_reduce(n: Import, row: Row, axes: tuple[int, ...], keepdims: bool) -> None:
    """Emit a row over ``axes`` of input 0, its reduced axes dropped unless ``keepdims``."""
    if n.input(0).dtype == BOOL:
        _emit_reduce_bool(n, row, axes, keepdims)
        return
    x = n.input(0)
    count = math.prod(x.shape[a] for a in axes)
    number, extras = _count(n, count if span(count)[0] else maximum(count, 1), x.dtype)  # the mean of nothing is 0
    pre = {} if row.pre is None else {0: row.pre(ex.acc(x.dtype))}
    post = {} if row.post is None else {0: row.post(ex.acc(x.dtype), number)}
    op = Reduce(row.mode, axes)
    extras = extras if post and 0 in ex.variables(post[0]) else []
    if (keepdims or not axes) and not (pre and x.dtype == F16):
        n.emit(op, [x], pre=pre, post=post, extras=extras)
        return
    kept = n.stored(n.inner(op, [x], "kept", pre=pre, post=post, extras=extras))
    if keepdims:
        n.bind(0, kept)
        return
    n.bind(0, n.reshape(kept, tuple(e for a, e in enumerate(x.shape) if a not in axes), "dropped"))


def _count(n: Import, count: int, dtype: DType) -> tuple[ex.Expr, list[Value]]:
    """How many elements are reduced as an expression, and what that reads."""
    if not isinstance(count, Dim):
        return ex.num(count, dtype), []
    stored = F32 if dtype.compute == F32 and bound(count) <= 2**24 else I64  # what vectors read, where it is exact
    numbers = n.inner(Extents((count,), (), stored.name), [], "count")
    return ex.convert(ex.var(0, stored), dtype.compute), [numbers]


def _emit_reduce_bool(n: Import, row: Row, axes: tuple[int, ...], keepdims: bool) -> None:
    """The largest and the smallest bool: as numbers."""
    if row.pre is not None or row.post is not None or row.mode not in ("max", "min"):
        raise n.error(f"{n.op_type} of bools is not defined")
    x = n.input(0)
    numbers = n.map(ex.convert(ex.var(0, BOOL), U8), [x], "numbers")
    kept = n.inner(Reduce(row.mode, axes), [numbers], "kept")
    shape = kept.shape if keepdims else tuple(e for a, e in enumerate(x.shape) if a not in axes)
    n.bind(0, n.map(ex.convert(ex.var(0, U8), BOOL), [n.reshape(kept, shape, "dropped")], "bools"))


def read_axes(n: Import, i: int = 1) -> tuple[int, ...]:
    """The axes of a Reduce operator: sorted, all where none are given."""
    rank, noop = len(n.input(0).shape), n.flag("noop_with_empty_axes")
    if not rank:
        return ()
    if n.optional(i) is None or n.input(i).type.count == 0:
        return () if noop else tuple(range(rank))
    return tuple(sorted({n.axis(a, rank) for a in n.ints(i, "axes")}))


def _front_end(row: Row) -> FrontEnd:
    def convert(n: Import) -> None:
        axes = read_axes(n)
        emit_reduce(n, row, axes, n.flag("keepdims", True))
        if row.op_type == "ReduceSum" and len(axes) == n.input(0).type.rank:
            learn_count(n, n.input(0))

    def sample(d: Draw) -> Case:
        rank = d.int(1, 4)
        axes = sorted({d.int(-rank, -1) for _ in range(d.int(1, 3))})
        given = np.array(axes, dtype=np.int64) if d.int(0, 3) else None
        x = d.array(d.shape(rank, 1, 6), d.choice(row.dtypes), row.low)
        return Case([x, given], {"keepdims": d.int(0, 1)}, frozenset({1}))

    return FrontEnd(row.op_type, convert, sample, {"f32": 3e-6, "f16": 4e-3})


FRONT_ENDS: tuple[FrontEnd, ...] = tuple(map(_front_end, ROWS))


def _sample_global(d: Draw) -> Case:
    return Case([d.array((d.int(1, 2), d.int(1, 4), *d.shape(d.int(1, 3), 1, 7)))])


def _spatial(n: Import) -> tuple[int, ...]:
    return tuple(range(2, len(n.input(0).shape)))


@onnx_op("GlobalAveragePool", sample=_sample_global, tolerance={"f32": 3e-6, "f16": 2e-3})
def import_global_average_pool(n: Import) -> None:
    emit_reduce(n, Row("", "sum", post=_mean), _spatial(n), True)


@onnx_op("GlobalMaxPool", sample=_sample_global, tolerance={})
def import_global_max_pool(n: Import) -> None:
    emit_reduce(n, Row("", "max"), _spatial(n), True)


@onnx_op("ReduceLogSumExp", sample=lambda d: Case([d.array(d.shape(3))]), tolerance={"f32": 4e-6})
def import_reduce_log_sum_exp(n: Import) -> None:
    """log(sum(exp(x - max))) + max: does not overflow. Where the largest is infinite nothing is subtracted: inf - inf
    is no number, and the sum is 0 or infinite anyway."""
    x, axes = n.input(0), read_axes(n)
    largest = ex.var(0, x.dtype)
    finite = ex.apply("lt", ex.apply("abs", largest), ex.num(math.inf, x.dtype))
    top = n.inner(Reduce("max", axes), [x], "max")
    top = n.inner(Map(ex.apply("select", finite, largest, ex.num(0, x.dtype))), [top], "shift")
    below = n.inner(Map(ex.apply("sub", ex.var(0, x.dtype), ex.var(1, x.dtype))), [x, top], "below")
    pre = {0: ex.apply("exp", ex.acc(x.dtype))}
    post = {0: ex.apply("add", ex.apply("log", ex.acc(x.dtype)), ex.var(0, x.dtype))}
    kept = n.stored(n.inner(Reduce("sum", axes), [below], "kept", pre=pre, post=post, extras=[top]))
    shape = kept.shape if n.flag("keepdims", True) else tuple(e for a, e in enumerate(x.shape) if a not in axes)
    n.bind(0, n.reshape(kept, shape, "dropped"))
