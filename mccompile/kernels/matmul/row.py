"""Matrix products of a few rows of bytes on microcontrollers: four columns at a time, each weight read once a row.

Worked example: the four columns of a matrix of four terms are four words, those of `PackedPairs` for columns 0 and 1,
then those for columns 2 and 3.

>>> columns = ((1, 2, 3, 4), (0, 0, 0, 0), (5, 6, 7, 8), (0, 0, 0, 1))
>>> [hex(w) for w in PackedQuads(columns, paired=True).pack(np.zeros(0)).reshape(-1).tolist()]
['0x3000100', '0x4000200', '0x7000500', '0x8010600']
"""

from __future__ import annotations

import math
from collections.abc import Container

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Call
from mccompile.ir.scalar import Array
from mccompile.ir.types import I32
from mccompile.ir.views import View
from mccompile.kernels.conv.staged import (
    VECTOR,
    PackedBytes,
    PackedPairs,
    PackedVectors,
    begins_of,
    has_many_registers,
    in_line,
    is_narrow,
    may_pair,
    may_wrap,
    pairs_range,
    products_of,
    unrolled,
    weights_by_taps,
    window_product,
    written_alike,
)
from mccompile.kernels.integers import Begin, IntegerProduct, begin_with, folded
from mccompile.kernels.matmul.packed import batched
from mccompile.kernels.matmul.staged import as_pixels, columns_of, product_of
from mccompile.kernels.variant import Builder, Offer, Packing, Variant, blocked, operand_pair
from mccompile.kernels.views.planes import plane
from mccompile.kernels.views.windows import places_behind
from mccompile.ops.conv import Conv
from mccompile.targets.target import Target

PRODUCT = {"smlad": 1.05, "mla": 2.4, "mve": 0.2}
"""Cycles of a product."""
STORED = 10.0
"""Cycles of a result beside its products."""
ROOM = 256
"""Bytes of scratch that a row is worth; one that needs more is widened anew for each four columns."""
MOST_ROWS = 2
UNROLL = ((1 << 14, 4), (1 << 13, 2))
"""As for `conv.staged`."""
COLUMNS = 4
"""Of a tile; twice as many where there are registers for their sums."""


@dataclass(frozen=True)
class RowTile:
    """How a row is multiplied.

    Attributes:
        arithmetic, paired, unroll, begun, wraps: as for `StagedTile`.
        staged: the row is widened once, in scratch.
        narrow: weights are bytes without sign, 128 more than they were: for cores that load no others at once.
        columns: of a tile; `mla` has eight where there are registers for their sums.
    """

    arithmetic: str = "smlad"
    paired: bool = False
    unroll: int = 1
    begun: int = -1
    wraps: bool = True
    staged: bool = False
    narrow: bool = False
    columns: int = COLUMNS


def in_quads(columns: Array) -> Array:
    """Columns, along the first axis, and zeros behind them."""
    missing = -len(columns) % COLUMNS
    return np.concatenate([columns, np.zeros((missing, *columns.shape[1:]), columns.dtype)])


@dataclass(frozen=True)
class PackedQuads:
    """Weights of columns, each a tuple of terms, as [columns / 4][terms / 4][4] words."""

    weights: tuple[tuple[int, ...], ...]
    paired: bool

    def pack(self, array: Array) -> Array:
        pairs = PackedPairs(tuple(map(tuple, in_quads(np.array(self.weights)).tolist())), self.paired).pack(array)
        return pairs.reshape(-1, 2, *pairs.shape[1:]).swapaxes(1, 2).reshape(-1, pairs.shape[1], COLUMNS)


@dataclass(frozen=True)
class PackedNarrow:
    """Weights of columns, each a tuple of terms, as `PackedBytes` without sign: 128 more than they were."""

    weights: tuple[tuple[int, ...], ...]
    columns: int

    def pack(self, array: Array) -> Array:
        packed = PackedBytes(self.weights, self.columns).pack(array)
        return packed.astype(np.int16).astype(np.uint8) ^ 0x80


class MatMulRow(Variant):
    """One constant second operand, few rows."""

    ops = ("matmul",)
    kernel = "matmul.row"
    params = RowTile
    may_share = False

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        return _offer(node, target, product_of(node, target, constants), operand_pair(node)[0].shape[-1])

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        product = offer.params
        assert isinstance(product, IntegerProduct)
        weights = columns_of(node, b)
        result = b.result(0)
        begin = begin_with(node, product, folded(weights, product.zero), b)
        extras = [e.broadcast(result.shape) for e in begin.extras]
        views = as_pixels([batched(b.read(operand_pair(node)[0]), result), result, *extras])
        _call(node, views, begin, weights, product, b)

    def near(self, call: Call) -> int | None:
        p, y = call.params, call.results[0]
        assert isinstance(p, RowTile)
        if not p.staged:
            return None
        n, channels, lines, pixels = y.shape
        grid = [np.arange(n)[:, None, None], np.arange(lines)[:, None], np.arange(pixels)]
        first = [grid[0], np.zeros((1, 1, 1), int), *grid[1:]]
        last = [grid[0], np.full((1, 1, 1), channels - 1), *grid[1:]]
        return places_behind(call, first, last, (1, n * lines * pixels), 1)

    def overwrites(self, call: Call) -> tuple[int, ...]:
        p = call.params
        assert isinstance(p, RowTile)
        return written_alike(call, p.staged)

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        p, x = after.params, after.reads[0]
        assert isinstance(p, RowTile)
        if reason := blocked(after):
            return reason
        widened = p.arithmetic in ("smlad", "mve") and not p.staged
        apart = x is not None and x.axis_strides()[1] != 1
        return f"{self.kernel} reads neighbours as they lie" if widened and apart else ""


class ConvRow(MatMulRow):
    """1x1 over few pixels."""

    ops = ("conv",)

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        op, (x, w) = node.op, operand_pair(node)
        assert isinstance(op, Conv)
        if op.groups != 1 or any(k != 1 for k in (*w.shape[2:], *op.strides)) or any(op.pads):
            return "it is not 1x1 in one group"
        return _offer(node, target, window_product(node, target, constants), x.shape[1])

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        product = offer.params
        assert isinstance(product, IntegerProduct)
        weights = weights_by_taps(node, b)
        begin = begin_with(node, product, folded(weights, product.zero), b)
        extras = [plane(e.broadcast(node.results[0].shape)) for e in begin.extras]
        views = [plane(b.read(operand_pair(node)[0])), plane(b.result(0)), *extras]
        _call(node, in_line(views) or views, begin, weights, product, b)


def _offer(node: Node, target: Target, product: IntegerProduct | str, terms: int) -> Offer | str:
    result = node.results[0]
    if isinstance(product, str):
        return product
    columns = result.shape[1] if isinstance(node.op, Conv) else result.shape[-1]
    if result.type.count > MOST_ROWS * columns:
        return f"there are more than {MOST_ROWS} rows"
    padded = math.ceil(columns / COLUMNS) * COLUMNS / columns
    products = padded * terms * PRODUCT[products_of(target, operand_pair(node)[0].dtype)]
    return Offer("matmul.row", result.type.count * (products + STORED), product)


def _call(
    node: Node, views: list[View], begin: Begin, weights: Array, product: IntegerProduct, b: Builder
) -> None:
    """Call the kernel for an operand [N, K, H, W], a result [N, M, H, W] and extras alike."""
    x, result, *extras = views
    terms, arithmetic = weights.shape[1], products_of(b.target, x.dtype)
    halves, vectors = arithmetic == "smlad", arithmetic == "mve"
    steps = -(-terms // 4) if halves else -(-terms // VECTOR) if vectors else terms
    direct = x.axis_strides()[1] == 1 and terms % (VECTOR if vectors else 4) == 0
    narrow = is_narrow(b.target)
    wide = has_many_registers(arithmetic, b.target) and result.shape[1] > COLUMNS
    columns = 2 * COLUMNS if wide else COLUMNS
    begins = begins_of(node, product.begun, folded(weights, product.zero), b)
    paired = halves and may_pair(in_quads(weights), in_quads(begins), *pairs_range(x.dtype))
    if narrow:
        low, high = pairs_range(x.dtype)
        wraps = may_wrap(weights + 128, np.abs(begins) + 128 * max(-low, high) * terms, x.dtype)
    else:
        wraps = may_wrap(weights, begins, x.dtype)
    tile = RowTile(
        arithmetic, paired, 1 if vectors else unrolled(steps, terms * result.count, UNROLL), product.begun,
        wraps, (halves and 8 * steps <= ROOM) or ((halves or vectors) and not direct), narrow, columns,
    )  # fmt: skip
    rows = tuple(map(tuple, weights.tolist()))
    packing: Packing = PackedNarrow(rows, columns) if narrow else PackedBytes(rows, columns)
    if halves:
        packing = PackedQuads(rows, paired)
    elif vectors:
        packing = PackedVectors(rows, columns)
    packed = b.packed(operand_pair(node)[1], packing)
    reads: list[View | None] = [x, packed] if begin.operand is None else [x, packed, begin.operand]
    scratch = None
    if tile.staged:
        scratch = b.scratch(steps * VECTOR, x.dtype) if vectors else b.scratch(2 * steps, I32)
    b.call("matmul.row", reads, [result], params=tile, extras=extras, scratch=scratch, inplace=())


VARIANTS = (MatMulRow(), ConvRow())
