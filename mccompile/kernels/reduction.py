"""The family of `reduce`: an outer nest over what is kept, an inner one over what is reduced."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.dims import varies
from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Call
from mccompile.ir.types import BOOL, F32, F64, I32
from mccompile.ir.vector import NARROW, is_narrow
from mccompile.ir.views import View
from mccompile.kernels.model.lanes import (
    half_cycles,
    halves,
    loaded,
    read_early,
    refusal,
    scalar_cycles,
    vector_cycles,
)
from mccompile.kernels.model.parts import Turns, kept_axes
from mccompile.kernels.model.tiles import segments
from mccompile.kernels.model.traffic import moved
from mccompile.kernels.variant import (
    Builder,
    Offer,
    Variant,
    blocked,
    lines_broken,
    read_forwards,
    sums_backwards,
    vectors_apart,
)
from mccompile.kernels.views.lines import Lines, innermost, join_axes, lanes_last, nest
from mccompile.ops.reduce import Reduce
from mccompile.targets.target import Target

LINE_CYCLES = 25
"""What a reduced line takes beside its vectors: their lanes are combined."""


@dataclass(frozen=True)
class Params:
    """``kept``: how many leading axes of the operand's view are kept; the others are reduced."""

    kept: int


@dataclass(frozen=True)
class _Nests:
    """Views along kept axes (operand, result, extras), and along reduced axes (operand, extras of prologues).

    ``early`` are the extras that prologues read, which lie beside the operand.
    """

    outer: list[View]
    inner: list[View]
    early: set[int]


def _nests(node: Node, b: Builder) -> _Nests:
    op = node.op
    assert isinstance(op, Reduce)
    assert node.operands[0] is not None
    x, y = b.read(node.operands[0]), b.result(0)
    kept, reduced = [a for a in range(x.rank) if a not in op.axes], list(op.axes)
    early = set().union(*map(ex.variables, node.pre.values()))
    # What a prologue reads lies beside the operand, what an epilogue reads beside the result.
    extras = [b.read(v).broadcast(x.shape if i in early else y.shape) for i, v in enumerate(node.extras)]
    beside = [v for i, v in enumerate(extras) if i in early]
    return _Nests(nest([x, y, *extras], kept), nest([x, *beside], reduced), early)


class ReduceGeneric(Variant):
    ops = ("reduce",)
    kernel = "reduce.generic"
    params = Params

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        if reason := blocked(node):
            return reason
        assert node.operands[0] is not None
        one = 3 + scalar_cycles(node.pre.values(), target) + half_cycles([node.operands[0]], target)
        cycles = node.operands[0].type.count * one + moved(node, target)
        return Offer(self.label, cycles)

    def forwards(self, call: Call) -> Call:
        assert isinstance(call.params, Params)
        return read_forwards(call, call.params.kept)

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        n = _nests(node, b)
        rows = iter(n.inner)
        both = join_axes(n.outer[0], next(rows))
        read = [join_axes(v, next(rows)) if i in n.early else v for i, v in enumerate(n.outer[2:])]
        b.call(self.kernel, [both], [n.outer[1]], params=Params(n.outer[0].rank), extras=read)

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        """`forwards` turns operand 0 alone: what a prologue reads beside it may run backwards then."""
        (x, *_), p = after.reads, after.params
        assert isinstance(p, Params)
        assert x is not None
        beside = [e for e in after.extras if e.rank == x.rank]
        backwards = [sums_backwards(e, range(p.kept, x.rank)) for e in beside]
        return next(filter(None, backwards), "") or super().refuses(before, after, target)

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        return kept_axes(call)


class ReduceVector(Variant):
    """Vectors along the innermost axis of the operand: they are reduced to one element, or one with another."""

    ops = ("reduce",)
    kernel = "reduce.vector"
    params = Lines
    may_share = False

    def takes(self, node: Node) -> bool:
        return True

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        op, (x,), y = node.op, node.operands, node.results[0]
        assert isinstance(op, Reduce)
        assert x is not None
        whole = loaded(node, 0) == I32 and is_narrow(x.dtype)
        if not (whole or loaded(node, 0) == F32):
            return "only f32 is vectorised, and sums of integers of 8 and 16 bits"
        if innermost(x) < 0:
            return "there is one element"
        if whole and (op.mode != "sum" or x.shape[innermost(x)] != y.shape[innermost(x)]):
            return "integers are added up across vectors only"
        early = read_early(node)
        if any(v.dtype == BOOL for v in early):
            return "masks are not vectorised"
        if reason := refusal(node, target, (), (F32, BOOL, I32, *NARROW, *halves(target)), [x, *early]):
            return reason
        axis = innermost(x)
        if x.type.count == 0:
            return "there is nothing to reduce"
        vectors = x.type.count / x.shape[axis] * -(-x.shape[axis] // target.lanes)
        one = 3 + vector_cycles(node.pre.values(), target.vector_bytes)
        lines = y.type.count if x.shape[axis] != y.shape[axis] else y.type.count / target.lanes
        return Offer(self.label, vectors * one + lines * LINE_CYCLES + moved(node, target))

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        (x,), y = node.operands, node.results[0]
        assert x is not None
        lanes_reduced = x.shape[innermost(x)] != y.shape[innermost(x)]
        n = _nests(node, b)
        rows = iter(n.inner)
        both = lanes_last(n.outer[0], next(rows), lanes_reduced)
        read = [lanes_last(v, next(rows), lanes_reduced) if i in n.early else v for i, v in enumerate(n.outer[2:])]
        params = Lines(n.outer[0].rank - (not lanes_reduced), lanes_reduced)
        b.call(self.kernel, [both], [n.outer[1]], params=params, extras=read)

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        (x, *_), p = call.reads, call.params
        assert isinstance(p, Lines)
        if x is None or p.lanes_reduced or varies([x.shape[-1]]):
            return kept_axes(call)
        width = p.beside * target.lanes
        return [*kept_axes(call), Turns.tiles("n", segments(x.shape[-1], width, target.lanes))]

    def apart(self, call: Call, parts: int, target: Target) -> Call:
        """With fewer vectors at a time, where they are too few for the parts and nothing else is kept."""
        (x, *_), p = call.reads, call.params
        assert isinstance(p, Lines)
        if x is None or p.lanes_reduced or kept_axes(call) or varies([x.shape[-1]]):
            return call
        vectors = -(-x.shape[-1] // target.lanes)
        return replace(call, params=replace(p, beside=min(p.beside, -(-vectors // parts))))

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        return lines_broken(before, after)


class ReduceDoubles(ReduceVector):
    """The same of doubles: sums of several vectors, where compilers add up one element after the other."""

    kernel = "reduce.doubles"

    def takes(self, node: Node) -> bool:
        return not node.varies

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        op, (x,), y = node.op, node.operands, node.results[0]
        assert isinstance(op, Reduce)
        assert x is not None
        lanes = target.machine.lanes(F64)
        if x.dtype != F64 or y.dtype != F64 or node.pre:
            return "an operand is not f64, or has a prologue"
        if reason := blocked(node):
            return reason
        if lanes < 2 or target.compact or innermost(x) < 0:
            return "there are no vectors of doubles"
        if x.type.count == 0:
            return "there is nothing to reduce"
        axis = innermost(x)
        reduced = x.shape[axis] != y.shape[axis]
        vectors = x.type.count / x.shape[axis] * -(-x.shape[axis] // lanes)
        lines = y.type.count if reduced else y.type.count / lanes
        late = scalar_cycles(node.post.values(), target) * y.type.count
        return Offer(self.label, vectors * 3 + lines * LINE_CYCLES + late + moved(node, target))

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        (x, *_), p = call.reads, call.params
        assert isinstance(p, Lines)
        if x is None or p.lanes_reduced:
            return kept_axes(call)
        lanes = target.machine.lanes(F64)
        return [*kept_axes(call), Turns.tiles("n", segments(x.shape[-1], p.beside * lanes))]

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        return vectors_apart(after, 0)


VARIANTS = (ReduceGeneric(), ReduceVector(), ReduceDoubles())
