"""GatherND: elements or slices of an operand, each addressed by a tuple of indices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.affine import loop
from mccompile.ir.dims import require_same
from mccompile.ir.indices import checked
from mccompile.ir.op import TypeRuleError
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Nest, Structure, axis_loops
from mccompile.ir.types import TensorType
from mccompile.ops.folding import Folding, gathered_bytes
from mccompile.ops.frontend import Import
from mccompile.ops.indices import Gathering, data_and_indices, index_operand
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw
from mccompile.ops.take import Maps, Take, fit, own_axis


@dataclass(frozen=True)
class GatherND(Gathering):
    """Result[b, i, r] = data[b, *indices[b, i], r] with ``batch`` axes b; ``inside``: checked at import."""

    name = "gather_nd"

    batch: int
    inside: bool = False

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        """Loops: the result's; then the tuple of indices."""
        x, indices = types
        assert x is not None
        assert indices is not None
        (y,) = self.infer(x, indices)
        depth, lead = indices.shape[-1], indices.rank - 1
        n = y.rank + 1
        read = (*axis_loops(self.batch, n), *(None,) * depth, *axis_loops(y.rank - lead, n, lead))
        return (Nest((*y.shape, depth), axis_loops(y.rank, n), (read, (*axis_loops(lead, n), loop(y.rank, n)))),)

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        x, indices = data_and_indices(types, self.inside)
        if not self.batch < indices.rank or not require_same(x.shape[: self.batch], indices.shape[: self.batch]):
            raise TypeRuleError(f"{x} and indices {indices} do not share {self.batch} batch axes")
        depth = indices.shape[-1]
        if not 1 <= depth <= x.rank - self.batch:
            raise TypeRuleError(f"tuples of {depth} indices do not fit {x} with {self.batch} batch axes")
        return (TensorType(x.dtype, indices.shape[:-1] + x.shape[self.batch + depth :]),)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        x, indices = (np.asarray(a) for a in arrays)
        depth = indices.shape[-1]
        known = checked(indices, np.array(x.shape[self.batch : self.batch + depth]))
        grid = np.indices(indices.shape[:-1], sparse=True)[: self.batch]
        return (x[(*grid, *np.moveaxis(known, -1, 0))],)


def tuples(d: Draw, shape: tuple[int, ...], batch: int, lead: tuple[int, ...]) -> Array:
    """Valid index tuples into ``shape`` behind ``batch`` axes, arranged as ``lead``."""
    depth = d.int(1, len(shape) - batch)
    parts = [d.array(lead, "i64", -e, e - 1) for e in shape[batch : batch + depth]]
    return np.stack(parts, axis=-1)


def tuple_places(indices: Array, batch: int, shape: tuple[int, ...]) -> Maps | None:
    """The coordinates of result elements in an operand of ``shape``; None if they are not affine in the result's."""
    lead, depth = indices.ndim - 1, indices.shape[-1]
    rank = lead + len(shape) - batch - depth
    found = [fit(indices[..., c], 0, rank) for c in range(depth)]
    known = [m for m in found if m is not None]
    if len(known) != depth:
        return None
    return (*(own_axis(a, rank) for a in range(batch)), *known, *(own_axis(a, rank) for a in range(lead, rank)))


def _sample(d: Draw) -> Case:
    shape = d.shape(d.int(1, 4))
    batch = d.int(0, len(shape) - 1)
    indices = tuples(d, shape, batch, shape[:batch] + d.shape(d.int(0, 2), 1, 4))
    data = d.array(shape, d.choice(["f32", "f16", "i64", "bool"]))
    return Case([data, indices], {"batch_dims": batch}, d.choice([frozenset(), frozenset({1})]))


@onnx_op("GatherND", sample=_sample, tolerance={}, folding=Folding(gathered_bytes))
def import_gather_nd(n: Import) -> None:
    x, batch = n.input(0), n.attr("batch_dims", 0)
    depth = n.input(1).shape[-1] if n.input(1).shape else 0
    extents = x.shape[batch : batch + depth]
    if not 0 <= batch < len(x.shape) or len(extents) != depth:
        raise n.error(f"tuples of {depth} indices behind {batch} batch axes do not fit {x.type}")
    indices, inside = index_operand(n, 1, extents)
    op = GatherND(batch, inside)
    (result,) = op.infer(x.type, indices.type)
    maps = tuple_places(n.graph.array(indices), batch, x.shape) if inside else None
    if maps is None:
        n.emit(op, [x, indices])
    else:
        n.emit(Take(result.shape, maps), [x])
