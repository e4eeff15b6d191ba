"""Reads blocks of pixels by the stride of a convolution where they were made channels before it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mccompile.ir.graph import Graph, Node, Value
from mccompile.ops.concat import Concat
from mccompile.ops.conv import Conv
from mccompile.ops.depth_to_space import SpaceToDepth
from mccompile.ops.slice import Slice
from mccompile.passes.manager import Remarks
from mccompile.passes.patterns import Any, Fail, Is, Match, Rule, apply_rules, is_plain
from mccompile.passes.rewriter import Rewriter

ROUNDS = True

Offsets = tuple[tuple[int, ...], ...]
"""For each group of channels, where in a block of pixels it comes from."""


def run(graph: Graph, remarks: Remarks) -> int:
    """Fold space-to-depth, also as strided slices and a concat, into a convolution of a larger kernel and stride.

    As many MACs as before. May change rounding: sums are taken in another order.
    """
    return apply_rules(graph, remarks, RULES)


def _blocks(r: Rewriter, node: Node) -> tuple[Value, int, Offsets] | None:
    """The pixels, the extent of a block, and the offsets; None if a node does something else."""
    if isinstance(node.op, SpaceToDepth):
        x = node.operands[0]
        return None if x is None else (x, node.op.block, tuple(np.ndindex(node.op.block, node.op.block)))
    if not isinstance(node.op, Concat) or node.op.axis != 1:
        return None
    parts = [r.producer(v) for v in node.operands]
    ops = [p.op for p in parts if p is not None and isinstance(p.op, Slice) and is_plain(p)]
    slices = [op for op in ops if isinstance(op, Slice)]
    if len(slices) != len(parts) or len({p.operands[0] for p in parts if p is not None}) != 1:
        return None
    source = parts[0].operands[0] if parts[0] is not None else None
    if source is None or len(source.shape) < 3 or any(e % slices[0].steps[2] for e in source.shape[2:]):
        return None
    block = slices[0].steps[2]
    extents = (*source.shape[:2], *(e // block for e in source.shape[2:]))
    steps = (1, 1, *(block,) * (len(source.shape) - 2))
    if block < 2 or any(s.steps != steps or s.extents != extents or any(s.starts[:2]) for s in slices):
        return None
    offsets = tuple(s.starts[2:] for s in slices)
    return (source, block, offsets) if sorted(offsets) == list(np.ndindex(*(block,) * (len(steps) - 2))) else None


def _check(m: Match) -> Fail | None:
    node, blocks = m.root, m.nodes["blocks"]
    found, w = _blocks(m.r, blocks), node.operands[1]
    assert isinstance(node.op, Conv)
    if found is None:
        return Fail("")
    if w is None or w not in m.r.graph.constants:
        return Fail("the weights are no constant")
    if not m.r.is_private(blocks.result):
        return Fail("the channels made of pixels are needed elsewhere")
    if node.op.groups != 1 or set(node.op.dilations) != {1} or node.pre:
        return Fail("the convolution has groups, dilations or a prologue")
    return None


def _rewrite(m: Match) -> None:
    node, blocks = m.root, m.nodes["blocks"]
    found, w = _blocks(m.r, blocks), node.operands[1]
    assert isinstance(node.op, Conv)
    assert found is not None
    assert w is not None
    x, b, offsets = found
    channels = x.shape[1]
    old = m.r.graph.array(w)
    weights = np.zeros((old.shape[0], channels, *(b * k for k in old.shape[2:])), dtype=old.dtype)
    for group, offset in enumerate(offsets):
        at = tuple(slice(o, None, b) for o in offset)
        weights[(slice(None), slice(None), *at)] = old[:, group * channels : (group + 1) * channels]
    node.op = replace(
        node.op, strides=tuple(s * b for s in node.op.strides), pads=tuple(p * b for p in node.op.pads)
    )
    m.r.rewire(node, [x, m.r.graph.constant(f"{w.name}.spread", weights)])
    made = [p for v in blocks.operands if (p := m.r.producer(v)) is not None and isinstance(p.op, Slice)]
    origins = [o for n in (*made, blocks, node) for o in n.origins]
    node.origins = tuple(dict.fromkeys(origins))


def _rule(op: type[Concat | SpaceToDepth]) -> Rule:
    pattern = Is(Conv, (Is(op, None, "blocks"), Any("w")), "conv", plain=False)
    return Rule("read blocks of pixels by stride", pattern, _check, _rewrite)


RULES = (_rule(Concat), _rule(SpaceToDepth))
