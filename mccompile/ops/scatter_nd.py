"""ScatterND: a copy of an operand in which elements or slices are replaced or combined with updates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.dims import require_same
from mccompile.ir.indices import checked
from mccompile.ir.op import TypeRuleError
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Structure, in_place
from mccompile.ir.types import TensorType
from mccompile.ops.frontend import Import
from mccompile.ops.gather_nd import tuple_places, tuples
from mccompile.ops.indices import (
    REDUCTIONS,
    Indexed,
    data_and_indices,
    index_operand,
    read_reduction,
    scatter,
)
from mccompile.ops.insert import emit_insert
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw


@dataclass(frozen=True)
class ScatterND(Indexed):
    """Result = data; then result[*indices[i], r] becomes, or is reduced with, updates[i, r], in order.

    ``inside``: the indices were checked at import.
    """

    name = "scatter_nd"
    addresses_result = True
    words = (("reduction", REDUCTIONS),)

    reduction: str = "none"
    inside: bool = False

    @property
    def hands_on(self) -> bool:
        return self.reduction in ("none", "max", "min")

    @property
    def terms(self) -> tuple[int, ...]:
        return (0, 2) if self.reduction == "add" else ()

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        return in_place(types)

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        (x, indices), updates = data_and_indices(types, self.inside), types[2]
        assert updates is not None
        if indices.rank < 1 or not 1 <= indices.shape[-1] <= x.rank:
            raise TypeRuleError(f"indices {indices} do not fit {x}")
        wanted = indices.shape[:-1] + x.shape[indices.shape[-1] :]
        if updates.dtype != x.dtype or not require_same(updates.shape, wanted):
            raise TypeRuleError(f"updates {updates} must be {x.dtype}{list(wanted)}")
        return (TensorType(x.dtype, x.shape),)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        x, indices, updates = (np.asarray(a) for a in arrays)
        result = np.array(x)
        known = checked(indices, np.array(x.shape[: indices.shape[-1]]))
        scatter(result, tuple(np.moveaxis(known, -1, 0)), updates, self.reduction)
        return (result,)


def _sample(d: Draw) -> Case:
    shape = d.shape(d.int(1, 4))
    reduction = d.choice(["none", "none", "none", "add", "mul", "max", "min"])
    lead = d.shape(d.int(0, 2), 1, 3) if reduction != "none" else ()  # duplicates would leave the result to chance
    indices = tuples(d, shape, 0, lead)
    if reduction == "none" and d.bool():  # a box, as slice assignment is exported
        depth = d.int(1, len(shape))
        ranges = [np.arange(first := d.int(0, e - 1), d.int(first, e - 1) + 1) for e in shape[:depth]]
        indices = np.stack(np.meshgrid(*ranges, indexing="ij"), axis=-1).astype(np.int64)
        lead = indices.shape[:-1]
    dtype = d.choice(["f32", "i64", "i32"])
    updates = d.array(lead + shape[indices.shape[-1] :], dtype)
    constant = d.choice([frozenset[int](), frozenset({1}), frozenset({1}), frozenset({0})])
    return Case([d.array(shape, dtype), indices, updates], {"reduction": reduction}, constant)


@onnx_op("ScatterND", sample=_sample, tolerance={"f32": 1e-6})
def import_scatter_nd(n: Import) -> None:
    x = n.input(0)
    reduction, updates = read_reduction(n), n.input(2)
    if updates.type.count == 0:
        n.bind(0, x)
        return
    depth = n.input(1).shape[-1] if n.input(1).shape else 0
    if not 1 <= depth <= len(x.shape):
        raise n.error(f"tuples of {depth} indices do not fit {x.type}")
    indices, inside = index_operand(n, 1, x.shape[:depth])
    maps = tuple_places(n.graph.array(indices), 0, x.shape) if inside and reduction == "none" else None
    if updates.shape != indices.shape[:-1] + x.shape[depth:] or not emit_insert(n, maps, updates):
        n.emit(ScatterND(reduction, inside), [x, indices, updates])
