"""BatchNormalization: a scale and a shift per channel, after normalisation in training mode (ONNX operator text)."""

from __future__ import annotations

from mccompile.ir import expr as ex
from mccompile.ir.graph import Value
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
    """x * s + (B - mean * s) with s = scale / sqrt(var + epsilon): one multiply-add per element."""
    if n.flag("training_mode"):
        _import_training(n)
        return
    x = n.input(0)
    scale, shift, mean, var = (n.input(i) for i in range(1, 5))
    f = ex.var(0, scale.dtype)
    inverse = ex.apply("sqrt", ex.apply("add", ex.var(1, var.dtype), ex.num(n.attr("epsilon", 1e-5), var.dtype)))
    s = n.map(ex.apply("div", f, inverse), [scale, var], "scale")
    moved = ex.apply("mul", ex.var(1, mean.dtype), ex.var(2, s.dtype))
    b = n.map(ex.apply("sub", ex.var(0, shift.dtype), moved), [shift, mean, s], "shift")
    s, b = (_channel(n, v, len(x.shape), name) for v, name in ((s, "s"), (b, "b")))
    body = ex.apply("add", ex.apply("mul", ex.var(0, x.dtype), ex.var(1, s.dtype)), ex.var(2, b.dtype))
    n.emit(Map(body, "f16" if x.dtype.name == "f16" else ""), [x, s, b])


def _import_training(n: Import) -> None:
    """The statistics are those of x itself, along all axes but that of the channels; they move the running ones."""
    x = n.input(0)
    rank = len(x.shape)
    axes = tuple(a for a in range(rank) if a != 1)
    momentum = n.attr("momentum", 0.9)
    extras = [_channel(n, n.input(i), rank, what) for i, what in ((1, "s"), (2, "b"))]
    op = Normalize(axes, n.attr("epsilon", 1e-5))
    n.bind(0, n.inner(op, [x], "normalised", extras=extras, post={0: scaled(x.dtype, True)}))
    if len(n.outputs) == 1:
        return
    acc = ex.acc(x.dtype)
    mean = n.inner(Reduce("sum", axes), [x], "mean", post={0: ex.apply("div", acc, _count(x))})
    apart = n.map(ex.apply("sub", ex.var(0, x.dtype), ex.var(1, x.dtype)), [x, mean], "apart")
    square = {0: ex.apply("mul", acc, acc)}
    var = n.inner(Reduce("sum", axes), [apart], "var", pre=square, post={0: ex.apply("div", acc, _count(x))})
    for i, new in enumerate((mean, var)):
        old = n.input(3 + i)
        own, moved = ex.var(0, old.dtype), ex.convert(ex.var(1, new.dtype), old.dtype.compute)
        kept = ex.apply("mul", own, ex.num(momentum, old.dtype))
        body = ex.apply("add", kept, ex.apply("mul", moved, ex.num(1 - momentum, old.dtype)))
        n.bind(1 + i, n.map(body, [old, n.reshape(new, old.shape, f"new{i}")], f"running{i}"))


def _count(x: Value) -> ex.Expr:
    """How many elements a channel has."""
    return ex.num(x.type.count // x.shape[1], x.dtype)


def _channel(n: Import, v: Value, rank: int, suffix: str) -> Value:
    """A vector over axis 1 of a tensor of ``rank`` axes."""
    return n.reshape(v, (v.type.count,) + (1,) * max(rank - 2, 0), suffix)
