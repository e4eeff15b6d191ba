"""Moves a `map` before the reshape it reads, to where it may become part of the kernel that makes the value."""

from __future__ import annotations

import math

import numpy as np

from mccompile.ir.dims import UndecidedError
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.op import Kind
from mccompile.ir.types import Shape
from mccompile.ops.reshape import Reshape
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.rewriter import Rewriter

_Block = tuple[range, range]
"""Neighbouring axes of one shape and those of another that hold as many elements."""


def run(graph: Graph, remarks: Remarks) -> int:
    """Let a map read what a reshape reads and reshape its result instead, if a product, a reduction or a map makes
    that value for it alone. Exact; reshapes cost nothing."""
    r = Rewriter(graph)
    changes = 0
    for node in r.nodes():
        if node.op.elementwise is not None and not node.pre and not node.post:
            changes += _move(r, node, remarks)
    r.finish()
    return changes


def _move(r: Rewriter, node: Node, remarks: Remarks) -> int:
    """Move ``node`` before one of the reshapes it reads."""
    for value in dict.fromkeys(node.operands):
        reshape = r.producer(value)
        if value is None or reshape is None or not reshape.op.keeps_order:
            continue
        if value.shape != node.result.shape:
            continue
        source = reshape.operands[0]
        assert source is not None
        producer = r.producer(source)
        what = f"moved {node.where} before {reshape.where}"
        reason = _obstacle(r, node, value, source, producer)
        others = {} if reason else _reshaped_operands(r, node, source.shape)
        if others is None:
            reason = "another operand would not broadcast"
            others = {}
        if reason:
            remarks.miss(what, reason)
            continue
        _rewrite(r, node, {value: source}, others)
        r.erase(reshape)
        remarks.hit(what)
        return 1
    return 0


def _obstacle(r: Rewriter, node: Node, value: Value, source: Value, producer: Node | None) -> str:
    if producer is None:
        return "no kernel makes the value"
    fusable = producer.op.kind in (Kind.COMPLEX, Kind.REDUCTION) or producer.op.elementwise is not None
    if not fusable or len(producer.results) != 1:
        return f"{producer.where} takes no epilogue"
    if not r.is_private(value) or not r.is_private(source):
        return "its operand is needed elsewhere"
    if any(v.type.layout is not None for v in (value, source, node.result)):
        return "its layout is not row-major"
    if any(u.op.name in ("conv", "pool") for u in r.users(node.result)):
        return "its reader wants it in memory of its own, with a halo"
    return ""


def _reshaped_operands(r: Rewriter, node: Node, shape: Shape) -> dict[Value, Shape] | None:
    """The shapes under which the operands broadcast to ``shape`` as they did to the node's; None if one cannot."""
    try:
        blocks = shared_blocks(node.result.shape, shape)
    except UndecidedError:
        return None
    found: dict[Value, Shape] = {}
    for v in dict.fromkeys(node.operands):
        assert v is not None
        new = reshaped(v.shape, node.result.shape, shape, blocks)
        if new is None:
            return None
        found[v] = new
    return found


def shared_blocks(a: Shape, b: Shape) -> list[_Block]:
    """The finest runs of axes of two shapes of equal size that hold equal numbers of elements.

    Where there are none, or where a part has no elements, what is left is one run.
    """
    blocks: list[_Block] = []
    i = j = 0
    while i < len(a) or j < len(b):
        first_i, first_j = i, j
        i, j = min(i + 1, len(a)), min(j + 1, len(b))
        while math.prod(a[first_i:i]) != math.prod(b[first_j:j]) and (i < len(a) or j < len(b)):
            if j == len(b) or (i < len(a) and math.prod(a[first_i:i]) < math.prod(b[first_j:j])):
                i += 1
            else:
                j += 1
        blocks.append((range(first_i, i), range(first_j, j)))
    return blocks


def reshaped(operand: Shape, old: Shape, new: Shape, blocks: list[_Block]) -> Shape | None:
    """The shape under which an operand that broadcasts to ``old`` broadcasts alike to ``new``: in each block it has
    all elements or one. None if there is no such shape."""
    padded = (1,) * (len(old) - len(operand)) + operand
    shape: list[int] = []
    for mine, theirs in blocks:
        count = math.prod(padded[a] for a in mine)
        if count not in (1, math.prod(old[a] for a in mine)):
            return None
        shape += [1 if count == 1 else new[a] for a in theirs]
    return tuple(shape)


def _rewrite(r: Rewriter, node: Node, known: dict[Value, Value], given: dict[Value, Shape]) -> None:
    """Let a new map compute what ``node`` does in another shape; ``node`` becomes a reshape of its result.

    ``known`` operands are replaced, those of the same shape too: a reshape may keep it.
    """
    operands: list[Value | None] = []
    for v in node.operands:
        assert v is not None
        operands.append(known.get(v) or (v if v.shape == given[v] else _as_shape(r, node, v, given[v])))
    inner = r.insert(node, node.op, operands, node.result.name)
    node.op = Reshape(node.result.shape)
    r.rewire(node, [inner])


def _as_shape(r: Rewriter, node: Node, value: Value, shape: Shape) -> Value:
    """``value``, an operand of ``node``, under another shape: what it is a reshape of, a constant, or a reshape."""
    producer = r.producer(value)
    if producer is not None and producer.op.keeps_order:
        (source,) = producer.inputs
        if source.shape == shape:
            return source
    if value in r.graph.constants and isinstance(array := r.graph.constants[value], np.ndarray):
        return r.graph.constant(value.name, array.reshape(shape))
    return r.insert(node, Reshape(shape), [value], value.name)
