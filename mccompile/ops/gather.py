"""Gather: slices of an operand along one axis, in the order of indices (and Compress, by a known condition)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.dims import span, varies
from mccompile.ir.graph import Value
from mccompile.ir.indices import checked
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Nest, Structure, axis_loops
from mccompile.ir.types import TensorType
from mccompile.ops.folding import Folding, gathered_bytes
from mccompile.ops.frontend import Import
from mccompile.ops.indices import Gathering, data_and_indices, index_operand, progression
from mccompile.ops.nonzero import NonZero, places
from mccompile.ops.registry import onnx_op
from mccompile.ops.run_time import RunTime
from mccompile.ops.sampling import Case, Draw
from mccompile.ops.slice import Slice
from mccompile.ops.take import Take, fit, own_axis


@dataclass(frozen=True)
class Gather(Gathering):
    """Result[o, i, r] = data[o, indices[i], r], ``axis`` being between o and r; i may be several axes.

    ``inside``: the indices were checked at import. Otherwise the kernel checks them and takes negative ones.
    """

    name = "gather"

    axis: int
    inside: bool = False

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        x, indices = types
        assert x is not None
        assert indices is not None
        (y,) = self.infer(x, indices)
        n, many = y.rank, indices.rank
        read = (*axis_loops(self.axis, n), None, *axis_loops(x.rank - self.axis - 1, n, self.axis + many))
        return (Nest(y.shape, axis_loops(n, n), (read, axis_loops(many, n, self.axis))),)

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        x, indices = data_and_indices(types, self.inside)
        shape = (*x.shape[: self.axis], *indices.shape, *x.shape[self.axis + 1 :])
        return (TensorType(x.dtype, shape),)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        x, indices = (np.asarray(a) for a in arrays)
        return (np.take(x, checked(indices, x.shape[self.axis]), axis=self.axis),)


def emit_gather(n: Import, x: Value, indices: Value, axis: int, inside: bool) -> None:
    """Let output 0 be slices of ``x``; indices that run evenly make it a view or a strided copy."""
    if not inside:
        n.emit(Gather(axis), [x, indices])
        return
    even = progression(n.graph.array(indices))
    if even is None:
        _emit_uneven(n, x, indices, axis)
        return
    rank, count = len(x.shape), indices.type.count
    starts, steps, extents = [0] * rank, [1] * rank, list(x.shape)
    starts[axis], steps[axis], extents[axis] = *even, count
    if (starts[axis], steps[axis], count) != (0, 1, x.shape[axis]):
        x = n.inner(Slice(tuple(starts), tuple(steps), tuple(extents)), [x], "taken")
    n.bind(0, n.reshape(x, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), "reshaped"))


def _emit_uneven(n: Import, x: Value, indices: Value, axis: int) -> None:
    """Overlapping windows and repeats are movement; anything else reads its indices."""
    many = len(indices.shape)
    rank = len(x.shape) - 1 + many
    place = fit(n.graph.array(indices), axis, rank)
    if place is None:
        n.emit(Gather(axis, True), [x, indices])
        return
    before = [own_axis(a, rank) for a in range(axis)]
    after = [own_axis(a, rank) for a in range(axis + many, rank)]
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    n.emit(Take(shape, (*before, place, *after)), [x])


def _sample(d: Draw) -> Case:
    shape = d.shape(d.int(1, 4))
    axis = d.int(-len(shape), len(shape) - 1)
    extent = shape[axis]
    many = d.shape(d.int(0, 2), 1, 4)
    indices = d.array(many, d.choice(["i32", "i64"]), -extent, extent - 1)
    if len(many) == 2 and d.bool():  # windows
        indices = np.add.outer(np.arange(extent - extent // 2), np.arange(extent // 2 + 1)).astype(indices.dtype)
    data = d.array(shape, d.choice(["f32", "f16", "i64", "i8", "bool"]))
    return Case([data, indices], {"axis": axis}, d.choice([frozenset(), frozenset({1}), frozenset({0})]))


@onnx_op("Gather", sample=_sample, tolerance={}, folding=Folding(gathered_bytes))
def import_gather(n: Import) -> None:
    x = n.input(0)
    axis = n.axis(n.attr("axis", 0), len(x.shape))
    indices, inside = index_operand(n, 1, x.shape[axis])
    emit_gather(n, x, indices, axis, inside)


def _sample_compress(d: Draw) -> Case:
    shape = d.shape(d.int(1, 3), 1, 5)
    axis = d.int(-len(shape), len(shape) - 1)
    flat = d.bool()
    condition = d.array((int(np.prod(shape)) if flat else shape[axis],), "bool")
    condition[d.int(0, condition.size - 1)] = True
    condition = condition[: d.int(int(condition.argmax()) + 1, condition.size)]
    return Case([d.array(shape), condition], {} if flat else {"axis": axis}, frozenset({1}))


@onnx_op("Compress", sample=_sample_compress, tolerance={})
def import_compress(n: Import) -> None:
    x, axis = _compressed(n)
    chosen = np.flatnonzero(n.const(1, "condition")).astype(np.int32)
    least, most = span(x.shape[axis])
    if chosen.size and chosen[-1] >= most:
        raise n.error(f"the condition is true at {chosen[-1]}, behind an axis of extent {most}")
    emit_gather(n, x, n.constant("chosen", chosen), axis, not chosen.size or chosen[-1] < least)


def _import_compress_counted(n: Import) -> None:
    """The elements where a condition that is computed at run time is true: as many as the model states, or as are
    counted."""
    x, axis = _compressed(n)
    # onnxruntime takes a condition of any rank for its elements in a line, and paddle2onnx writes such.
    condition, stated = n.input(1), n.declared_extent(axis)
    if len(condition.shape) != 1:
        condition = n.reshape(condition, (condition.type.count,), "condition")
    if stated is not None and not varies([stated]):
        found, _ = n.inners(NonZero(stated), [condition], ["found", "count"])
    else:
        found = places(n, condition)
    n.emit(Gather(axis), [x, n.reshape(found, found.shape[1:], "chosen")])


def _compressed(n: Import) -> tuple[Value, int]:
    """What is compressed, and the axis along which: without one, all elements in a line."""
    x = n.input(0)
    if n.attr("axis") is None:
        x = n.reshape(x, (x.type.count,), "flat")
    return x, n.axis(n.attr("axis", 0), len(x.shape))


RUN_TIME = {"Compress": RunTime(_import_compress_counted)}
