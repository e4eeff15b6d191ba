"""The family of `pool`: each channel on its own, or vectors over channels where these lie together."""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import replace

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.dims import bound, may_reach, span, varies
from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Call
from mccompile.ir.types import I32
from mccompile.ir.vector import is_narrow
from mccompile.kernels.conv.channel_windows import (
    LOAD_CYCLES,
    RUN_CYCLES,
    ChannelWindow,
    fit_line_ends,
    fit_window,
    narrow_window,
    window_distance,
    window_of,
    window_turns,
)
from mccompile.kernels.conv.line_ends import known_ends
from mccompile.kernels.conv.strips import Strip
from mccompile.kernels.model.lanes import loaded, no_vectors
from mccompile.kernels.model.parts import Turns, axes
from mccompile.kernels.variant import (
    Builder,
    Offer,
    Variant,
    lines_broken,
    not_plain_f32,
    sums_backwards,
    vectors_apart,
)
from mccompile.kernels.views.channels import is_channels_last
from mccompile.kernels.views.planes import pair, plane_last
from mccompile.kernels.views.windows import Order, distance
from mccompile.ops.pool import Pool
from mccompile.ops.window import Window
from mccompile.targets.machine import Machine
from mccompile.targets.target import Target

SCALAR_CYCLES = 3.0
"""Cycles of a tap of one element: its bounds are checked."""
MAX_CYCLES = 2.0
"""A maximum that keeps NaN, in additions."""
MOST_LINES = 5
MOST_TAPS = 64
"""Taps of a line of a window that are worth being written out one by one."""
MOST_TAPS_OF_RUN = 32
"""The same where the extents of lines are known at run time only: each pixel at their ends has taps of its own, so
that the code grows with the square of the taps."""


class PoolGeneric(Variant):
    ops = ("pool",)
    kernel = "pool.generic"
    params = Order

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        op = node.op
        assert isinstance(op, Pool)
        return Offer(self.label, SCALAR_CYCLES * node.results[0].type.count * math.prod(op.kernel))

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        (x,) = node.inputs[:1]
        b.call(self.kernel, [b.read(x)], [b.result(i) for i in range(len(node.results))],
               params=Order(by_extents=b.target.compact))  # fmt: skip

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        y = call.results[0]
        return axes(y, ["n", "c", *(f"o{a}" for a in range(y.rank - 2))])

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        op, x = after.op, after.reads[0]
        assert isinstance(op, Pool)
        assert x is not None
        taps = [i for i, k in enumerate(op.kernel) if k > 1]
        backwards = sums_backwards(x, [2 + i for i in taps], [op.dilations[i] for i in taps])
        return (backwards if op.mode != "max" else "") or super().refuses(before, after, target)

    def near(self, call: Call) -> int | None:
        op, x = call.op, call.reads[0]
        assert isinstance(op, Pool)
        assert isinstance(call.params, Order)
        assert x is not None
        return distance(call, op.window, np.arange(x.shape[1]), call.params.channels_last)


@dataclass(frozen=True)
class PoolWindow(ChannelWindow):
    """``counted``: how many lines and pixels before and behind the operand an average counts."""

    counted: tuple[tuple[int, int], tuple[int, int]]

    def strips(self, out: int, extent: int) -> list[Strip]:
        """Runs of tiles that count alike, too."""
        strips: list[Strip] = []
        for strip in super().strips(out, extent):
            if strip.products == strip.size * self.kernel[1]:
                strips.append(strip)  # all of it counts
                continue
            for start in range(strip.start, strip.stop, strip.size):
                one = replace(strip, start=start, stop=start + strip.size)
                before = strips[-1] if strips else None
                if before and before.columns == one.columns and self._alike(before, one, extent):
                    strips[-1] = replace(before, stop=one.stop)
                else:
                    strips.append(one)
        return strips

    def _alike(self, a: Strip, b: Strip, extent: int) -> bool:
        return a.size == b.size and self.counts(a, extent) == self.counts(b, extent)

    def counts(self, strip: Strip, extent: int) -> list[int]:
        """How many columns of the window count, for each pixel of a tile."""
        low, high = -self.counted[1][0], extent + self.counted[1][1]
        starts = [(strip.start + i) * self.strides[1] - self.pads[1] for i in range(strip.size)]
        return [sum(low <= s + t * self.dilations[1] < high for t in range(self.kernel[1])) for s in starts]

    @property
    def unrolled(self) -> bool:
        """Whether there is code of its own for windows none of whose lines is outside of the operand."""
        return self.kernel[0] <= MOST_LINES

    def empty(self, out: tuple[int, int], extents: tuple[int, int]) -> bool:
        """Whether there is a window that lies altogether outside of the operand, of ``out`` windows."""
        return any(_misses(i * self.strides[a] - self.pads[a], self.kernel[a], self.dilations[a], extents[a])
                   for a in (0, 1) for i in {*range(min(out[a], self.pads[a])), out[a] - 1})  # fmt: skip

    def cycles(self, out: tuple[int, int], extent: int, machine: Machine, weights: bool, step: float) -> float:
        total = 0.0
        for strip in self.strips(out[1], extent):
            columns = len(strip.columns)
            steps = columns * (self.kernel[0] - 1) + strip.products - strip.size
            tile = (steps * step + columns * self.kernel[0] / 2) * machine.lanes() / machine.multiply_adds
            tile += LOAD_CYCLES * columns * self.kernel[0] + strip.size + RUN_CYCLES
            total += (strip.stop - strip.start) // strip.size * tile
        return out[0] * total

    def counts_all(self, out: int, extent: int) -> bool:
        """Whether every line of every window counts."""
        end = (out - 1) * self.strides[0] + self.reach[0] - self.pads[0]
        return self.pads[0] <= self.counted[0][0] and not may_reach(end, extent + self.counted[0][1])

    def place(self, size: int, start: int, extent: int) -> tuple[int, ...]:
        """With from which to before which columns count, where that is more than there are pixels."""
        before, behind = self.counted[1]
        left = start * self.strides[1] - self.pads[1]
        counted = (self._within(-before - left), self._within(extent + behind - left)) if before or behind else ()
        return *super().place(size, start, extent), *counted

    @property
    def place_inside(self) -> tuple[int, ...]:
        return *super().place_inside, *((0, self.span) if any(self.counted[1]) else ())

    def code_of(self, strip: Strip, extent: int) -> tuple[object, ...]:
        return *super().code_of(strip, extent), tuple(self.counts(strip, extent))


def _misses(start: int, taps: int, dilation: int, extent: int) -> bool:
    """Whether no tap of a window lies inside of an axis."""
    return not any(0 <= start + t * dilation < extent for t in range(taps))


def _no_lanes(node: Node, target: Target) -> str:
    """Why there are no vectors of what a window combines; empty if there are: of f32, or of integers that are not
    divided."""
    op, x = node.op, node.inputs[0]
    assert isinstance(op, Pool)
    if not is_narrow(x.dtype):
        return not_plain_f32(node, target)
    if target.lanes < 2:
        return "the target has no vectors of integers"
    if op.mode == "max" and not node.pre:
        return ""
    if op.mode != "sum" or loaded(node, 0) != I32:
        return "only sums and the largest of integers are vectorised"
    if ex.variables(node.pre[0]) != {ex.ACC}:
        return "its prologue reads other operands"
    return no_vectors(node.pre[0])


def _never_misses(window: Window, axis: int, out: int, extent: int) -> bool:
    """False if a window may lie altogether outside of an axis whose extent varies."""
    stride, dilation, pad = window.strides[axis], window.dilations[axis], window.pads[axis]
    if not varies([out, extent, pad]):
        return True  # `PoolWindow.empty` says
    begins = span(extent - (out - 1) * stride + pad)[0] > 0
    return begins and bound(pad) <= (window.kernel[axis] - 1) * dilation and span(extent)[0] >= dilation


class PoolChannels(Variant):
    """Taps outside of the operand are left out, so that no halo is needed."""

    ops = ("pool",)
    kernel = "pool.channels"
    params = PoolWindow
    may_share = False
    pads_of_run = True

    def takes(self, node: Node) -> bool:
        op, x, y = node.op, node.inputs[0], node.results[0]
        assert isinstance(op, Pool)
        pad = op.pads[len(op.strides) - 1]
        if varies([x.shape[1]]) or not known_ends(y.shape[-1], x.shape[-1], op.strides[-1], pad):
            return False
        if varies(op.pads) and op.count_pad:
            return False
        if op.kernel[-1] > MOST_TAPS_OF_RUN and varies([x.shape[-1], y.shape[-1], pad]):
            return False
        return all(_never_misses(op.window, a, y.shape[2 + a], x.shape[2 + a]) for a in range(len(op.kernel)))

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        op, x = node.op, node.inputs[0]
        assert isinstance(op, Pool)
        if reason := _no_lanes(node, target):
            return reason
        if len(x.shape) not in (3, 4):
            return "it has more than two spatial axes"
        if op.kernel[-1] > MOST_TAPS:
            return f"a line of the window has more than {MOST_TAPS} taps"
        cycles, window = self._window(node, target)
        if window.empty(pair(node.results[0].shape[2:]), pair(x.shape[2:])):
            return "some window has nothing but padding"
        if not is_channels_last(x) or not is_channels_last(node.results[0]):
            return "a layout is not channels-last"
        return Offer(self.label, cycles, window)

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        result = b.result(0)
        extras = [plane_last(b.read(v).broadcast(result.shape)) for v in node.extras]
        source, result = plane_last(b.read(node.inputs[0])), plane_last(result)
        op = node.op
        assert isinstance(op, Pool)
        assert isinstance(offer.params, PoolWindow)
        window = fit_line_ends(offer.params.of_run(op.pads), result.shape[2], source.shape[2])
        b.call(self.kernel, [source], [result], params=window, extras=extras)

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        return window_turns(call)

    def near(self, call: Call) -> int | None:
        return window_distance(call)

    def narrowed(self, call: Call, pixels: int) -> Call | None:
        return narrow_window(call, pixels)

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        return vectors_apart(after, 0) or lines_broken(before, after, reads=False)

    @staticmethod
    def _window(node: Node, target: Target) -> tuple[float, PoolWindow]:
        op = node.op
        assert isinstance(op, Pool)
        n = len(op.kernel)
        pads = op.pads if op.count_pad else (0,) * (2 * n)
        before, behind = pair(pads[:n], 0), pair(pads[n:], 0)
        plain = window_of(op.kernel, op.strides, op.dilations, op.pads)
        counted = (before[0], behind[0]), (before[1], behind[1])
        window = PoolWindow(1, 1, 1, plain.kernel, plain.strides, plain.dilations, plain.pads, counted)
        return fit_window(window, node, target, weights=False, step=MAX_CYCLES if op.mode == "max" else 1.0)


VARIANTS = (PoolGeneric(), PoolChannels())
