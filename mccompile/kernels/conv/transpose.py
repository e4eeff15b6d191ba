"""Transposed convolution of channels-last tensors: each phase of the result is a convolution with some taps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Sequence
from dataclasses import replace

from mccompile._dataclass import dataclass
from mccompile.ir.dims import maximum, minimum, span, varies
from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Call, Logical
from mccompile.ir.scalar import Array
from mccompile.ir.types import Shape, row_major
from mccompile.ir.views import View
from mccompile.kernels.conv.channels import PackedTaps, lines_and_channels
from mccompile.kernels.conv.far_channels import far_reads, read_far
from mccompile.kernels.conv.pixel_tiles import PixelTile, best_pixel_tile
from mccompile.kernels.model.parts import Turns
from mccompile.kernels.model.parts import axes as loops_over
from mccompile.kernels.model.prefetch import prefetching
from mccompile.kernels.variant import (
    Builder,
    Offer,
    Packing,
    Variant,
    computed,
    lines_broken,
    not_plain_f32,
    operand_pair,
    sums_backwards,
)
from mccompile.kernels.views.channels import is_channels_last
from mccompile.kernels.views.planes import plane_last
from mccompile.ops.conv import Conv
from mccompile.ops.conv_transpose import ConvTranspose
from mccompile.targets.target import Target


class ConvTransposeGeneric(Variant):
    ops = ("conv_transpose",)
    kernel = "conv_transpose.generic"

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        for x, axis in zip(after.reads[:2], (1, 0), strict=True):
            if x is not None and (reason := sums_backwards(x, [axis])):
                return reason
        return super().refuses(before, after, target)

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        return loops_over(call.results[0], ["n", "m"])


@dataclass(frozen=True)
class AxisPhase:
    """Every ``stride``-th element of an axis of the result, from ``start`` on, as a convolution at stride 1.

    ``taps`` are those of the kernel that reach it, in the order in which they meet the operand, whose first element
    that any of them could meet is ``first`` (negative: in the padding).
    """

    start: int
    count: int
    taps: tuple[int, ...]
    dilation: int
    first: int


def axis_phases(out: int, kernel: int, stride: int, dilation: int, pad: int) -> list[AxisPhase]:
    """The phases of an axis of ``out`` results: as many as ``stride``, or as results where these are fewer."""
    meeting: dict[int, list[int]] = {}
    for k in reversed(range(kernel)):
        meeting.setdefault(k * dilation % stride, []).append(k)
    phases = []
    for start in range(min(stride, span(out)[0])):
        reach = start + pad
        taps = tuple(meeting.get(reach % stride, ()))
        step = (taps[0] - taps[1]) * dilation // stride if len(taps) > 1 else 1
        first = (reach - taps[0] * dilation) // stride if taps else 0
        phases.append(AxisPhase(start, -(-(out - start) // stride), taps, step, first))
    return phases


@dataclass(frozen=True)
class PhaseWeights:
    """Weights [C, M / groups, kernel...], chosen ``taps`` per axis, as [M, C / groups, taps...] of a convolution."""

    taps: tuple[tuple[int, ...], ...]
    groups: int

    def pack(self, array: Array) -> Array:
        for axis, taps in enumerate(self.taps):
            array = array.take(taps, 2 + axis)
        grouped = array.reshape(self.groups, -1, *array.shape[1:]).swapaxes(1, 2)
        return grouped.reshape(-1, *grouped.shape[2:])


@dataclass(frozen=True)
class PackedPhase:
    """The weights of a phase, or of several, packed as those of a convolution."""

    weights: Packing
    how: Packing

    def pack(self, array: Array) -> Array:
        return self.how.pack(self.weights.pack(array))


@dataclass(frozen=True)
class Phase:
    """A phase of the whole result, as a convolution ``op`` of the operand from element ``origin`` on."""

    axes: tuple[AxisPhase, ...]
    op: Conv
    origin: Shape
    x: Shape
    w: Shape
    y: Shape

    def tile(self, target: Target) -> tuple[float, PixelTile]:
        return best_pixel_tile(self.op, self.x, self.w, self.y, target)

    def logical(self, part: View, weights: View, result_and_extras: Sequence[View]) -> Logical:
        """What a phase means: a convolution that is padded, or its operand cut, so that it has as many results."""
        n, ends, shape = len(self.axes), [], list(part.shape)
        for a, (axis, dilation) in enumerate(zip(self.axes, self.op.dilations, strict=True)):
            reach = (len(axis.taps) - 1) * dilation + axis.count
            end = reach - self.op.pads[a] - part.shape[2 + a]
            shape[2 + a] += minimum(end, 0)
            ends.append(maximum(end, 0))
        op = replace(self.op, pads=(*self.op.pads[:n], *ends))
        result, *extras = result_and_extras
        return Logical((replace(part, shape=tuple(shape)), weights), (result,), tuple(extras), op)


MOST_PHASES = 1024
"""Phases of a node: each is a call. Upsampling by 32 along two axes has as many."""


def undivided(node: Node) -> str:
    """Why the phases of a node are not computed one by one; "" if they may be."""
    op, extents = node.op, node.results[0].shape[2:]
    assert isinstance(op, ConvTranspose)
    if math.prod(min(s, span(e)[0]) for s, e in zip(op.strides, extents, strict=True)) > MOST_PHASES:
        return f"it would take more than {MOST_PHASES} calls"
    met = all(p.taps for axis in phases_along(node) for p in axis)
    return "" if met else "some results are met by no tap"


def phases_along(node: Node) -> list[list[AxisPhase]]:
    """The phases of each axis of a node's result."""
    op, w, y = node.op, operand_pair(node)[1], node.results[0]
    assert isinstance(op, ConvTranspose)
    return [
        axis_phases(y.shape[2 + a], w.shape[2 + a], op.strides[a], op.dilations[a], op.pads[a])
        for a in range(len(op.strides))
    ]


def phases(node: Node) -> list[Phase]:
    """The phases of a node. What lies before the operand is padding, what no tap meets at its begin is left out."""
    op, x, y = node.op, operand_pair(node)[0], node.results[0].shape
    assert isinstance(op, ConvTranspose)
    found = []
    for axes in itertools.product(*phases_along(node)):
        origin = tuple(minimum(max(a.first, 0), e - 1) for a, e in zip(axes, x.shape[2:], strict=True))
        pads = tuple(o - a.first for o, a in zip(origin, axes, strict=True))
        conv = Conv((1,) * len(axes), (*pads, *pads), tuple(a.dilation for a in axes), op.groups)
        found.append(
            Phase(
                axes, conv, origin,
                (*x.shape[:2], *(e - o for e, o in zip(x.shape[2:], origin, strict=True))),
                (y[1], x.shape[1] // op.groups, *(len(a.taps) for a in axes)),
                (*y[:2], *(a.count for a in axes)),
            )
        )  # fmt: skip
    return found


@dataclass(frozen=True)
class TiledPhases:
    """The phases of a node, each with its tile."""

    tiled: tuple[tuple[Phase, PixelTile], ...]


class ConvTransposePhases(Variant):
    """The kernel of `conv.channels`, once for each phase, on a strided view of the result."""

    ops = ("conv_transpose",)
    kernel = "conv.channels"
    params = PixelTile
    may_share = False

    def takes(self, node: Node) -> bool:
        op, read, made = node.op, operand_pair(node)[0].shape[2:], node.results[0].shape[2:]
        assert isinstance(op, ConvTranspose)
        if any(varies([e]) and span(e)[0] < s for e, s in zip(made, op.strides, strict=True)):
            return False
        # A phase that begins behind the operand where this is small would have other pads there.
        begins = [max((phase.first for phase in axis), default=0) for axis in phases_along(node)]
        return not any(varies([e]) and span(e)[0] <= first for e, first in zip(read, begins, strict=True))

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        x, _ = operand_pair(node)
        if reason := computed(node, constants, 1) or not_plain_f32(node, target, weights=1):
            return reason
        if len(x.shape) not in (3, 4, 5):
            return "it has more than three spatial axes"
        if not is_channels_last(node.results[0]) or not x.type.linear:
            return "a layout is not channels-last"
        if reason := undivided(node):
            return reason
        parts = phases(node)
        tiles = [p.tile(target) for p in parts]
        chosen = TiledPhases(tuple((p, tile) for p, (_, tile) in zip(parts, tiles, strict=True)))
        return Offer(self.label, sum(cycles for cycles, _ in tiles) + far_reads(node, target), chosen)

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        x, w = operand_pair(node)
        op, chosen = node.op, offer.params
        assert isinstance(op, ConvTranspose)
        assert isinstance(chosen, TiledPhases)
        source, result = b.read(x), b.result(0)
        extras = [b.read(v).broadcast(result.shape) for v in node.extras]
        for p, (_, tile) in zip(phases(node), chosen.tiled, strict=True):
            weights = PhaseWeights(tuple(a.taps for a in p.axes), op.groups)
            how = PackedPhase(weights, PackedTaps(tile.width, tile.lanes, op.groups))
            part = part_of(source, p.origin, (1,) * len(p.axes), p.x)
            starts = tuple(a.start for a in p.axes)
            to_op = [part_of(v, starts, op.strides, p.y) for v in (result, *extras)]
            parts = [plane_last(v) for v in to_op]
            reads = [plane_last(part), b.packed(w, how)]
            params = prefetching(tile, math.prod(p.w), math.prod(p.w[1:]), [*reads, *parts], b.target.machine)
            b.call(self.kernel, [*reads], parts[:1], op=p.op, params=params, extras=parts[1:],
                   logical=p.logical(part, b.seen(w, weights), to_op))  # fmt: skip

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        return lines_and_channels(call, target)

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        return read_far(before, after, target) or lines_broken(before, after, reads=False)


def part_of(view: View, starts: Shape, steps: Shape, shape: Shape) -> View:
    """The elements of [N, C, spatial...] from ``starts`` on, ``steps`` apart."""
    own = view.axis_strides()
    offset = view.offset + sum(a * s for a, s in zip(starts, own[2:], strict=True))
    strides = (*own[:2], *(t * s for t, s in zip(steps, own[2:], strict=True)))
    return replace(view, shape=shape, factors=row_major(len(shape)), strides=strides, offset=offset)


VARIANTS = (ConvTransposeGeneric(), ConvTransposePhases())
