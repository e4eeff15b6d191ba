"""Bounds of sums of integers: what accumulators can reach, channel by channel, from the weights themselves.

Weights 3, -2 and operands in 0..255 sum to -510..765, and every partial sum, in any order, lies there too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.dims import bound
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.ranges import Range, anything, of_array, of_expression
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Nest

_ANYTHING = Range(np.array([-(2.0**31)]), np.array([2.0**31 - 1]))


def terms(node: Node) -> int:
    """How many elements, or products, each element of the result sums at most; 0 if that is not known."""
    nests = node.op.structure(node.operand_types())
    return math.prod(nests[0].loops[k] for k in nests[0].reduced) if len(nests) == 1 else 0


def sum_range(graph: Graph, node: Node) -> tuple[Range, int | None]:
    """What the accumulators of a node that sums integers reach, and the axis of the result that the range is of.

    Without better knowledge, all numbers of 32 bits.
    """
    nests = node.op.structure(node.operand_types())
    x = node.operands[0] if node.operands else None
    if x is None or len(nests) != 1:
        return _ANYTHING, None
    reach = _prologued(graph, node, x).whole()
    if not np.isfinite([reach.low.min(), reach.high.max()]).all():
        return _ANYTHING, None
    if not node.op.multilinear:
        others = [None] * (len(node.operands) - 1)
        found = node.op.value_range(node.operand_types(), [reach, *others]) if not others else ()
        known = bool(found) and bool(np.isfinite([found[0].low.min(), found[0].high.max()]).all())
        return (found[0].whole(), None) if known else (_ANYTHING, None)
    if node.op.multilinear == (0,):
        count = bound(terms(node))
        low, high = np.minimum(reach.low.min(), 0) * count, np.maximum(reach.high.max(), 0) * count
        return Range(np.array([low]), np.array([high])), None
    weights = known_weights(graph, node)
    rows = None if weights is None else by_channel(nests[0], weights)
    if rows is None:
        return _ANYTHING, None
    down, up = (part(rows[0], 0).sum(1, dtype=np.float64) for part in (np.minimum, np.maximum))
    least, greatest = min(reach.low.min(), 0), max(reach.high.max(), 0)
    return Range(up * least + down * greatest, up * greatest + down * least), rows[1]


def beside(reach: Range, axis: int | None, shape: Sequence[int], rank: int) -> Range:
    """A range of sums, of an axis of a result of so many, beside constants of a shape: channel by channel where these
    vary along that axis alone. Beside a scale for each row, the sums of any column are those of all."""
    varying = [a + rank - len(shape) for a, extent in enumerate(shape) if extent != 1]
    return reach if varying == [axis] else reach.whole()


def by_channel(nest: Nest, weights: Array) -> tuple[Array, int] | None:
    """Operand 1, of integers, with a row for each index of an axis that the result has too, and that axis of the
    result.

    None if there is no such axis, or several.
    """
    reads = nest.reads[1]
    assert reads is not None
    shared = [(a, nest.writes.index(at)) for a, at in enumerate(reads) if at in nest.writes and weights.shape[a] > 1]
    if len(shared) > 1:
        return None
    if not shared:
        return weights.reshape(1, -1), len(nest.writes) - 1
    ((own, axis),) = shared
    return np.moveaxis(weights, own, 0).reshape(weights.shape[own], -1), axis


def _prologued(graph: Graph, node: Node, x: Value) -> Range:
    """What the operator reads: the integers of the type, or of a constant, through the prologue."""
    own = _own(graph, x)
    body = node.pre.get(0)
    return own if body is None else of_expression(body, lambda v: own if v < 0 else _own(graph, node.extras[v]))


def _own(graph: Graph, value: Value) -> Range:
    array = graph.constants.get(value)
    if isinstance(array, np.ndarray):
        return of_array(array, None)
    return anything(value.dtype)


def known_weights(graph: Graph, node: Node) -> Array | None:
    """Operand 1 through its prologue; None if it is not known."""
    w = node.operands[1]
    body = node.pre.get(1)
    others = [] if body is None else [node.extras[i] for i in ex.variables(body) if i != ex.ACC]
    if w is None or any(not isinstance(graph.constants.get(v), np.ndarray) for v in (w, *others)):
        return None
    array = graph.array(w)
    if body is None:
        return array
    return ex.evaluate(body, lambda i: array if i == ex.ACC else graph.array(node.extras[i]))
