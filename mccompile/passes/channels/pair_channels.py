"""Puts channels in an order in which neighbours may be added in 16 bits.

Worked example: a 1x1 convolution of bytes whose channels 0 and 1 have the weights 100 and 90. Their products with
255 do not fit into 16 bits together, but those of 0 and 2 do, and of 1 and 3. What makes the channels, and what
stands in between, gets its weights, biases and scales in the order 0 2 1 3::

    %x = conv(%i, %v) with(%b) ...          %w = const [100, 90, -100, -90] : i8[1,4,1]
    %y = conv(%x, %w) ...

    %x.paired = conv(%i, %v.paired) with(%b.paired) ...       %w.paired = const [100, -100, 90, -90] : i8[1,4,1]
    %y = conv(%x.paired, %w.paired) ...

Values in another order have another name: they are not what the model calls so.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.scalar import Array
from mccompile.ir.types import I32
from mccompile.kernels.integers import no_integers, zero_points
from mccompile.kernels.model.arithmetic import MADDUBS, arithmetics_of, refused
from mccompile.kernels.model.pairing import paired
from mccompile.passes.analysis.contraction import contraction
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.rewriter import Rewriter
from mccompile.targets.target import Target

BLOCK = 16
"""Columns that are computed together: words that one of them refuses take longer in all."""


@dataclass(frozen=True)
class Turn:
    """A constant of a node that has its channels along ``axis``: an operand, or an extra operand."""

    node: Node
    extra: bool
    index: int
    axis: int


@dataclass(frozen=True)
class Ordered:
    """Values whose channels get another order, and all the constants that have these channels."""

    values: list[Value]
    turns: list[Turn]


def run(graph: Graph, remarks: Remarks, target: Target) -> int:
    """Order channels so that products of neighbours may be added in 16 bits, where the target gains by it. Exact."""
    if MADDUBS not in arithmetics_of(target):
        return 0
    r = Rewriter(graph)
    changes = sum(_pair(r, node, remarks) for node in r.nodes())
    r.finish()
    return changes


def _pair(r: Rewriter, node: Node, remarks: Remarks) -> int:
    """Pair the channels of the operand of a node, if it is a 1x1 convolution of bytes; the number of changes."""
    weights = _weights(r.graph, node)
    if weights is None or not _refused(weights):
        return 0
    what = f"put channels of the operand of {node.where} in pairs"
    ordered = _ordered(r, node)
    if isinstance(ordered, str):
        remarks.miss(what, ordered)
        return 0
    found = paired(weights)
    if found is None:
        remarks.miss(what, "its weights refuse too many")
        return 0
    order, lone = found
    if _refused(weights[:, order]) >= _refused(weights):
        return 0
    for turn in ordered.turns:
        _apply(r, turn, order)
    for value in ordered.values:
        r.graph.rename(value, f"{value.name}.paired")
    remarks.hit(f"{what}, but for {lone} of {len(order)}")
    return 1


def _weights(graph: Graph, node: Node) -> Array | None:
    """The weights [columns, channels], less their zero point, of a convolution of bytes that a byte may be; None if
    the node is no such."""
    if node.op.name != "conv" or no_integers(node):
        return None
    known, found = _array(graph, node.operands[1]), contraction(node)
    if known is None or found is None or found.groups != 1 or found.extents[3] != 1:
        return None
    weights = found.taps(known.astype(np.int64) - zero_points(node)[1])[0, :, :, 0]
    inside = MADDUBS.weight_range[0] <= weights.min() and weights.max() <= MADDUBS.weight_range[1]
    return weights if inside and node.own_types()[0].dtype == I32 else None


def _refused(weights: Array) -> int:
    """How many words of channels, as they are in order, some column refuses, over all blocks of `BLOCK`."""
    words = np.zeros((len(weights), MADDUBS.words(weights.shape[1]) * MADDUBS.steps), np.int64)
    words[:, : weights.shape[1]] = weights
    return sum(map(len, refused(MADDUBS, words.reshape(len(words), -1, MADDUBS.steps), BLOCK)))


def _array(graph: Graph, value: Value | None) -> Array | None:
    known = None if value is None else graph.constants.get(value)
    return known if isinstance(known, np.ndarray) else None


# -- what has the channels -----------------------------------------------------------------------------------
def _ordered(r: Rewriter, node: Node) -> Ordered | str:
    """What has the channels of a node's operand, up to where these are made; or why not all of it can be put in
    another order."""
    found = contraction(node)
    assert found is not None
    turns, values = [Turn(node, False, 1, found.operand.weights)], []
    value, axis = node.operands[0], found.operand.axis
    assert value is not None
    while True:
        if not r.is_read_once(value):
            return "something else reads them"
        maker = r.producer(value)
        if maker is None:
            return "they are an input"
        if len(maker.results) != 1:
            return f"{maker.where} has several results"
        more = _of_maker(r.graph, maker, axis)
        if isinstance(more, str):
            return more
        made, source = more
        turns += made
        values.append(value)
        if source is None:
            return Ordered(values, turns)
        value = source


def _of_maker(graph: Graph, node: Node, axis: int) -> tuple[list[Turn], Value | None] | str:
    """The constants of a node that have the channels of its result; and its operand, if that has the same."""
    result = node.result
    if node.op.elementwise is not None:
        return _of_map(graph, node, axis)
    found = contraction(node)
    if found is None or _array(graph, node.operands[1]) is None or found.result.axis != axis:
        return f"{node.where} is no product with constant weights"
    through = found.groups == result.shape[axis] == found.extents[0] and found.extents[1:3] == (1, 1)
    if not through and found.groups != 1:
        return f"{node.where} has groups"
    if any(node.extras[k].type.count > 1 for body in node.pre.values() for k in ex.variables(body) - {ex.ACC}):
        return f"the prologue of {node.where} knows channels"
    own = _extras(graph, node, axis)
    if isinstance(own, str):
        return own
    weights = Turn(node, False, 1, found.group_weights if through else found.result.weights)
    return [weights, *own], node.operands[0] if through else None


def _of_map(graph: Graph, node: Node, axis: int) -> tuple[list[Turn], Value | None] | str:
    """`_of_maker` for a function of elements, of which one operand varies."""
    result, turns = node.result, []
    varying = [v for v in node.operands if v is not None and _array(graph, v) is None]
    if len(varying) != 1 or varying[0].shape != result.shape or node.pre or node.post or node.extras:
        return f"{node.where} reads several values"
    for i, v in enumerate(node.operands):
        own = _own_axis(v, result, axis) if v is not None and v is not varying[0] else -1
        if own >= 0:
            turns.append(Turn(node, False, i, own))
    return turns, varying[0]


def _own_axis(value: Value, seen: Value, axis: int) -> int:
    """The axis of a value, broadcast to another, that has its channels; -1 if it has one element for all."""
    own = axis - len(seen.shape) + len(value.shape)
    return own if own >= 0 and value.shape[own] != 1 else -1


def _extras(graph: Graph, node: Node, axis: int) -> list[Turn] | str:
    """The extra operands that epilogues read channel by channel."""
    turns = []
    for k, v in enumerate(node.extras):
        own = _own_axis(v, node.result, axis)
        if own >= 0 and _array(graph, v) is None:
            return f"{node.where} reads several values"
        if own >= 0:
            turns.append(Turn(node, True, k, own))
    return turns


def _apply(r: Rewriter, turn: Turn, order: Sequence[int]) -> None:
    node = turn.node
    value = node.extras[turn.index] if turn.extra else node.operands[turn.index]
    assert value is not None
    made = r.graph.constant(f"{value.name}.paired", r.graph.array(value).take(order, turn.axis))
    listed = list(node.extras if turn.extra else node.operands)
    listed[turn.index] = made
    if turn.extra:
        r.rewire(node, extras=[v for v in listed if v is not None])
    else:
        r.rewire(node, operands=listed)
