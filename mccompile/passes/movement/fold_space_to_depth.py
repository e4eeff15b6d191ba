"""Reads blocks of pixels by the stride of a convolution where they were made channels before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mccompile.ir.graph import Graph, Node, Value
from mccompile.ops.concat import Concat
from mccompile.ops.conv import Conv
from mccompile.ops.depth_to_space import SpaceToDepth
from mccompile.ops.reshape import Reshape
from mccompile.ops.slice import Slice
from mccompile.ops.transpose import Transpose
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.patterns import Any, Fail, Is, Match, Rule, apply_rules, is_plain
from mccompile.passes.rewrite.rewriter import Rewriter

ROUNDS = True

Sources = tuple[tuple[int, tuple[int, ...]], ...]
"""For each channel, the channel and the place in a block of pixels it comes from."""


def run(graph: Graph, remarks: Remarks) -> int:
    """Fold space-to-depth, also as strided slices and a concat or as reshapes around a transpose, into a convolution
    of a larger kernel and stride.

    As many MACs as before. May change rounding: sums are taken in another order.
    """
    return apply_rules(graph, remarks, RULES)


def _blocks(r: Rewriter, node: Node) -> tuple[Value, int, Sources] | None:
    """The pixels, the extent of a block, and the sources; None if a node does something else."""
    match node.op:
        case SpaceToDepth(block=block, mode=mode):
            x, offsets = node.operands[0], tuple(np.ndindex(block, block))
            if x is None:
                return None
            return x, block, _by_channel(x, offsets) if mode == "CRD" else _by_offset(x, offsets)
        case Concat(axis=1):
            return _of_slices(r, node)
        case Reshape():
            return _of_transpose(r, node)
    return None


def _by_offset(x: Value, offsets: Sequence[tuple[int, ...]]) -> Sources:
    """The channels of one offset after those of another."""
    return tuple((c, offset) for offset in offsets for c in range(x.shape[1]))


def _by_channel(x: Value, offsets: Sequence[tuple[int, ...]]) -> Sources:
    """The offsets of one channel after those of another."""
    return tuple((c, offset) for c in range(x.shape[1]) for offset in offsets)


def _of_slices(r: Rewriter, node: Node) -> tuple[Value, int, Sources] | None:
    parts = [r.producer(v) for v in node.operands]
    slices = [p.op for p in parts if p is not None and isinstance(p.op, Slice) and is_plain(p)]
    if len(slices) != len(parts) or len({p.operands[0] for p in parts if p is not None}) != 1:
        return None
    source = parts[0].operands[0] if parts[0] is not None else None
    if source is None or any(e % slices[0].steps[2] for e in source.shape[2:]):
        return None
    block = slices[0].steps[2]
    extents = (*source.shape[:2], *(e // block for e in source.shape[2:]))
    steps = (1, 1, *(block,) * (len(source.shape) - 2))
    if block < 2 or any(s.steps != steps or s.extents != extents for s in slices):
        return None
    offsets = tuple(s.starts[2:] for s in slices)
    whole = sorted(offsets) == list(np.ndindex(*(block,) * (len(steps) - 2)))
    return (source, block, _by_offset(source, offsets)) if whole else None


def _of_transpose(r: Rewriter, node: Node) -> tuple[Value, int, Sources] | None:
    """Rows and columns split into blocks, their places moved behind or before the channels, and merged with these."""
    turned = r.producer(node.operands[0])
    split = None if turned is None else r.producer(turned.operands[0])
    if turned is None or split is None or not isinstance(turned.op, Transpose) or not split.op.keeps_order:
        return None
    x = split.operands[0]
    if x is None or len(x.shape) != 4 or not is_plain(turned) or not is_plain(split):
        return None
    n, c, h, w = x.shape
    b = h // node.result.shape[2] if len(node.result.shape) == 4 and node.result.shape[2] else 0
    perms = {(0, 1, 3, 5, 2, 4): True, (0, 3, 5, 1, 2, 4): False}
    fits = b > 1 and split.result.shape == (n, c, h // b, b, w // b, b)
    if not fits or turned.op.perm not in perms or node.result.shape != (n, c * b * b, h // b, w // b):
        return None
    offsets = tuple(np.ndindex(b, b))
    return x, b, _by_channel(x, offsets) if perms[turned.op.perm] else _by_offset(x, offsets)


def _check(m: Match) -> Fail | None:
    node, blocks = m.root, m.nodes["blocks"]
    found, w = _blocks(m.r, blocks), node.operands[1]
    if found is None:
        return Fail("")
    if w is None or w not in m.r.graph.constants:
        return Fail("the weights are no constant")
    if not m.r.is_private(blocks.result):
        return Fail("the channels made of pixels are needed elsewhere")
    if m.op(Conv).groups != 1 or set(m.op(Conv).dilations) != {1} or node.pre:
        return Fail("the convolution has groups, dilations or a prologue")
    return None


def _rewrite(m: Match) -> None:
    node, blocks = m.root, m.nodes["blocks"]
    found, w = _blocks(m.r, blocks), node.operands[1]
    op = m.op(Conv)
    assert found is not None
    assert w is not None
    x, b, sources = found
    old = m.r.graph.array(w)
    weights = np.zeros((old.shape[0], x.shape[1], *(b * k for k in old.shape[2:])), dtype=old.dtype)
    for i, (channel, offset) in enumerate(sources):
        place: list[slice | int] = [slice(None), channel, *(slice(o, None, b) for o in offset)]
        weights[tuple(place)] = old[:, i]
    node.op = replace(op, strides=tuple(s * b for s in op.strides), pads=tuple(p * b for p in op.pads))
    m.r.rewire(node, [x, m.r.graph.constant(f"{w.name}.spread", weights)])
    made = [p for v in blocks.operands if (p := m.r.producer(v)) is not None and p.op.selects]
    origins = [o for n in (*made, blocks, node) for o in n.origins]
    node.origins = tuple(dict.fromkeys(origins))


def _rule(op: type[Concat | SpaceToDepth | Reshape]) -> Rule:
    pattern = Is(Conv, (Is(op, None, "blocks"), Any("w")), "conv", plain=False)
    return Rule("read blocks of pixels by stride", pattern, _check, _rewrite)


RULES = (_rule(Concat), _rule(SpaceToDepth), _rule(Reshape))
