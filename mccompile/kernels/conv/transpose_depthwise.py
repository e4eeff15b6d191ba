"""Transposed convolution with one filter for each channel: each phase of the result is a depthwise convolution.

Worked example: 64 channels and a kernel of 4 x 4 at stride 2, which doubles an image by bilinear weights, are four
phases with windows of 2 x 2, each of which writes every second pixel of every second line.
"""

from __future__ import annotations

import math
from collections.abc import Container

from mccompile._dataclass import dataclass
from mccompile.ir.dims import varies
from mccompile.ir.graph import Node, Value
from mccompile.kernels.conv.channel_windows import ChannelWindow, fit_extents, window_of
from mccompile.kernels.conv.depthwise import ConvDepthwise, PackedDepthwise, obstacle
from mccompile.kernels.conv.transpose import PackedPhase, Phase, PhaseWeights, part_of, phases, undivided
from mccompile.kernels.variant import Builder, Offer, operand_pair
from mccompile.kernels.views.planes import plane_last
from mccompile.ops.conv_transpose import ConvTranspose
from mccompile.targets.target import Target


@dataclass(frozen=True)
class WindowPhases:
    """The phases of a node, each with its window."""

    tiled: tuple[tuple[Phase, ChannelWindow], ...]


class ConvTransposeDepthwise(ConvDepthwise):
    """The kernel of `conv.depthwise`, once for each phase, on a strided view of the result."""

    ops = ("conv_transpose",)

    def takes(self, node: Node) -> bool:
        return not varies([*operand_pair(node)[0].shape[1:], *node.results[0].shape[1:]])

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        op = node.op
        assert isinstance(op, ConvTranspose)
        if reason := obstacle(node, op.groups, target, constants) or undivided(node):
            return reason
        parts = phases(node)
        found = [fit_extents(_window(p), p.x, p.y, target) for p in parts]
        tiled = tuple((p, window) for p, (_, window) in zip(parts, found, strict=True))
        return Offer(self.label, math.fsum(cycles for cycles, _ in found), WindowPhases(tiled))

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        (x, w), op, chosen = operand_pair(node), node.op, offer.params
        assert isinstance(op, ConvTranspose)
        assert isinstance(chosen, WindowPhases)
        source, result = b.read(x), b.result(0)
        extras = [b.read(v).broadcast(result.shape) for v in node.extras]
        for p, (_, window) in zip(phases(node), chosen.tiled, strict=True):  # those of the node as it is
            weights = PhaseWeights(tuple(a.taps for a in p.axes), op.groups)
            part = part_of(source, p.origin, (1,) * len(p.axes), p.x)
            to_op = [part_of(v, tuple(a.start for a in p.axes), op.strides, p.y) for v in (result, *extras)]
            parts = [plane_last(v) for v in to_op]
            packed = b.packed(w, PackedPhase(weights, PackedDepthwise(b.target.lanes)))
            b.call(self.kernel, [plane_last(part), packed], parts[:1], op=p.op, params=window, extras=parts[1:],
                   logical=p.logical(part, b.seen(w, weights), to_op))  # fmt: skip


def _window(phase: Phase) -> ChannelWindow:
    return window_of(phase.w[2:], phase.op.strides, phase.op.dilations, phase.op.pads)


VARIANTS = (ConvTransposeDepthwise(),)
