"""Moves a `map` before the transpose, concat, pad or copy it reads, to where it becomes part of another kernel, and
before what repeats elements, where it has fewer of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.dims import bound, varies
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.op import Kind, Op
from mccompile.ir.types import Shape
from mccompile.ops.concat import Concat
from mccompile.ops.pad import Pad
from mccompile.ops.reshape import Reshape
from mccompile.ops.transpose import Transpose
from mccompile.passes.analysis.movement import reorders
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.patterns import is_plain
from mccompile.passes.rewrite.rewriter import Rewriter
from mccompile.targets.target import Target

LAUNCH_BYTES = 512
"""Memory traffic that takes as long as the call of one more kernel."""

Operands = list[Value | None]


def run(graph: Graph, remarks: Remarks, target: Target) -> int:
    """Compute before moving where that makes a map part of the kernel before it, saves moving padding, or computes of
    each element once what would be repeated. Exact.

    A map behind a join becomes one per part if the kernels that it becomes part of save more than the others cost.
    """
    changes, seen = 0, Remarks()
    while True:
        found = Remarks()
        r = Rewriter(graph)
        maps = (node for node in r.nodes() if node.op.elementwise is not None and is_plain(node))
        moved = sum(_move(r, node, found, target.spare_memory) for node in maps)
        r.finish()
        seen.lines += [line for line in found.lines if line not in seen.lines]
        changes += moved
        if not moved:
            remarks.lines += seen.lines
            return changes


def _move(r: Rewriter, node: Node, remarks: Remarks, spare: bool) -> int:
    """Move ``node`` before one of the movements it reads; ``spare``: there is memory for what is repeated later."""
    for value in dict.fromkeys(node.operands):
        movement = r.producer(value)
        if value is None or movement is None or not reorders(movement.op):
            continue
        what = f"moved {node.where} before {movement.where}"
        found = _obstacle(r, node, movement, value, spare) or _operands(r, node, movement, value)
        if isinstance(found, str):
            remarks.miss(what, found)
            continue
        _rewrite(r, node, movement, found)
        remarks.hit(what)
        return 1
    return 0


def _obstacle(r: Rewriter, node: Node, movement: Node, value: Value, spare: bool) -> str:
    if not is_plain(movement) or value.shape != node.result.shape:
        return "the map or the movement does more than that"
    joins = isinstance(movement.op, Concat)
    if len(movement.results) != 1 or (not joins and len(movement.inputs) != 1):
        return "the movement has several operands or results"
    if not r.is_private(value):
        return "its operand is needed elsewhere"
    if node.result.dtype.nbytes > value.dtype.nbytes:
        return "its result has larger elements"
    reached = [_reaches(r, v) for v in movement.inputs]
    if joins:
        return _does_not_pay(movement, reached)
    if not any(reached) and not isinstance(movement.op, Pad) and not (spare and _times(movement.op)):
        return "it would become part of no kernel before it"
    return ""


def _does_not_pay(movement: Node, reached: Sequence[bool]) -> str:
    """Why one map for each part of a concat is no gain."""
    if len(set(movement.operands)) < len(movement.operands):
        return "a part is joined twice"
    saved = sum(2 * bound(v.type.nbytes) for v, yes in zip(movement.inputs, reached, strict=True) if yes)
    cost = LAUNCH_BYTES * max(reached.count(False) - 1, 0)
    return "" if saved > cost else f"{saved} bytes are saved for calls as dear as {cost}"


def _reaches(r: Rewriter, value: Value) -> bool:
    """True if a map of ``value`` alone would become part of the kernel that makes it."""
    producer = r.producer(value)
    if producer is None or not r.is_private(value) or len(producer.results) != 1:
        return False
    if producer.op.keeps_order or isinstance(producer.op, Transpose | Concat):
        return is_plain(producer) and any(_reaches(r, v) for v in producer.inputs)
    return producer.op.kind in (Kind.COMPLEX, Kind.REDUCTION) or producer.op.elementwise is not None


# -- what the map reads before the movement -----------------------------------------------------------------------
def _operands(r: Rewriter, node: Node, movement: Node, value: Value) -> list[Operands] | str:
    """The operands of the maps before the movement, one list for each of its operands, or why there are none."""
    scalars = all(v is value or (v is not None and v.type.count == 1) for v in node.operands)
    if isinstance(movement.op, Concat):
        return _cut(r, node, movement.op, movement, value)
    (source,) = movement.inputs
    if isinstance(movement.op, Transpose):
        return _turned(r, node, movement.op, source, value)
    op = movement.op
    if times := _times(op):
        scalars = all(v is value or (v is not None and _is_even(times, v)) for v in node.operands)
    if isinstance(op, Pad) and op.mode == "constant":
        padded = [lo or hi for lo, hi in zip(op.pads, op.pads[len(op.pads) // 2 :], strict=False)]
        scalars = all(v is value or (v is not None and _is_even(padded, v)) for v in node.operands)
        if scalars and _padding(r.graph, node, op, value) is None:
            return "what it makes of the padding is not known"
    if not scalars:
        return "another operand would have to be moved back"
    if any(v is not value and v is not None and len(v.shape) > len(source.shape) for v in node.operands):
        return "another operand has more axes"
    if bound(source.type.count) > bound(value.type.count):
        return "it would compute what is not read"
    return [[source if v is value else v for v in node.operands]]


def _times(op: Op) -> list[int]:
    """By how much more than once elements come along each axis of an operator that repeats them; empty for others."""
    times = op.times
    if varies(times) or min(times, default=0) < 1 or max(times) < 2:
        return []
    return [n - 1 for n in times]


def _is_even(changed: Sequence[int], v: Value) -> bool:
    """True for an operand that does not vary along the axes that are padded, or repeated: where there is no 0."""
    rank = len(changed)
    axes = [a for a in range(rank) if changed[a]]
    return all(a < rank - len(v.shape) or v.shape[a - rank + len(v.shape)] == 1 for a in axes)


def _padding(graph: Graph, node: Node, pad: Pad, value: Value) -> float | None:
    """What a map makes of the padding; None if that is not known, varies, or is no number."""
    assert node.op.elementwise is not None
    known = {i: graph.constants.get(v) for i, v in enumerate(node.operands) if v is not None and v is not value}
    if any(not isinstance(a, np.ndarray) for a in known.values()):
        return None
    padding = np.asarray(pad.value).astype(value.dtype.numpy)
    arrays = {i: a for i, a in known.items() if isinstance(a, np.ndarray)}
    with np.errstate(all="ignore"):
        found = ex.evaluate(node.op.elementwise, lambda i: arrays.get(i, padding)).astype(node.result.dtype.numpy)
    first = found.reshape(-1)[0]
    number = int(first) if found.dtype.kind in "iu" else float(first)
    same = found.tobytes() == np.full_like(found, first).tobytes()
    return number if same and np.isfinite(number) else None


def _turned(r: Rewriter, node: Node, op: Transpose, source: Value, value: Value) -> list[Operands] | str:
    """The operands of the map transposed back: what is a transpose itself, constants, what is broadcast."""
    others = [v for v in dict.fromkeys(node.operands) if v is not None and v is not value]
    if not all(_turns_back(r, op, v) for v in others):
        return "another operand would have to be transposed"
    back = {v: _turned_back(r, node, op, v) for v in others}
    return [[source if v is value else back[v] for v in node.operands if v is not None]]


def _turns_back(r: Rewriter, op: Transpose, v: Value) -> bool:
    kept = [p for p, e in zip(op.perm, _padded(v, op), strict=True) if e > 1]
    return isinstance(r.graph.constants.get(v), np.ndarray) or _is_turned(r, op, v) or kept == sorted(kept)


def _is_turned(r: Rewriter, op: Transpose, v: Value) -> bool:
    producer = r.producer(v)
    return producer is not None and producer.op == op and is_plain(producer)


def _padded(v: Value, op: Transpose) -> Shape:
    return (1,) * (len(op.perm) - len(v.shape)) + v.shape


def _turned_back(r: Rewriter, node: Node, op: Transpose, v: Value) -> Value | None:
    producer, shape = r.producer(v), _padded(v, op)
    if producer is not None and _is_turned(r, op, v):
        return producer.operands[0]
    if v.type.count == 1:
        return v
    back = tuple(op.perm.index(a) for a in range(len(op.perm)))
    constant = r.graph.constants.get(v)
    if isinstance(constant, np.ndarray):
        return r.graph.constant(v.name, np.ascontiguousarray(constant.reshape(shape).transpose(back)))
    return r.insert(node, Reshape(tuple(shape[a] for a in back)), [v], v.name)


def _cut(r: Rewriter, node: Node, op: Concat, movement: Node, value: Value) -> list[Operands] | str:
    """The operands for each part of a concat: what does not vary along its axis, parts of constants and concats."""
    columns: list[Operands] = []
    for v in node.operands:
        assert v is not None
        parts = list(movement.operands) if v is value else _parts(r, op, movement, v)
        if parts is None:
            return "another operand would have to be cut"
        columns.append(parts)
    return [list(row) for row in zip(*columns, strict=True)]


def _parts(r: Rewriter, op: Concat, movement: Node, v: Value) -> Operands | None:
    rank, count = len(movement.result.shape), len(movement.operands)
    axis = op.axis - (rank - len(v.shape))
    if axis < 0 or v.shape[axis] == 1:
        return [v] * count
    extents = [p.shape[op.axis] for p in movement.inputs]
    producer = r.producer(v)
    alike = producer is not None and producer.op == Concat(axis) and is_plain(producer)
    if producer is not None and alike and [p.shape[axis] for p in producer.inputs] == extents:
        return list(producer.operands)
    constant = r.graph.constants.get(v)
    if not isinstance(constant, np.ndarray) or varies(extents):
        return None
    ends = np.cumsum(extents)
    cuts = np.split(constant, ends[:-1], axis=axis)
    return [r.graph.constant(v.name, np.ascontiguousarray(c)) for c in cuts]


# -- the change ----------------------------------------------------------------------------------------------------
def _rewrite(r: Rewriter, node: Node, movement: Node, rows: list[Operands]) -> None:
    """Maps before the movement; ``node`` becomes the movement of their results."""
    op = movement.op
    assert node.op.elementwise is not None
    if isinstance(op, Pad) and op.mode == "constant":
        padding = _padding(r.graph, node, op, movement.result)
        assert padding is not None
        op = replace(op, value=padding)
    moved: Operands = [r.insert(node, node.op, row, f"{node.result.name}.early") for row in rows]
    node.op = op
    node.origins = tuple(dict.fromkeys(movement.origins + node.origins))
    r.rewire(node, moved)
    if not r.users(movement.result):
        r.erase(movement)
