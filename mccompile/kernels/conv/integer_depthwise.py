"""Depthwise convolutions of bytes: vectors over channels, rows of the operand joined in words.

Worked example: 3 by 3 at stride 1. The bytes of 4 rows of a column are the words of a vector, one for each channel.
They serve two lines of the result: the first meets them with weights w0 w1 w2 0, the second with 0 w0 w1 w2. A column
serves three pixels of each line: six steps for 18 products of each channel.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Call
from mccompile.kernels.conv.integer import EPILOGUE, STAGED_BYTES, supported
from mccompile.kernels.integers import zero_points
from mccompile.kernels.model.arithmetic import Arithmetic, PackedColumns, by_name
from mccompile.kernels.model.tiles import Segment, segments
from mccompile.kernels.variant import Builder, Offer, Variant, lines_broken, operand_pair
from mccompile.kernels.views.channels import is_channels_last
from mccompile.kernels.views.planes import pair, plane_last, plane_window
from mccompile.kernels.views.windows import covered
from mccompile.ops.conv import Conv
from mccompile.targets.target import Target

JOIN = 4.0
"""Cycles of a vector of words, from the rows that they are made of."""
MAX_PIXELS = 8
LARGEST = 7
"""Taps of a window along an axis: its words are to be in registers."""


@dataclass(frozen=True)
class JoinedRows:
    """Tiles of ``tall`` lines by ``pixels`` pixels of a vector of channels, in chunks of ``lines`` lines.

    Attributes:
        arithmetic: the name of an `Arithmetic`.
        zero: the zero point of the operand, which padding is.
        pads: what comes before the operand.
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

    def tiles_w(self, extent: int) -> tuple[Segment, ...]:
        return segments(extent, self.pixels)

    def tiles_n(self, extent: int) -> tuple[Segment, ...]:
        return segments(extent, self.lanes)

    def staged_width(self, out: int) -> int:
        """Pixels of a staged line, for ``out`` results."""
        return covered(out, self.kernel[1], self.strides[1], self.dilations[1])

    def staged_lines(self, out: int) -> int:
        """Lines that are staged for ``out`` lines of the result."""
        return covered(out, self.kernel[0], self.strides[0], self.dilations[0])

    def spare_lines(self) -> int:
        """Lines behind these that words of weight 0 may read."""
        return (self.groups * self.own.steps - self.kernel[0]) * self.dilations[0]


class ConvIntegerDepthwise(Variant):
    """One filter of bytes for each channel."""

    ops = ("conv",)
    kernel = "conv.integer_depthwise"
    params = JoinedRows
    may_share = False

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        op, (x, w) = node.op, operand_pair(node)
        assert isinstance(op, Conv)
        own = supported(node, target, constants)
        if isinstance(own, str):
            return own
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
        joined = tile.strides[1] * tile.groups / tile.tall * JOIN
        cycles = vectors * (joined + tile.groups * tile.kernel[1] + EPILOGUE)
        return Offer(self.label, cycles + x.type.count * own.staged.nbytes / STAGED_BYTES, tile)

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        tile, (x, w) = offer.params, operand_pair(node)
        assert isinstance(tile, JoinedRows)
        result = b.result(0)
        extras = [plane_last(b.read(v).broadcast(result.shape)) for v in node.extras]
        offset = tile.zero + 128 * tile.own.flips(x.dtype)
        packing = PackedColumns(
            tile.arithmetic, tile.lanes, tile.tall, tile.strides[0], offset, zero_points(node)[1]
        )  # fmt: skip
        packed = b.packed(w, packing)
        lines = tile.staged_lines(tile.lines) + tile.spare_lines()
        width = tile.staged_width(pair(result.shape[2:])[1])
        scratch = b.scratch(lines * width * x.shape[1], tile.own.staged)
        source = plane_last(b.read(x))
        b.call(self.kernel, [source, packed], [plane_last(result)], params=tile, extras=extras, scratch=scratch)

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        x, y = before.reads[0], after.reads[0]
        if x is None or y is None or x.axis_strides() != y.axis_strides():
            return f"{self.kernel} reads its operand as it was given it"
        return lines_broken(before, after, reads=False)


def _tile(node: Node, own: Arithmetic, target: Target) -> JoinedRows:
    op, (x, w) = node.op, operand_pair(node)
    assert isinstance(op, Conv)
    lines, pixels = pair(node.results[0].shape[2:])
    kernel, strides, dilations, pads = plane_window(op, w.shape[2:])
    spare = own.words(kernel[0]) * own.steps - kernel[0]
    tall = 2 if spare >= strides[0] == dilations[0] == 1 and lines > 1 else 1
    room = target.machine.registers - 4 - tall * own.words(kernel[0]) * kernel[1]
    wide = min(max(room // tall, 2), MAX_PIXELS, pixels)
    line_bytes = x.shape[-1] * x.shape[1] * own.staged.nbytes * strides[0]
    chunk = min(max(target.machine.l2 // 4 // line_bytes // tall, 1) * tall, lines)
    zero, _ = zero_points(node)
    return JoinedRows(wide, tall, target.lanes, own.name, kernel, strides, dilations, pads, zero, chunk)


VARIANTS = (ConvIntegerDepthwise(),)
