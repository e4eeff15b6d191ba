"""The family of `reduce`: an outer nest over what is kept, an inner one over what is reduced."""

from __future__ import annotations

from dataclasses import dataclass

from mccompile.ir import expr as ex
from mccompile.ir.errors import InternalError
from mccompile.ir.graph import Node
from mccompile.ir.kernel import View
from mccompile.ir.types import row_major
from mccompile.kernels.loops import collapse
from mccompile.kernels.variant import Builder, Variant
from mccompile.ops.reduce import Reduce
from mccompile.targets.target import Target


@dataclass(frozen=True)
class Params:
    """``kept``: how many leading axes of the operand's view are kept; the others are reduced."""

    kept: int


class ReduceGeneric(Variant):
    ops = ("reduce",)
    kernel = "reduce.generic"
    params = Params

    def supports(self, node: Node, target: Target) -> str:
        if any(not v.type.linear for v in (*node.inputs, *node.results)):
            return "reduction needs row-major operands"
        return ""

    def lower(self, node: Node, b: Builder) -> None:
        op = node.op
        assert isinstance(op, Reduce)
        assert node.operands[0] is not None
        x, y = b.read(node.operands[0]), b.result(0)
        kept, reduced = [a for a in range(x.rank) if a not in op.axes], list(op.axes)
        early = set().union(*map(ex.variables, node.pre.values()))
        # What a prologue reads lies beside the operand, what an epilogue reads beside the result.
        extras = [b.read(v).broadcast(x.shape if i in early else y.shape) for i, v in enumerate(node.extras)]
        outer = collapse([axes_of(v, kept) for v in (x, y, *extras)])
        beside = [v for i, v in enumerate(extras) if i in early]
        inner = collapse([axes_of(v, reduced) for v in (x, *beside)])
        if isinstance(outer, str) or isinstance(inner, str):
            raise InternalError("reduction of a blocked layout")
        rows = iter(inner)
        both = join_axes(outer[0], next(rows))
        read = [join_axes(v, next(rows)) if i in early else v for i, v in enumerate(outer[2:])]
        b.call(self.kernel, [both], [outer[1]], params=Params(outer[0].rank), extras=read)


def axes_of(view: View, axes: list[int]) -> View:
    """The view along some of its axes, the others held at coordinate 0."""
    strides = view.axis_strides()
    shape = tuple(view.shape[a] for a in axes)
    return View(view.buffer, shape, row_major(len(axes)), tuple(strides[a] for a in axes), view.offset)


def join_axes(outer: View, inner: View) -> View:
    """Axes of one view followed by those of another of the same buffer and offset."""
    shape = outer.shape + inner.shape
    return View(outer.buffer, shape, row_major(len(shape)), outer.strides + inner.strides, outer.offset)


VARIANTS = (ReduceGeneric(),)
