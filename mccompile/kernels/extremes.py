"""The family of `extremes`: an outer nest over what is kept, an inner one over what both extremes are found of."""

from __future__ import annotations

from collections.abc import Container

from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Call
from mccompile.ir.types import F32
from mccompile.ir.views import View
from mccompile.kernels.model.lanes import refusal
from mccompile.kernels.model.parts import Turns, kept_axes
from mccompile.kernels.model.traffic import moved
from mccompile.kernels.reduction import LINE_CYCLES, Params
from mccompile.kernels.variant import Builder, Offer, Variant, blocked, lines_broken, read_forwards
from mccompile.kernels.views.lines import innermost, join_axes, nest
from mccompile.ops.extremes import Extremes
from mccompile.targets.target import Target

ELEMENT_CYCLES = 4
"""Of an element that is compared with both."""
VECTOR_CYCLES = 3


class ExtremesGeneric(Variant):
    """One element after the other."""

    ops = ("extremes",)
    kernel = "extremes.generic"
    params = Params

    def takes(self, node: Node) -> bool:
        return True

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        (x,) = node.operands
        assert x is not None
        if node.pre:
            return f"{self.kernel} carries no prologue"
        return blocked(node) or Offer(self.label, x.type.count * ELEMENT_CYCLES + moved(node, target))

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        op, (x,) = node.op, node.operands
        assert isinstance(op, Extremes)
        assert x is not None
        read, low, high = b.read(x), b.result(0), b.result(1)
        extras = [b.read(v).broadcast(low.shape) for v in node.extras]
        kept = [a for a in range(read.rank) if a not in op.axes]
        views: list[View] = nest([read, low, high, *extras], kept)
        (inner,) = nest([read], list(op.axes))
        x_view = join_axes(views[0], inner)
        b.call(self.kernel, [x_view], views[1:3], params=Params(views[0].rank), extras=views[3:])

    def forwards(self, call: Call) -> Call:
        assert isinstance(call.params, Params)
        return read_forwards(call, call.params.kept)

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        return kept_axes(call)


class ExtremesVector(ExtremesGeneric):
    """Vectors along the innermost axis of the operand, whose lanes are compared at the end."""

    kernel = "extremes.vector"
    may_share = False

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        (x,), y = node.operands, node.results[0]
        assert x is not None
        if not in_vectors(x, y):
            return "lines of f32 alone are vectorised, and such as lie along an axis that is reduced"
        if node.pre:
            return f"{self.kernel} carries no prologue"
        if reason := refusal(node, target, (), (F32,), [x]):
            return reason
        axis = innermost(x)
        if x.type.count == 0:
            return "there is nothing to compare"
        lines = x.type.count / x.shape[axis]
        vectors = lines * -(-x.shape[axis] // target.lanes)
        return Offer(self.label, vectors * VECTOR_CYCLES + y.type.count * LINE_CYCLES + moved(node, target))

    def forwards(self, call: Call) -> Call:
        return call

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        return lines_broken(before, after)


def in_vectors(x: Value, y: Value) -> bool:
    """Whether vectors go along an axis of ``x`` over which the extremes ``y`` are found."""
    axis = innermost(x)
    return x.dtype == F32 and axis >= 0 and x.shape[axis] != y.shape[axis]


VARIANTS = (ExtremesGeneric(), ExtremesVector())
