"""Products of bytes on microcontrollers: windows of three pixels are staged, two channels share each word of weights.

Worked example: two channels of weights (1, -2, 3, 4) and (5, 6, -7, 8) are two words, of terms 0 and 2 and of terms
1 and 3, whose halves are 256 * a + b. One sum of products with a pixel is 256 * A + B, that of the lower bytes B.

>>> words = PackedPairs(((1, -2, 3, 4), (5, 6, -7, 8)), paired=True).pack(np.zeros(0)).reshape(-1)
>>> [(w & 0xFFFF, w >> 16) for w in words.tolist()] == [(256 + 5, 3 * 256 - 7), (-2 * 256 + 6 + 65536, 4 * 256 + 8)]
True
"""

from __future__ import annotations

import math
from collections.abc import Container

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.errors import InternalError
from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Call
from mccompile.ir.scalar import Array
from mccompile.ir.types import I8, I32, U8, DType, row_major
from mccompile.ir.views import View
from mccompile.kernels.integers import (
    IntegerProduct,
    begin_with,
    folded,
    integer_product,
    lowest,
    no_integers,
    weights_of,
)
from mccompile.kernels.model.tiles import merge
from mccompile.kernels.variant import Builder, Offer, Variant, blocked, operand_pair
from mccompile.kernels.views.channels import is_channels_last
from mccompile.kernels.views.planes import plane, plane_window
from mccompile.kernels.views.windows import Order, places_behind
from mccompile.ops.conv import Conv
from mccompile.targets.target import Target

ROWS = 3
"""Pixels of a tile; it has two channels."""
PRODUCT = {"smlad": 0.9, "mla": 1.9, "mve": 0.25}
"""Cycles of a product in the inner loop."""
STAGED = 1.6
"""Cycles of a byte that is staged, where its neighbours are terms as well; else twice as many."""
STORED = 8.0
"""Cycles of a result beside its products."""
WRITTEN_OUT = 7
"""Steps that are written out one by one, if they are no more and an odd number."""
ROOM, ROOM_PART = 1024, 8
"""Scratch is a good deal where it takes more bytes and a larger part of operand and result."""
UNROLL = ((1 << 18, 4), (1 << 16, 2))
"""Steps in a turn of the inner loop that layers of so many products are worth."""


@dataclass(frozen=True)
class StagedTile(Order):
    """How a window is staged and multiplied.

    Attributes:
        arithmetic: as `Target.integer`.
        paired: two channels share each half of a word of weights.
        narrow: one channel at a time, for cores of few registers, by bytes without sign.
        channels: of a tile, for all others; `mla` has four where there are registers for their sums.
        unroll: steps of four terms, or of one, in a turn of the loop, where the template has one.
        zero: the bytes of the padding.
        begun: the extra operand in whose place is what sums begin with; -1: operand 2 is.
        wraps: sums may leave 32 bits on their way.
        grid: the lines and columns of results.
        pads: what comes before the first line and column.
    """

    arithmetic: str = "smlad"
    paired: bool = False
    narrow: bool = False
    channels: int = 2
    unroll: int = 1
    zero: int = 0
    begun: int = -1
    wraps: bool = True
    grid: tuple[int, int] = (1, 1)
    kernel: tuple[int, int] = (1, 1)
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    pads: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class PackedPairs:
    """Weights of channels, each a tuple of terms, as words for pairs of channels: see the template."""

    weights: tuple[tuple[int, ...], ...]
    paired: bool

    def pack(self, array: Array) -> Array:
        w = np.array(self.weights, np.int64)
        channels, terms = w.shape
        padded = np.zeros((channels, -(-terms // 4) * 4), np.int64)
        padded[:, :terms] = w
        padded = in_pairs(padded)
        quads = padded.reshape(-1, 2, padded.shape[1] // 4, 4)
        if self.paired:
            halves = (256 * quads[:, 0] + quads[:, 1]) & 0xFFFF
            words = halves[..., :2] | halves[..., 2:] << 16
        else:
            words = ((quads & 0xFF) << np.array([0, 8, 16, 24])).sum(axis=-1).swapaxes(1, 2)
        return words.astype(np.uint32).view(np.int32)


@dataclass(frozen=True)
class PackedBytes:
    """Weights of channels, each a tuple of terms, as [channels / n][terms][n] bytes, zeros behind the last, where a
    tile has n ``channels``."""

    weights: tuple[tuple[int, ...], ...]
    channels: int = 2

    def pack(self, array: Array) -> Array:
        w = np.array(self.weights, np.int8)
        padded = np.zeros((-(-w.shape[0] // self.channels) * self.channels, w.shape[1]), np.int8)
        padded[: w.shape[0]] = w
        return padded.reshape(-1, self.channels, w.shape[1]).swapaxes(1, 2)


VECTOR = 16
"""Bytes of a vector of MVE."""


@dataclass(frozen=True)
class PackedVectors:
    """Weights of channels, each a tuple of terms, as [channels / rows][terms / 16][rows][16] bytes and zeros."""

    weights: tuple[tuple[int, ...], ...]
    rows: int = 2

    def pack(self, array: Array) -> Array:
        w = np.array(self.weights, np.int8)
        channels, terms = (-(-e // size) * size for e, size in zip(w.shape, (self.rows, VECTOR), strict=True))
        padded = np.zeros((channels, terms), np.int8)
        padded[: w.shape[0], : w.shape[1]] = w
        return padded.reshape(-1, self.rows, terms // VECTOR, VECTOR).swapaxes(1, 2)


@dataclass(frozen=True)
class PackedRows:
    """Weights of channels, each a tuple of terms, as [channels][terms] bytes."""

    weights: tuple[tuple[int, ...], ...]

    def pack(self, array: Array) -> Array:
        return np.array(self.weights, np.int8)


def in_pairs(channels: Array) -> Array:
    """Channels along the first axis, two for each pair: of an odd number the last two are a pair as well, so that the
    last but one is in two. Beside a single one there are zeros.

    >>> in_pairs(np.array([5, 6, 7])).tolist(), in_pairs(np.array([5])).tolist()
    ([5, 6, 6, 7], [5, 0])
    """
    if len(channels) % 2 == 0:
        return channels
    pair = channels[-2:] if len(channels) > 1 else np.concatenate([channels, np.zeros_like(channels)])
    return np.concatenate([channels[:-1], pair])


def may_pair(weights: Array, begins: Array, low: int, high: int) -> bool:
    """Whether two channels of weights [channels, terms] may share a word for operands from ``low`` to ``high``: each
    256 * a + b fits a half, and each 256 * A a word."""
    weights, begins = in_pairs(weights), in_pairs(begins)
    even = weights[0::2]
    halves = 256 * even + weights[1::2]
    bounds = np.abs(even).sum(axis=1) * max(-low, high) + np.abs(begins[0::2])
    return bool(halves.min(initial=0) >= -(2**15) and halves.max(initial=0) < 2**15 and (bounds < 2**23).all())


def arithmetic_of(target: Target) -> str:
    """Which instructions these kernels take on a target: cores with MVE have those of the DSP extension as well."""
    return "smlad" if target.integer == "mve" else target.integer


FEW_REGISTERS = 8
"""Registers of integers, where sums of six results leave none for what is multiplied."""


def is_narrow(target: Target) -> bool:
    """Whether a core is best with one channel at a time, and loads bytes without sign only."""
    return arithmetic_of(target) == "mla" and target.machine.integers <= FEW_REGISTERS


MANY_REGISTERS = 24
"""Registers of integers that hold the sums of three pixels by four channels, and what is multiplied."""


def has_many_registers(arithmetic: str, target: Target) -> bool:
    """Whether tiles are twice as wide as elsewhere; not where code is to be small."""
    return arithmetic == "mla" and target.machine.integers >= MANY_REGISTERS and not target.compact


def staged_zero(zero: int, dtype: DType, target: Target) -> int:
    """The zero point of bytes as they are staged: without sign where the core is narrow."""
    return zero - lowest(dtype) if is_narrow(target) else zero


def products_of(target: Target, dtype: DType) -> str:
    """Which instructions products over channels take for bytes of a type: those of MVE for bytes with sign."""
    return "mve" if target.integer == "mve" and dtype == I8 else arithmetic_of(target)


def pairs_range(dtype: DType) -> tuple[int, int]:
    """The bytes of an operand, from the lowest to the highest."""
    return lowest(dtype), lowest(dtype) + 255


def weights_by_taps(node: Node, b: Builder) -> Array:
    """The weights of a convolution as [channels, terms], the channels of a tap side by side."""
    w = weights_of(node, b)
    return np.moveaxis(w.reshape(*w.shape[:2], -1), 1, 2).reshape(w.shape[0], -1)


def may_wrap(weights: Array, begins: Array, dtype: DType) -> bool:
    """Whether some sum of products of weights [channels, terms] by bytes of a type may leave 32 bits."""
    low, high = pairs_range(dtype)
    sizes = np.abs(weights).reshape(weights.shape[0], -1).sum(axis=1) * max(-low, high)
    return bool((sizes + np.abs(begins) >= 2**31).any())


def window_product(node: Node, target: Target, constants: Container[Value]) -> IntegerProduct | str:
    """A convolution of bytes by constant ones over one or two axes, with sums of 32 bits; or why it is none."""
    if len(operand_pair(node)[0].shape) not in (3, 4):
        return "it has more than two spatial axes"
    return no_products(node, target) or integer_product(node, constants, channels=1)


def depthwise_product(node: Node, target: Target, constants: Container[Value]) -> IntegerProduct | str:
    """As `window_product`, with one filter for each channel."""
    op, (x, w) = node.op, operand_pair(node)
    assert isinstance(op, Conv)
    if not op.groups == x.shape[1] == w.shape[0]:
        return "it is not depthwise with one filter for each channel"
    return window_product(node, target, constants)


def no_products(node: Node, target: Target) -> str:
    """Why products are not for these kernels, by whatever second operand of bytes; empty if they may be."""
    if reason := no_integers(node):
        return reason
    if arithmetic_of(target) not in PRODUCT:
        return f"the target's arithmetic is {target.integer}"
    if not node.results[0].type.count or not operand_pair(node)[1].type.count:
        return "there is nothing to compute"
    return blocked(node)


class ConvStaged(Variant):
    """Any window over one or two axes, in one group."""

    ops = ("conv",)
    kernel = "conv.staged"
    params = StagedTile
    may_share = False
    wants_pixels = True

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        op, (x, w) = node.op, operand_pair(node)
        assert isinstance(op, Conv)
        found = window_product(node, target, constants)
        if isinstance(found, str):
            return found
        if op.groups != 1:
            return "it has groups"
        terms = math.prod(w.shape[1:])
        pixels = node.results[0].type.count / w.shape[0]
        pixels = -(-pixels // ROWS) * ROWS
        near = is_channels_last(x) or x.shape[1] == 1
        cycles = pixels * terms * (w.shape[0] * PRODUCT[products_of(target, x.dtype)] + STAGED * (1 if near else 2))
        large = ROWS * 2 * terms > max(ROOM, (x.type.nbytes + node.results[0].type.nbytes) // ROOM_PART)
        return Offer(self.label, cycles + STORED * pixels * w.shape[0], found, spends_arena=large)

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        op, product = node.op, offer.params
        assert isinstance(op, Conv)
        assert isinstance(product, IntegerProduct)
        source, result = plane(b.read(operand_pair(node)[0])), plane(b.result(0))
        w, weights = operand_pair(node)[1], weights_by_taps(node, b)
        arithmetic = products_of(b.target, source.dtype)
        kernel, strides, dilations, pads = plane_window(op, w.shape[2:])
        window = StagedTile(
            arithmetic=arithmetic, zero=product.zero, begun=product.begun, kernel=kernel, strides=strides,
            dilations=dilations, pads=pads,
        )  # fmt: skip
        zero = staged_zero(product.zero, source.dtype, b.target)
        begin = begin_with(node, product, folded(weights, zero), b)
        extras = [plane(e.broadcast(node.results[0].shape)) for e in begin.extras]
        stage(node, [source, result, *extras], begin.operand, weights, window, product, b)

    def near(self, call: Call) -> int | None:
        p, x, y = call.params, call.reads[0], call.results[0]
        assert isinstance(p, StagedTile)
        assert x is not None
        n, _, lines, pixels = y.shape
        places = []
        for a, extent in enumerate(x.shape[2:]):
            start = np.arange(p.grid[a]) * p.strides[a] - p.pads[a]
            places.append(np.clip(start, 0, extent - 1))
        batch = np.arange(n)[:, None, None]
        first = [batch, np.zeros((1, 1, 1), int), places[0][:, None], places[1]]
        last = [batch, np.full((1, 1, 1), y.shape[1] - 1), np.arange(lines)[:, None], np.arange(pixels)]
        return places_behind(call, first, last, (n * lines, pixels), ROWS)

    def overwrites(self, call: Call) -> tuple[int, ...]:
        p = call.params
        assert isinstance(p, StagedTile)
        x, y = call.reads[0], call.results[0]
        assert x is not None
        pointwise = p.kernel == p.strides == (1, 1) and not any(p.pads) and x.shape[2:] == y.shape[2:]
        return written_alike(call, pointwise)

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        return blocked(after)


def stage(
    node: Node, views: list[View], begin: View | None, weights: Array, window: StagedTile, product: IntegerProduct,
    b: Builder,
) -> None:
    """Call the kernel for an operand [N, C, H, W], a result [N, M, H, W], extras alike and weights [M, terms].

    ``begin`` is what sums begin with where no extra operand is.
    """
    x, result, *extras = views
    grid = (result.shape[2], result.shape[3])
    # Padding may lie behind the operand alone: then the result is larger.
    pointwise = window.kernel == window.strides == (1, 1) and x.shape[2:] == result.shape[2:] and not any(window.pads)
    if pointwise:
        together = in_line([x, result, *extras])
        if together is not None:
            x, result, *extras = together
            grid = (1, result.shape[3])
    else:
        result, *extras = in_line([result, *extras]) or [result, *extras]
    terms = weights.shape[1]
    rows = tuple(map(tuple, weights.tolist()))
    begins = begins_of(node, product.begun, folded(weights, staged_zero(product.zero, x.dtype, b.target)), b)
    steps = -(-terms // 4) if window.arithmetic == "smlad" else terms
    paired = window.arithmetic == "smlad" and may_pair(weights, begins, *pairs_range(x.dtype))
    w, narrow = operand_pair(node)[1], is_narrow(b.target)
    channels = 4 if has_many_registers(window.arithmetic, b.target) and weights.shape[0] > 2 else 2
    tile = StagedTile(
        arithmetic=window.arithmetic, paired=paired, narrow=narrow, channels=channels,
        unroll=1 if paired else unrolled(steps, terms * result.count),
        zero=window.zero, begun=window.begun, wraps=may_wrap(weights, begins, U8 if narrow else x.dtype), grid=grid,
        kernel=window.kernel, strides=window.strides, dilations=window.dilations, pads=window.pads,
    )  # fmt: skip
    if window.arithmetic == "smlad":
        packed = b.packed(w, PackedPairs(rows, paired))
        scratch = b.scratch(steps * 2 * ROWS + steps, I32)
    elif window.arithmetic == "mve":
        packed = b.packed(w, PackedVectors(rows))
        scratch = b.scratch(-(-terms // VECTOR) * VECTOR * (ROWS + 1), x.dtype)
    elif narrow:
        packed = b.packed(w, PackedRows(rows))
        scratch = b.scratch(terms * (ROWS + 1), U8)
    else:
        packed = b.packed(w, PackedBytes(rows, channels))
        scratch = b.scratch(terms * ROWS, x.dtype)
    reads: list[View | None] = [x, packed] if begin is None else [x, packed, begin]
    b.call("conv.staged", reads, [result], params=tile, extras=extras, scratch=scratch, inplace=())


def begins_of(node: Node, begun: int, added: tuple[int, ...], b: Builder) -> Array:
    """What the sums of the channels begin with: numbers added to what an extra operand says."""
    begins = np.array(added, np.int64)
    if begun >= 0:
        bias = b.seen(node.extras[begun], AsNumbers()).buffer.data
        assert bias is not None
        begins = begins + bias.reshape(-1)
    return begins


def written_alike(call: Call, in_place: bool) -> tuple[int, ...]:
    """The extra operands that only an epilogue reads, at the element that it writes; with ``in_place`` operand 0 as
    well, if it lies as the result does."""
    y, first = call.results[0], len(call.reads)
    written = set().union(*(ex.variables(body) for _, body in call.post))
    read = set().union(*(ex.variables(body) for _, body in call.pre))
    views = {first + i: v for i, v in enumerate(call.extras) if i in written - read}
    if in_place and call.reads[0] is not None:
        views[0] = call.reads[0]
    return tuple(i for i, v in views.items() if v.dtype == y.dtype and v.same_elements(y))


def unrolled(steps: int, products: int, worth: tuple[tuple[int, int], ...] = UNROLL) -> int:
    """Steps in a turn of the inner loop of a layer of so many products."""
    most = next((u for least, u in worth if products >= least), 1)
    if most > 1 and steps % 2 and steps <= WRITTEN_OUT:
        return steps
    return next(u for u in (4, 2, 1) if u <= most and steps % u == 0)


@dataclass(frozen=True)
class AsNumbers:
    """A constant as i64."""

    def pack(self, array: Array) -> Array:
        return array.astype(np.int64)


def in_line(views: list[View]) -> list[View] | None:
    """Views [N, C, H, W] as [N, C, 1, H * W], where that is one run in all of them."""
    merged = merge(views, range(2, 4))
    if isinstance(merged, str):
        raise InternalError(merged)
    if merged[0].rank != 3:
        return None
    shapes = [(*v.shape[:2], 1, v.shape[2]) for v in merged]
    strides = [v.axis_strides() for v in merged]
    return [
        View(v.buffer, shape, row_major(4), (*s[:2], 0, s[2]), v.offset)
        for v, shape, s in zip(merged, shapes, strides, strict=True)
    ]


VARIANTS = (ConvStaged(),)
