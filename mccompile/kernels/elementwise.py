"""The family of `map`: one loop nest over broadcast views, vectors along the result's innermost axis."""

from __future__ import annotations

from collections.abc import Container, Mapping

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.dims import bound
from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Call
from mccompile.ir.types import BOOL, F32, I8, I16, I32, U8, U16
from mccompile.ir.vector import is_direct
from mccompile.ir.views import View
from mccompile.kernels.model.lanes import half_cycles, halves, refusal, scalar_cycles, vector_cycles
from mccompile.kernels.model.parts import Turns, axes
from mccompile.kernels.model.traffic import moved
from mccompile.kernels.variant import Builder, Offer, Variant, lines_broken, neighbours
from mccompile.kernels.views.collapse import collapse, in_stored_order
from mccompile.kernels.views.lines import far, innermost
from mccompile.kernels.views.windows import ascends, element_gap
from mccompile.ops.map import Map
from mccompile.targets.target import Target

MOST_UNROLLED = 4
"""Vectors of a turn of the kernel's loop, at most: a power of two."""
_BYTE_CYCLES: Mapping[str, float] = {"avx512": 0.4, "avx2": 0.8, "neon": 0.8}
"""Of a byte that is looked up in a table of 256 with others beside it, by the instructions of a target (Zen 4)."""
_ONE_BYTE_CYCLES = 1.5
"""Of one that is looked up by itself."""
_TABLE_CYCLES = 50
"""Of a table that is not in the first cache yet."""
COPY_CYCLES = 100
"""Of one more call, and of a buffer that is written and read again."""
COPIED_LINE_CYCLES, COPIED_VECTOR_CYCLES = 2.0, 2.5
"""Of a line that is copied, and of each vector of it (Zen 4: 12 for a line of 81 floats)."""


class _Map(Variant):
    ops = ("map",)
    elementwise = True

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        result = b.result(0)
        reads = [b.read(v).broadcast(result.shape) for v in node.operands if v is not None]
        extras = [b.read(v).broadcast(result.shape) for v in node.extras]
        views = [*reads, *extras, result]
        if all(v.linear for v in views):
            found = collapse(in_stored_order(views))
            views = views if isinstance(found, str) else found
        *inputs, result = views
        inplace = tuple(i for i, v in enumerate(inputs) if v.same_elements(result))
        reads, extras = inputs[: len(reads)], inputs[len(reads) :]
        b.call(self.kernel, list(reads), [result], op=self.computed(node), extras=extras, inplace=inplace)

    def computed(self, node: Node) -> Map:
        """The operator that the kernel is called for."""
        assert isinstance(node.op, Map)
        return node.op

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        y = call.results[0]
        return axes(y, [f"i{a}" for a in range(y.rank)])

    def overlaps(self, call: Call) -> tuple[tuple[int, int], ...]:
        """Of what is not read where the result is written: halves of rows that a gate multiplies, bytes of floats.
        Only where at least half of the result may lie over it: compilers know less of pointers that overlap."""
        y = call.results[0]
        elsewhere = {v.buffer for i, v in enumerate(call.inputs) if v is not None and i not in call.inplace}
        if not elsewhere or not ascends(y):
            return ()
        read = [(i, v) for i, v in enumerate(call.inputs) if v is not None and v.buffer in elsewhere]
        gaps = [(i, element_gap(v, y)) for i, v in read if v.buffer.space == "arena"]
        return tuple((i, gap) for i, gap in gaps if gap is not None and 2 * gap <= y.buffer.nbytes)


class MapGeneric(_Map):
    kernel = "map.generic"

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        op, result = node.op, node.results[0]
        assert isinstance(op, Map)
        bodies = (op.expr, *node.pre.values(), *node.post.values())
        one = scalar_cycles(bodies, target) + half_cycles((*node.inputs, result), target) + 0.5
        cycles = result.type.count * one + moved(node, target)
        return Offer(self.label, cycles)


class MapVector(_Map):
    """Any expression over f32, i32, f16 and masks that has a vector form, any broadcast."""

    kernel = "map.vector"
    may_share = False

    def takes(self, node: Node) -> bool:
        return True

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        op, result = node.op, node.results[0]
        assert isinstance(op, Map)
        if all(v.dtype == BOOL for v in (*node.inputs, *node.results)):
            return "compilers make vectors of more bools of a plain loop"
        if target.lanes == 1:
            return "of one lane it would be the plain loop"
        dtypes = (F32, I32, I8, U8, I16, U16, BOOL, *halves(target))
        if reason := refusal(node, target, (op.expr, *node.post.values()), dtypes) or _far_operands(node):
            return reason
        line = max(_stored_last(result), 1)
        bodies = (op.expr, *node.pre.values(), *node.post.values())
        gathers = sum(min(line, target.lanes) for v in node.inputs if far(v, result))
        one = vector_cycles(bodies, target.vector_bytes) + len(node.inputs) + 1 + gathers
        lines = result.type.count / line
        return Offer(self.label, lines * (-(-line // target.lanes) * one + 4) + moved(node, target))

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        y = call.results[0]
        last = [Turns.vectors("n", y.shape[-1], MOST_UNROLLED * target.lanes)] if y.rank else []
        return [*axes(y, [f"i{a}" for a in range(y.rank - 1)]), *last]

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        if any(v is not None and not is_direct(v.dtype) for v in (*before.inputs, *before.results)):
            return "map.vector wants its masks and halves as they are"
        return lines_broken(before, after) or _lines_shortened(before, after, target)


class MapBytes(_Map):
    """Any function of one byte that gives a byte, as a table: of bytes that lie side by side, many at once.

    >>> halved = ex.convert(ex.apply("mul", ex.convert(ex.var(0, U8), F32), ex.num(0.5)), U8)
    >>> tabulated(halved).elements[[0, 1, 4, 255]].tolist()
    [0, 0, 2, 127]
    """

    kernel = "map.bytes"
    may_share = False

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        op, result = node.op, node.results[0]
        assert isinstance(op, Map)
        if node.pre or node.post or len(node.inputs) != 1 or node.inputs[0].dtype not in (I8, U8):
            return "it is no function of one byte"
        if result.dtype not in (I8, U8) or not isinstance(op.expr, ex.Apply | ex.Convert | ex.Lookup):
            return "it gives no byte that depends on one"
        if target.lanes < 2 or target.compact:
            return "a table takes more memory than what it is made by"
        if reason := refusal(node, target, dtypes=(I8, U8)):
            return reason
        if node.inputs[0].shape != result.shape or far(node.inputs[0], result):
            return "neighbours lie apart"
        rest = result.type.count % target.machine.lanes(U8)
        together = (result.type.count - rest) * _BYTE_CYCLES.get(target.isa, _ONE_BYTE_CYCLES)
        cycles = together + rest * _ONE_BYTE_CYCLES + _TABLE_CYCLES
        return Offer(self.label, cycles + moved(node, target))

    def computed(self, node: Node) -> Map:
        op = super().computed(node)
        return Map(tabulated(op.expr))

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        y = call.results[0]
        last = [Turns.vectors("n", y.shape[-1], target.machine.lanes(U8))] if y.rank else []
        return [*axes(y, [f"i{a}" for a in range(y.rank - 1)]), *last]

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        (x,), (y,) = after.reads, after.results
        assert x is not None
        return "" if neighbours(x) and neighbours(y) else f"{self.kernel} reads and stores bytes side by side"


def tabulated(e: ex.Expr) -> ex.Lookup:
    """A function of one byte as the table of what it gives."""
    (byte,) = {part for part in ex.distinct(e) if isinstance(part, ex.Var)}
    numbers = np.arange(256, dtype=np.uint8).view(byte.dtype.numpy)
    found = ex.lookup(byte, np.broadcast_to(ex.evaluate(e, lambda _: numbers), (256,)).astype(e.dtype.numpy))
    assert isinstance(found, ex.Lookup)
    return found


def _stored_last(value: Value) -> int:
    axis = innermost(value)
    return value.shape[axis] if axis >= 0 else 1


def _lines_shortened(before: Call, after: Call, target: Target) -> str:
    """Why a map over shorter lines would take longer than a copy that spares it these: most lanes would be left out,
    as of lines of two, which an image has whose pixels each come twice."""
    if target.compact or not target.spare_memory:
        return ""
    assert isinstance(after.op, Map)
    bodies = (after.op.expr, *(body for _, body in (*after.pre, *after.post)))
    one = vector_cycles(bodies, target.vector_bytes) + len(after.inputs) + 1
    lines, short = _lines(after.results[0], target.lanes)
    _, whole = _lines(before.results[0], target.lanes)
    copied = COPY_CYCLES + lines * COPIED_LINE_CYCLES + whole * COPIED_VECTOR_CYCLES
    if (short - whole) * one > copied:
        return f"{after.kernel} would leave out most lanes of its vectors"
    return ""


def _lines(y: View, lanes: int) -> tuple[float, float]:
    """How many lines a view has, and how many vectors these take."""
    line = bound(y.shape[-1]) if y.rank else 1
    lines = bound(y.count) / max(line, 1)
    return lines, lines * -(-line // lanes)


def _far_operands(node: Node) -> str:
    short = [v for v in node.inputs if not is_direct(v.dtype)]
    return "a mask or f16 lies in another order" if any(far(v, node.results[0]) for v in short) else ""


VARIANTS = (MapGeneric(), MapVector(), MapBytes())
