"""The family of all data movement: `copy(view -> view)`, one call per affine move, and fills."""

from __future__ import annotations

from collections.abc import Container, Hashable

from mccompile.ir.affine import count
from mccompile.ir.dims import bound, varies
from mccompile.ir.errors import InternalError
from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Call
from mccompile.ir.views import View
from mccompile.kernels.model.parts import Turns, axes
from mccompile.kernels.movement import Way, lanes_of, movement
from mccompile.kernels.variant import Builder, Offer, Variant, blocked, innermost_stride
from mccompile.kernels.views.collapse import collapse
from mccompile.kernels.views.windows import ascends, element_gap
from mccompile.ops.movement import Movement
from mccompile.ops.registry import operators
from mccompile.ops.slice import Slice
from mccompile.targets.target import Target

PLAIN_CYCLES = 1.0
"""Of an element that is moved on its own."""
MOVED_CYCLES = 0.5
"""Of an element that is moved in rows or turned in squares of vectors (0.3 to 0.55 from the second cache)."""


class CopyGeneric(Variant):
    ops = tuple(name for name, op in operators().items() if issubclass(op, Movement))
    kernel = "copy.generic"
    elementwise = True

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        if node.pre or node.post:
            return "movement carries no prologue or epilogue"
        if reason := blocked(node):
            return reason
        words = sum(r.type.count for r in node.results)
        plain = any(not lanes_of(r.dtype, target.lanes) for r in node.results)
        return Offer(self.label, words * (PLAIN_CYCLES if plain else MOVED_CYCLES))

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        op = node.op
        assert isinstance(op, Movement)
        operands = [b.read(v) for v in node.operands if v is not None]
        results = [b.result(i) for i in range(len(node.results))]
        types = tuple(v.type for v in node.operands if v is not None)
        if op.background is not None:
            b.fill(results[0], op.background)
        for move in op.moves(types, tuple(r.type for r in node.results)):
            if count(move):
                src = operands[move.operand].walk(move.src, move.loops)
                dst = results[move.result].walk(move.dst, move.loops)
                self._copy(src, dst, b)

    def shared(self, call: Call) -> Hashable:
        """In parts, their views: code of other numbers is told these, and has its loops in another order."""
        return call.op if call.parts is None else (call.op, *call.views())

    def near(self, call: Call) -> int | None:
        """Only of a view that had to be copied after all: any other copy is to go rather than to take no memory."""
        return ahead(call) if isinstance(call.op, Slice) and call.op.view else None

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        x, y = call.reads[0], call.results[0]
        assert x is not None
        found = movement(x, y, target.lanes)
        inner = {Way.PLAIN: 0, Way.ROWS: 1}.get(found.way, 2)
        outer = axes(found.result, [f"i{a}" for a in range(found.result.rank - inner)])
        if inner < 2:
            return outer
        along = found.result.shape[-2 if found.way is Way.WEAVE else -1]
        return outer if varies([along]) else [*outer, Turns.vectors("n", along, lanes_of(x.dtype, target.lanes))]

    def _copy(self, src: View | str, dst: View | str, b: Builder) -> None:
        if isinstance(src, str) or isinstance(dst, str):
            raise InternalError(f"no view for a move: {src if isinstance(src, str) else dst}")
        views = collapse(_inner_last([src, dst]))
        if isinstance(views, str):
            raise InternalError(views)
        b.call(self.kernel, [views[0]], [views[1]])


def ahead(call: Call) -> int | None:
    """By how many bytes a copy writes ahead of what it reads, at most, where both buffers begin at one place; None
    where it does not go forwards through both, or farther than the result is long."""
    x, y = call.reads[0], call.results[0]
    if x is None or call.varies or call.pre or call.post:
        return None
    forwards = all(ascends(v) and innermost_stride(v) == 1 for v in (x, y))
    return element_gap(x, y) if forwards else None


def _inner_last(views: list[View]) -> list[View]:
    """The views with their axes, which mean nothing, in an order in which neighbours in memory follow each other."""
    steps = [sum(map(abs, pair)) for pair in zip(*(v.axis_strides() for v in views), strict=True)]
    order = sorted(range(len(steps)), key=lambda a: -bound(steps[a]))
    return [v.along(order) for v in views]


VARIANTS = (CopyGeneric(),)
