"""Matrix products of two operands that are both computed at run time.

Worked example: x[4096, 16] by w[16, 1] has one column, in which a vector would have one lane. Turned, it is one row
w[1, 16] by 4096 columns x[16, 4096], whose elements packing brings side by side, a square of 16 by 16 at a time.
"""

from __future__ import annotations

import math
from collections.abc import Container

from mccompile._dataclass import dataclass
from mccompile.ir.dims import bound, varies
from mccompile.ir.errors import InternalError
from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Call
from mccompile.ir.types import F32, row_major
from mccompile.ir.views import View
from mccompile.kernels.matmul.packed import batched, swapped
from mccompile.kernels.model.parts import Turns, batches
from mccompile.kernels.model.tiles import LONG, RUN, Segment, Tile, best_tile, merge, pitch, segments
from mccompile.kernels.variant import (
    Builder,
    Offer,
    Variant,
    lines_broken,
    neighbours,
    not_plain_f32,
    operand_pair,
    vectors_apart,
)
from mccompile.ops.matmul import MatMul
from mccompile.targets.target import Target

COPIED_FLOATS = 6
"""Floats that packing moves per cycle where they are neighbours."""
TRANSPOSED_FLOATS = 2
"""Floats that packing moves per cycle where neighbours become far apart."""


@dataclass(frozen=True)
class VariableTile(Tile):
    """``direct``: columns of the second operand that are whole vectors are read where they lie, not packed first.
    ``once``: so are all columns, as one tile of rows reads them. ``by_rows``: a tile of rows is multiplied by all
    columns before the next one is, so that results are written line by line; all are packed before, if they are.
    """

    direct: bool
    by_rows: bool = False
    once: bool = False

    def in_place(self, size: int) -> bool:
        """Whether a tile of ``size`` columns is read where it lies."""
        return self.once or (self.direct and size % self.lanes == 0)

    def pitch(self, size: int) -> int:
        """Floats of a packed row of ``size`` columns."""
        return pitch(size, self.lanes)

    def is_far(self, steps: int, columns: int, target: Target) -> bool:
        """Whether a matrix comes from behind the second cache, a part of its rows for each tile of columns.

        2,048 rows of 1,000 (Zen 4): 0.85 of the time where they are asked for early; of what is near, 1.05.
        """
        most, l2 = bound(columns), target.machine.l2
        return most > self.width and 0 < l2 < F32.nbytes * bound(steps) * most


MOST_DOT_ROWS = 4
"""Rows of a product by sums along vectors: all are summed at once."""
MOST_DOT_COLUMNS = 4
SUM_CYCLES = 12
"""Cycles to add the lanes of a vector, and to store the sum."""


@dataclass(frozen=True)
class Columns:
    """How many columns are summed at once."""

    columns: int

    def tiles_n(self, extent: int) -> tuple[Segment, ...]:
        return segments(extent, self.columns)

    def run(self, part: Segment) -> int:
        """Elements of a run of a sum along vectors, whose lanes are sums of their own; 0 where it is short."""
        return RUN * part.size if bound(part.stop - part.start) > LONG * bound(part.size) else 0


def packing_cycles(floats: int, lines: bool) -> float:
    """Cycles to pack a matrix; ``lines``: the elements of a row are neighbours."""
    return floats / (COPIED_FLOATS if lines else TRANSPOSED_FLOATS)


def panel_floats(rows: int, columns: int, lanes: int) -> int:
    """Scratch for a packed matrix: its last row is stored as whole vectors, too."""
    return bound(rows) * -(-bound(columns) // lanes) * lanes + lanes


def read_in_place(view: View, times: int, target: Target) -> bool:
    """Whether a second operand [.., K, N], whose columns are read ``times`` over, is read where it lies, not packed.

    Its rows have to be whole vectors of neighbours. What is read once is not worth packing; what is read again has to
    stay in half of the first cache, where rows meet in few sets: 128 rows of 512 bytes have 8 of 64 sets of 8 lines
    (Zen 3: 1.1 times the time of packed ones; 64 rows of 4096 bytes 1.9, 1024 of them 2.1).
    """
    machine = target.machine
    if not (neighbours(view) and view.shape[-1] % target.lanes == 0):
        return False
    if times <= 1 or target.lanes == 1 or not machine.l1:
        return True
    return machine.keeps(bound(view.shape[-2]), F32.nbytes * abs(view.axis_strides()[-2]))


class MatMulVariable(Variant):
    """Tiles of rows by vectors of columns; the second operand is packed at run time where its rows do not do."""

    ops = ("matmul",)
    kernel = "matmul.variable"
    params = VariableTile
    may_share = False

    def takes(self, node: Node) -> bool:
        return True

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        if reason := _why_not(node, target):
            return reason
        op, (_, w) = node.op, operand_pair(node)
        assert isinstance(op, MatMul)
        cycles, tile = self._tile(node, target)
        batches, rows = self._rows(node)
        *matrices, k, n = w.shape
        count, far = math.prod(matrices), op.trans_b
        if _is_column(node, target):
            rows, n, count, far = 1, rows, batches, not op.trans_a
        lines = 0 if n % target.lanes == 0 or rows <= tile.rows else n
        packing = packing_cycles(k * (n if far else lines), not far)
        return Offer(self.label, batches * cycles + count * packing, tile)

    @staticmethod
    def _rows(node: Node) -> tuple[int, int]:
        """Products, and rows of each: leading axes are rows where the second operand has none."""
        _, w = operand_pair(node)
        *batch, rows, _ = node.result.shape
        return (1, math.prod(batch) * rows) if math.prod(w.shape[:-2]) == 1 else (math.prod(batch), rows)

    def _tile(self, node: Node, target: Target) -> tuple[float, Tile]:
        op, (a, _) = node.op, operand_pair(node)
        assert isinstance(op, MatMul)
        _, rows = self._rows(node)
        steps, columns = a.shape[-2 if op.trans_a else -1], node.result.shape[-1]
        if _is_column(node, target):
            rows, columns = 1, rows
        return best_tile(rows, columns, steps, target, packed=True)

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        op, tile = node.op, offer.params
        a, w = operand_pair(node)
        assert isinstance(op, MatMul)
        assert isinstance(tile, Tile)
        result = b.result(0)
        left, right = batched(b.read(a), result), b.read(w)
        left = swapped(left) if op.trans_a else left
        right = swapped(right) if op.trans_b else right
        extras = [b.read(v).broadcast(result.shape) for v in node.extras]
        column = _is_column(node, b.target)
        rows = _merged([left, result, *extras], result.rank - 1) if math.prod(w.shape[:-2]) == 1 else []
        if rows and not (column and rows[0].rank > 2):  # all of them are the columns of one row then
            right = _matrix(right)
            left, result, *extras = rows
        else:
            views = [left, batched(right, result), result, *extras]
            left, right, result, *extras = _merged(views, result.rank - 2)
        if column:
            left, right, result, *extras = map(swapped, (right, left, result, *extras))
        times = -(-bound(left.shape[-2]) // tile.rows)
        once = times == 1 and neighbours(right)
        direct = once or read_in_place(right, times, b.target)
        k, n = right.shape[-2:]
        partly = direct and not once and n % tile.lanes != 0
        by_rows = b.target.lanes > 1 and not partly and F32.nbytes * bound(k) * bound(n) <= b.target.machine.l1
        packed = n if by_rows else min(bound(n), tile.width)
        scratch = b.scratch(panel_floats(k, packed, tile.lanes), F32) if partly or not direct else None
        params = VariableTile(tile.rows, tile.vectors, tile.lanes, direct, by_rows, once)
        b.call(self.kernel, [left, right], [result], params=params, extras=extras, scratch=scratch)

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        p, y = call.params, call.results[0]
        assert isinstance(p, VariableTile)
        columns, rows = Turns.tiles("n", p.tiles_n(y.shape[-1])), Turns.tiles("m", p.tiles_m(y.shape[-2]))
        batch = batches(y)
        return [*batch, rows, columns] if p.direct or p.by_rows else [*batch, columns, rows]

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        params = after.params
        assert isinstance(params, VariableTile)
        if params.direct and (reason := vectors_apart(after, 1)):
            return reason
        return lines_broken(before, after, reads=False)


class MatMulDot(Variant):
    """Few rows by columns whose elements are neighbours: vectors along the sum, each element is read once.

    A single column is the row, and the rows are its columns.
    """

    ops = ("matmul",)
    kernel = "matmul.dot"
    params = Columns
    may_share = False

    def takes(self, node: Node) -> bool:
        rows, columns = node.result.shape[-2:]
        return columns == 1 or not varies([rows])  # the rows of a tile are all there are

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        op, (a, _) = node.op, operand_pair(node)
        assert isinstance(op, MatMul)
        rows, columns = node.result.shape[-2:]
        if op.trans_a or not (op.trans_b or columns == 1):
            return "an operand's elements are no neighbours along the sum"
        if rows > MOST_DOT_ROWS and columns > 1:
            return f"there are more than {MOST_DOT_ROWS} rows"
        if reason := _why_not(node, target):
            return reason
        vectors = -(-a.shape[-1] // target.lanes) * max(target.lanes / target.machine.multiply_adds, 0.5)
        cycles = node.result.type.count * (vectors * (1 + 1 / (1 if columns == 1 else rows)) + SUM_CYCLES)
        together = min(max(target.machine.registers // (4 * (1 if columns == 1 else rows)), 1), MOST_DOT_COLUMNS)
        return Offer(self.label, cycles, Columns(together))

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        op = node.op
        a, w = operand_pair(node)
        assert isinstance(op, MatMul)
        result = b.result(0)
        left, right = batched(b.read(a), result), batched(b.read(w), result)
        right = right if op.trans_b else swapped(right)
        extras = [b.read(v).broadcast(result.shape) for v in node.extras]
        if result.shape[-1] == 1:
            left, right, result, *extras = right, left, *map(swapped, (result, *extras))
        b.call(self.kernel, [left, right], [result], params=offer.params, extras=extras)

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        p, y = call.params, call.results[0]
        assert isinstance(p, Columns)
        return [*batches(y), Turns.tiles("n", p.tiles_n(y.shape[-1]))]

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        return vectors_apart(after, 0, 1)


def _is_column(node: Node, target: Target) -> bool:
    """Whether a product of one column is computed as one of one row."""
    return node.result.shape[-1] == 1 and target.lanes > 1


def _why_not(node: Node, target: Target) -> str:
    return not_plain_f32(node, target)


def _matrix(view: View) -> View:
    """The view without its leading axes, all of extent 1."""
    return View(view.buffer, view.shape[-2:], row_major(2), view.axis_strides()[-2:], view.offset)


def _merged(views: list[View], axes: int) -> list[View]:
    found = merge(views, range(axes))
    if isinstance(found, str):
        raise InternalError(found)
    return found


VARIANTS = (MatMulVariable(), MatMulDot())
