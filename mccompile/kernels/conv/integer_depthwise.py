"""Depthwise convolutions of bytes: vectors over channels, rows of the operand joined in words.

Worked example: 3 by 3 at stride 1. The bytes of 4 rows of a column are the words of a vector, one for each channel.
They serve two lines of the result: the first meets them with weights w0 w1 w2 0, the second with 0 w0 w1 w2. A column
serves three pixels of each line: six steps for 18 products of each channel.
"""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import replace

from mccompile._dataclass import dataclass
from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Call
from mccompile.kernels.conv.integer import STAGED_BYTES, supported
from mccompile.kernels.conv.integer_tiles import EPILOGUE
from mccompile.kernels.integers import zero_points
from mccompile.kernels.model.arithmetic import MADD, Arithmetic, PackedColumns, by_name, single_arithmetic
from mccompile.kernels.model.parts import Turns, axes
from mccompile.kernels.model.tiles import Segment, segments
from mccompile.kernels.model.woven import VECTORS, WovenRow, is_woven, weaves
from mccompile.kernels.variant import Builder, Offer, Variant, lines_broken, neighbours, operand_pair, varies_in_batch
from mccompile.kernels.views.channels import is_channels_last
from mccompile.kernels.views.planes import pair, plane_last, plane_window
from mccompile.kernels.views.windows import covered
from mccompile.ops.conv import Conv
from mccompile.targets.target import Target

MAX_PIXELS = 8
LARGEST = 7
"""Taps of a window along an axis: its words are to be in registers."""


@dataclass(frozen=True)
class JoinedRows:
    """Tiles of ``tall`` lines by ``pixels`` pixels of a vector of channels, in chunks of ``lines`` lines; or line
    by line, where rows of words go round in a ring.

    Attributes:
        arithmetic: the name of an `Arithmetic`.
        zero: the zero point of the operand, which padding is.
        pads: what comes before the operand.
        blank: elements that a line of the operand extends over.
        weaves: channels lie woven, in words of scratch and in all that is stored for them.
        span: pixels of a line, at most, that are done for all lines before the next ones; 0: all.
    """

    pixels: int
    tall: int
    lanes: int
    arithmetic: str
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int]
    zero: int
    lines: int
    blank: int
    weaves: bool = False
    span: int = 0

    @property
    def own(self) -> Arithmetic:
        return by_name(self.arithmetic)

    @property
    def groups(self) -> int:
        """Words that the rows of a tile take."""
        return self.own.words((self.tall - 1) * self.strides[0] + self.kernel[0])

    @property
    def block(self) -> int:
        """Bytes of the packed weights of a vector of channels."""
        return 4 * self.lanes * (1 + self.tall * self.groups * self.kernel[1])

    def chunks(self, extent: int) -> tuple[Segment, ...]:
        """Lines of the result, in chunks."""
        return segments(extent, self.lines)

    def tiles_h(self, extent: int) -> tuple[Segment, ...]:
        return segments(extent, self.tall)

    def heights(self, extent: int) -> list[int]:
        """Lines that tiles have."""
        return list(dict.fromkeys(d.size for s in self.chunks(extent) for d in self.tiles_h(s.size)))

    def spans(self, extent: int) -> tuple[Segment, ...]:
        """Pixels of a line, in strips."""
        return segments(extent, self.span or extent)

    def widest(self, extent: int) -> int:
        """Pixels of the widest strip."""
        return self.spans(extent)[0].size

    def tiles_w(self, extent: int) -> tuple[Segment, ...]:
        return segments(extent, self.pixels)

    def widths(self, extent: int) -> list[int]:
        """Pixels that tiles have."""
        return list(dict.fromkeys(d.size for s in self.spans(extent) for d in self.tiles_w(s.size)))

    def tiles_n(self, extent: int) -> tuple[Segment, ...]:
        """Channels in blocks, the last of which may be woven, or else in vectors."""
        if not self.weaves:
            return segments(extent, self.lanes)
        blocks = segments(extent, self.weave)
        if self.woven(blocks[-1].size):
            return blocks
        first = blocks[-1].start
        rest = [Segment(first + s.start, first + s.stop, s.size) for s in segments(extent - first, self.lanes)]
        return (*blocks[:-1], *rest)

    @property
    def weave(self) -> int:
        """Channels of the largest woven block; 0 if there is none."""
        return max(VECTORS) * self.lanes if self.weaves else 0

    def woven(self, size: int) -> bool:
        """Whether the channels of a block of ``size`` are."""
        return self.weaves and is_woven(size, self.lanes)

    def staged_width(self, out: int) -> int:
        """Pixels of a staged line, for ``out`` results."""
        return covered(out, self.kernel[1], self.strides[1], self.dilations[1])

    def staged_lines(self, out: int) -> int:
        """Lines that are staged for ``out`` lines of the result."""
        return covered(out, self.kernel[0], self.strides[0], self.dilations[0])

    @property
    def joined(self) -> bool:
        """Whether rows are staged as words: where the weights of a word lie side by side."""
        return self.own.beside == self.own.steps

    @property
    def row_step(self) -> int:
        """Rows of the operand from one staged row of words to the next; 1 where rows are staged as they are."""
        if not self.joined:
            return 1
        return math.gcd(self.tall * self.strides[0], self.own.steps * self.dilations[0])

    @property
    def group_step(self) -> int:
        """Rows of words from one that a tile reads to the next."""
        return self.own.steps * self.dilations[0] // self.row_step

    @property
    def ring(self) -> int:
        """Rows of words that a tile extends over: so many are staged at a time."""
        return (self.groups - 1) * self.group_step + 1

    def joined_elements(self, out: int, channels: int) -> int:
        """Elements of all staged words, for ``out`` results to a line, with those of a vector that may begin in the
        last word."""
        return (self.ring * self.staged_width(self.widest(out)) * channels + self.lanes) * self.own.steps

    def spare_lines(self) -> int:
        """Lines behind these that words of weight 0 may read."""
        return (self.groups * self.own.steps - self.kernel[0]) * self.dilations[0]


class ConvIntegerDepthwise(Variant):
    """One filter of bytes for each channel."""

    ops = ("conv",)
    kernel = "conv.integer_depthwise"
    params = JoinedRows
    may_share = False

    def takes(self, node: Node) -> bool:
        return varies_in_batch(node)

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        op, (x, w) = node.op, operand_pair(node)
        assert isinstance(op, Conv)
        own = single_arithmetic(target)
        if own is None:
            return "the target has no arithmetic of bytes"
        if reason := supported(node, own, constants):
            return reason
        if not op.groups == x.shape[1] == w.shape[0]:
            return "it is not depthwise"
        if len(x.shape) not in (3, 4):
            return "it has more than two spatial axes"
        if not is_channels_last(x) or not is_channels_last(node.results[0]):
            return "a layout is not channels-last"
        if max(w.shape[2:]) > LARGEST:
            return "its window is large"
        tile = _tile(node, own, target)
        vectors = node.results[0].type.count / node.results[0].shape[1] * -(-x.shape[1] // target.lanes)
        cycles = vectors * (1.5 * tile.groups * tile.kernel[1] + EPILOGUE)
        staged = x.type.count * own.staged.nbytes * (own.steps if tile.joined else 1) / tile.row_step
        return Offer(self.label, cycles + staged / STAGED_BYTES, tile)

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        tile, (x, w) = offer.params, operand_pair(node)
        assert isinstance(tile, JoinedRows)
        result = b.result(0)
        source, pixels = plane_last(b.read(x)), pair(result.shape[2:])[1]
        dense = neighbours(source) and neighbours(plane_last(result))
        tile = replace(tile, weaves=dense and tile.own == MADD and weaves(node, 1, b.target, b.is_constant))
        how = WovenRow(tile.weave or 1, tile.lanes)
        read = [b.packed(v, how) if tile.weaves and b.is_constant(v) else b.read(v) for v in node.extras]
        extras = [plane_last(v.broadcast(result.shape)) for v in read]
        offset = tile.zero + tile.own.offset(x.dtype)
        packing = PackedColumns(
            tile.arithmetic, tile.lanes, tile.tall, tile.strides[0], offset, zero_points(node)[1], tile.weave
        )  # fmt: skip
        packed = b.packed(w, packing)
        if tile.joined:
            _, _, across, channel = source.axis_strides()
            tile = replace(tile, blank=(source.shape[2] - 1) * across + (x.shape[1] - 1) * channel + 1)
            ring = tile.joined_elements(pixels, x.shape[1]) * tile.own.staged.nbytes
            if tile.strides[1] > 1 and ring > b.target.machine.l1:  # few results to hide the way of their words
                tile = replace(tile, span=tile.pixels)
            count = tile.joined_elements(pixels, x.shape[1]) + -(-tile.blank // tile.own.staged.nbytes)
        else:
            lines = tile.staged_lines(tile.lines) + tile.spare_lines()
            count = lines * tile.staged_width(pixels) * x.shape[1]
        scratch = b.scratch(count, tile.own.staged)
        b.call(self.kernel, [source, packed], [plane_last(result)], params=tile, extras=extras, scratch=scratch)

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        p, y = call.params, call.results[0]
        assert isinstance(p, JoinedRows)
        if p.joined:
            return [*axes(y, ["b"]), Turns.tiles("oh", p.tiles_h(y.shape[1]))]
        return [*axes(y, ["b"]), Turns.tiles("first", p.chunks(y.shape[1]))]

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        x, y = before.reads[0], after.reads[0]
        if x is None or y is None or x.axis_strides() != y.axis_strides():
            return f"{self.kernel} reads its operand as it was given it"
        if getattr(before.params, "weaves", False) and not neighbours(after.results[0]):
            return f"{self.kernel} stores bytes of neighbours together"
        return lines_broken(before, after, reads=False)


def _tile(node: Node, own: Arithmetic, target: Target) -> JoinedRows:
    op, (x, w) = node.op, operand_pair(node)
    assert isinstance(op, Conv)
    lines, pixels = pair(node.results[0].shape[2:])
    kernel, strides, dilations, pads = plane_window(op, w.shape[2:])
    spare = own.words(kernel[0]) * own.steps - kernel[0]
    tall = 2 if spare >= strides[0] == dilations[0] == 1 and lines > 1 else 1
    room = target.machine.registers - tall - 2  # sums, beside the weights of a tap, a word and products
    wide = min(room // tall, MAX_PIXELS, pixels)
    wide = -(-pixels // -(-pixels // wide))  # 7 pixels as 4 and 3, not as 6 and 1
    line_bytes = x.shape[-1] * x.shape[1] * own.staged.nbytes * strides[0]
    chunk = min(max(target.machine.l2 // 8 // line_bytes // tall, 1) * tall, lines)
    zero, _ = zero_points(node)
    return JoinedRows(wide, tall, target.lanes, own.name, kernel, strides, dilations, pads, zero, chunk, 0)


VARIANTS = (ConvIntegerDepthwise(),)
