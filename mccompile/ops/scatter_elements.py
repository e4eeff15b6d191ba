"""ScatterElements: a copy of an operand in which single elements are replaced or combined with updates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.dims import require_same
from mccompile.ir.indices import checked, grid_along
from mccompile.ir.op import TypeRuleError
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Structure, in_place
from mccompile.ir.types import TensorType
from mccompile.ops.frontend import Import
from mccompile.ops.gather_elements import places, require_fit
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
from mccompile.ops.take import fit


@dataclass(frozen=True)
class ScatterElements(Indexed):
    """Result = data; then result[i, but indices[i] along ``axis``] becomes, or is reduced with, updates[i], in order.

    ``inside``: the indices were checked at import.
    """

    name = "scatter_elements"
    addresses_result = True
    words = (("reduction", REDUCTIONS),)

    axis: int
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
        require_fit(x, indices, self.axis)
        if updates.dtype != x.dtype or not require_same(updates.shape, indices.shape):
            raise TypeRuleError(f"updates {updates} do not fit indices {indices} and data {x}")
        return (TensorType(x.dtype, x.shape),)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        x, indices, updates = (np.asarray(a) for a in arrays)
        result = np.array(x)
        scatter(result, grid_along(checked(indices, x.shape[self.axis]), self.axis), updates, self.reduction)
        return (result,)


def _sample(d: Draw) -> Case:
    shape = d.shape(d.int(1, 4))
    axis = d.int(-len(shape), len(shape) - 1)
    reduction = d.choice(["none", "add", "mul", "max", "min"])
    many = [d.int(1, e) for e in shape]
    indices = d.array(many, d.choice(["i32", "i64"]), -shape[axis], shape[axis] - 1)
    if reduction == "none":  # duplicates would leave the result to chance
        order = np.argsort(d.array((*many[:axis], shape[axis], *many[axis:][1:])), axis=axis).astype(indices.dtype)
        indices = np.take(order, np.arange(many[axis]), axis=axis) - d.int(0, 1) * shape[axis]
    dtype = d.choice(["f32", "i64", "i32"])
    data, updates = d.array(shape, dtype), d.array(many, dtype)
    constant = d.choice([frozenset[int](), frozenset({1}), frozenset({0})])
    return Case([data, indices, updates], {"axis": axis, "reduction": reduction}, constant)


@onnx_op("ScatterElements", sample=_sample, tolerance={"f32": 1e-6})
def import_scatter_elements(n: Import) -> None:
    x = n.input(0)
    axis = n.axis(n.attr("axis", 0), len(x.shape))
    reduction, updates = read_reduction(n), n.input(2)
    if updates.type.count == 0:
        n.bind(0, x)
        return
    indices, inside = index_operand(n, 1, x.shape[axis])
    place = fit(n.graph.array(indices), 0, len(x.shape)) if inside and reduction == "none" else None
    maps = None if place is None else places(place, axis, len(x.shape))
    if updates.shape != indices.shape or not emit_insert(n, maps, updates):
        n.emit(ScatterElements(axis, reduction, inside), [x, indices, updates])
