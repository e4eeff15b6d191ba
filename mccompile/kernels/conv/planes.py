"""Depthwise products of bytes on microcontrollers: one channel at a time, in a plane of scratch with its padding.

Worked example: lines of 6 results of a window of 3 x 3 with a pad of 1, in strips of 4: each takes 6 lines of the
operand, 3 words of two for each of 8 columns.

>>> strip = PlaneTile(lines=4, kernel=(3, 3), strides=(1, 1), pads=(1, 1))
>>> strip.words, strip.columns(6) * strip.words * 4
(3, 96)
"""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import replace

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Call
from mccompile.ir.types import I32
from mccompile.ir.views import View
from mccompile.kernels.conv.staged import (
    PackedRows,
    arithmetic_of,
    begins_of,
    depthwise_product,
    may_wrap,
    written_alike,
)
from mccompile.kernels.integers import IntegerProduct, begin_with, folded, weights_of
from mccompile.kernels.variant import Builder, Offer, Variant, blocked, operand_pair
from mccompile.kernels.views.planes import pair, plane, plane_window
from mccompile.kernels.views.windows import Order, covered, places_behind
from mccompile.ops.conv import Conv
from mccompile.targets.target import Target

PRODUCT = {"smlad": 1.3, "mla": 2.5}
"""Cycles of a product."""
STAGED = 4.0
"""Cycles of an element that is staged."""
STORED = 6.0
"""Cycles of a result beside its products."""
MOST_TAPS = 64
"""Taps of a window, which are written out."""
LEAST_ROOM = 512
ROOM_PART = 12
"""Scratch for a strip may take so many bytes, or this part of the operand."""
LEAST_LINES = 4
LINES_PART = 6
"""A strip that is not the whole plane has this part of its lines: so far behind its reads the kernel writes."""


@dataclass(frozen=True)
class PlaneTile(Order):
    """How a depthwise window is staged and multiplied.

    Attributes:
        arithmetic: as `Target.integer`.
        lines: of results in a strip.
        unroll: turns of one result, or of two of neighbouring lines, that are written out side by side.
        zero, begun, wraps, pads: as for `StagedTile`.
        dilation: along lines; between them it is 1.
    """

    arithmetic: str = "smlad"
    lines: int = 1
    unroll: int = 1
    zero: int = 0
    begun: int = -1
    wraps: bool = True
    kernel: tuple[int, int] = (1, 1)
    strides: tuple[int, int] = (1, 1)
    dilation: int = 1
    pads: tuple[int, int] = (0, 0)

    @property
    def words(self) -> int:
        """Of two lines that a column of a strip has; with lines in turns of two there is one more to read."""
        return (self.rows + 1) // 2

    @property
    def rows(self) -> int:
        """Lines of the operand that a strip reads."""
        more = 1 if self.strides[0] == 1 and self.lines % 2 else 0
        return (self.lines + more - 1) * self.strides[0] + self.kernel[0]

    def leaving(self, extent: int, results: int) -> list[tuple[int, int]] | None:
        """Of strips that leave an operand of ``extent`` lines, where those of their lines begin and end that it has:
        of strips that begin above it, then of those that end below it. None where such strips differ, and where some
        have none of them, which many pads and strides may leave.

        >>> PlaneTile(lines=4, kernel=(3, 3), strides=(1, 1), pads=(1, 1)).leaving(12, 12)
        [(1, 6), (0, 5)]
        """
        tops = np.arange(0, results, self.lines) * self.strides[0] - self.pads[0]
        begin, end = np.maximum(-tops, 0), np.minimum(extent - tops, self.rows)
        above = {(int(a), int(b)) for a, b in zip(begin, end, strict=True) if a > 0}
        below = {(int(a), int(b)) for a, b in zip(begin, end, strict=True) if a == 0 and b < self.rows}
        several = len(above) > 1 or len(below) > 1 or any(b < self.rows for _, b in above)
        outside = bool(((begin >= self.rows) | (end <= 0)).any())
        return None if several or outside else [*above, *below]

    def columns(self, results: int) -> int:
        """Columns of a strip, padding included, for lines of so many results."""
        return covered(results, self.kernel[1], self.strides[1], self.dilation)

    def scratch(self, results: int) -> int:
        """Bytes of scratch for lines of so many results."""
        return self.columns(results) * self.words * (4 if self.arithmetic == "smlad" else 2)


class ConvPlanes(Variant):
    """One filter for each channel, over one or two axes."""

    ops = ("conv",)
    kernel = "conv.planes"
    params = PlaneTile
    may_share = False

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        x, w = operand_pair(node)
        found = depthwise_product(node, target, constants)
        if isinstance(found, str):
            return found
        tile = _tile(node, target, found)
        if isinstance(tile, str):
            return tile
        y = node.results[0]
        staged = x.type.count * tile.words * 2 / max(tile.lines * tile.strides[0], 1)
        cycles = y.type.count * (math.prod(w.shape[2:]) * PRODUCT[arithmetic_of(target)] + STORED) + STAGED * staged
        return Offer(self.label, cycles, _Chosen(found, tile))

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        chosen = offer.params
        assert isinstance(chosen, _Chosen)
        product, tile = chosen.product, chosen.tile
        weights = weights_of(node, b)[:, 0]
        flat = weights.reshape(weights.shape[0], -1)
        added = folded(flat, product.zero)
        begin = begin_with(node, product, added, b)
        result = b.result(0)
        extras = [plane(e.broadcast(result.shape)) for e in begin.extras]
        views = [plane(b.read(operand_pair(node)[0])), plane(result), *extras]
        turned = _turned(node)
        x, result, *extras = (v.along((0, 1, 3, 2)) for v in views) if turned else views
        columns = weights.reshape(weights.shape[0], *pair(weights.shape[1:]))
        columns = columns if turned else columns.swapaxes(1, 2)
        rows = tuple(map(tuple, columns.reshape(flat.shape).tolist()))
        packed = b.packed(operand_pair(node)[1], PackedRows(rows))
        size = tile.scratch(result.shape[3])
        scratch = b.scratch(size // 4, I32) if tile.arithmetic == "smlad" else b.scratch(size, x.dtype)
        reads: list[View | None] = [x, packed] if begin.operand is None else [x, packed, begin.operand]
        wraps = may_wrap(flat, begins_of(node, product.begun, added, b), x.dtype)
        tile = replace(tile, begun=product.begun, wraps=wraps)
        b.call(self.kernel, reads, [result], params=tile, extras=extras, scratch=scratch, inplace=())

    def near(self, call: Call) -> int | None:
        p, x, y = call.params, call.reads[0], call.results[0]
        assert isinstance(p, PlaneTile)
        assert x is not None
        n, channels, lines, pixels = y.shape
        starts = np.arange(0, lines, p.lines)
        top = np.clip(starts * p.strides[0] - p.pads[0], 0, x.shape[2] - 1)
        bottom = np.minimum(starts + p.lines, lines) - 1
        c, by_lines = np.arange(channels), p.channels_last and len(starts) > 1
        batch = np.arange(n)[:, None, None]
        c = c if by_lines else c[:, None]
        top, bottom = (top[:, None], bottom[:, None]) if by_lines else (top, bottom)
        first = [batch, c, top, np.zeros((1, 1, 1), int)]
        last = [batch, c, bottom, np.full((1, 1, 1), pixels - 1)]
        return places_behind(call, first, last, (1, n * channels * len(starts)), 1)

    def overwrites(self, call: Call) -> tuple[int, ...]:
        p, y = call.params, call.results[0]
        assert isinstance(p, PlaneTile)
        return written_alike(call, p.lines >= y.shape[2])

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        return blocked(after)


@dataclass(frozen=True)
class _Chosen:
    product: IntegerProduct
    tile: PlaneTile


def _turned(node: Node) -> bool:
    """Whether windows are along the last axis alone: it becomes the one whose lines are paired."""
    kernel = pair(operand_pair(node)[1].shape[2:])
    return kernel[0] == 1 and kernel[1] > 1


def _tile(node: Node, target: Target, product: IntegerProduct) -> PlaneTile | str:
    """The strips of a node, or why it has none."""
    op, (x, w) = node.op, operand_pair(node)
    assert isinstance(op, Conv)
    turned = _turned(node)
    kernel, strides, dilations, pads = plane_window(op, w.shape[2:], turned)
    results = pair(node.results[0].shape[2:])[:: -1 if turned else 1]
    if math.prod(kernel) > MOST_TAPS:
        return f"its windows have more than {MOST_TAPS} taps"
    if kernel[0] > 1 and dilations[0] != 1:
        return "its taps are apart across lines"
    if strides[0] > 1 and strides[0] % 2:
        return "lines at an odd stride are in no pairs"
    whole = PlaneTile(
        arithmetic=arithmetic_of(target), lines=results[0], zero=product.zero, kernel=kernel, strides=strides,
        dilation=dilations[1], pads=pads,
    )  # fmt: skip
    if pads[0] >= whole.rows or pads[1] >= whole.columns(results[1]):
        return "it reads nothing but padding"
    whole = _written_out(whole, results[0], target)
    alike = x.shape == node.results[0].shape and x.dtype == node.results[0].dtype
    room = max(LEAST_ROOM, x.type.nbytes // ROOM_PART)
    if alike and whole.scratch(results[1]) <= room:
        return whole
    most = 2 if strides[0] > 1 else max(LEAST_LINES, results[0] // LINES_PART)
    for lines in range(min(most, results[0] + results[0] % 2), 0, -1):
        strip = _written_out(replace(whole, lines=lines), results[0], target)
        if (lines % 2 == 0 or strides[0] > 1 or lines == 1) and (strip.scratch(results[1]) <= room or lines <= 2):
            return strip
    return whole


def _written_out(tile: PlaneTile, results: int, target: Target) -> PlaneTile:
    """The strip with two turns written out side by side, where words that both read are worth the code. Where the
    last strip has fewer lines, each makes all turns: an odd number of them, two at a time, would read behind it."""
    turns = tile.lines // (2 if tile.strides[0] == 1 else 1)
    worth = tile.arithmetic == "smlad" and not target.compact
    fits = results % tile.lines == 0 or turns % 2 == 0
    return replace(tile, unroll=2 if worth and turns > 1 and fits else 1)


VARIANTS = (ConvPlanes(),)
