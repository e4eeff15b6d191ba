"""Matrix products of doubles."""

from __future__ import annotations

import math
from collections.abc import Container

from mccompile._dataclass import dataclass
from mccompile.ir.dims import varies
from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Call
from mccompile.ir.types import F64
from mccompile.kernels.matmul.packed import PackedColumns, batched, swapped
from mccompile.kernels.model.parts import Turns, batches
from mccompile.kernels.model.tiles import Segment, Tile, segments
from mccompile.kernels.variant import Builder, Offer, Variant, neighbours, operand_pair
from mccompile.ops.matmul import MatMul
from mccompile.targets.target import Target

ROWS = 6
VECTORS = 4
"""A tile has 24 accumulators where there are 32 registers; half as many where there are 16."""
CYCLES = 1.3
"""Of a product of vectors, with what is loaded for it (Zen 4)."""
TURNED_CYCLES = 1.5
"""Of an element that is copied from a column to a row."""


@dataclass(frozen=True)
class DoublesTile(Tile):
    """Tiles of ``lanes`` doubles; ``packed``: the second operand is a constant whose rows are lines, row by row;
    ``turned``: its columns are, which wait in scratch memory as rows, those of a tile at a time."""

    packed: bool
    turned: bool = False

    def columns_n(self, extent: int) -> tuple[Segment, ...]:
        """The columns in tiles, the last of which may end within a vector."""
        return segments(extent, self.width)


class MatMulDoubles(Variant):
    """Tiles of rows by vectors of columns that lie side by side, or are constants that are made to."""

    ops = ("matmul",)
    kernel = "matmul.doubles"
    params = DoublesTile
    may_share = False

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        op, (a, w) = node.op, operand_pair(node)
        assert isinstance(op, MatMul)
        if a.dtype != F64 or w.dtype != F64 or node.own_types()[0].dtype != F64:
            return "an operand is not f64"
        if node.pre:
            return "an operand has a prologue"
        lanes = target.machine.lanes(F64)
        if lanes < 2:
            return "the target has no vectors of doubles"
        packed = op.trans_b and w in constants and math.prod(w.shape[:-2]) == 1
        turned = op.trans_b and not packed
        *batch, rows, columns = node.results[0].shape
        if varies([*batch, rows, columns, *a.shape]):
            return "extents are of the run"
        steps = a.shape[-2 if op.trans_a else -1]
        cycles = math.prod(batch) * rows * -(-columns // lanes) * steps * CYCLES
        cycles += math.prod(batch) * steps * columns * TURNED_CYCLES * turned
        vectors = VECTORS if target.machine.registers >= 32 else VECTORS // 2
        return Offer(self.label, cycles, DoublesTile(ROWS, vectors, lanes, packed, turned))

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        op, tile = node.op, offer.params
        a, w = operand_pair(node)
        assert isinstance(op, MatMul)
        assert isinstance(tile, DoublesTile)
        result = b.result(0)
        left = batched(b.read(a), result)
        left = swapped(left) if op.trans_a else left
        right = b.packed(w, PackedColumns(w.shape[-2], True, 1)) if tile.packed else batched(b.read(w), result)
        right = swapped(right) if tile.turned else right
        scratch = b.scratch(left.shape[-1] * min(tile.width, result.shape[-1]), F64) if tile.turned else None
        extras = [b.read(v).broadcast(result.shape) for v in node.extras]
        b.call(self.kernel, [left, right], [result], params=tile, scratch=scratch, extras=extras)

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        p, y = call.params, call.results[0]
        assert isinstance(p, DoublesTile)
        columns, rows = Turns.tiles("n", p.columns_n(y.shape[-1])), Turns.tiles("m", p.tiles_m(y.shape[-2]))
        return [*batches(y), columns, rows]

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        tile, w = after.params, after.reads[1]
        assert isinstance(tile, DoublesTile)
        if not (tile.packed or tile.turned) and (w is None or not neighbours(w)):
            return f"{self.kernel} reads neighbours on the last axis as they lie"
        return ""


VARIANTS = (MatMulDoubles(),)
