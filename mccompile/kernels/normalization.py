"""The families of `softmax` and `normalize`: an outer nest over kept axes, inner nests over what belongs together."""

from __future__ import annotations

import math
from collections.abc import Container

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Call
from mccompile.ir.types import BOOL, F32, I32
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
from mccompile.kernels.model.traffic import moved
from mccompile.kernels.variant import Builder, Offer, Variant, blocked, lines_broken, read_forwards, scattered
from mccompile.kernels.views.lines import Lines, innermost, join_axes, lanes_last, nest
from mccompile.ops.normalize import Normalize
from mccompile.ops.softmax import Softmax
from mccompile.ops.softmax_bytes import SoftmaxBytes
from mccompile.targets.target import Target

ROW_CYCLES = 60
"""What a row takes beside its vectors: the largest of the lanes, sums of them, a division."""


@dataclass(frozen=True)
class Params:
    """``kept``: how many leading axes of the views are kept; the elements along the others belong together."""

    kept: int


class _Rows(Variant):
    params = Params

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        if reason := blocked(node):
            return reason
        bodies = (*node.pre.values(), *node.post.values())
        power = 40 if isinstance(node.op, Softmax) else 4
        one = power + scalar_cycles(bodies, target) + half_cycles((*node.inputs, *node.results), target)
        cycles = node.results[0].type.count * one + moved(node, target)
        return Offer(self.label, cycles)

    def forwards(self, call: Call) -> Call:
        ordered = isinstance(call.op, Softmax) and call.op.mode == "hard"  # the first of equals counts
        assert isinstance(call.params, Params)
        return call if ordered else read_forwards(call, call.params.kept)

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        outer, inner = _nests(node, b)
        x, y, *extras = (join_axes(o, i) for o, i in zip(outer, inner, strict=True))
        b.call(self.kernel, [x], [y], params=Params(outer[0].rank), extras=extras,
               inplace=overwritable(node, x, y, extras))  # fmt: skip

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        return kept_axes(call)


def _nests(node: Node, b: Builder) -> tuple[list[View], list[View]]:
    """Operand, result and extras along the kept axes, and along those that belong together."""
    (operand,) = node.operands
    assert operand is not None
    x, y = b.read(operand), b.result(0)
    together = normalised_axes(node)
    kept = [a for a in range(x.rank) if a not in together]
    views = [x, y, *(b.read(v).broadcast(y.shape) for v in node.extras)]
    return nest(views, kept), nest(views, together)


def normalised_axes(node: Node) -> tuple[int, ...]:
    op = node.op
    assert isinstance(op, Normalize | Softmax | SoftmaxBytes)
    return op.axes if isinstance(op, Normalize) else (op.axis,)


def overwritable(node: Node, x: View, y: View, extras: list[View]) -> tuple[int, ...]:
    """The inputs the result may overwrite: the kernels read a whole row before they write its first element."""
    late = set().union(*map(ex.variables, node.post.values())) - set().union(*map(ex.variables, node.pre.values()))
    found = [0] if x.same_elements(y) else []
    return tuple(found + [1 + i for i, v in enumerate(extras) if i in late and v.same_elements(y)])


class SoftmaxGeneric(_Rows):
    ops = ("softmax",)
    kernel = "softmax.generic"


class SoftmaxBytesGeneric(_Rows):
    ops = ("softmax_bytes",)
    kernel = "softmax_bytes.generic"


class NormalizeGeneric(_Rows):
    ops = ("normalize",)
    kernel = "normalize.generic"


class _RowsVector(Variant):
    """Vectors along the innermost axis, be it one that is normalised or one that is kept; across rows that are short.

    ``short`` is the most elements of a row of which there is one in each lane.
    """

    short = 0
    row_cycles = ROW_CYCLES

    params = Lines
    may_share = False

    def takes(self, node: Node) -> bool:
        return True

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        if reason := self._refusal(node, target):
            return reason
        return Offer(self.label, self._cycles(node, target))

    def _refusal(self, node: Node, target: Target) -> str:
        (x,), y = node.operands, node.results[0]
        assert x is not None
        if loaded(node, 0) != F32:
            return "only f32 is vectorised"
        if innermost(x) < 0 or innermost(x) != innermost(y):
            return "operand and result lie in different orders"
        early = read_early(node)
        if any(v.dtype == BOOL and innermost(v) - len(v.shape) != innermost(x) - len(x.shape) for v in early):
            return "a mask lies in another order"
        bodies, dtypes = node.post.values() if is_narrow(y.dtype) else (), (F32, BOOL, I32, *NARROW, *halves(target))
        return refusal(node, target, bodies, dtypes, [x, *early])

    def reduces_lanes(self, node: Node) -> bool:
        """Whether vectors run along what belongs together, rather than across."""
        shape, together = node.results[0].shape, normalised_axes(node)
        row = math.prod(shape[a] for a in together)
        return innermost(node.results[0]) in together and (row > self.short or node.results[0].type.count == row)

    def _cycles(self, node: Node, target: Target) -> float:
        y = node.results[0]
        lanes_reduced, axis = self.reduces_lanes(node), innermost(y)
        row = math.prod(y.shape[a] for a in normalised_axes(node))
        gathered = not lanes_reduced and axis in normalised_axes(node)
        line = y.type.count // row if gathered else y.shape[axis]
        early, late = (vector_cycles(bodies.values(), target.vector_bytes) for bodies in (node.pre, node.post))
        one = (20 if isinstance(node.op, Softmax) else 8) + 3 * early + late + 3 * target.lanes * gathered
        vectors = y.type.count / line * -(-line // target.lanes)
        rows = y.type.count / row / (1 if lanes_reduced else target.lanes)
        return vectors * one + self.row_cycles * rows + moved(node, target)

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        lanes_reduced = self.reduces_lanes(node.at_bounds())
        outer, inner = _nests(node, b)
        x, y, *extras = (lanes_last(o, i, lanes_reduced) for o, i in zip(outer, inner, strict=True))
        params = Lines(outer[0].rank - (not lanes_reduced), lanes_reduced)
        b.call(self.kernel, [x], [y], params=params, extras=extras, inplace=(0,) if x.same_elements(y) else ())

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        return kept_axes(call)

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        if any(v.dtype == BOOL for v in before.extras) and before.extras != after.extras:
            return f"{self.kernel} wants its masks as they are"
        if scattered(before.results[0], after.results[0]):
            return f"{self.kernel} reads its result again"
        return lines_broken(before, after)


class SoftmaxVector(_RowsVector):
    ops = ("softmax",)
    kernel = "softmax.vector"
    short = 4

    def _refusal(self, node: Node, target: Target) -> str:
        op = node.op
        assert isinstance(op, Softmax)
        return "the first largest of a row is found in order" if op.mode == "hard" else super()._refusal(node, target)


class HardmaxVector(_RowsVector):
    """Along rows, or with a row in each lane, where these lie side by side."""

    ops = ("softmax",)
    kernel = "softmax.hard"

    def takes(self, node: Node) -> bool:
        return not node.varies

    def _refusal(self, node: Node, target: Target) -> str:
        op = node.op
        assert isinstance(op, Softmax)
        if op.mode != "hard":
            return "no element stands for all others"
        if target.lanes < 2:
            return "of one lane it would be the plain loop"
        return super()._refusal(node, target)

    def _cycles(self, node: Node, target: Target) -> float:
        return super()._cycles(node, target) / 2  # no powers


class NormalizeVector(_RowsVector):
    ops = ("normalize",)
    kernel = "normalize.vector"
    row_cycles = 25
    """Of 4,096 rows (Zen 4): 37 us if they are of 16 elements, 76 one by one; 40 and 37 of 8."""


VARIANTS = (
    SoftmaxGeneric(), SoftmaxBytesGeneric(), NormalizeGeneric(), SoftmaxVector(), HardmaxVector(),
    NormalizeVector(),
)
