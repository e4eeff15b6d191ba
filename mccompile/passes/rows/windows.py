"""Which rows of its operands an operator takes for some rows of its result, and the operator on these rows alone.

A row is what one index of the first spatial axis addresses. A convolution of 3 taps with stride 2 and a pad reads its
operand at 2 o + t - 1 for row o of the result: for rows 4 to 6 (taken of the whole) the rows 7 to 13.

A softmax along the rows reads all of them for each.

>>> RowWindow(reach=3, stride=2, before=1).taken(range(4, 7))
range(7, 14)
>>> from mccompile.ir.graph_text import parse_graph
>>> from mccompile.ops.registry import lookup
>>> graph = parse_graph('''graph @g(%x: f32[1,1,20,4]) {
...   %w = const [1, 2, 1] : f32[1,1,3,1]
...   %y = conv(%x, %w) {strides=(2, 2), pads=(1, 0, 0, 0), dilations=(1, 1)} : f32[1,1,10,2]
...   %z = softmax(%y) {axis=2} : f32[1,1,10,2]
...   return %z
... }''', lookup)
>>> [row_windows(n) for n in graph.nodes]
[(RowWindow(reach=3, stride=2, before=1), None), 'the operator cannot be put on some of the rows']
"""

from __future__ import annotations

from collections.abc import Sequence

from mccompile._dataclass import dataclass
from mccompile.ir.affine import Affine
from mccompile.ir.dims import varies
from mccompile.ir.expr import ACC, variables
from mccompile.ir.graph import Node, Value
from mccompile.ir.op import Op, TypeRuleError
from mccompile.ir.structure import Nest, bounds, is_loop
from mccompile.ir.types import Shape, TensorType
from mccompile.passes.analysis.movement import reorders

AXIS = 2
"""Rows lie along it."""


@dataclass(frozen=True)
class RowWindow:
    """A window slid over rows: for row i of the result, ``reach`` of them from i * stride - before on."""

    reach: int = 1
    stride: int = 1
    before: int = 0

    def taken(self, rows: range) -> range:
        """What ``rows`` of a result take; it may begin before the first row, or end behind the last."""
        first = rows.start * self.stride - self.before
        return range(first, first + (len(rows) - 1) * self.stride + self.reach)


def row_windows(node: Node) -> tuple[RowWindow | None, ...] | str:
    """A window for each operand, then each extra operand, of which rows are taken; None for what is read whole.

    Returns the reason if the node does not work row by row.
    """
    if len(node.results) != 1 or len(node.result.shape) <= AXIS:
        return "it has several results, or no rows"
    op, types = node.op, node.operand_types()
    if varies([e for t in (node.result.type, *types) if t is not None for e in t.shape[AXIS : AXIS + 1]]):
        return "how many rows there are is known when it runs"
    read = set().union(*map(variables, node.pre.values())) - {ACC}
    if any(_varies_by_row(node.extras[j], node.result) for j in read):
        return "the prologue of an operand differs from row to row"
    if reorders(op) and len(types) == 1:
        return f"{op.name} is a copy, of which strips save nothing"
    windows = _windows(op, types, node.result.shape)
    if windows is None:
        return f"{op.name} does not work row by row"
    if not _works_on_rows(op, types, windows, node.result.shape):
        return "the operator cannot be put on some of the rows"
    return (*windows, *(RowWindow() if _has_rows(v, node.result) else None for v in node.extras))


def _windows(op: Op, types: Sequence[TensorType | None], result: Shape) -> list[RowWindow | None] | None:
    """The window on each operand, by the nests of the operator; None if a row needs what is no window."""
    if op.addresses_result:
        return None
    windows: dict[int, set[RowWindow | None]] = {i: set() for i in range(len(types))}
    for nest in op.structure(types):
        k = is_loop(nest.writes[AXIS], nest.loops)
        if k is None or nest.loops[k] != result[AXIS] or [at.coefs[k] != 0 for at in nest.writes].count(True) != 1:
            return None
        for i, t in enumerate(types):
            reads = nest.reads[i]
            if t is None or reads is None:
                continue
            rows = [a for a, at in enumerate(reads) if at is not None and at.coefs[k]]
            if rows not in ([], [AXIS - len(result) + t.rank]):
                return None
            at = reads[rows[0]] if rows else None
            windows[i].add(None if at is None else _window(at, k, nest))
    if not any(windows.values()) or any(len(found) > 1 for found in windows.values()):
        return None
    return [next(iter(found), None) for found in windows.values()]


def _window(at: Affine, k: int, nest: Nest) -> RowWindow:
    """The window of a coordinate whose rows are the loop ``k``: what it reads for the first of them."""
    one = tuple(1 if i == k else e for i, e in enumerate(nest.loops))
    low, high = bounds(at, one)
    return RowWindow(high - low + 1, at.coefs[k], -low)


def _works_on_rows(
    op: Op, types: Sequence[TensorType | None], windows: Sequence[RowWindow | None], result: Shape
) -> bool:
    """Whether the operator gives a row less of operands with as much less: it names no extents."""
    less, padded = list(types), op
    for i, (t, window) in enumerate(zip(types, windows, strict=True)):
        if t is None or window is None:
            continue
        axis, taken = AXIS - len(result) + t.rank, window.taken(range(result[AXIS] - 1))
        inside = range(max(taken.start, 0), min(taken.stop, t.shape[axis]))
        less[i] = t.with_shape((*t.shape[:axis], len(inside), *t.shape[axis + 1 :]))
        if i == 0:
            found = op.with_pads(0, inside.start - taken.start, taken.stop - inside.stop)
            if found is None:
                return False
            padded = found
    try:
        (found_type,) = padded.infer(*less)
    except (TypeRuleError, ValueError):
        return False
    return found_type.shape == (*result[:AXIS], result[AXIS] - 1, *result[AXIS + 1 :])


def _has_rows(value: Value, result: Value) -> bool:
    """Whether a value that is broadcast to a result has the result's rows."""
    axis = AXIS - (len(result.shape) - len(value.shape))
    return axis >= 0 and value.shape[axis] == result.shape[AXIS] != 1


def _varies_by_row(value: Value, result: Value) -> bool:
    """Whether what a prologue reads is another one for each row of what it is applied to. Zero points are not: they
    are one number, or one for each channel."""
    axis = row_axis(value, result)
    return axis >= 0 and value.shape[axis] != 1


def row_axis(value: Value, result: Value) -> int:
    """The axis of a value, broadcast to a result, along which its rows lie."""
    return AXIS - (len(result.shape) - len(value.shape))
