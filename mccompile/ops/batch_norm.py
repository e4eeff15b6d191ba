"""BatchNormalization: a scale and a shift per channel, after normalisation in training mode (ONNX operator text)."""

from __future__ import annotations

from mccompile.ir import expr as ex
from mccompile.ir.graph import Value
from mccompile.ir.types import F32, F64, DType
from mccompile.ops.frontend import Import
from mccompile.ops.map import Map
from mccompile.ops.normalize import Normalize, scaled
from mccompile.ops.reduce import Reduce
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw


def _sample(d: Draw) -> Case:
    c = d.int(1, 5)
    x = d.array((d.int(1, 2), c, *d.shape(d.int(0, 3))))
    stats = [d.array((c,)), d.array((c,)), d.array((c,)), d.array((c,), low=0.2)]
    constant = frozenset({1, 2, 3, 4}) if d.bool() else frozenset()
    return Case([x, *stats], {"epsilon": d.choice([1e-5, 1e-3])}, constant)


@onnx_op("BatchNormalization", sample=_sample, tolerance={"f32": 2e-6, "f16": 4e-3}, without_effect=("momentum",))
def import_batch_norm(n: Import) -> None:
    """x * s + (B - mean * s) with s = scale / sqrt(var + epsilon): one multiply-add per element. Both addends may be
    far larger than their sum, and are computed in f32 at least."""
    if n.flag("training_mode"):
        _import_training(n)
        return
    x, own = n.input(0), n.input(0).dtype.compute
    wide = F64 if F64 in {n.input(i).dtype for i in range(5)} else F32
    scale, shift, mean, var = (ex.convert(ex.var(at, n.input(i).dtype), wide) for i, at in enumerate((0, 0, 1, 1), 1))
    inverse = ex.apply("sqrt", ex.apply("add", var, ex.num(n.attr("epsilon", 1e-5), wide)))
    s = n.map(ex.apply("div", scale, inverse), [n.input(1), n.input(4)], "scale")
    b = n.map(ex.apply("sub", shift, ex.apply("mul", mean, ex.var(2, wide))), [n.input(2), n.input(3), s], "shift")
    s, b = (_channel(n, _in_type(n, v, own, name), len(x.shape), name) for v, name in ((s, "s"), (b, "b")))
    body = ex.apply("add", ex.apply("mul", ex.var(0, own), ex.var(1, own)), ex.var(2, own))
    n.emit(Map(body, "f16" if x.dtype.name == "f16" else ""), [x, s, b])


def _import_training(n: Import) -> None:
    """The statistics are those of x itself, along all axes but that of the channels; they move the running ones."""
    x = n.input(0)
    rank, own = len(x.shape), x.dtype.compute
    axes = tuple(a for a in range(rank) if a != 1)
    momentum = n.attr("momentum", 0.9)
    extras = [_channel(n, _in_type(n, n.input(i), own, what), rank, what) for i, what in ((1, "s"), (2, "b"))]
    op = Normalize(axes, n.attr("epsilon", 1e-5))
    n.bind(0, n.inner(op, [x], "normalised", extras=extras, post={0: scaled(x.dtype, True)}))
    if len(n.outputs) == 1:
        return
    x, acc = n.computed(x), ex.acc(own)
    mean = n.inner(Reduce("sum", axes), [x], "mean", post={0: ex.apply("div", acc, _count(x))})
    apart = n.map(ex.apply("sub", ex.var(0, own), ex.var(1, own)), [x, mean], "apart")
    square = {0: ex.apply("mul", acc, acc)}
    var = n.inner(Reduce("sum", axes), [apart], "var", pre=square, post={0: ex.apply("div", acc, _count(x))})
    for i, new in enumerate((mean, var)):
        old = n.input(3 + i)
        kept = ex.apply("mul", ex.var(0, old.dtype), ex.num(momentum, old.dtype))
        moved = ex.convert(ex.var(1, new.dtype), old.dtype.compute)
        body = ex.apply("add", kept, ex.apply("mul", moved, ex.num(1 - momentum, old.dtype)))
        running = n.map(body, [old, n.reshape(new, old.shape, f"new{i}")], f"running{i}")
        n.bind(1 + i, n.stored(running, f"stored{i}", old))


def _in_type(n: Import, v: Value, dtype: DType, suffix: str) -> Value:
    """A value that is computed with another float type's numbers, in that."""
    return v if v.dtype.compute == dtype else n.map(ex.convert(ex.var(0, v.dtype), dtype), [v], f"{suffix}.{dtype}")


def _count(x: Value) -> ex.Expr:
    """How many elements a channel has."""
    return ex.num(x.type.count // x.shape[1], x.dtype)


def _channel(n: Import, v: Value, rank: int, suffix: str) -> Value:
    """A vector over axis 1 of a tensor of ``rank`` axes."""
    return n.reshape(v, (v.type.count,) + (1,) * max(rank - 2, 0), suffix)
