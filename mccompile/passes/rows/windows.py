"""Which rows of its operands an operator takes for some rows of its result, and the operator on these rows alone.

A row is what one index of the first spatial axis addresses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mccompile.ir.graph import Node, Value
from mccompile.ir.op import Op
from mccompile.ops.concat import Concat
from mccompile.ops.conv import Conv
from mccompile.ops.map import Map
from mccompile.ops.pool import Pool

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
    op = node.op
    if len(node.results) != 1 or len(node.result.shape) <= AXIS:
        return "it has several results, or no rows"
    if node.pre:
        return "an operand has a prologue"
    along = [RowWindow() if v is not None and _has_rows(v, node.result) else None for v in node.operands]
    if isinstance(op, Conv | Pool):
        along = [_window(node), *[None] * (len(node.operands) - 1)]
    elif not (isinstance(op, Map) or (isinstance(op, Concat) and op.axis != AXIS)):
        return f"{op.name} does not work row by row"
    if isinstance(op, Pool) and op.ceil and op.count_pad:
        return "its last windows count the padding, but not what is beyond"
    return (*along, *(RowWindow() if _has_rows(v, node.result) else None for v in node.extras))


def _window(node: Node) -> RowWindow:
    op = node.op
    if isinstance(op, Pool):
        kernel = op.kernel
    else:
        assert isinstance(op, Conv)
        assert node.operands[1] is not None
        kernel = node.operands[1].shape[2:]
    return RowWindow((kernel[0] - 1) * op.dilations[0] + 1, op.strides[0], op.pads[0])


def _has_rows(value: Value, result: Value) -> bool:
    """Whether a value that is broadcast to a result has the result's rows."""
    axis = AXIS - (len(result.shape) - len(value.shape))
    return axis >= 0 and value.shape[axis] == result.shape[AXIS] != 1


def row_axis(value: Value, result: Value) -> int:
    """The axis of a value, broadcast to a result, along which its rows lie."""
    return AXIS - (len(result.shape) - len(value.shape))


def on_rows(op: Op, before: int, after: int) -> Op:
    """The operator with so much padding around the rows that it is given."""
    if not isinstance(op, Conv | Pool):
        return op
    n = len(op.strides)
    pads = list(op.pads)
    pads[0], pads[n] = before, after
    return replace(op, pads=tuple(pads))
