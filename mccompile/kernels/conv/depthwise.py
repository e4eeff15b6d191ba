"""Depthwise convolution of channels-last tensors: vectors run over channels, a line of pixels in registers."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.dims import varies
from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Call
from mccompile.ir.scalar import Array
from mccompile.kernels.conv.channel_windows import (
    ChannelWindow,
    fit_line_ends,
    fit_window,
    has_short_ends,
    narrow_window,
    window_distance,
    window_of,
    window_turns,
)
from mccompile.kernels.conv.line_ends import known_ends
from mccompile.kernels.model.parts import Turns
from mccompile.kernels.model.tiles import RUN
from mccompile.kernels.variant import (
    Builder,
    Compact,
    Offer,
    Staged,
    Variant,
    computed,
    lines_broken,
    not_plain_f32,
    operand_pair,
    vectors_apart,
)
from mccompile.kernels.views.channels import is_channels_last
from mccompile.kernels.views.planes import plane_last
from mccompile.ops.conv import Conv
from mccompile.targets.target import Target


@dataclass(frozen=True)
class PackedDepthwise:
    """Weights [C, 1, kernel...] as [C / lanes][kernel...][lanes], zeros behind the last channel."""

    lanes: int

    def pack(self, array: Array) -> Array:
        channels, kernel = array.shape[0], array.shape[2:]
        blocks = -(-channels // self.lanes)
        padded = np.zeros((blocks * self.lanes, *kernel), dtype=array.dtype)
        padded[:channels] = array[:, 0]
        return np.moveaxis(padded.reshape(blocks, self.lanes, *kernel), 1, -1)


def obstacle(node: Node, groups: int, target: Target, constants: Container[Value]) -> str:
    """Why a convolution, transposed or not, is none of windows of channels; empty if it is."""
    (x, w), y = operand_pair(node), node.results[0]
    if reason := computed(node, constants, 1) or not_plain_f32(node, target, weights=1):
        return reason
    if not groups == x.shape[1] == y.shape[1]:
        return "it is not depthwise"
    if len(x.shape) not in (3, 4):
        return "it has more than two spatial axes"
    if w.shape[-1] > RUN:
        return f"a line of the window has more than {RUN} taps, which would all be written out"
    if not is_channels_last(x) or not is_channels_last(y):
        return "a layout is not channels-last"
    return ""


BYTES_OF_PRODUCT = 16
"""Of machine code, for each product of vectors in a tile's code: counted on MobileNetV1 (aarch64)."""
SLOWER_ENDS = 2
"""Multiply-adds that each result takes more, at stride 1, where a function is told the ends of its tiles' columns."""


class ConvDepthwise(Variant):
    """One filter for each channel. Taps in the padding are left out, so that no halo is needed."""

    ops = ("conv",)
    kernel = "conv.depthwise"
    params = ChannelWindow
    may_share = False
    pads_of_run = True

    def takes(self, node: Node) -> bool:
        op, (x, w), y = node.op, operand_pair(node), node.results[0]
        assert isinstance(op, Conv)
        pad = op.pads[len(op.strides) - 1]
        if varies([x.shape[1]]) or not known_ends(y.shape[-1], x.shape[-1], op.strides[-1], pad):
            return False
        return has_short_ends(w.shape[2:], (x.shape[-1], y.shape[-1], pad))

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        op, w = node.op, operand_pair(node)[1]
        assert isinstance(op, Conv)
        if reason := obstacle(node, op.groups, target, constants):
            return reason
        window = window_of(w.shape[2:], op.strides, op.dilations, op.pads)
        return Offer(self.label, *fit_window(window, node, target))

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        x, w = operand_pair(node)
        result = b.result(0)
        extras = [plane_last(b.read(v).broadcast(result.shape)) for v in node.extras]
        packed = b.packed(w, PackedDepthwise(b.target.lanes))
        source, result = plane_last(b.read(x)), plane_last(result)
        op = node.op
        assert isinstance(op, Conv)
        assert isinstance(offer.params, ChannelWindow)
        window = fit_line_ends(offer.params.of_run(op.pads), result.shape[2], source.shape[2])
        b.call(self.kernel, [source, packed], [result], params=window, extras=extras)

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        return window_turns(call)

    def near(self, call: Call) -> int | None:
        return window_distance(call)

    def narrowed(self, call: Call, pixels: int) -> Call | None:
        return narrow_window(call, pixels)

    def staged(self, call: Call) -> Staged | None:
        """A plane at a time, with the padding around it."""
        p, x, y = call.params, call.reads[0], call.results[0]
        assert isinstance(p, ChannelWindow)
        assert x is not None
        if not p.overlaps or p.long or varies(p.pads) or p.strides != (1, 1) or not x.same_elements(y):
            return None
        return Staged(replace(p, staged=True), (x.shape[1] + p.reach[0]) * (x.shape[2] + p.reach[1]))

    def compact(self, call: Call, alone: bool, target: Target) -> Compact | None:
        """Tiles at the ends of lines by the function of those inside, where that goes along a pointer."""
        p, x, y = call.params, call.reads[0], call.results[0]
        assert isinstance(p, ChannelWindow)
        assert x is not None
        goes = target.can("A64") and p.dilations[1] == 1 and p.taps >= p.kernel[1]
        if not goes or p.staged or varies([*x.shape, *y.shape, *p.pads]):
            return None
        strips = p.strips(y.shape[2], x.shape[2])
        widest = {s.size: s for s in sorted(strips, key=lambda s: s.products)}
        products = sum(s.products for s in strips) - sum(s.products for s in widest.values())
        if not products or not all(s.columns for s in strips):
            return None
        lines = sum(phase.lines for tile in p.tiles_h(y.shape[1]) for phase in p.phases(tile.size))
        joined = replace(call, params=replace(p, joined=True))
        return Compact(joined, products * lines * BYTES_OF_PRODUCT, SLOWER_ENDS * y.count / p.strides[1])

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        return vectors_apart(after, 0) or lines_broken(before, after, reads=False)


VARIANTS = (ConvDepthwise(),)
