"""The family of `arg_reduce`: where along an axis the best element lies."""

from __future__ import annotations

from collections.abc import Container

from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Call
from mccompile.kernels.model.parts import Turns, axes
from mccompile.kernels.model.traffic import moved
from mccompile.kernels.variant import Offer, Variant, not_plain_f32, vectors_apart
from mccompile.ops.arg_reduce import ArgReduce
from mccompile.targets.target import Target

ELEMENT_CYCLES = 3
"""Of an element that is compared with the best so far (Zen 4)."""
LINE_CYCLES = 60
"""What a line takes beside its vectors: lanes are compared, and the place is looked for."""
VECTOR_CYCLES = 3
"""Of a vector, which is looked at twice."""


class _ArgReduce(Variant):
    ops = ("arg_reduce",)

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        y = call.results[0]
        return axes(y, [f"i{a}" for a in range(y.rank)])


class ArgReduceGeneric(_ArgReduce):
    """One element after the other."""

    kernel = "arg_reduce.generic"

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        (x,) = node.operands
        assert x is not None
        return Offer(self.label, ELEMENT_CYCLES * x.type.count + moved(node, target))


class ArgReduceVector(_ArgReduce):
    """Lines of floats that lie side by side, of some vectors each."""

    kernel = "arg_reduce.vector"
    may_share = False

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        op, (x,) = node.op, node.operands
        assert isinstance(op, ArgReduce)
        assert x is not None
        if reason := not_plain_f32(node, target):
            return reason
        if op.axis != x.type.rank - 1:
            return "elements are no neighbours along the axis"
        count = x.shape[op.axis]
        if target.lanes < 2 or count < 2 * target.lanes:
            return "a line is no more than a vector"
        vectors = count / target.lanes
        return Offer(self.label, x.type.count / count * (vectors * VECTOR_CYCLES + LINE_CYCLES) + moved(node, target))

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        return vectors_apart(after, 0)


VARIANTS = (ArgReduceGeneric(), ArgReduceVector())
