"""GatherElements: each result element chooses its coordinate along one axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.indices import checked, grid_along
from mccompile.ir.op import TypeRuleError, has_axes
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Nest, Structure, axis_loops
from mccompile.ir.types import TensorType
from mccompile.ops.frontend import Import
from mccompile.ops.indices import Gathering, data_and_indices, index_operand
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw
from mccompile.ops.take import Maps, Take, fit, own_axis


@dataclass(frozen=True)
class GatherElements(Gathering):
    """Result[i] = data[i, but indices[i] along ``axis``]; ``inside``: the indices were checked at import."""

    name = "gather_elements"

    axis: int
    inside: bool = False

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        (y,) = self.infer(*types)
        own = axis_loops(y.rank, y.rank)
        read = (*own[: self.axis], None, *own[self.axis + 1 :])
        return (Nest(y.shape, own, (read, own)),)

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        x, indices = data_and_indices(types, self.inside)
        require_fit(x, indices, self.axis)
        return (TensorType(x.dtype, indices.shape),)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        x, indices = (np.asarray(a) for a in arrays)
        return (x[grid_along(checked(indices, x.shape[self.axis]), self.axis)],)


def require_fit(data: TensorType, indices: TensorType, axis: int) -> None:
    """Raises TypeRuleError unless the axes other than ``axis`` of indices lie inside those of data."""
    pairs = enumerate(zip(data.shape, indices.shape, strict=False))
    if data.rank != indices.rank or not has_axes(data, (axis,)) or any(i > e for a, (e, i) in pairs if a != axis):
        raise TypeRuleError(f"indices {indices} do not fit {data} along axis {axis}")


def places(along_axis: tuple[int, ...], axis: int, rank: int) -> Maps:
    """The coordinates of an element whose own are kept but for ``axis``."""
    return tuple(along_axis if a == axis else own_axis(a, rank) for a in range(rank))


def _sample(d: Draw) -> Case:
    shape = d.shape(d.int(1, 4))
    axis = d.int(-len(shape), len(shape) - 1)
    many = [d.int(1, e) for e in shape]
    many[axis] = d.int(1, 5)
    indices = d.array(many, d.choice(["i32", "i64"]), -shape[axis], shape[axis] - 1)
    if d.int(0, 3) == 0:
        indices[...] = np.arange(many[axis]).reshape(-1, *(1,) * (len(many) - 1 - axis % len(many))) % shape[axis]
    data = d.array(shape, d.choice(["f32", "f16", "i64", "u8"]))
    return Case([data, indices], {"axis": axis}, d.choice([frozenset(), frozenset({1})]))


@onnx_op("GatherElements", sample=_sample, tolerance={})
def import_gather_elements(n: Import) -> None:
    x = n.input(0)
    axis = n.axis(n.attr("axis", 0), len(x.shape))
    indices, inside = index_operand(n, 1, x.shape[axis])
    op = GatherElements(axis, inside)
    (result,) = op.infer(x.type, indices.type)
    place = fit(n.graph.array(indices), 0, len(x.shape)) if inside else None
    if place is None:
        n.emit(op, [x, indices])
    else:
        n.emit(Take(result.shape, places(place, axis, len(x.shape))), [x])
