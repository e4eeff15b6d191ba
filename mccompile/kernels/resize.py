"""The family of `resize`: element by element, or vectors over channels where these lie together."""

from __future__ import annotations

import math
from collections.abc import Container

from mccompile._dataclass import dataclass
from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Call
from mccompile.ir.views import View
from mccompile.kernels.model.parts import Turns, axes
from mccompile.kernels.model.traffic import moved
from mccompile.kernels.variant import (
    Builder,
    Offer,
    Variant,
    lines_broken,
    not_plain_f32,
    varies_in_batch,
    vectors_apart,
)
from mccompile.kernels.views.channels import is_channels_last
from mccompile.kernels.views.planes import plane_last
from mccompile.ops.resize import Resize
from mccompile.targets.target import Target

SCALAR_CYCLES = 3.0
"""Cycles of a tap of one element: its place and weight are looked up."""
PIXEL_CYCLES = 12.0
"""Cycles of a pixel beside its vectors: places and weights of its taps."""
MOST_TAPS = 16
"""Elements of the operand that a result is made of, which are written out one by one."""
MOST_ALONG = 64
"""The same of results that are made of elements along one axis."""


def _taps(node: Node) -> list[int]:
    """How many elements each resized axis of a result is made of."""
    op = node.op
    assert isinstance(op, Resize)
    return [table.shape[1] for table in node.inputs[1 : 1 + len(op.axes)]]


class ResizeGeneric(Variant):
    ops = ("resize",)
    kernel = "resize.generic"

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        return Offer(self.label, node.results[0].type.count * (SCALAR_CYCLES * math.prod(_taps(node)) + 1))


@dataclass(frozen=True)
class ResizePlane:
    """Which of the resized axes are those of lines and of pixels; -1 for one that keeps its extent."""

    lines: int
    pixels: int


class ResizeChannels(Variant):
    """Places and weights are looked up once for each pixel."""

    ops = ("resize",)
    kernel = "resize.channels"
    params = ResizePlane
    may_share = False

    def takes(self, node: Node) -> bool:
        return varies_in_batch(node)

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        if reason := self._refusal(node, target):
            return reason
        op = node.op
        assert isinstance(op, Resize)
        rank = len(node.result.shape)
        n, channels, *spatial = node.result.shape
        vector = (1.5 * math.prod(_taps(node)) + 1) * target.lanes / target.machine.multiply_adds + 1
        cycles = n * math.prod(spatial) * (-(-channels // target.lanes) * vector + PIXEL_CYCLES)
        along = {axis - rank: i for i, axis in enumerate(op.axes)}
        plane = ResizePlane(along.get(-2, -1) if rank == 4 else -1, along.get(-1, -1))
        return Offer(self.label, max(cycles, moved(node, target)), plane)

    def _refusal(self, node: Node, target: Target) -> str:
        op, x = node.op, node.inputs[0]
        assert isinstance(op, Resize)
        if reason := not_plain_f32(node, target, operands=1):  # others are sizes
            return reason
        if len(x.shape) not in (3, 4) or min(op.axes) < 2:
            return "it resizes other axes than one or two spatial ones"
        if op.partial:
            return "some results lie outside of the operand"
        most = MOST_TAPS if len(op.axes) > 1 else MOST_ALONG
        if math.prod(_taps(node)) > most:
            return f"a result is made of more than {most} elements"
        if not is_channels_last(x) or not is_channels_last(node.results[0]):
            return "a layout is not channels-last"
        return ""

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        x, *tables = node.inputs
        result = b.result(0)
        extras = [plane_last(b.read(v).broadcast(result.shape)) for v in node.extras]
        reads: list[View | None] = [plane_last(b.read(x)), *map(b.read, tables[: len(node.operands) - 1])]
        b.call(self.kernel, reads, [plane_last(result)], params=offer.params, extras=extras)

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        return axes(call.results[0], ["b", "oh", "ow"])

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        return vectors_apart(after, 0) or lines_broken(before, after, reads=False)


VARIANTS = (ResizeGeneric(), ResizeChannels())
