"""What each operator does to channels: a rule for every operator that they are followed through.

Worked example: where the six channels of [2,6,4] come when it is reshaped. In [2,6,2,2] they are an axis as before;
in [2,24] each is four neighbours of axis 1; in [12,4] all of them come twice along axis 0; [2,2,3,4] cuts them in
parts, and they cannot be followed.

>>> reshaped_axis((2, 6, 4), 1, (2, 6, 2, 2))
(1, 1, 1)
>>> reshaped_axis((2, 6, 4), 1, (2, 24))
(1, 1, 4)
>>> reshaped_axis((2, 6, 4), 1, (12, 4))
(0, 2, 1)
>>> reshaped_axis((2, 6, 4), 1, (2, 2, 3, 4)) is None
True
"""

from __future__ import annotations

import math
from itertools import accumulate

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import ranges
from mccompile.ir.graph import Node, Value
from mccompile.ir.op import Op
from mccompile.ir.ranges import Range
from mccompile.ir.same_bits import product
from mccompile.ir.scalar import Array
from mccompile.ir.types import DType, Shape
from mccompile.ops.concat import Concat
from mccompile.ops.expand import Expand
from mccompile.ops.pad import Pad
from mccompile.ops.slice import Slice
from mccompile.ops.split import Split
from mccompile.passes.analysis.axes import kept_axes
from mccompile.passes.analysis.contraction import contraction, is_product
from mccompile.passes.channels.flow import Analysis, Channels, Need, sized, sum_type, weights_read

_WINOGRAD = 16
"""How much more than a plain sum the sums of a fast convolution may be off."""

_BLOCK = 1 << 18
"""Weights that are summed up at a time: few enough for the caches."""

_NONE = np.empty(0, np.int64)


def _first(operands: list[Channels | None]) -> Channels:
    (first, *_) = operands
    assert first is not None
    return first


def _operand(node: Node, i: int = 0) -> Value:
    value = node.operands[i]
    assert value is not None
    return value


# -- sums of products --------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Weights:
    """Constant factors ``taps[group, m, c, t]`` of sums.

    ``used[group, m, c]`` says which are not all 0, in one row for all m if none is 0; ``finite``: all are.
    """

    taps: Array
    used: Array
    finite: bool


def _factors(a: Analysis, node: Node, taps: Array) -> _Weights:
    """What is known of operand 1, which a node reads as ``taps``, in another order."""
    whole = a.of(_operand(node, 1)).range
    finite = bool(np.isfinite(whole.low[0]) and np.isfinite(whole.high[0]))
    g, m, c, t = taps.shape
    if np.count_nonzero(taps) == taps.size:
        used = np.ones((g, 1, c), dtype=bool)
    else:
        used = (taps != 0).any(3) if t > 1 else taps.reshape(g, m, c) != 0
    return _Weights(taps, used, finite)


def _dot(w: _Weights, x: Range, dtype: DType) -> Range:
    """The ranges of sums over c and t of taps[g, m, c, t] * x, where each x lies in the range of its g and c.

    They are summed up only for the rows m that read nothing that is unbounded: there may be very many weights.
    """
    g, m, c, t = w.taps.shape
    low, high, known = x.low.reshape(g, c), x.high.reshape(g, c), x.known.reshape(g, c)
    bounded = np.isfinite(low) & np.isfinite(high)
    free = np.broadcast_to((w.used & ~bounded[:, None]).any(2), (g, m))
    if not w.finite:
        free = free | ~np.isfinite(w.taps).all((2, 3))
    fixed = np.broadcast_to(~(w.used & ~known[:, None]).any(2), (g, m))
    found = np.full((2, g, m), [[[-np.inf]], [[np.inf]]])
    ends = np.where(bounded, low, 0), np.where(bounded, high, 0)
    rows = np.flatnonzero(~free.all(0))
    count = max(1, _BLOCK // (g * c * t))
    for at in (rows[i : i + count] for i in range(0, rows.size, count)):
        taps = w.taps[:, at]
        sums = _bounds(taps, *ends, dtype)
        if dtype.is_float and fixed[:, at].any():  # bounds of whole numbers are the sum itself
            sums = np.where(fixed[:, at], _value(taps, np.where(known, low, 0), dtype), sums)
        found[:, :, at] = np.where(free[:, at], found[:, :, at], sums)
    return Range(found[0].reshape(-1), found[1].reshape(-1))


def _bounds(taps: Array, low: Array, high: Array, dtype: DType) -> Array:
    """Least and greatest of sums, rounding included."""
    with np.errstate(invalid="ignore"):
        up, down = _over_taps(np.maximum(taps, 0)), _over_taps(np.minimum(taps, 0))
        size = np.maximum(np.abs(low), np.abs(high))
        sums = up @ np.stack((low, high, size), 2) + down @ np.stack((high, low, -size), 2)
        least, greatest, size = np.moveaxis(sums, 2, 0)
        if not dtype.is_float:  # partial sums are as large as all terms together, and may wrap or round in float64
            return np.stack(ranges.ends_within(least, greatest, size, dtype))
        by = ranges.error(size, dtype.compute, math.prod(taps.shape[2:]) * _WINOGRAD)
        unclear = ~np.isfinite(size)
        return np.stack((np.where(unclear, -np.inf, least - by), np.where(unclear, np.inf, greatest + by)))


_FEW = 32
"""Taps that are added up one after the other for all weights: numpy takes four times as long to do so for each."""


def _over_taps(taps: Array) -> Array:
    """Sums over the last axis."""
    if taps.shape[3] > _FEW:
        return np.asarray(taps.sum(3, dtype=np.float64))
    total = taps[..., 0].astype(np.float64)
    for i in range(1, taps.shape[3]):
        total += taps[..., i]
    return total


def _value(taps: Array, x: Array, dtype: DType) -> Array:
    """Sums of floats with numbers that are known."""
    with np.errstate(invalid="ignore"):
        value = product(_over_taps(taps), x[:, :, None])[:, :, 0]
    return value.astype(dtype.compute.numpy).astype(np.float64)


def _may_go(x: Range, dtype: DType, padded: bool) -> tuple[Array, Array]:
    """Channels whose share of a sum can be left out, or be a part of the bias: if nothing may round otherwise, and if
    it may."""
    if padded:
        return x.zero, x.zero
    return x.zero if dtype.is_float else x.known, x.known


def _sums(a: Analysis, node: Node, taps: Array, x: Channels, padded: bool, seen: Range) -> tuple[Array, Range]:
    """Ids and range of the results of sums with ``taps[group, m, c, t]``; ``seen`` is what is multiplied."""
    dtype = sum_type(node)
    w = _factors(a, node, taps)
    g, m, c, _ = taps.shape
    ids = a.fresh(g * m)
    a.read[node] = x.range
    if a.readers[_operand(node, 1)] > 1:
        a.pin(np.concatenate([ids, x.ids]), "its weights are shared with another node")
    elif g == 1:
        ever = None if w.finite else ~np.isfinite(taps[0]).all(2)
        a.needs.append(Need(ids, x.ids, w.used[0], _may_go(x.range, dtype, padded), ever))
    else:  # a group stays whole, or goes
        first = x.ids.reshape(g, c)[:, :1]
        a.join(np.repeat(first, c, 1).reshape(-1), x.ids)
        a.join(np.repeat(first, m, 1).reshape(-1), ids)
    return ids, _dot(w, seen, dtype)


def _product(a: Analysis, node: Node, op: Op, operands: list[Channels | None]) -> list[Channels] | None:
    """Sums of products with constant weights, each of which is of a channel of the operand and one of the result."""
    weights, found = weights_read(a, node), contraction(node)
    if weights is None or found is None:
        return None
    axis = found.operand.axis
    x = a.turned(_first(operands), axis, _operand(node).shape[axis], f"{node.where} sums along axis {axis}")
    taps, padded = found.taps(weights), found.padded
    ids, sums = _sums(a, node, taps, x, padded, x.range.with_zero() if padded else x.range)
    if found.scattered:  # which taps an element of the result sees depends on where it is
        partly = ~sums.zero & (taps.shape[3] > 1)
        low, high = (np.where(partly, np.inf * s, e) for s, e in ((-1, sums.low), (1, sums.high)))
        sums = Range(low, high)
    return [Channels(found.result.axis, ids, sums)]


# -- channel by channel ------------------------------------------------------------------------------------
def _map(a: Analysis, node: Node, op: Op, operands: list[Channels | None]) -> list[Channels] | None:
    body = op.elementwise
    assert body is not None
    given = [(_operand(node, i), c) for i, c in enumerate(operands) if c is not None]
    shape = node.result.shape
    rank = len(shape)
    at: Channels | None = None
    for value, c in given:
        axis = None if c.axis is None else c.axis + rank - len(value.shape)
        if at is None and axis is not None and shape[axis] == c.ids.size:
            at = Channels(axis, c.ids, c.range)
    reason = f"{node.where} broadcasts it"
    if at is None:
        for _, c in given:
            a.pin(c.ids, reason)
        found = ranges.of_expression(body, lambda i: given[i][1].range.whole())
        return [Channels(None, _NONE, found)]
    seen = [a.broadcast(c, v, at, rank, reason) for v, c in given]
    found = ranges.of_expression(body, lambda i: seen[i])
    return [Channels(at.axis, at.ids, found if found.low.size == at.ids.size else found.whole().over(at.ids.size))]


def _alone(a: Analysis, node: Node, op: Op, operands: list[Channels | None]) -> list[Channels] | None:
    """Operators that compute each channel of operand 0 from itself: they say so by their structure."""
    types = node.operand_types()
    x = operands[0] if operands else None
    if x is None:
        return None
    for other in operands[1:]:
        if other is not None:
            a.pin(other.ids, f"{node.where} needs it for all channels")
    given = [None if c is None else x.range if c is x else c.range.whole() for c in operands]
    found = op.value_range(types, given)
    if x.axis is None:
        return [Channels(None, _NONE, r) for r in found]
    axes = kept_axes(op, types, x.axis)
    if axes is None:
        return None
    return [Channels(axis, x.ids, sized(r, x)) for axis, r in zip(axes, found, strict=True)]


# -- movement ----------------------------------------------------------------------------------------------
def _concat(a: Analysis, node: Node, op: Concat, operands: list[Channels | None]) -> list[Channels] | None:
    given = [(_operand(node, i), c) for i, c in enumerate(operands) if c is not None]
    axis = next((c.axis for _, c in given if c.axis is not None), None)
    if axis is None:
        low, high = (np.stack([getattr(c.range.whole(), e) for _, c in given]) for e in ("low", "high"))
        return [Channels(None, _NONE, Range(low.min(0), high.max(0)))]
    reason = f"{node.where} joins it to others along another axis"
    parts = [_part(a, v, c, axis, reason) for v, c in given]
    if axis == op.axis:
        found = Range(*(np.concatenate([getattr(p.range, e) for p in parts]) for e in ("low", "high")))
        return [Channels(axis, np.concatenate([p.ids for p in parts]), found)]
    for p in parts[1:]:
        a.join(parts[0].ids, p.ids)
    low, high = (np.stack([getattr(p.range, e) for p in parts]) for e in ("low", "high"))
    return [Channels(axis, parts[0].ids, Range(low.min(0), high.max(0)))]


def _part(a: Analysis, value: Value, known: Channels, axis: int, reason: str) -> Channels:
    if a.is_const(value):
        return Channels(axis, a.fresh(value.shape[axis]), ranges.of_array(a.graph.array(value), axis))
    return a.turned(known, axis, value.shape[axis], reason)


def _pad(a: Analysis, node: Node, op: Pad, operands: list[Channels | None]) -> list[Channels] | None:
    x = _first(operands)
    rank = len(op.pads) // 2
    begin, end = (0, 0) if x.axis is None else (op.pads[x.axis], op.pads[rank + x.axis])
    if op.mode != "constant":
        return None if begin or end else [x]
    elsewhere = any(p for i, p in enumerate(op.pads) if i % rank != x.axis)
    fill = ranges.of_number(op.value, _operand(node).dtype)
    inside = ranges.hull([x.range, fill]) if elsewhere else x.range
    if x.axis is None:
        return [Channels(None, _NONE, inside)]
    ids = np.concatenate([a.fresh(begin), x.ids, a.fresh(end)])
    parts = (fill.over(begin), inside, fill.over(end))
    return [Channels(x.axis, ids, Range(*(np.concatenate([getattr(p, e) for p in parts]) for e in ("low", "high"))))]


def _cut(x: Channels, start: int, stop: int) -> Channels:
    return Channels(x.axis, x.ids[start:stop], Range(x.range.low[start:stop], x.range.high[start:stop]))


def _slice(a: Analysis, node: Node, op: Slice, operands: list[Channels | None]) -> list[Channels] | None:
    x = _first(operands)
    if x.axis is None:
        return [x]
    start, extent = op.starts[x.axis], op.extents[x.axis]
    if op.steps[x.axis] != 1 and extent > 1:
        return None
    return [_cut(x, start, start + extent)]


def _split(a: Analysis, node: Node, op: Split, operands: list[Channels | None]) -> list[Channels] | None:
    x = _first(operands)
    if x.axis != op.axis:
        return [x] * len(op.sizes)
    starts = accumulate(op.sizes, initial=0)
    return [_cut(x, start, start + size) for start, size in zip(starts, op.sizes, strict=False)]


def reshaped_axis(before: Shape, axis: int, after: Shape) -> tuple[int, int, int] | None:
    """Where an axis comes in a reshape: (new axis, times the whole is repeated, times each element is); None if it is
    cut in parts."""
    outer, inner = math.prod(before[:axis]), math.prod(before[axis + 1 :])
    for b, extent in enumerate(after):
        p, q = math.prod(after[:b]), math.prod(after[b + 1 :])
        whole = p > 0 and q > 0 and outer % p == inner % q == 0
        if whole and extent == outer // p * before[axis] * (inner // q):
            return b, outer // p, inner // q
    return None


def _reshape(a: Analysis, node: Node, operands: list[Channels | None]) -> list[Channels] | None:
    x = _first(operands)
    if x.axis is None:
        return [x]
    place = reshaped_axis(_operand(node).shape, x.axis, node.result.shape)
    if place is None:
        a.pin(x.ids, f"{node.where} cuts channels in parts")
        return [Channels(None, _NONE, x.range.whole())]
    axis, times, each = place
    ids, low, high = (np.tile(np.repeat(e, each), times) for e in (x.ids, x.range.low, x.range.high))
    return [Channels(axis, ids, Range(low, high))]


def _expand(a: Analysis, node: Node, op: Expand, operands: list[Channels | None]) -> list[Channels] | None:
    x = _first(operands)
    if x.axis is None:
        return [x]
    axis = x.axis + len(op.shape) - len(_operand(node).shape)
    if op.shape[axis] != x.ids.size:
        a.pin(x.ids, f"{node.where} broadcasts it")
        return [Channels(None, _NONE, x.range.whole())]
    return [Channels(axis, x.ids, x.range)]


def follow(a: Analysis, node: Node, op: Op, operands: list[Channels | None]) -> list[Channels] | None:
    """The channels of the results of any operator: by what it says of itself, but for movement between channels."""
    match op:
        case Concat():
            return _concat(a, node, op, operands)
        case Pad():
            return _pad(a, node, op, operands)
        case Slice():
            return _slice(a, node, op, operands)
        case Split():
            return _split(a, node, op, operands)
        case Expand():
            return _expand(a, node, op, operands)
    if op.keeps_order:
        return _reshape(a, node, operands)
    if op.elementwise is not None:
        return _map(a, node, op, operands)
    if is_product(op):
        return _product(a, node, op, operands)
    return _alone(a, node, op, operands)
