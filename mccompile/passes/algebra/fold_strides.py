"""Makes channels of the strides of lines, so that windows which lie a stride apart become windows of neighbours.

Worked example: 512 filters of 10 samples, five apart, over a line of 16,000, as networks begin that hear. Neighbours
of the result read samples that lie five apart. But of the line in five phases, they read neighbours of each:

    %y = conv(%x, %w) {strides=(5,), ..} : f32[1,512,3199]          %x : f32[1,1,16000]    %w : f32[512,1,10]

    %a = transpose(reshape(%x)) : f32[1,1,5,3200]                   phase p has the samples 5 i + p
    %y = conv(reshape(%a), %v) {strides=(1,), ..}                   of f32[1,5,3200] by %v : f32[512,5,2]
"""

from __future__ import annotations

import numpy as np

from mccompile.ir.graph import Graph
from mccompile.ops.conv import Conv
from mccompile.ops.pad import Pad
from mccompile.ops.reshape import Reshape
from mccompile.ops.slice import Slice
from mccompile.ops.transpose import Transpose
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.patterns import Any, Fail, Is, Match, Rule, apply_rules, not_floats_in_rows
from mccompile.targets.target import Target

ROUNDS = True

FEW = 2
"""Channels of a line: more are channels in vectors as they are."""


def run(graph: Graph, remarks: Remarks, target: Target) -> int:
    """Compute a convolution of a line of few channels that takes strides as one of the phases of the line that takes
    none. May change rounding: sums are taken in another order."""
    if not target.lanes or not target.spare_memory:
        remarks.miss("fold strides", f"target {target.name} has no vectors, or no memory to turn lines")
        return 0
    return apply_rules(graph, remarks, RULES)


def _check(m: Match) -> Fail | None:
    node, op, x, w = m.root, m.op(Conv), m.values["x"], m.values["w"]
    if len(op.strides) > 1 or op.strides == (1,) or not isinstance(m.r.graph.constants.get(w), np.ndarray):
        return Fail("")
    if refused := not_floats_in_rows(node, x, w, *node.results):
        return refused
    if x.shape[1] > FEW or op.groups > 1:
        return Fail("its channels fill vectors")
    if op.dilations != (1,) or w.shape[2] % op.strides[0]:
        return Fail("its windows are no whole strides")
    return None


def _rewrite(m: Match) -> None:
    r, node, op, x, w = m.r, m.root, m.op(Conv), m.values["x"], m.values["w"]
    (n, channels, length), stride, name = x.shape, op.strides[0], node.result.name
    taps = w.shape[2] // stride
    blocks = node.result.shape[2] - 1 + taps
    front, behind = op.pads[0], max(blocks * stride - op.pads[0] - length, 0)
    if front or behind:
        x = r.insert(node, Pad((0, 0, front, 0, 0, behind)), [x], f"{name}.padded")
    if x.shape[2] > blocks * stride:
        x = r.insert(node, Slice((0, 0, 0), (1, 1, 1), (n, channels, blocks * stride)), [x], f"{name}.covered")
    lines = r.insert(node, Reshape((n, channels, blocks, stride)), [x], f"{name}.blocks")
    turned = r.insert(node, Transpose((0, 1, 3, 2)), [lines], f"{name}.turned")
    phases = r.insert(node, Reshape((n, channels * stride, blocks)), [turned], f"{name}.phases")
    weights = r.graph.array(w).reshape(w.shape[0], channels, taps, stride).swapaxes(2, 3)
    known = r.graph.constant(f"{w.name}.phases", weights.reshape(w.shape[0], channels * stride, taps))
    node.op = Conv((1,), (0, 0), (1,))
    r.rewire(node, [phases, known])


RULES = (Rule("folded strides", Is(Conv, (Any("x"), Any("w")), "conv", plain=False), _check, _rewrite),)
