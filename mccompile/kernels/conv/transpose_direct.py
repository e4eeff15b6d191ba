"""Transposed convolution to few channels: vectors run over pixels, and the phases along a line are the channels.

Worked example: a kernel of 5 taps at stride 2 over a line, without pads. The even results meet taps 4, 2, 0 of three
pixels from two before their own on, the odd ones taps 3 and 1 of two of these. Both see the window of three pixels,
in which the odd ones have no first tap:

>>> from mccompile.kernels.conv.transpose import axis_phases
>>> even, odd = axis_phases(out=13, kernel=5, stride=2, dilation=1, pad=0)
>>> join([even, replace(odd, count=even.count)])
JoinedPhases(start=0, count=7, first=-2, taps=((4, 2, 0), (-1, 3, 1)))
>>> join([even, replace(odd, count=even.count)]).served
((0,), (0, 1), (0, 1))
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Sequence
from dataclasses import replace

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Logical
from mccompile.ir.scalar import Array
from mccompile.ir.types import Shape
from mccompile.ir.views import View
from mccompile.kernels.conv.planar import ConvDirect, PackedChannels, WindowTile, best_window
from mccompile.kernels.conv.transpose import AxisPhase, PackedPhase, part_of, phases_along, undivided
from mccompile.kernels.variant import Builder, Demand, Offer, computed, laid_out, not_plain_f32, operand_pair
from mccompile.kernels.views.planes import plane
from mccompile.ops.conv import Conv
from mccompile.ops.conv_transpose import ConvTranspose
from mccompile.targets.target import Target

MOST_CHANNELS = 4
"""Channels of results: each has calls of its own, which all read the operand."""
ONE_LINE = AxisPhase(0, 1, (0,), 1, 0)
"""The lines of what has none."""
STRIDED = 1.5
"""Cycles of a result whose neighbours in a vector lie apart."""


@dataclass(frozen=True)
class JoinedPhases:
    """Phases of an axis with equally many results, from result ``start`` on, as channels of one window.

    ``taps`` holds for each phase that tap of the kernel which each pixel of the window meets, -1: none. ``first`` is
    the pixel that the window of the first results begins with, negative in the padding.
    """

    start: int
    count: int
    first: int
    taps: tuple[tuple[int, ...], ...]

    @property
    def served(self) -> tuple[tuple[int, ...], ...]:
        """The phases that each pixel of the window serves."""
        columns = zip(*self.taps, strict=True)
        return tuple(tuple(p for p, tap in enumerate(column) if tap >= 0) for column in columns)


def join(phases: Sequence[AxisPhase]) -> JoinedPhases:
    """Neighbouring phases that have equally many results."""
    first = min(p.first for p in phases)
    end = max(p.first + (len(p.taps) - 1) * p.dilation + 1 for p in phases)
    rows = []
    for p in phases:
        row = [-1] * (end - first)
        for i, tap in enumerate(p.taps):
            row[p.first - first + i * p.dilation] = tap
        rows.append(tuple(row))
    return JoinedPhases(phases[0].start, phases[0].count, first, tuple(rows))


@dataclass(frozen=True)
class JoinedWeights:
    """Weights [C, M, kernel...] for one channel of results, as [phases, C, taps...] of a convolution: ``lines`` are
    the taps of the axis before the last, if there is one; a phase without a tap has 0."""

    channel: int
    lines: tuple[int, ...]
    taps: tuple[tuple[int, ...], ...]

    def pack(self, array: Array) -> Array:
        own = array[:, self.channel]
        if own.ndim == 3:
            own = own.take(self.lines, 1)
        columns = np.array(self.taps)
        return np.moveaxis(np.where(columns >= 0, own[..., columns], array.dtype.type(0)), -2, 0)


@dataclass(frozen=True)
class Part:
    """The results of one channel that a call computes, ``lines`` by ``along``."""

    weights: JoinedWeights
    tile: WindowTile
    lines: AxisPhase
    along: JoinedPhases

    def logical(self, source: View, weights: View, result_and_extras: Sequence[View]) -> Logical:
        """What it means: a convolution at stride 1 that is padded, or its operand cut, to have so many results."""
        rank = source.rank - 2
        firsts = (self.lines.first, self.along.first)[-rank:]
        dilations, counts = (self.lines.dilation, 1)[-rank:], (self.lines.count, self.along.count)[-rank:]
        origin = tuple(max(first, 0) for first in firsts)
        shape, ends = [], []
        for a, extent in enumerate(source.shape[2:]):
            behind = firsts[a] + (weights.shape[2 + a] - 1) * dilations[a] + counts[a] - extent
            shape.append(extent - origin[a] + min(behind, 0))
            ends.append(max(behind, 0))
        op = Conv((1,) * rank, (*(max(-f, 0) for f in firsts), *ends), dilations)
        x = part_of(source, origin, (1,) * rank, (*source.shape[:2], *shape))
        result, *extras = result_and_extras
        return Logical((x, weights), (result,), tuple(extras), op)


@dataclass(frozen=True)
class Parts:
    parts: tuple[Part, ...]


class ConvTransposeDirect(ConvDirect):
    """The kernel of `conv.direct` for one line of phases of one channel, on a view of the result that has these as
    its channels. The operand's buffer has a halo."""

    ops = ("conv_transpose",)

    def takes(self, node: Node) -> bool:
        return not node.varies

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        op, x, y = node.op, operand_pair(node)[0], node.results[0]
        assert isinstance(op, ConvTranspose)
        if reason := computed(node, constants, 1) or not_plain_f32(node, target, weights=1):
            return reason
        if not target.spare_memory:
            return "a halo takes memory"
        if len(x.shape) not in (3, 4):
            return "it has more than two spatial axes"
        if op.groups != 1 or y.shape[1] > MOST_CHANNELS:
            return f"it has groups, or more than {MOST_CHANNELS} channels of results"
        if laid_out(node):
            return "a layout is not row-major"
        if reason := undivided(node):
            return reason
        axes = phases_along(node)
        cycles, parts = _parts(axes, node, target)
        halo = [(0, 0), (0, 0), *(_halo(axis, e) for axis, e in zip(axes, x.shape[2:], strict=True))]
        copied = sum(x.type.count for lo, hi in halo if lo or hi)
        cycles += 0.25 * copied + (STRIDED * y.type.count if op.strides[-1] > 1 else 0.0)
        return Offer(self.label, cycles, Parts(tuple(parts)), demands=(Demand(0, tuple(halo)),))

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        op, w, chosen = node.op, operand_pair(node)[1], offer.params
        assert isinstance(op, ConvTranspose)
        assert isinstance(chosen, Parts)
        source = b.read_halo(offer.demands[0])  # first: a copy frees the operand before the result is begun
        result = b.result(0)
        extras = [b.read(v).broadcast(result.shape) for v in node.extras]
        for p in chosen.parts:
            packed = b.packed(w, PackedPhase(p.weights, PackedChannels(p.tile.rows)))
            to_op = [_phases_of(v, p, op.strides) for v in (result, *extras)]
            planes = [plane(v) for v in to_op]
            logical = p.logical(source, b.seen(w, p.weights), to_op)
            b.call(self.kernel, [plane(source), packed], planes[:1], op=logical.op, params=p.tile, extras=planes[1:],
                   logical=logical)  # fmt: skip


def _halo(axis: Sequence[AxisPhase], extent: int) -> tuple[int, int]:
    """Pixels before and behind an axis of so many that its phases read."""
    before = max(-p.first for p in axis)
    last = max(p.first + (len(p.taps) - 1) * p.dilation + p.count for p in axis)
    return max(before, 0), max(last - extent, 0)


def _parts(axes: Sequence[Sequence[AxisPhase]], node: Node, target: Target) -> tuple[float, list[Part]]:
    """The calls of a node, and their cycles: for each channel and phase of lines one, or two where lines of results
    end within the phases."""
    x, (n, channels, *_) = operand_pair(node)[0], node.results[0].shape
    cycles, parts = 0.0, []
    down = axes[0] if len(axes) == 2 else [ONE_LINE]
    groups = list(itertools.product(down, _alike(axes[-1])))
    while groups:
        lines, group = groups.pop(0)
        along = join(group)
        phases, window = len(along.taps), len(along.taps[0])
        steps = x.shape[1] * len(lines.taps) * window
        found, rows, vectors, tall = best_window(phases, lines.count, along.count, steps, 1, target)
        # Phases of several tiles are no `served` ones, and 0, the weight of no tap, times infinity is NaN.
        if rows < phases and any(-1 in taps for taps in along.taps):
            groups[:0] = [(lines, group[i : i + rows]) for i in range(0, phases, rows)]
            continue
        served = along.served if rows == phases else ()
        taps = sum(map(len, served)) / (phases * window) if served else 1.0
        cycles += n * channels * found * taps
        tile = WindowTile(
            rows, vectors, target.lanes, tall, (-lines.first, -along.first), (1, 1), (lines.dilation, 1),
            (len(lines.taps), window), served,
        )  # fmt: skip
        parts += [Part(JoinedWeights(m, lines.taps, along.taps), tile, lines, along) for m in range(channels)]
    return cycles, parts


def _alike(axis: Sequence[AxisPhase]) -> list[list[AxisPhase]]:
    """Phases of an axis in groups with equally many results: all of them, then the last result of those with more."""
    least = min(p.count for p in axis)
    step = len(axis)
    more = [replace(p, start=p.start + least * step, count=1, first=p.first + least) for p in axis if p.count > least]
    return [group for group in ([replace(p, count=least) for p in axis], more) if group]


def _phases_of(view: View, part: Part, strides: Shape) -> View:
    """The results of a part of a view [N, M, H, W], as [N, phases, lines, count], or without lines of [N, M, W]."""
    rank, own = len(strides), view.axis_strides()
    starts, counts = (part.lines.start, part.along.start)[-rank:], (part.lines.count, part.along.count)[-rank:]
    found = part_of(view, starts, strides, (view.shape[0], 1, *counts))
    shape = (view.shape[0], len(part.along.taps), *counts)
    moved = (own[0], own[-1], *found.axis_strides()[2:])
    return replace(found, shape=shape, strides=moved, offset=found.offset + part.weights.channel * own[1])


VARIANTS = (ConvTransposeDirect(),)
