"""Products of rows by constant columns in seven eighths of the multiplications (Strassen, in Winograd's form).

With rows A, weights B and results C cut in two both ways, seven products of a quarter of each give what eight do:

    s1 = A21 + A22    s2 = s1 - A11    s3 = A11 - A21    s4 = A12 - s2
    t1 = B12 - B11    t2 = B22 - t1    t3 = B22 - B12    t4 = B21 - t2

    p = A11 B11      C11 = p + A12 B21
    q = p + s2 t2    C21 = q + s3 t3 + A22 t4
    u = s1 t1        C22 = q + s3 t3 + u       C12 = q + u + s4 B22

All but p, q, q + s3 t3 and u are sums that go on in the registers of a tile. The halves of rows and of columns are
those of a tile, not of the whole: the first ``rows`` of it and the others. So the sums of rows lie in the first cache
while they are used, and a result depends on another row of its tile beside its own. The t are made when the network
is compiled: weights take 7 quarters of their size.

Worked example: by hand, with numbers for quarters.

>>> a, b = np.array([[1, 2], [3, 4]]), np.array([[5, 6], [7, 8]])
>>> s1, t1 = 3 + 4, 6 - 5
>>> s2, s3, t2, t3 = s1 - 1, 1 - 3, 8 - t1, 8 - 6
>>> s4, t4 = 2 - s2, 7 - t2
>>> p, u = 1 * 5, s1 * t1
>>> q = p + s2 * t2
>>> [p + 2 * 7, q + u + s4 * 8], [q + s3 * t3 + 4 * t4, q + s3 * t3 + u]
([19, 22], [43, 50])
>>> (a @ b).tolist()
[[19, 22], [43, 50]]

V. Strassen, Gaussian elimination is not optimal, 1969; S. Winograd, On multiplication of 2x2 matrices, 1971.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Container, Mapping

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.errors import InternalError
from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Call
from mccompile.ir.scalar import Array
from mccompile.ir.types import F32
from mccompile.ir.views import Buffer, View, whole
from mccompile.kernels.matmul.packed import batched
from mccompile.kernels.model.lanes import vector_cycles
from mccompile.kernels.model.of_arrays import OfArrays
from mccompile.kernels.model.parts import Turns, batches, by_weights
from mccompile.kernels.model.prefetch import prefetching
from mccompile.kernels.model.tiles import (
    MAX_ROWS,
    MAX_VECTORS,
    InChunks,
    Prefetching,
    Segment,
    crowded,
    fits,
    merge,
    segments,
    step_cycles,
)
from mccompile.kernels.variant import (
    Builder,
    Offer,
    Variant,
    computed,
    lines_broken,
    operand_pair,
    vectors_apart,
)
from mccompile.ops.matmul import MatMul
from mccompile.targets.target import Target

PRODUCTS = 7
INEXACT = {4: 1.08}
USUALLY_INEXACT = 1.05
"""What fewer weights, less code and more digits are worth: it counts for that much more than it takes. With
vectors of 4 lanes little is gained (64-bit Arm, MobileNetV1: 3.6 % of its instructions for 5 KB of code)."""
HIDDEN = 2.0
"""So many times what it takes to bring weights from memory the products by them have to take, or they wait: hardware
brings a part of them late."""
UNHIDDEN = 0.15
"""What part of the way of weights from the third cache products do not hide."""
SUMS = 17
"""Cycles for the sizes of a vector of each of four quarters, and their sums: some 30 instructions (Zen 4, of 256 bits
and of 512 in two halves)."""
LONG = 4
SPILLS = 8
"""Cycles that each vector of results takes more with an epilogue of more than so many, for compilers keep less of
it in registers than behind a single product (swish, Zen 4)."""
FORM = 0.01
"""What part of the cycles a tile of another form is worth: it is code of its own."""
KEPT = 10
"""Vectors that a tile moves to and from memory for each vector of its sums, beside its results."""
MOST_UNEVEN = 16.0
"""How much larger than a product the products by other weights may be that it is added up with; see `unevenness`.
The networks of the tests have 1.1 to 5.3, but for one with dead channels."""
DENSE = 0.75
"""The least part of the weights that is not zero: matrices of fewer pick elements, or add some up exactly."""
NOTHING = 1e-12
"""Rows of weights that are smaller beside the usual ones say nothing about what they are multiplied by."""


@dataclass(frozen=True)
class StrassenTile(InChunks, Prefetching):
    """Twice ``rows`` rows by twice ``vectors`` vectors of columns, in chunks of ``chunk`` rows, the sums of which are
    made before their products."""

    chunk: int

    def tiles_m(self, extent: int) -> tuple[Segment, ...]:
        return segments(extent, 2 * self.rows)

    def tiles_n(self, extent: int) -> tuple[Segment, ...]:
        return segments(extent, 2 * self.width)

    @staticmethod
    def upper(rows: int) -> int:
        """Rows of the upper half of a tile; the lower half begins with the last of them if the number is odd."""
        return -(-rows // 2)

    def left(self, columns: int) -> int:
        """Columns of the left half of a tile, whole vectors; the right half is filled up with zeros."""
        return -(-columns // (2 * self.lanes)) * self.lanes

    def left_lanes(self, columns: int) -> tuple[int, ...]:
        """Lanes of each vector of the left half of a tile that are results."""
        return self._lanes(min(self.left(columns), columns))

    def right_lanes(self, columns: int) -> tuple[int, ...]:
        """Lanes of each vector of the right half of a tile that are results."""
        return self._lanes(columns - self.left(columns))

    def _lanes(self, columns: int) -> tuple[int, ...]:
        return tuple(min(self.lanes, columns - first) for first in range(0, columns, self.lanes))

    def sum_row(self, half: int) -> int:
        """Floats from a row of sums to the next: a vector more, lest rows fall on the same cache lines."""
        return -(-half // self.lanes) * self.lanes + self.lanes

    def scratch(self, half: int) -> int:
        """Floats of the rows that are made for a chunk: seven for each pair of rows, and what undoes both sizes."""
        return self.upper(self.chunk) * (PRODUCTS * self.sum_row(half) + 2)


@dataclass(frozen=True)
class _Columns:
    """Columns of a matrix [K, N], or ``transposed`` [N, K], in tiles of 2 * ``width``."""

    width: int
    lanes: int
    transposed: bool

    @property
    def tile(self) -> StrassenTile:
        """One with such columns, and any rows."""
        return StrassenTile(1, self.width // self.lanes, self.lanes, chunk=2)


@dataclass(frozen=True)
class StrassenColumns(_Columns):
    """A matrix [K, N] (``transposed``: [N, K], with axes of extent 1 before or behind) as B11, B21, t2, t3, t4, t1,
    B22 of each tile of 2 * ``width`` columns: [tiles][7][K / 2][width], the last tile as wide as it needs in vectors.

    Columns are multiplied by `powers`, so that those of a tile are of one magnitude.
    """

    def pack(self, array: Array) -> Array:
        matrix = _matrix(array, self.transposed)
        by = powers(matrix)
        parts = []
        for s in self.tile.tiles_n(matrix.shape[1]):
            left = self.tile.left(s.size)
            for start in range(s.start, s.stop, s.size):
                columns = np.zeros((len(matrix), 2 * left))
                own = slice(start, start + s.size)
                columns[:, : s.size] = matrix[:, own] * by[own]
                parts.append(_products(columns).ravel().astype(array.dtype))
        return np.concatenate(parts)


def _products(columns: Array) -> Array:
    """What seven products multiply by, in the order in which a tile makes them."""
    (b11, b12), (b21, b22) = (np.split(rows, 2, axis=1) for rows in np.split(columns, 2))
    t1 = b12 - b11
    t2 = b22 - t1
    return np.stack([b11, b21, t2, b22 - b12, b21 - t2, t1, b22])


@dataclass(frozen=True)
class Unscaled(_Columns):
    """What undoes `powers`, 0 for a column of zeros, whose results are so: a number for each column, in the order and
    number of `StrassenColumns`."""

    def pack(self, array: Array) -> Array:
        matrix = _matrix(array, self.transposed)
        last = self.tile.tiles_n(matrix.shape[1])[-1]
        undone = np.ones(last.stop - last.size + 2 * self.tile.left(last.size), dtype=array.dtype)
        undone[: matrix.shape[1]] = np.where(_sizes(matrix, 0) > 0, 1 / powers(matrix), 0)
        return undone


def _matrix(array: Array, transposed: bool) -> Array:
    """The weights as [K, N], without the axes of extent 1 before them, or, of convolutions, behind them."""
    behind = transposed and array.ndim > 2 and math.prod(array.shape[2:]) == 1
    matrix = array.reshape(array.shape[:2] if behind else array.shape[-2:])
    return matrix.T if transposed else matrix


def powers(matrix: Array) -> Array:
    """Powers of two that bring the columns of a matrix to one magnitude: products stay what they are to the bit.
    Neither they nor what undoes them is too small for a float.

    >>> powers(np.array([[0.5, 3.0, 0.0], [0.25, -1.0, 0.0]]))
    array([1.  , 0.25, 1.  ])
    """
    largest = _sizes(matrix, 0).astype(np.float64)
    _, exponents = np.frexp(np.where(largest > 0, largest, 0.5))
    return np.asarray(np.ldexp(1.0, -np.clip(exponents, -126, 126)))


def _sizes(matrix: Array, axis: int) -> Array:
    """The largest magnitudes along an axis."""
    found: Array = np.maximum(matrix.max(axis=axis), -matrix.min(axis=axis))
    return found


def unevenness(array: Array, transposed: bool) -> float:
    """How much larger than a product the products by other weights are that it is added up with, on an average.

    What rows are multiplied by is thought to be as much larger as the weights are smaller, as where a network learned
    from 64 numbers of which some are thousands, others thousandths: each of them enters the sums of its partner half
    the way down, multiplied by the weights of that. Of two rows with weights of 1 and of 1000, the second is taken
    times a thousandth of what the first is; the first times the weights of the second is 1000 times a product.

    >>> round(unevenness(np.array([[1.0, 1.0], [1000.0, 1000.0]]), transposed=False))
    707
    """
    matrix = _matrix(array, transposed)
    if not np.isfinite(_sizes(matrix, 0)).all():
        return math.inf
    largest = _sizes(matrix * powers(matrix).astype(array.dtype), 1).astype(np.float64)
    partner = np.roll(largest, len(largest) // 2)
    known = largest > NOTHING * np.median(largest)
    if not known.any():
        return 1.0
    ratio = np.maximum(partner[known] / largest[known], 1.0)
    return float(np.sqrt(np.mean(np.square(ratio))))


def unsuited(array: Array, transposed: bool) -> str:
    """Why sums would lose digits, or what they have exactly, if products by other weights came in between."""
    if np.count_nonzero(array) < DENSE * array.size:
        return "many of its weights are zeros, and what they pick is exact"
    if unevenness(array, transposed) > MOST_UNEVEN:
        return "its weights are of very different magnitudes"
    return ""


_UNSUITED = OfArrays(unsuited)


def _unfit(target: Target) -> str:
    """Why a target has no such products; empty if it has."""
    unfit = not target.lanes or not target.spare_memory or target.compact
    return "the target has no vectors, or no memory to spare" if unfit else ""


class StrassenRows(Variant):
    """A product of rows by constant columns."""

    kernel = "matmul.strassen"
    params = StrassenTile
    may_share = False

    def extents(self, node: Node) -> tuple[int, int, int]:
        """Rows, columns, and the length of the reduction."""
        raise NotImplementedError

    def transposed(self, node: Node) -> bool:
        """Whether the weights are [N, K]."""
        raise NotImplementedError

    def refusal(self, node: Node) -> str:
        """Why a node is no such product."""
        raise NotImplementedError

    def source(self, node: Node, view: View, result: View) -> View:
        """Operand 0 as [..., K], for a result as `rows_of` gives it."""
        raise NotImplementedError

    def rows_of(self, view: View) -> View:
        """A result as [..., N]."""
        return view

    def numbers(self, node: Node, target: Target, constants: Container[Value]) -> str:
        """Why the weights do not allow it, if they are known."""
        if _unfit(target):
            return ""
        data = constants.get(operand_pair(node)[1]) if isinstance(constants, Mapping) else None
        if not isinstance(data, np.ndarray) or self._no_product(node):
            return ""
        return _UNSUITED(data, self.transposed(node))

    def _no_product(self, node: Node) -> str:
        """Why a node is no product that can be cut in two all ways."""
        if node.pre or any(x.dtype != F32 for x in operand_pair(node)):
            return "an operand has a prologue, or is not f32"
        if reason := self.refusal(node):
            return reason
        rows, _, steps = self.extents(node)
        return "a single row, or a sum of an odd number of products, has no halves" if rows < 2 or steps % 2 else ""

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        if reason := _unfit(target) or computed(node, constants, 1) or self._no_product(node):
            return reason
        if reason := self.numbers(node, target, constants):
            return reason
        views = self.views(node, _stored, _stored(node.results[0]))
        if isinstance(views, str):
            return views
        rows, columns, steps = self.extents(node)
        behind = views[0].shape[-2]  # so many rows lie one behind the other
        cycles, tile = best_tile(behind, columns, steps, target)
        cycles *= rows / behind
        body = node.post.get(0)
        if body is not None and vector_cycles([body], target.machine.vector_bytes) > LONG:
            cycles += SPILLS * rows * columns / target.lanes
        growth = packed_floats(tile, columns, steps) * F32.nbytes - operand_pair(node)[1].type.nbytes
        counted = cycles * INEXACT.get(target.lanes, USUALLY_INEXACT)
        return Offer(self.label, counted, tile, growth_bytes=growth, spends_arena=True)

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        tile, w = offer.params, operand_pair(node)[1]
        assert isinstance(tile, StrassenTile)
        rows, columns, steps = self.extents(node)
        views = self.views(node, b.read, b.result(0))
        if isinstance(views, str):
            raise InternalError(views)
        left, result, *extras = views
        if left.shape[-2] != rows:  # they do not lie one behind the other
            _, tile = best_tile(left.shape[-2], columns, steps, b.target)
        how = (tile.width, tile.lanes, self.transposed(node))
        packed, scales = b.packed(w, StrassenColumns(*how)), b.packed(w, Unscaled(*how))
        views = [left, packed, result, *extras]
        params = prefetching(tile, packed.count, steps, views, b.target.machine)
        scratch = b.scratch(tile.scratch(steps // 2), F32)
        b.call(self.kernel, [left, packed, scales], [result], params=params, extras=extras, scratch=scratch)

    def views(self, node: Node, read: Callable[[Value], View], to: View) -> list[View] | str:
        """Operand 0, the result, stored as ``to``, and the extras, as rows: as many in one axis as lie one behind the
        other in all of them; or why they are none."""
        result = self.rows_of(to)
        left = self.source(node, read(operand_pair(node)[0]), result)
        extras = [self.rows_of(read(v).broadcast(to.shape)) for v in node.extras]
        return merge([left, result, *extras], range(result.rank - 1))

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        p, y = call.params, call.results[0]
        assert isinstance(p, StrassenTile)
        columns = Turns.tiles("n", p.tiles_n(y.shape[-1]))
        lead = [*batches(y), Turns("m", tuple(p.starts_m(y.shape[-2])), y.shape[-2])]
        return [columns, *lead] if by_weights(call, target) else [*lead, columns]

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        return vectors_apart(after, 0) or lines_broken(before, after, reads=False)


def _stored(value: Value) -> View:
    """A value as it is stored where nobody wants it otherwise."""
    return whole(Buffer(value.name, value.type, "arena", value.type.dtype.nbytes))


class MatMulStrassen(StrassenRows):
    ops = ("matmul",)

    def extents(self, node: Node) -> tuple[int, int, int]:
        shape = node.results[0].shape
        return math.prod(shape[:-1]), shape[-1], operand_pair(node)[0].shape[-1]

    def transposed(self, node: Node) -> bool:
        op = node.op
        assert isinstance(op, MatMul)
        return op.trans_b

    def refusal(self, node: Node) -> str:
        op = node.op
        assert isinstance(op, MatMul)
        if op.trans_a:
            return "rows of the operand are no rows in memory"
        if math.prod(operand_pair(node)[1].shape[:-2]) != 1:
            return "there are several second operands"
        return ""

    def source(self, node: Node, view: View, result: View) -> View:
        return batched(view, result)


def packed_floats(tile: StrassenTile, columns: int, steps: int) -> int:
    """Floats of the weights as `StrassenColumns` packs them."""
    each = ((s.stop - s.start) // s.size * tile.left(s.size) for s in tile.tiles_n(columns))
    return PRODUCTS * (steps // 2) * sum(each)


@functools.lru_cache(maxsize=512)
def best_tile(rows: int, columns: int, steps: int, target: Target) -> tuple[float, StrassenTile]:
    """The cheapest tile for ``rows`` by ``columns`` sums of ``steps`` products, and its cycles."""
    found: list[tuple[float, StrassenTile]] = []
    for high in range(1, min(-(-rows // 2), MAX_ROWS) + 1):
        for vectors in range(1, min(-(-columns // (2 * target.lanes)), MAX_VECTORS) + 1):
            if not fits(high, vectors, target):
                continue
            tile = StrassenTile(high, vectors, target.lanes, chunk=_chunk(high, rows, steps, target))
            found.append((_cycles(tile, rows, columns, steps, target), tile))
    return min(found, key=lambda f: f[0] * (1 + FORM * len(tile.heights(rows)) * len(tile.tiles_n(columns))))


def _chunk(high: int, rows: int, steps: int, target: Target) -> int:
    """Rows that stay in the second cache with their sums: whole tiles, as many chunks as fill about half of it.

    Of 128 rows of 384 elements, 124 would fill half of a cache of 1 MiB: they are one chunk in tiles of 16, for the
    last tile by itself would wait for all weights again.
    """
    most = target.machine.l2 / 2 / (11 * steps * F32.nbytes / 4)
    tiles = -(-rows // (2 * high))
    chunks = min(max(round(rows / most), 1), tiles)
    return min(-(-tiles // chunks) * 2 * high, rows)


def _cycles(tile: StrassenTile, rows: int, columns: int, steps: int, target: Target) -> float:
    """Cycles of the sums of rows and of the products, which hide the way of the weights only if they take longer."""
    machine, half = target.machine, steps // 2
    weights = packed_floats(tile, columns, steps) * F32.nbytes
    total = (weights - steps * columns * F32.nbytes) / machine.l3_rate
    if (operand := rows * steps * F32.nbytes) > machine.l2 // 2:  # what makes sums of it has nothing to do meanwhile
        total += operand / machine.l3_rate
    for chunk in tile.chunks_m(rows):
        one = 0.0
        for d in tile.tiles_m(chunk.size):
            high = tile.upper(d.size)
            made: float = high * -(-half // tile.lanes) * SUMS
            for s in tile.tiles_n(columns):
                vectors = tile.left(s.size) // tile.lanes
                step = step_cycles(high, vectors, machine) + crowded(high, 4 * steps, machine.way)
                products = PRODUCTS * (half * step + machine.latency + machine.call / 4)
                each = products + (8 + KEPT) * high * vectors
                block = PRODUCTS * half * vectors * tile.lanes * F32.nbytes
                if block > machine.l2 // 2:  # the next rows bring it from the third cache again
                    each += UNHIDDEN * block / machine.l3_rate
                made += (s.stop - s.start) // s.size * each
            one += (d.stop - d.start) // d.size * made
        total += (chunk.stop - chunk.start) // chunk.size * one
    if weights > machine.l2:
        total = max(total, HIDDEN * weights / machine.memory_rate)
    return total


VARIANTS = (MatMulStrassen(),)
