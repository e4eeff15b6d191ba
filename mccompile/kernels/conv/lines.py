"""Depthwise products of bytes by vectors of channels: lines of the operand go round in a ring in scratch.

Worked example: 3 x 3 at a pad of 1. The ring has three lines, each with the padding at its ends. Line o of the result
takes lines o - 1, o and o + 1, of which o + 1 is new: it takes the place of line o - 2. A line is written when the
next one of the operand has been read, so that results may take its place.

Where results take the place of operands, sixteen channels go through all lines before the next ones do: the ring has
sixteen channels then. Where they do not, as at strides, there is no ring: windows are read where they lie, but for
those that leave the operand, which are copied. Both only where vectors read no other pixel's channels.

Products of two bytes fit 16 bits, and so do sums of some: with weights 100, 90, 80 of a channel two of them do, three
could reach 270 * 128.

>>> tap_groups(np.array([[100, 90, 80, 1, 1]]))
(2, 3)
"""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import replace

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Call
from mccompile.ir.scalar import Array
from mccompile.ir.types import I8
from mccompile.ir.views import View
from mccompile.kernels.conv.staged import ROOM, ROOM_PART, PackedBytes, depthwise_product, written_alike
from mccompile.kernels.integers import IntegerProduct, Start, StartAlone, folded, weights_of
from mccompile.kernels.model.words import SIXTEEN, InSixteens, by_channel, no_words
from mccompile.kernels.variant import Builder, Offer, Variant, operand_pair
from mccompile.kernels.views.channels import is_channels_last
from mccompile.kernels.views.planes import pair, plane, plane_window
from mccompile.kernels.views.windows import covered, places_behind
from mccompile.ops.conv import Conv
from mccompile.targets.target import Target

PRODUCT, STORED, COPIED = 0.6, 3.0, 0.3
"""Cycles of a product, of a result beside its products, of a byte that is copied to the ring."""
MOST_TAPS = 32
"""Taps of a window, which are written out."""


@dataclass(frozen=True)
class Ring:
    """Lines in scratch, each with its padding.

    Attributes:
        zero: the bytes of the padding.
        begun: the extra operand in whose place is what sums begin with; -1: operand 2 is.
        groups: taps, in their order, whose products are added in 16 bits.
        pixels: that a vector has: several where a pixel has few channels.
        blocks: the ring has sixteen channels, and all lines of these are computed before the next ones.
        direct: there is no ring; windows that leave the operand are copied.
        pads: what comes before the first line and column.
    """

    zero: int
    begun: int
    groups: tuple[int, ...]
    pixels: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int]
    blocks: bool = False
    direct: bool = False

    @property
    def slots(self) -> int:
        """Lines of the ring."""
        return covered(1, self.kernel[0], self.strides[0], self.dilations[0])

    def columns(self, results: int) -> int:
        """Pixels of a line of the ring, for lines of so many results."""
        return covered(results, self.kernel[1], self.strides[1], self.dilations[1])

    def leaves(self, x: View, y: View) -> bool:
        """Whether windows leave an operand [N, C, H, W]."""
        axes = zip(y.shape[2:], self.kernel, self.strides, self.dilations, self.pads, x.shape[2:], strict=True)
        return any(pad or covered(results, *window) > extent for results, *window, pad, extent in axes)

    def scratch(self, results: int, channels: int) -> int:
        """Bytes of the ring, or of a window; vectors of the last channels, or pixels, read on behind a ring."""
        if self.direct:
            return self.kernel[0] * covered(1, self.kernel[1], 1, self.dilations[1]) * channels
        if self.blocks:
            return self.slots * self.columns(results) * SIXTEEN
        behind = SIXTEEN if self.pixels > 1 else -channels % SIXTEEN
        return self.slots * self.columns(results) * channels + behind


def tap_groups(weights: Array) -> tuple[int, ...]:
    """How many taps at a time, in their order, have sums of 16 bits whatever the operand is.

    ``weights`` are [channels, taps].
    """
    low, high = np.minimum(weights * -128, weights * 127), np.maximum(weights * -128, weights * 127)
    groups, start = [], 0
    while start < weights.shape[1]:
        size = 1
        for more in range(2, weights.shape[1] - start + 1):
            part = slice(start, start + more)
            if low[:, part].sum(axis=1).min() < -(2**15) or high[:, part].sum(axis=1).max() >= 2**15:
                break
            size = more
        groups.append(size)
        start += size
    return tuple(groups)


class ConvLines(Variant):
    """One filter for each channel, over one or two axes."""

    ops = ("conv",)
    kernel = "conv.lines"
    params = Ring
    may_share = False
    wants_pixels = True

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        x, w = operand_pair(node)
        if target.integer != "mve":
            return f"the target's arithmetic is {target.integer}"
        found = depthwise_product(node, target, constants)
        if isinstance(found, str):
            return found
        if x.dtype != I8:
            return "its bytes have no sign"
        if not (is_channels_last(x) and is_channels_last(node.results[0])) and x.shape[1] > 1:
            return "the channels of a pixel do not lie side by side"
        if math.prod(w.shape[2:]) > MOST_TAPS:
            return f"its windows have more than {MOST_TAPS} taps"
        if any(e not in constants or not _along_channels(e, len(x.shape)) for e in node.extras):
            return "its epilogue reads more than a number for each channel"
        if reason := no_words(node.post.get(0)):
            return reason
        y = node.results[0]
        ring = _ring(node, found)
        if ring.pads[1] >= ring.columns(pair(y.shape[2:])[0 if _is_turned(node) else 1]):
            return "it reads nothing but padding"
        padded = y.type.count // x.shape[1] * -(-x.shape[1] // SIXTEEN) * SIXTEEN // ring.pixels
        cycles = padded * (math.prod(w.shape[2:]) * PRODUCT + STORED) + COPIED * x.type.count
        room = ring.scratch(1 if _is_turned(node) else y.shape[-1], x.shape[1])
        large = room > max(ROOM, (x.type.nbytes + y.type.nbytes) // ROOM_PART)
        return Offer(self.label, cycles, found, spends_arena=large)

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        product, (_, w) = offer.params, operand_pair(node)
        assert isinstance(product, IntegerProduct)
        taps = weights_of(node, b).reshape(w.shape[0], *pair(w.shape[2:]))
        source, result = (plane(v) for v in (b.read(operand_pair(node)[0]), b.result(0)))
        if _is_turned(node):
            source, result = (v.along((0, 1, 3, 2)) for v in (source, result))
            taps = taps.swapaxes(1, 2)
        weights = taps.reshape(w.shape[0], -1)
        added = folded(weights, product.zero)
        ring = replace(_ring(node, product), groups=tap_groups(weights))
        extras = []
        for i, e in enumerate(node.extras):
            if i == product.begun:
                extras.append(by_channel(b.packed(e, InSixteens(ring.pixels, Start(added))), result.shape))
            elif e.type.count > 1:
                extras.append(by_channel(b.packed(e, InSixteens(ring.pixels)), result.shape))
            else:
                extras.append(plane(b.read(e).broadcast(node.results[0].shape)))
        rows = tuple(map(tuple, weights.tolist()))
        reads: list[View | None] = [source, b.packed(w, PackedBytes(rows * ring.pixels, SIXTEEN))]
        if product.begun < 0:
            reads.append(by_channel(b.packed(w, InSixteens(ring.pixels, StartAlone(added))), result.shape))
        copies = not ring.direct or ring.leaves(source, result)
        room = ring.scratch(result.shape[3], result.shape[1])
        scratch = b.scratch(room, source.dtype) if copies else None
        b.call(self.kernel, reads, [result], params=ring, extras=extras, scratch=scratch, inplace=())

    def near(self, call: Call) -> int | None:
        p, x, y = call.params, call.reads[0], call.results[0]
        assert isinstance(p, Ring)
        assert x is not None
        n, channels, lines, pixels = y.shape
        size = SIXTEEN if p.blocks or p.direct else channels
        begin = np.arange(0, channels, size)
        step = np.arange(lines)
        batch = np.arange(n)
        if p.direct:
            places = []
            for a, results in enumerate((lines, pixels)):
                places.append(np.clip(np.arange(results) * p.strides[a] - p.pads[a], 0, x.shape[2 + a] - 1))
            order = np.ix_(batch, step, np.arange(pixels), begin)
            first = [order[0], order[3], places[0][:, None, None], places[1][:, None]]
            last = [order[0], order[3] + size - 1, order[1], order[2]]
            return places_behind(call, first, last, (1, y.count // size), 1)
        fresh = np.maximum(step * p.strides[0], np.where(step > 0, (step - 1) * p.strides[0] + p.slots, 0))
        order = np.ix_(batch, begin, step)
        zero = np.zeros((1, 1, 1), int)
        first = [order[0], order[1], np.clip(fresh - p.pads[0], 0, x.shape[2] - 1), zero]
        last = [order[0], order[1] + size - 1, order[2], zero + pixels - 1]
        return places_behind(call, first, last, (1, n * len(begin) * lines), 1)

    def overwrites(self, call: Call) -> tuple[int, ...]:
        p, x, y = call.params, call.reads[0], call.results[0]
        assert isinstance(p, Ring)
        assert x is not None
        return written_alike(call, x.shape == y.shape and p.strides[0] == 1 and p.pads[0] < p.slots)

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        p, x, y = after.params, after.reads[0], after.results[0]
        assert isinstance(p, Ring)
        assert x is not None
        if after.extras != before.extras or after.reads[1:] != before.reads[1:]:
            return f"{self.kernel} reads packed numbers as they lie"
        if not (x.linear and y.linear):
            return "a layout has blocks"
        channels = x.shape[1]
        both = (x, y) if p.pixels > 1 else (x,)
        pixels = all(v.shape[3] == 1 or v.axis_strides()[3] == channels for v in both)
        beside = channels == 1 or x.axis_strides()[1] == y.axis_strides()[1] == 1
        return "" if pixels and beside else f"{self.kernel} reads pixels side by side"


def _along_channels(extra: Value, rank: int) -> bool:
    """Whether a value, broadcast to ``rank`` axes, has one element for each channel, or one for all."""
    seen = (1,) * (rank - len(extra.shape)) + extra.shape
    return seen[1] == extra.type.count


def _is_turned(node: Node) -> bool:
    """Whether there is one line alone: its pixels become lines of one pixel."""
    return pair(node.results[0].shape[2:])[0] == pair(operand_pair(node)[0].shape[2:])[0] == 1


def _ring(node: Node, product: IntegerProduct) -> Ring:
    """The ring of a node; nothing is known of its weights."""
    op, (_, w) = node.op, operand_pair(node)
    assert isinstance(op, Conv)
    kernel, strides, dilations, pads = plane_window(op, w.shape[2:], _is_turned(node))
    channels = w.shape[0]
    pixels = SIXTEEN // channels if strides[1] == 1 and SIXTEEN % channels == 0 else 1
    alike = node.results[0].shape == operand_pair(node)[0].shape
    whole = channels % SIXTEEN == 0  # vectors read no bytes behind the operand
    return Ring(
        product.zero, product.begun, (), pixels, kernel, strides, dilations, pads,
        blocks=whole and alike and channels > SIXTEEN, direct=whole and not alike,
    )  # fmt: skip


VARIANTS = (ConvLines(),)
