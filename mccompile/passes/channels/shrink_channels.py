"""Takes channels out of a graph: out of tensors, weights, per-channel constants and the attributes of operators."""

from __future__ import annotations

from collections import Counter
from dataclasses import field, replace
from itertools import accumulate

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.op import Op
from mccompile.ir.same_bits import product
from mccompile.ir.scalar import Array
from mccompile.ir.types import Shape
from mccompile.ops.concat import Concat
from mccompile.ops.expand import Expand
from mccompile.ops.pad import Pad
from mccompile.ops.reshape import Reshape
from mccompile.ops.slice import Slice
from mccompile.ops.split import Split
from mccompile.passes.analysis.absorption import absorbs
from mccompile.passes.analysis.contraction import contraction, is_product
from mccompile.passes.channels.flow import Analysis, Channels, Kept, sum_type, weights_read


@dataclass
class Shrink:
    """A graph from which the channels that ``kept`` does not name are taken, node by node."""

    analysis: Analysis
    kept: Kept
    made: dict[tuple[Value, int, bytes], Value] = field(default_factory=dict)

    @property
    def graph(self) -> Graph:
        return self.analysis.graph

    def mask(self, value: Value) -> Array | None:
        """Which channels of a value stay; None if all do."""
        channels = self.analysis.of(value)
        if channels.axis is None:
            return None
        stays = self.kept.needed[self.kept.label[channels.ids]]
        return None if stays.all() else stays

    def mask_along(self, value: Value, axis: int) -> Array:
        """Which elements of an axis stay."""
        stays = self.mask(value) if self.analysis.of(value).axis == axis else None
        return np.ones(value.shape[axis], dtype=bool) if stays is None else stays

    def shape(self, value: Value) -> Shape:
        """The shape that is left."""
        stays, axis = self.mask(value), self.analysis.of(value).axis
        if stays is None or axis is None:
            return value.shape
        return (*value.shape[:axis], int(stays.sum()), *value.shape[axis + 1 :])

    def constant(self, value: Value, axis: int, stays: Array) -> Value:
        """A constant with what stays of it along ``axis``; others may go on reading the whole."""
        if stays.all():
            return value
        key = (value, axis, stays.tobytes())
        if key not in self.made:
            self.made[key] = self.graph.constant(f"{value.name}.kept", self.graph.array(value).compress(stays, axis))
        return self.made[key]

    def broadcast(self, value: Value, rank: int, axis: int, stays: Array) -> Value:
        """An operand that is broadcast to a tensor of ``rank`` axes of which some channels go."""
        own = axis - rank + len(value.shape)
        if value not in self.graph.constants or own < 0 or value.shape[own] != stays.size:
            return value
        return self.constant(value, own, stays)


def apply(analysis: Analysis, kept: Kept) -> list[tuple[Node, str]]:
    """Take the channels out; returns what was done to which node."""
    s = Shrink(analysis, kept)
    done = []
    for node in list(s.graph.nodes):
        masks = {v: m for v in (*node.inputs, *node.results) if (m := s.mask(v)) is not None}
        if masks:
            text = _text(s, node)
            _shrink_bodies(s, node)
            node.op = _shrunk(s, node, node.op)
            if text:
                done.append((node, text))
    shapes = {v: s.shape(v) for v in analysis.found}
    for value, shape in shapes.items():
        if shape != value.shape:
            value.type = value.type.with_shape(shape)
    return done


def _text(s: Shrink, node: Node) -> str:
    if not (is_product(node.op) or isinstance(node.op, Concat | Pad)):
        return ""
    parts = []
    for what, value in (("operand", node.operands[0]), ("result", node.results[0])):
        stays = None if value is None else s.mask(value)
        if stays is not None:
            parts.append(f"{int((~stays).sum())} of {stays.size} {what} channels")
    return f"{' and '.join(parts)} of {node.where}" if parts else ""


def _shrink_bodies(s: Shrink, node: Node) -> None:
    """Constants that prologues and epilogues read channel by channel."""
    for table, values in ((node.pre, node.operands), (node.post, node.results)):
        for i, body in table.items():
            value = values[i]
            assert value is not None
            known, stays = s.analysis.of(value), s.mask(value)
            if known.axis is None or stays is None:
                continue
            for k in ex.variables(body) - {ex.ACC}:
                node.extras[k] = s.broadcast(node.extras[k], len(value.shape), known.axis, stays)


# -- operators ---------------------------------------------------------------------------------------------
def _map(s: Shrink, node: Node, op: Op) -> Op:
    value = node.result
    axis, stays = s.analysis.of(value).axis, s.mask(value)
    if axis is not None and stays is not None:
        rank = len(value.shape)
        node.operands = [None if v is None else s.broadcast(v, rank, axis, stays) for v in node.operands]
    return op


def _weights(node: Node) -> Value:
    weights = node.operands[1]
    assert weights is not None
    return weights


def _shift(s: Shrink, node: Node, taps: Array, gone: Array, axis: int) -> None:
    """Add to the bias what constant channels that go contribute: all ``taps[m, c, ...]`` times the value of each."""
    known = s.analysis.read[node]
    given = gone & known.known & (known.low != 0)
    if not given.any():
        return
    dtype = sum_type(node)
    sums = np.float64 if dtype.is_float else dtype.numpy  # whole numbers wrap, as they do in the program
    taps = taps[:, given].reshape(len(taps), int(given.sum()), -1)
    shift = product(taps.sum(2, dtype=sums), known.low[given].astype(sums)[:, None])[:, 0]
    if not shift.any():  # all their weights are zero, as they are if they are padded
        return
    shape = tuple(shift.size if a == axis else 1 for a in range(axis, len(node.result.shape)))
    _add_bias(s.graph, node, shift.astype(dtype.compute.numpy).reshape(shape))


def _add_bias(graph: Graph, node: Node, shift: Array) -> None:
    """acc becomes acc + shift; where a constant is added to acc first, it takes the shift, unless one of them is so
    large that the other is rounded. Beside sums of f16 both are f32, as these are until they are stored."""
    dtype = sum_type(node)
    body = node.post.get(0, ex.acc(dtype))
    bias = _first_bias(graph, node, body)
    if bias is not None:
        old = graph.array(node.extras[bias])
        if not (dtype.is_float and absorbs(old, shift)):
            both = (_wide(old) + _wide(shift)).astype(shift.dtype)
            node.extras[bias] = graph.constant(f"{node.extras[bias].name}.shifted", both)
            return
    read = ex.var(len(node.extras), dtype)
    node.extras.append(graph.constant(f"{_weights(node).name}.shift", shift))
    added = ex.apply("add", ex.acc(dtype), read)
    node.post[0] = ex.substitute(body, lambda v: added if v.index == ex.ACC else v)


def _wide(a: Array) -> Array:
    """In float64; whole numbers, which wrap, as they are."""
    return a.astype(np.float64) if a.dtype.kind == "f" else a


def _first_bias(graph: Graph, node: Node, body: ex.Expr) -> int | None:
    """The extra operand of ``acc + x``, if that is all that the epilogue does with acc, and with x."""
    acc = ex.acc(sum_type(node))
    readers = [e for e in _parts(body) if acc in e.args]
    found = readers[0] if len(readers) == 1 else None
    if not isinstance(found, ex.Apply) or found.fn != "add":
        return None
    terms = [o for o in found.operands if isinstance(o, ex.Var) and o != acc]
    bodies = [*node.pre.values(), *node.post.values()]
    if len(terms) != 1 or [e for b in bodies for e in _parts(b) if terms[0] in e.args] != [found]:
        return None
    extra = terms[0].index
    return extra if isinstance(graph.constants.get(node.extras[extra]), np.ndarray) else None


def _parts(body: ex.Expr) -> set[ex.Expr]:
    return {body}.union(*(_parts(a) for a in body.args))


def _product(s: Shrink, node: Node, op: Op) -> Op:
    (x, _), weights, found = node.operands, _weights(node), contraction(node)
    if x is None or found is None or node not in s.analysis.read:
        return op
    columns, rows = s.mask_along(x, found.operand.axis), s.mask_along(node.result, found.result.axis)
    if found.groups > 1:  # groups stay whole, or go: the weights of each lie together
        axis = found.group_weights
        node.operands[1] = s.constant(weights, axis, rows if axis == found.result.weights else columns)
        return op.in_groups(int(rows.reshape(found.groups, -1).any(1).sum()))
    if not found.scattered:
        read = weights_read(s.analysis, node)
        assert read is not None
        taps = np.moveaxis(read, (found.result.weights, found.operand.weights), (0, 1))
        _shift(s, node, taps[rows], ~columns, found.result.axis)
    node.operands[1] = s.constant(s.constant(weights, found.result.weights, rows), found.operand.weights, columns)
    return op


def _concat(s: Shrink, node: Node, op: Concat) -> Op:
    value = node.result
    axis, stays = s.analysis.of(value).axis, s.mask(value)
    if axis is None or stays is None:
        return op
    starts = accumulate((v.shape[axis] for v in node.operands if v is not None), initial=0)
    kept: list[Value | None] = []
    for v, start in zip([v for v in node.operands if v is not None], starts, strict=False):
        part = stays[start : start + v.shape[axis]] if axis == op.axis else stays
        if v in s.graph.constants and part.any():
            v = s.constant(v, axis, part)
        if part.any():
            kept.append(v)
    node.operands = kept
    return op


def _pad(s: Shrink, node: Node, op: Pad) -> Op:
    axis = s.analysis.of(node.result).axis
    if axis is None:
        return op
    stays, rank, pads = s.mask_along(node.result, axis), len(op.pads) // 2, list(op.pads)
    begin, end = pads[axis], pads[rank + axis]
    pads[axis], pads[rank + axis] = int(stays[:begin].sum()), int(stays[stays.size - end :].sum())
    return replace(op, pads=tuple(pads))


def _slice(s: Shrink, node: Node, op: Slice) -> Op:
    (x,) = node.operands
    assert x is not None
    axis = s.analysis.of(node.result).axis
    if axis is None:
        return op
    stays, starts, extents = s.mask_along(x, axis), list(op.starts), list(op.extents)
    start, stop = starts[axis], starts[axis] + extents[axis]
    starts[axis], extents[axis] = int(stays[:start].sum()), int(stays[start:stop].sum())
    return replace(op, starts=tuple(starts), extents=tuple(extents))


def _split(s: Shrink, node: Node, op: Split) -> Op:
    return replace(op, sizes=tuple(s.shape(v)[op.axis] for v in node.results))


def _shrunk(s: Shrink, node: Node, op: Op) -> Op:
    """The operator, which may name extents, without the channels that go; constants that it reads lose them too."""
    match op:
        case Concat():
            return _concat(s, node, op)
        case Pad():
            return _pad(s, node, op)
        case Slice():
            return _slice(s, node, op)
        case Split():
            return _split(s, node, op)
        case Expand():
            return Expand(s.shape(node.result))
    if op.keeps_order:
        return Reshape(s.shape(node.result))
    if op.elementwise is not None:
        return _map(s, node, op)
    return _product(s, node, op) if is_product(op) else op


def unremoved(analysis: Analysis, kept: Kept) -> list[tuple[Value, str, str]]:
    """Values with channels that stay although they are constant or could go, how many, and why; each channel is
    named once."""
    told: set[int] = set()
    found = []
    for value, channels in analysis.found.items():
        if channels.axis is None:
            continue
        labels = kept.label[channels.ids]
        fills = kept.fills[labels]
        stuck = labels[(channels.range.known & kept.needed[labels]) | fills]
        new = [i for i in dict.fromkeys(stuck.tolist()) if i not in told]
        told.update(new)
        reasons = [_reason(analysis, kept, i, channels) for i in new]
        kind = ["" if kept.fills[i] else "constant " for i in new]
        for (what, reason), count in Counter(zip(kind, reasons, strict=True)).items():
            found.append((value, f"{count} {what}channels", reason))
    return found


def _reason(analysis: Analysis, kept: Kept, label: int, channels: Channels) -> str:
    if kept.fills[label]:
        return f"they fill up vectors of {kept.whole}"
    if label in kept.reasons:
        return kept.reasons[label]
    zero = channels.range.zero[kept.label[channels.ids] == label].all()
    if not zero and not kept.may_round:
        return "they are not 0, and to fold them would round differently"
    return "they are read along with channels that vary, or through padding"
