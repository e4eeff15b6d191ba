"""The families of gathers, scatters and running sums: how their loops are merged and what they may overwrite."""

from __future__ import annotations

from mccompile._dataclass import dataclass
from mccompile.ir.dims import bound
from mccompile.ir.errors import InternalError
from mccompile.ir.graph import Node
from mccompile.ir.kernel import Call
from mccompile.ir.views import View
from mccompile.kernels.model.tiles import merge
from mccompile.kernels.variant import Builder, Offer, Plain, Variant
from mccompile.kernels.views.collapse import collapse
from mccompile.kernels.views.lines import join_axes
from mccompile.ops.cum_sum import CumSum
from mccompile.ops.gather import Gather
from mccompile.ops.indices import REDUCTIONS
from mccompile.ops.insert import Insert
from mccompile.ops.scatter_elements import ScatterElements
from mccompile.ops.scatter_nd import ScatterND
from mccompile.ops.take import affine_maps
from mccompile.targets.target import Target


@dataclass(frozen=True)
class GatherParams:
    """``outer``: how many axes of the data's view lie before the indexed one."""

    outer: int


class GatherGeneric(Plain):
    ops = ("gather",)
    kernel = "gather.generic"
    params = GatherParams

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        op, (data, indices) = node.op, node.operands
        assert isinstance(op, Gather)
        assert data is not None
        assert indices is not None
        x, i, y = b.read(data), b.read(indices), b.result(0)
        before, after = range(op.axis), range(op.axis + i.rank, y.rank)
        outer = _merged(x.along(before), y.along(before))
        many = _merged(i, y.along(range(op.axis, op.axis + i.rank)))
        inner = _merged(x.along(range(op.axis + 1, x.rank)), y.along(after))
        source = join_axes(join_axes(outer[0], x.along([op.axis])), inner[0])
        target = join_axes(join_axes(outer[1], many[1]), inner[1])
        b.call(self.kernel, [source, many[0]], [target], params=GatherParams(outer[0].rank))


def _merged(a: View, b: View) -> list[View]:
    views = collapse([a, b])
    if isinstance(views, str):
        raise InternalError(views)
    return views


class GatherElementsGeneric(Plain):
    ops = ("gather_elements",)
    kernel = "gather_elements.generic"


class GatherNDGeneric(Plain):
    ops = ("gather_nd",)
    kernel = "gather_nd.generic"


@dataclass(frozen=True)
class ScatterParams:
    """``mode``: the reduction as `reduce` names it, empty where updates replace."""

    mode: str


class _Scatter(Plain):
    """The result may lie where the data lies: then nothing but the updates is written."""

    params = ScatterParams

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        op = node.op
        assert isinstance(op, ScatterElements | ScatterND)
        x, indices, updates = (b.read(v) for v in node.inputs)
        y = b.result(0)
        inplace = (0,) if x.same_elements(y) else ()
        params = ScatterParams(REDUCTIONS[op.reduction])
        b.call(self.kernel, [x, indices, updates], [y], params=params, inplace=inplace)


class ScatterElementsGeneric(_Scatter):
    ops = ("scatter_elements",)
    kernel = "scatter_elements.generic"


class ScatterNDGeneric(_Scatter):
    ops = ("scatter_nd",)
    kernel = "scatter_nd.generic"


@dataclass(frozen=True)
class InsertParams:
    """Where updates go, in elements of the result: ``offset``, and a step per axis of the updates' view."""

    offset: int
    steps: tuple[int, ...]


class InsertGeneric(Plain):
    """The result may lie where the data lies, as it may for scatters."""

    ops = ("insert",)
    kernel = "insert.generic"
    params = InsertParams

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        assert isinstance(node.op, Insert)
        x, updates = (b.read(v) for v in node.inputs)
        y = b.result(0)
        places = y.walk(affine_maps(node.op.maps), updates.shape)
        if isinstance(places, str):
            raise InternalError(places)
        updates, places = _merged(updates, places)
        params = InsertParams(places.offset - y.offset, places.axis_strides())
        inplace = (0,) if x.same_elements(y) else ()
        source, target = _merged(x, y)
        b.call(self.kernel, [source, updates], [target], params=params, inplace=inplace)

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        if before.results != after.results:
            return "the places of insert.generic are those of its result's strides"
        return super().refuses(before, after, target)


@dataclass(frozen=True)
class SumParams:
    """``axis``: that of the views along which sums run; ``block``: how many sums beside each other run at once."""

    axis: int
    block: int


class CumSumGeneric(Plain):
    ops = ("cum_sum",)
    kernel = "cum_sum.generic"
    params = SumParams

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        """Of [4, 32, 32, 32] along axis 1 there are 1,024 sums beside each other."""
        assert isinstance(node.op, CumSum)
        (x,), y, axis = (b.read(v) for v in node.inputs), b.result(0), node.op.axis
        inplace = (0,) if x.same_elements(y) else ()
        for axes in (range(axis + 1, x.rank), range(axis)):
            merged = merge([x, y], axes) if axes else "there is nothing beside it"
            if not isinstance(merged, str):
                axis = merged[0].rank - (x.rank - axis) if axes.start == 0 else axis
                x, y = merged
        block = min(512, bound(y.shape[-1])) if b.target.spare_memory else 64  # they are on the stack
        b.call(self.kernel, [x], [y], params=SumParams(axis, max(block, 1)), inplace=inplace)


class BitCastGeneric(Plain):
    ops = ("bit_cast",)
    kernel = "bit_cast.generic"


class NonzeroGeneric(Variant):
    """How far apart rows lie depends on how many elements are counted."""

    ops = ("nonzero",)
    kernel = "nonzero.generic"
    stores_rows = True


VARIANTS = (
    GatherGeneric(),
    GatherElementsGeneric(),
    GatherNDGeneric(),
    ScatterElementsGeneric(),
    ScatterNDGeneric(),
    InsertGeneric(),
    CumSumGeneric(),
    BitCastGeneric(),
    NonzeroGeneric(),
)
