"""TensorScatter: a cache with new elements from a place on that each sample of a batch has of its own.

    TensorScatter(cache[B, L, D], update[B, S, D], at[B])
        is  ScatterElements(cache, Expand(at[b] + s, [B, S, D]), update)        along the axis of L
"""

from __future__ import annotations

from mccompile.ir.dims import bound, require_same, span
from mccompile.ops.expansion import Expansion
from mccompile.ops.frontend import Import
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw


def _sample(d: Draw) -> Case:
    rank, length, more = d.int(3, 4), d.int(3, 7), d.int(1, 3)
    shape = [d.int(1, 3), *d.shape(rank - 1, 1, 4)]
    axis, circular = d.int(1, rank - 1), d.bool()
    cache, update = list(shape), list(shape)
    cache[axis], update[axis] = length, more
    at = d.array((shape[0],), "i64", 0, length if circular else length - more) if d.bool() else None
    attrs = {"axis": axis - rank * d.int(0, 1), "mode": "circular" if circular else "linear"}
    return Case([d.array(cache), d.array(update), at], attrs, d.choice([frozenset(), frozenset({2})]), opset=24)


@onnx_op("TensorScatter", sample=_sample, tolerance={}, composed=True)
def import_tensor_scatter(n: Import) -> None:
    cache, update, e = n.input(0), n.input(1), Expansion(n)
    rank = len(cache.shape)
    axis, mode = n.axis(n.attr("axis", -2), rank), n.attr("mode", "linear")
    if mode not in ("linear", "circular"):
        raise n.error(f"mode {mode!r} is unknown")
    if axis == 0 or len(update.shape) != rank or span(update.shape[axis])[0] > bound(cache.shape[axis]):
        raise n.error(f"{update.type} does not fit a cache {cache.type} along axis {axis}")
    along = [-1 if a == axis else 1 for a in range(rank)]
    places = e.reshaped(e.counted(0, update.shape[axis], "counted"), along, "steps")
    length = e.ints([cache.shape[axis]], "length")
    if n.optional(2) is not None:
        if not require_same(n.input(2).shape, cache.shape[:1]):
            raise n.error(f"write_indices {n.input(2).type} are not one for each of {cache.shape[0]} samples")
        begin = e.reshaped(e.name(2), [-1, *(1,) * (rank - 1)], "begin")
        if mode == "circular":  # first: a sum may be more than an i64 has
            begin = e.add("Mod", [begin, length], "first")
        else:  # no place counts from the end
            begin = e.add("Where", [e.add("Less", [begin, e.ints([0], "zero")], "strange"), length, begin], "first")
        places = e.add("Add", [begin, places], "places")
    if mode == "circular":
        places = e.add("Mod", [places, length], "turned")
    everywhere = e.add("Expand", [places, e.ints(update.shape, "shape")], "everywhere")
    e.last("ScatterElements", [e.name(0), everywhere, e.name(1)], n.node.outputs[0], axis=axis)
    e.finish()
