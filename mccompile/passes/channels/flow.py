"""Which channels of which tensors nothing depends on: constants and readers followed through the whole graph.

Every value is followed along one axis at most, its channels. Each channel there has an id. Operators that read and
write channels one by one join ids: they are kept or removed together. Convolutions and matrix products make new
channels, and need those of their operand that a needed result depends on by a weight that is not 0, unless the
channel has one value for every input, which can be a part of the bias instead.

Worked example: %y = conv(%x, %w) has three results, of which a relu is taken. The filter of the last is all zeros
and its bias negative, so that it is 0 for every input: what reads it needs it no more than a part of its bias, and
it is removed with all that was computed for it. The others depend on x and are read.

>>> from mccompile.ir.graph_text import parse_graph
>>> from mccompile.ops.registry import lookup
>>> from mccompile.passes.channels.rules import follow
>>> graph = parse_graph('''graph @g(%x: f32[1,2,4]) {
...   %w = const [1, 2, 3, 4, 0, 0] : f32[3,2,1]
...   %b = const [0.5, 0.5, -0.25] : f32[3,1]
...   %v = const [1, 2, 3] : f32[1,3,1]
...   %y = conv(%x, %w) {strides=(1,), pads=(0, 0), dilations=(1,)} with (%b) post 0 {relu((acc + x0))} : f32[1,3,4]
...   %z = conv(%y, %v) {strides=(1,), pads=(0, 0), dilations=(1,)} : f32[1,1,4]
...   return %z
... }''', lookup)
>>> a = analyse(graph, follow)
>>> ids = {v.name: c.ids for v, c in a.found.items()}
>>> ids
{'y': array([2, 3, 4]), 'z': array([5])}
>>> solve(a, may_round=False).needed[ids["y"]]
array([ True,  True, False])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir import ranges
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.op import Op
from mccompile.ir.ranges import Range
from mccompile.ir.scalar import Array
from mccompile.ir.types import F32, DType
from mccompile.passes.analysis.contraction import is_product


@dataclass(frozen=True)
class Channels:
    """Ids and ranges of a value's channels along ``axis``; ``axis`` None: it is not followed, ``range`` is of all."""

    axis: int | None
    ids: Array
    range: Range


@dataclass(frozen=True)
class Need:
    """Results (by id) that read operand channels (by id): ``reads[i, j]`` says that result i depends on channel j,
    unless that ``may_go``: first if nothing may round otherwise, then if it may.

    ``reads`` has one row if all results read alike. ``ever``, if there is one, says which are read in any case.
    """

    results: Array
    operands: Array
    reads: Array
    may_go: tuple[Array, Array]
    ever: Array | None = None

    def of(self, results: Array, may_round: bool) -> Array:
        """The operand channels that ``results`` (True for those that are needed) depend on, True for each."""
        read = _any_row(self.reads, results) & ~self.may_go[may_round]
        return read if self.ever is None else read | _any_row(self.ever, results)


def _any_row(reads: Array, results: Array) -> Array:
    if results.all() or len(reads) == 1:
        return np.asarray(reads.any(0) & results.any())
    return np.asarray(reads[results].any(0))


@dataclass
class Analysis:
    """What the rules of `channel_rules` find out, node by node.

    ``readers`` counts the nodes that read a value; ``read`` holds what convolutions and matrix products see of the
    channels of their first operand; ``others`` are values that are not followed.
    """

    graph: Graph
    found: dict[Value, Channels] = field(default_factory=dict)
    needs: list[Need] = field(default_factory=list)
    joined: list[tuple[Array, Array]] = field(default_factory=list)
    pinned: list[tuple[Array, str]] = field(default_factory=list)
    count: int = 0
    readers: dict[Value, int] = field(default_factory=dict)
    read: dict[Node, Range] = field(default_factory=dict)
    others: dict[Value, Channels] = field(default_factory=dict)

    # -- ids -----------------------------------------------------------------------------------------------
    def fresh(self, count: int) -> Array:
        """New ids."""
        ids = np.arange(self.count, self.count + count)
        self.count += count
        return ids

    def join(self, a: Array, b: Array) -> None:
        """Keep or remove ``a[i]`` and ``b[i]`` together."""
        if a is not b:
            self.joined.append((a, b))

    def pin(self, ids: Array, reason: str) -> None:
        """Keep ``ids`` in any case."""
        if ids.size:
            self.pinned.append((ids, reason))

    # -- values --------------------------------------------------------------------------------------------
    def is_const(self, value: Value | None) -> bool:
        return value is not None and isinstance(self.graph.constants.get(value), np.ndarray)

    def of(self, value: Value) -> Channels:
        """What is known of a value; constants are not followed."""
        if value in self.found:
            return self.found[value]
        if value not in self.others:
            array = self.graph.array(value) if self.is_const(value) else None
            known = ranges.anything(value.dtype) if array is None else ranges.of_array(array, None)
            self.others[value] = Channels(None, np.empty(0, np.int64), known)
        return self.others[value]

    def turned(self, known: Channels, axis: int, extent: int, reason: str) -> Channels:
        """Channels along ``axis``, of ``extent``: if they are along another one they all stay, for ``reason``."""
        if known.axis == axis:
            return known
        self.pin(known.ids, reason)
        ids = self.fresh(extent)
        self.pin(ids, reason)
        return Channels(axis, ids, known.range.whole().over(extent))

    def broadcast(self, known: Channels, value: Value, at: Channels, rank: int, reason: str) -> Range:
        """The range of an operand that is broadcast to a tensor of ``rank`` axes with channels ``at``."""
        assert at.axis is not None
        own = at.axis - rank + len(value.shape)
        if own < 0 or value.shape[own] != at.ids.size:
            self.pin(known.ids, reason)
            return known.range.whole()
        if self.is_const(value) and known.axis is None:
            whole = known.range.low.size == 1 and bool(known.range.known[0])
            return known.range if whole else ranges.of_array(self.graph.array(value), own)
        channels = self.turned(known, own, value.shape[own], reason)
        self.join(channels.ids, at.ids)
        return channels.range

    def release(self, node: Node, reason: str) -> None:
        """Keep all that a node reads, and follow nothing that it makes."""
        for v in node.inputs:
            self.pin(self.of(v).ids, reason)


Rule = Callable[[Analysis, Node, Op, list[Channels | None]], list[Channels] | None]
"""The channels of a node's results, its prologues applied to the operands' before and its epilogues after; None if
nothing is known (the operands are kept then)."""


def analyse(graph: Graph, rule: Rule) -> Analysis:
    """Follow channels from the inputs to the outputs."""
    a = Analysis(graph)
    for node in graph.nodes:
        for v in dict.fromkeys(node.inputs):
            a.readers[v] = a.readers.get(v, 0) + 1
    for node in graph.nodes:
        _visit(a, node, rule)
    for value in graph.outputs:
        a.pin(a.of(value).ids, "its result is an output")
    return a


def _visit(a: Analysis, node: Node, rule: Rule) -> None:
    stored = any(v.type.layout is not None for v in (*node.inputs, *node.results))
    if stored or node.regions or any(a.is_const(node.operands[i]) and not widens_weights(node, i) for i in node.pre):
        a.release(node, f"{node.where} is not followed")
        return
    operands = [None if v is None else _prologue(a, node, i, v) for i, v in enumerate(node.operands)]
    results = rule(a, node, node.op, operands)
    if results is None:
        a.release(node, f"{node.where} reads channels together")
        return
    for i, (value, channels) in enumerate(zip(node.results, results, strict=True)):
        a.found[value] = _epilogue(a, node, i, value, channels)


def widens_weights(node: Node, i: int) -> bool:
    """Whether prologue ``i`` is what a product makes of each of its weights alone."""
    return is_product(node.op) and i == 1 and ex.variables(node.pre[i]) == {ex.ACC}


def weights_read(a: Analysis, node: Node) -> Array | None:
    """What a product reads as operand 1, if that is known at compile time."""
    weights = node.operands[1]
    if weights is None or not a.is_const(weights) or (1 in node.pre and not widens_weights(node, 1)):
        return None
    array = a.graph.array(weights)
    return ex.evaluate(node.pre[1], lambda i: array) if 1 in node.pre else array


def sum_type(node: Node) -> DType:
    """The type in which the only result of an operator is computed, before its epilogue."""
    return node.own_types()[0].dtype


def _prologue(a: Analysis, node: Node, i: int, value: Value) -> Channels:
    known = a.of(value)
    return known if i not in node.pre else _applied(a, node, node.pre[i], len(value.shape), known)


def _epilogue(a: Analysis, node: Node, i: int, value: Value, channels: Channels) -> Channels:
    if i in node.post:
        channels = _applied(a, node, node.post[i], len(value.shape), channels)
    return Channels(channels.axis, channels.ids, ranges.stored(channels.range, value.dtype))


def _applied(a: Analysis, node: Node, body: ex.Expr, rank: int, at: Channels) -> Channels:
    """Channels after a prologue or an epilogue; its extra operands keep step with them."""
    reason = f"{node.where} broadcasts it"

    def variable(index: int) -> Range:
        if index == ex.ACC:
            return at.range
        extra = node.extras[index]
        if at.axis is None:
            a.pin(a.of(extra).ids, reason)
            return a.of(extra).range.whole()
        return a.broadcast(a.of(extra), extra, at, rank, reason)

    return Channels(at.axis, at.ids, sized(ranges.of_expression(body, variable), at))


def sized(found: Range, at: Channels) -> Range:
    """A range in the number of channels there are."""
    count = at.ids.size if at.axis is not None else 1
    return found if found.low.size == count else found.whole().over(count)


# -- what has to stay --------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Kept:
    """For each id whether it is kept, and why those are that every input leaves the same.

    ``fills`` are kept only so that values have a multiple of ``whole`` channels.
    """

    needed: Array
    reasons: dict[int, str]
    label: Array
    fills: Array
    may_round: bool
    whole: int = 1


def solve(a: Analysis, may_round: bool, whole: int = 1) -> Kept:
    """The least set of channels that the outputs depend on; of each value one channel stays in any case. Where it
    ``may_round`` otherwise, constants may be part of a bias.

    With ``whole`` the least set of which the f32 values that lose channels keep a multiple of that, or all.
    """
    label = _labels(a)
    needed = np.zeros(a.count, dtype=bool)
    reasons: dict[int, str] = {}
    for ids, reason in a.pinned:
        needed[label[ids]] = True
        for i in dict.fromkeys(label[ids].tolist()):
            reasons.setdefault(i, reason)
    while True:
        _spread(a, label, needed, may_round)
        empty = [c.ids for c in a.found.values() if c.ids.size and not needed[label[c.ids]].any()]
        if not empty:
            break
        for ids in empty:
            if not needed[label[ids]].any():
                needed[label[ids[0]]] = True
                reasons.setdefault(int(label[ids[0]]), "a tensor keeps one channel")
    least = needed.copy()
    while _fill(a, label, needed, whole):
        _spread(a, label, needed, may_round)
    return Kept(needed, reasons, label, needed & ~least, may_round, whole)


def _fill(a: Analysis, label: Array, needed: Array, whole: int) -> bool:
    """Keep more channels of the values that would have no multiple of ``whole``; whether there was one."""
    filled = False
    for value, channels in a.found.items():
        if value.dtype != F32:  # nothing else is computed in vectors
            continue
        labels = label[channels.ids]
        gone = labels[~needed[labels]]
        more = gone.size if gone.size < whole else -(labels.size - gone.size) % whole
        if more:
            needed[gone[:more]] = True
            filled = True
    return filled


def _spread(a: Analysis, label: Array, needed: Array, may_round: bool) -> None:
    while True:
        before = int(needed.sum())
        for need in reversed(a.needs):
            needed[label[need.operands[need.of(needed[label[need.results]], may_round)]]] = True
        if int(needed.sum()) == before:
            return


def _labels(a: Analysis) -> Array:
    """One number for all ids that are kept or removed together."""
    label = np.arange(a.count)
    if not a.joined:
        return label
    left = np.concatenate([p for p, _ in a.joined])
    right = np.concatenate([q for _, q in a.joined])
    while True:
        least = np.minimum(label[left], label[right])
        new = label.copy()
        for side in (left, right):
            np.minimum.at(new, side, least)
            np.minimum.at(new, label[side], least)
        new = new[new]
        if np.array_equal(new, label):
            return label
        label = new
