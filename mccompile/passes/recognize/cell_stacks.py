"""What the turns of a cell read, one value each, as one value for all of them.

Worked example: three turns read a, b and c = slice(%x) {starts=(0, 0)}, {starts=(1, 0)}, {starts=(2, 0)}: they are
%x together. Where they read tanh(a), tanh(b) and tanh(c), these are tanh(%x).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.graph import Node, Value
from mccompile.ops.concat import Concat
from mccompile.ops.slice import Slice
from mccompile.ops.transpose import Transpose
from mccompile.passes.analysis.cells import NotACellError
from mccompile.passes.analysis.movement import moves
from mccompile.passes.analysis.turn_forms import Outer
from mccompile.passes.recognize.cell_inputs import Emitter, Stack
from mccompile.passes.recognize.cell_turn import Nodes
from mccompile.passes.rewrite.patterns import is_plain


@dataclass(frozen=True)
class Line:
    """What turns read: ``columns`` of ``values``, seen as [rows, columns].

    With a ``step`` it is all in one value: slices of extent 1 along ``axis`` of ``shape``, from ``start`` on.
    """

    values: tuple[Value, ...]
    columns: tuple[int, ...]
    rows: int
    shape: tuple[int, ...] = ()
    axis: int = 0
    start: int = 0
    step: int = 0

    @classmethod
    def of(cls, search: Nodes, read: Sequence[Outer], rows: int) -> Line:
        values, columns = tuple(o.value for o in read), read[0].columns
        own = 1 if read[0].one else rows
        if any(o.columns != columns for o in read):
            return cls._of_columns(read, own)
        found = [_slice_of(search, v) for v in values]
        known = [f for f in found if f is not None]
        if len(known) == len(found) and len({(source, axis) for source, axis, _ in known}) == 1:
            step = _step([s for *_, s in known])
            if step:
                return cls((known[0][0],), columns, own, known[0][0].shape, known[0][1], known[0][2], step)
        if len({v.type.count for v in values}) > 1:  # a part of one value, and all of another
            raise NotACellError("its turns read values of different extents")
        return cls(values, columns, own)

    @classmethod
    def _of_columns(cls, read: Sequence[Outer], rows: int) -> Line:
        """Each turn reads other columns of one value."""
        count = len(read[0].columns)
        firsts = [o.columns[0] for o in read]
        runs = all(o.columns == tuple(range(first, first + count)) for o, first in zip(read, firsts, strict=True))
        step, elements = _step(firsts), read[0].value.type.count
        whole = abs(step) == count and not firsts[0] % count and not elements % (rows * count)
        if len({o.value for o in read}) != 1 or not runs or not whole:
            raise NotACellError("its turns read different columns of values")
        shape = (rows, elements // (rows * count), count)
        return cls((read[0].value,), tuple(range(count)), rows, shape, 1, firsts[0] // count, step // count)

    def stacked(self, search: Nodes, e: Emitter, back: bool) -> Stack:
        """``back``: in the opposite order."""
        if self.step:
            return Stack(self.sliced(e, back), self.columns)
        values = self.values[::-1] if back else self.values
        made = _together(search, e, values, back)
        width = values[0].type.count // self.rows
        return Stack(e.shaped(made, (made.shape[0], self.rows, width), "turns"), self.columns)

    def sliced(self, e: Emitter, back: bool) -> Value:
        """[turns, rows, columns] of slices of one value."""
        x, a = e.shaped(self.values[0], self.shape, "by_columns"), self.axis
        start = self.start + (e.turns - 1) * self.step if back else self.start
        step = -self.step if back else self.step
        if (start, step, e.turns) != (0, 1, x.shape[a]):
            cut = [(start, step, e.turns) if i == a else (0, 1, extent) for i, extent in enumerate(x.shape)]
            starts, steps, extents = zip(*cut, strict=True)
            x = e.emit(Slice(starts, steps, extents), [x], "turns")
        if any(extent != 1 for extent in x.shape[:a]):
            x = e.emit(Transpose((a, *(i for i in range(len(x.shape)) if i != a))), [x], "by_turn")
        return e.shaped(x, (e.turns, self.rows, x.type.count // (e.turns * self.rows)), "turns")


def _step(starts: Sequence[int]) -> int:
    """The step of numbers that follow each other by one; 0 if they do not."""
    step = starts[1] - starts[0]
    return step if starts == [starts[0] + k * step for k in range(len(starts))] else 0


def _together(search: Nodes, e: Emitter, values: Sequence[Value], back: bool, depth: int = 8) -> Value:
    """[turns, *shape] of one value for each turn, [1, *shape] where all are the same; what is computed alike in each
    turn is computed for all at once."""
    first = values[0]
    if all(v is first for v in values):
        return e.shaped(first, (1, *first.shape), "once")
    made = [search.producers.get(v) for v in values]
    nodes = [n for n in made if n is not None and len(n.results) == 1 and not n.pre and not n.regions]
    line = Line.of(search, [Outer(v, ()) for v in (values[::-1] if back else values)], 1)
    if line.step:
        return e.shaped(line.sliced(e, back), (len(values), *first.shape), "turns")
    if depth and len(nodes) == len(values) and all(_computes_alike(n, nodes[0]) for n in nodes):
        node = nodes[0]
        count = len(node.operands) if node.op.elementwise is not None else 1
        columns = [_together(search, e, [n.inputs[i] for n in nodes], back, depth - 1) for i in range(count)]
        if node.op.keeps_order:
            return e.shaped(columns[0], (columns[0].shape[0], *first.shape), "turns")
        rank = len(first.shape)
        own = [e.shaped(c, (c.shape[0], *(1,) * (rank + 1 - len(c.shape)), *c.shape[1:]), "aligned") for c in columns]
        return e.emit(node.op, [*own, *node.operands[count:]], "turns", node.extras, node.post.get(0))
    return e.emit(Concat(0), [e.shaped(v, (1, *first.shape), "turn") for v in values], "turns")


def _computes_alike(a: Node, b: Node) -> bool:
    """Whether nodes do the same to their operands: maps to all of them, products and reshapes to the first one."""
    if a.op != b.op or a.post != b.post or [v.shape for v in a.inputs] != [v.shape for v in b.inputs]:
        return False
    if any(v.type.varies for v in (*a.inputs, *a.results)):
        return False
    if a.op.elementwise is not None:
        return is_plain(a)
    same = all(v is w for v, w in zip(a.inputs[1:], b.inputs[1:], strict=True))
    weighted_rows = a.op.weight_axes is not None and len(a.inputs[1].shape) == 2
    return same and (weighted_rows or (a.op.keeps_order and is_plain(a)))


def _slice_of(search: Nodes, value: Value) -> tuple[Value, int, int] | None:
    """The value that one is a slice of, of extent 1 along an axis, that axis, and where."""
    value = search.reshaped_from(value)
    node = search.producers.get(value)
    if node is None or not is_plain(node) or not moves(node.op) or len(node.operands) != 1 or node.varies:
        return None
    source = node.inputs[0]
    ids = np.arange(source.type.count).reshape(source.shape)
    taken = np.asarray(node.op.evaluate(ids)[node.results.index(value)])
    for axis, extent in enumerate(source.shape):
        if taken.size and taken.size * extent == ids.size:
            place = int(np.unravel_index(int(taken.flat[0]), source.shape)[axis])
            if np.array_equal(np.take(ids, [place], axis).reshape(-1), taken.reshape(-1)):
                return source, axis, place
    return None
