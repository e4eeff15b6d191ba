"""The families of grid_sample, roi_align and roi_pool: what a place is made of is found once for all channels; then
one channel after the other is summed, or vectors over channels where these lie together."""

from __future__ import annotations

from collections.abc import Container

from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Call
from mccompile.kernels.model.lanes import loaded
from mccompile.kernels.model.parts import Turns, axes
from mccompile.kernels.model.traffic import moved
from mccompile.kernels.variant import (
    Builder,
    Offer,
    Variant,
    blocked,
    lines_broken,
    not_plain_f32,
    operand_pair,
    varies_in_batch,
    vectors_apart,
)
from mccompile.kernels.views.channels import is_channels_last, last
from mccompile.ops.grid_sample import GridSample
from mccompile.ops.roi_align import RoiAlign
from mccompile.targets.target import Target

SCALAR_CYCLES = 4.0
"""Cycles of a tap of one element: where it is and what it weighs is read."""
PLACE_CYCLES = 20.0
"""Cycles of a coordinate of a place; each combination of taps takes a fifth of it beside."""


def _places(node: Node) -> tuple[int, int, float]:
    """How many places are sampled, of how many elements each, and in how many cycles these are found."""
    op, y = node.op, node.results[0].type
    assert isinstance(op, GridSample)
    taps = op.taps ** (y.rank - 2)
    places = y.count // max(y.shape[1], 1)
    return places, taps, places * PLACE_CYCLES * (y.rank - 2 + taps / 5)


def _not_sampled(node: Node, kernel: str) -> str:
    """Why a generic template, which goes to its operands by strides and as they are, cannot; empty if it can."""
    return f"{kernel} carries no prologue" if node.pre else blocked(node)


class GridSampleGeneric(Variant):
    ops = ("grid_sample",)
    kernel = "grid_sample.generic"

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        if reason := _not_sampled(node, self.kernel):
            return reason
        _, taps, cycles = _places(node)
        return Offer(self.label, node.results[0].type.count * (SCALAR_CYCLES * taps + 2) + cycles)


class GridSampleChannels(Variant):
    ops = ("grid_sample",)
    kernel = "grid_sample.channels"
    may_share = False

    def takes(self, node: Node) -> bool:
        return varies_in_batch(node)

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        if reason := not_plain_f32(node, target):
            return reason
        if not is_channels_last(node.inputs[0]) or not is_channels_last(node.results[0]):
            return "a layout is not channels-last"
        places, taps, cycles = _places(node)
        vectors = -(-node.results[0].shape[1] // target.lanes) * target.lanes / target.machine.multiply_adds
        return Offer(self.label, max(places * vectors * (2 * taps + 2) + cycles, moved(node, target)))

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        x, grid = operand_pair(node)
        result = b.result(0)
        extras = [last(b.read(v).broadcast(result.shape)) for v in node.extras]
        b.call(self.kernel, [last(b.read(x)), b.read(grid)], [last(result)], extras=extras)

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        y = call.results[0]
        return axes(y, ["b", *(f"o{a}" for a in range(y.rank - 2))])

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        return vectors_apart(after, 0) or lines_broken(before, after, reads=False)


class RoiAlignGeneric(Variant):
    """The sums of all channels of a bin lie in scratch memory."""

    ops = ("roi_align",)
    kernel = "roi_align.generic"

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        if reason := _not_sampled(node, self.kernel):
            return reason
        op = node.op
        assert isinstance(op, RoiAlign)
        samples = max(op.samples, 1) ** 2
        return Offer(self.label, node.results[0].type.count * samples * 4 * SCALAR_CYCLES)

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        channels = node.results[0].shape[1]
        scratch = b.scratch(channels, loaded(node, 0).compute)  # the epilogue may make bytes of what is summed
        reads = [None if v is None else b.read(v) for v in node.operands]
        b.call(self.kernel, reads, [b.result(0)], scratch=scratch)


class RoiPoolGeneric(Variant):
    ops = ("roi_pool",)
    kernel = "roi_pool.generic"

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        if reason := _not_sampled(node, self.kernel):
            return reason
        x, y = node.operand_types()[0], node.results[0].type
        assert x is not None
        pixels = -(-x.shape[2] // y.shape[2]) * -(-x.shape[3] // y.shape[3])  # where a region is all of the image
        return Offer(self.label, y.count * (pixels * SCALAR_CYCLES + PLACE_CYCLES))


VARIANTS = (GridSampleGeneric(), GridSampleChannels(), RoiAlignGeneric(), RoiPoolGeneric())
