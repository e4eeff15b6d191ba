"""Winograd variant of `conv` on channels-last bytes: F(4, 3) in whole numbers, exact to the bit.

Worked example, along one axis: 3 taps g and 6 pixels d make four results by 6 products. The rows of G are multiplied
by what makes them whole, those of BT are whole already, and so sums come out as multiples: AT gives 24, 12, 6 and 6
times the results, which are 3 times 8, 4, 2 and 2. Over two axes it is 9 times a power of two.

>>> d, g = np.array([255, 0, 7, 255, 255, 1]), np.array([1, -127, 100])
>>> products = (G @ g) * (BT @ d)
>>> sums = AT @ products
>>> sums.tolist(), [int(d[i : i + 3] @ g) for i in range(4)]
([22920, 295332, -41268, -192180], [955, 24611, -6878, -32030])

All is done modulo 2^32, in which 9 has an inverse: what is left is a shift, that is exact where 2^6 times the result
is within 32 bits. The weights of a layer say whether it is.

>>> times_9 = (9 * -32030) % 2**32
>>> times_9 * INVERSE % 2**32 - 2**32
-32030
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Container, Hashable, Mapping
from dataclasses import replace

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.graph import Node, Value
from mccompile.ir.scalar import Array
from mccompile.ir.types import I32
from mccompile.kernels.conv.integer import supported
from mccompile.kernels.conv.integer_tiles import EPILOGUE, SHORT_STEP
from mccompile.kernels.conv.winograd import ConvWinograd, Shape, WinogradTile, shape_of, with_gap
from mccompile.kernels.integers import lowest, no_integers, zero_points
from mccompile.kernels.model.arithmetic import MADD, VNNI
from mccompile.kernels.model.of_arrays import OfArrays
from mccompile.kernels.model.tiles import MAX_ROWS, MAX_VECTORS, columns, segments, tile_cycles
from mccompile.kernels.variant import Builder, Offer, operand_pair
from mccompile.kernels.views.channels import is_channels_last
from mccompile.kernels.views.planes import plane_last
from mccompile.ops.conv import Conv
from mccompile.targets.machine import Capability
from mccompile.targets.target import Target

BT = np.array([
    [4, 0, -5, 0, 1, 0], [0, 4, 0, -5, 0, 1], [0, -4, -4, 1, 1, 0],
    [0, 4, -4, -1, 1, 0], [0, -2, -1, 2, 1, 0], [0, 2, -1, -2, 1, 0],
])  # fmt: skip
"""What points are of pixels: the matrix of F(4, 3) in 0, infinity, 1, -1, 2 and -2. Two of it are at most 100 times
the largest pixel less its zero point, which is within 16 bits."""
G = np.array([[6, 0, 0], [0, 0, 6], [1, 1, 1], [1, -1, 1], [1, 2, 4], [1, -2, 4]])
"""What points are of weights, multiplied by 24, 6, -6, -6, 24 and 24: two of it are at most 49 times the largest."""
AT = np.array([[1, 0, -4, -4, 1, 1], [0, 0, -2, 2, 1, -1], [0, 0, -1, -1, 1, 1], [0, 1, -1, 1, 2, -2]])
"""24, 12, 6 and 6 times what results are of products of these."""
INVERSE = pow(9, -1, 2**32)
MOST = 2**25
"""What results must be below, whatever the operand is: the first of a tile is shifted by 6 bits."""
INTO, BACK, MADE = 500, 90, 180
"""Vector instructions, at two a cycle, that make the points of 2 * lanes channels of a tile, the results of lanes
channels, the epilogue apart, and the points of 2 * lanes weights (Zen 4)."""
NEAR = 0.125
"""The part of the second cache that weights stay in beside what products read, once they are made."""
FAR_STORES = 20
"""Bytes that are stored in a cycle where they do not: 36 vectors on as many pages took 280 cycles instead of 90
(Zen 4)."""
FRESH_STORES = 12
"""Bytes of scratch memory that are stored in a cycle for the first time in a layer (Zen 4)."""
L2_SHARE = 0.75
"""What weights, points and products of a block may take of the second cache."""
SMALLER = (1, 2, 4)
"""By how much blocks may be smaller than that allows."""
OUTPUTS, TAPS = (4, 4), (3, 3)


@dataclass(frozen=True)
class IntegerWinogradTile(WinogradTile):
    """`WinogradTile` in words of 32 bits: points lie as pairs of channels of 16 bits.

    Attributes:
        zero: the zero point of the operand, which padding is.
        kept: the weights of all points are made once for all blocks; else, for each, those of a third of the points,
            which stay near.
    """

    zero: int = 0
    kept: bool = False

    def zeros(self, channels: int) -> int:
        """Words of a row of zero points that whole vectors may be read from."""
        return -(-channels // (4 * self.lanes)) * self.lanes

    def point_row(self, channels: int) -> int:
        """Words from a tile's point to the next tile's: a vector more, lest rows fall on the same cache lines."""
        return (-(-channels // (2 * self.lanes)) + 1) * self.lanes

    def weight_plane(self, channels: int) -> int:
        """Words from a point of a segment's weights to the next one: a vector more, as between tiles."""
        return -(-channels // 2) * self.width + self.lanes

    @property
    def weight_points(self) -> int:
        """Points whose weights are in scratch at a time."""
        return math.prod(self.points) // (1 if self.kept else 3)

    def scratch(self, channels: int) -> int:
        return super().scratch(channels) + self.weight_points * self.weight_plane(channels)

    @property
    def zero_word(self) -> int:
        """Four zero points as a number."""
        word = self.zero % 256 * 0x01010101
        return word - 2**32 if word >= 2**31 else word


@dataclass(frozen=True)
class PackedTaps:
    """Weights [M, C, 3, 3] less their zero point as bytes [M / width][C / 2][9][width][2]."""

    width: int
    zero: int

    def pack(self, array: Array) -> Array:
        m, c = array.shape[:2]
        padded = np.zeros((-(-m // self.width) * self.width, -(-c // 2) * 2, 9), np.int64)
        padded[:m, :c] = array.reshape(m, c, 9).astype(np.int64) - self.zero
        pairs = padded.reshape(-1, self.width, padded.shape[1] // 2, 2, 9)
        return np.ascontiguousarray(pairs.transpose(0, 2, 4, 1, 3)).astype(np.int8)


class ConvIntegerWinograd(ConvWinograd):
    """F(4, 3) along both axes over bytes, at stride 1 and any dilation, in one group; the bits are those of
    `conv.integer`."""

    kernel = "conv.integer_winograd"
    params = IntegerWinogradTile

    def __init__(self) -> None:
        super().__init__(*OUTPUTS)

    @property
    def label(self) -> str:
        return self.kernel

    def takes(self, node: Node) -> bool:
        return not node.varies

    def numbers(self, node: Node, target: Target, constants: Container[Value]) -> Hashable:
        w = operand_pair(node)[1]
        asks = not _unfit(target) and w.shape[2:] == TAPS and not no_integers(node)
        return asks and _stays_small(node, constants)

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        if reason := self._unable(node, target, constants):
            return reason
        shape, w = shape_of(node), operand_pair(node)[1]
        cycles, tile = _best(shape, target)
        segment = w.type.count * tile.width // shape.channels
        ahead = segment if shape.channels > tile.width else 0
        tile = replace(tile, zero=zero_points(node)[0], ahead=ahead)
        return Offer(self.label, cycles, tile, spends_arena=True)

    def _unable(self, node: Node, target: Target, constants: Container[Value]) -> str:
        """Why it cannot compute a node; empty if it can."""
        op, (x, w) = node.op, operand_pair(node)
        assert isinstance(op, Conv)
        if reason := _unfit(target):
            return reason
        if op.groups != 1 or w.shape[2:] != TAPS or any(s != 1 for s in op.strides):
            return "it is no 3x3 at stride 1 in one group"
        if reason := supported(node, VNNI, constants):
            return reason
        if not is_channels_last(x) or not is_channels_last(node.results[0]):
            return "a layout is not channels-last"
        return "" if _stays_small(node, constants) else "its sums may be too large to be shifted"

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        (x, w), tile = operand_pair(node), offer.params
        assert isinstance(tile, IntegerWinogradTile)
        result = b.result(0)
        extras = [plane_last(b.read(v).broadcast(result.shape)) for v in node.extras]
        packed = b.packed(w, PackedTaps(tile.width, zero_points(node)[1]))
        scratch = b.scratch(tile.scratch(w.shape[1]), I32)
        views = [plane_last(b.read(x)), packed]
        b.call(self.kernel, [*views], [plane_last(result)], params=tile, extras=extras, scratch=scratch)


def _unfit(target: Target) -> str:
    """Why a target has no such sums; empty if it has."""
    if Capability.PAIRS not in target.capabilities or not target.spare_memory:
        return "the target has no products of pairs of 16 bits, or no memory to spare"
    return "code is to be small" if target.compact else ""


def _stays_small(node: Node, constants: Container[Value]) -> bool:
    return largest_sum(node, constants) < MOST


def largest_sum(node: Node, constants: Container[Value]) -> int:
    """The largest magnitude that a sum of products can have, by the weights, or by their type where these are not
    known, and by the type of the operand."""
    (x, w), (zero, other) = operand_pair(node), zero_points(node)
    low, high = lowest(x.dtype) - zero, lowest(x.dtype) + 255 - zero
    data = constants.get(w) if isinstance(constants, Mapping) else None
    if not isinstance(data, np.ndarray):
        least = lowest(w.dtype) - other
        return math.prod(w.shape[1:]) * max(abs(low), abs(high)) * max(abs(least), abs(least + 255))
    below, above = _SUMS(data, other)
    return int(np.maximum(high * above + low * below, -(low * above + high * below)).max())


def _sums(data: Array, zero: int) -> tuple[Array, Array]:
    """The sums of the negative and of the positive weights of each channel."""
    weights = data.reshape(len(data), -1).astype(np.int64) - zero
    return np.minimum(weights, 0).sum(1), np.maximum(weights, 0).sum(1)


_SUMS = OfArrays(_sums)


@functools.lru_cache(maxsize=512)
def _best(shape: Shape, target: Target) -> tuple[float, IntegerWinogradTile]:
    """The cheapest blocking, and its cycles."""
    window = (OUTPUTS, shape.taps, shape.pads, shape.strides, shape.dilations)
    any_tile = IntegerWinogradTile(1, 1, target.lanes, 1, *window)
    tiles = shape.batch * math.prod(any_tile.tiles(shape.extents))
    found = []
    for rows in range(1, MAX_ROWS + 1):
        for vectors in range(1, min(-(-shape.channels // target.lanes), MAX_VECTORS) + 1):
            if MADD.registers(rows, vectors, False) <= target.machine.registers:
                for kept, smaller in itertools.product((False, True), SMALLER):
                    one = replace(any_tile, rows=rows, vectors=vectors, kept=kept)
                    tile = _blocked(one, shape.inputs, tiles, smaller, target)
                    found.append((_cycles(tile, shape, tiles, target), tile))
    return min(found, key=lambda f: f[0])


def _blocked(
    tile: IntegerWinogradTile, channels: int, tiles: int, smaller: int, target: Target
) -> IntegerWinogradTile:
    """Blocks of as many tiles as the second cache holds beside the weights, or ``smaller`` times fewer: of a register
    tile at least."""
    room = int(L2_SHARE * target.machine.l2) // 4 - tile.weight_points * tile.weight_plane(channels)
    each = math.prod(tile.points) * (tile.point_row(channels) + tile.width)
    most = max(room // each // smaller // tile.rows, 1) * tile.rows
    blocks = -(-tiles // most)
    even = -(-tiles // blocks)
    block = even if blocks == 1 else min(-(-even // tile.rows) * tile.rows, tiles)
    return with_gap(replace(tile, block=block), channels, target)


def _cycles(tile: IntegerWinogradTile, shape: Shape, tiles: int, target: Target) -> float:
    """Cycles of the products, the transforms and the epilogue."""
    machine, words = target.machine, -(-shape.inputs // 2)
    if not target.can("VNNI"):
        machine = replace(machine, latency=SHORT_STEP)
    along, blocks = columns(shape.channels, tile.width, tile.lanes), -(-tiles // tile.block)
    total = 4 * tile.scratch(shape.inputs) / FRESH_STORES
    for s in segments(tiles, tile.block):
        one = tile_cycles(segments(s.size, tile.rows), along, words, machine)
        total += (s.stop - s.start) // s.size * math.prod(tile.points) * one
    vectors = -(-shape.channels // tile.lanes)
    made = words * vectors * (1 if tile.kept else blocks)
    if 4 * tile.weight_points * tile.weight_plane(shape.inputs) > NEAR * machine.l2:
        total += made * math.prod(tile.points) * machine.vector_bytes / FAR_STORES
    again = 1 if blocks == 1 else sum(count for count, _ in along)
    read = tiles * again * -(-shape.inputs // (2 * tile.lanes))
    work = read * INTO + tiles * vectors * BACK + made * MADE
    results = shape.batch * math.prod(shape.extents) * vectors * EPILOGUE
    loading = machine.vector_bytes / (machine.loads * machine.load_bytes)
    return total + work * loading / 2 + results


VARIANTS = (ConvIntegerWinograd(),)
