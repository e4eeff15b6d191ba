"""Makes matrix products of convolutions whose weights are computed when the network runs: what the window of each
place reads becomes a column (im2col), which kernels for products of two operands multiply by the weights as they lie.

Worked example: 8 filters of two channels by 3 x 3, and an image of 5 x 5 that is padded to 7 x 7:

    %y = conv(%x, %w) {pads=(1, 1, 1, 1), ..} with(%b) post0{ (acc + x0) } : f32[1,8,5,5]      %w : f32[8,2,3,3]

    %p = pad(%x) : f32[1,2,7,7]
    %a = reshape(slice(%p))  ..  %i = reshape(slice(%p))                 the pixels of each tap of all windows
    %c = reshape(concat(%a, .., %i) {axis=2}) : f32[1,18,25]             [channels * taps, places]
    %y = reshape(matmul(reshape(%w), %c) with(%b) post0{ (acc + x0) })   [8, 18] times [18, 25]
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.types import F32, Shape
from mccompile.ops.concat import Concat
from mccompile.ops.conv import Conv
from mccompile.ops.matmul import MatMul
from mccompile.ops.pad import Pad
from mccompile.ops.reshape import Reshape
from mccompile.ops.slice import Slice
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.patterns import Any, Fail, Is, Match, Rule, apply_rules, not_floats_in_rows
from mccompile.passes.rewrite.rewriter import Rewriter
from mccompile.targets.target import Target

ROUNDS = True

MOST_TAPS = 64
"""Of a window: each takes a step that copies its pixels."""
MOST_BYTES = 4 << 20
"""What columns may take in any case, and else `MOST_GROWTH` times what the convolution reads and writes."""
MOST_GROWTH = 16


def run(graph: Graph, remarks: Remarks, target: Target, kernels: Mapping[str, str]) -> int:
    """Compute a convolution by weights that are no constants as a product of two matrices, the second of which holds
    what windows read. May change rounding: sums are taken in another order."""
    if not target.lanes or not target.spare_memory:
        remarks.miss("im2col", f"target {target.name} has no vectors, or no memory for columns")
        return 0
    return apply_rules(graph, remarks, RULES, kernels)


def _check(m: Match) -> Fail | None:
    node, op, x, w = m.root, m.op(Conv), m.values["x"], m.values["w"]
    if is_known(m.r, w):
        return Fail("")
    if refused := not_floats_in_rows(node, x, w, *node.results):
        return refused
    if w.shape[1] == 1 and op.groups > 1:
        return Fail("each channel has its own filters")
    if any(_over_places(v, node.result.shape) is None for v in node.extras):
        return Fail("an operand of its epilogue is broadcast along some axes of places, not all")
    taps = math.prod(w.shape[2:])
    columns = x.shape[0] * x.shape[1] * taps * math.prod(node.result.shape[2:]) * F32.nbytes
    return too_large(taps, columns, x, w, node.result)


def is_known(r: Rewriter, w: Value) -> bool:
    """Whether weights are constants, or made of nothing else, as those are that stay in fewer bits."""
    maker = r.producer(w)
    return w in r.graph.constants or (maker is not None and all(v in r.graph.constants for v in maker.inputs))


def too_large(taps: int, columns: int, *beside: Value) -> Fail | None:
    """Whether windows of so many taps make columns of too many bytes for what a convolution reads and writes."""
    if taps > MOST_TAPS or columns > max(MOST_BYTES, MOST_GROWTH * sum(v.type.nbytes for v in beside)):
        return Fail(f"its windows have {taps} taps, and their columns take {columns} bytes")
    return None


def _rewrite(m: Match) -> None:
    r, node, op, x, w = m.r, m.root, m.op(Conv), m.values["x"], m.values["w"]
    result = node.result
    n, channels, places = result.shape[0], result.shape[1], math.prod(result.shape[2:])
    groups = () if op.groups == 1 else (op.groups,)
    steps = math.prod(w.shape[1:])
    columns = _columns(r, node, op, x, w.shape[2:])
    right = r.insert(node, Reshape((n, *groups, steps, places)), [columns], f"{result.name}.columns")
    left = r.insert(node, Reshape((*groups, channels // op.groups, steps)), [w], f"{result.name}.weights")
    extras = []
    for v in node.extras:
        shape = _over_places(v, result.shape)
        assert shape is not None
        if groups:
            shape = (shape[0], *((op.groups, channels // op.groups) if shape[1] > 1 else (1, 1)), shape[2])
        extras.append(r.insert(node, Reshape(shape), [v], f"{v.name}.rows"))
    product = Node(MatMul(), [left, right], [], extras, {}, dict(node.post), origins=node.origins)
    (found,) = r.insert_node(node, product, [f"{result.name}.product"])
    node.op, node.post = Reshape(result.shape), {}
    r.rewire(node, [found], [])


def _columns(r: Rewriter, node: Node, op: Conv, x: Value, kernel: Shape) -> Value:
    """What the windows read, [N, C, taps, places]."""
    result, rank = node.result, len(kernel)
    n, channels, places = x.shape[0], x.shape[1], result.shape[2:]
    if any(op.pads):
        pads = (0, 0, *op.pads[:rank], 0, 0, *op.pads[rank:])
        x = r.insert(node, Pad(pads), [x], f"{result.name}.padded")
    parts = []
    for i, tap in enumerate(np.ndindex(*kernel)):
        starts = (0, 0, *(t * d for t, d in zip(tap, op.dilations, strict=True)))
        part = Slice(starts, (1, 1, *op.strides), (n, channels, *places))
        pixels = x if x.shape == (n, channels, *places) else r.insert(node, part, [x], f"{result.name}.tap{i}")
        lines = Reshape((n, channels, 1, math.prod(places)))
        parts.append(r.insert(node, lines, [pixels], f"{result.name}.pixels{i}"))
    return r.insert(node, Concat(2), parts, f"{result.name}.windows") if len(parts) > 1 else parts[0]


def _over_places(v: Value, result: Shape) -> Shape | None:
    """An operand of the epilogue with one axis of places, [N, C, places]; None if these do not become one axis."""
    n, channels, *places = (1,) * (len(result) - v.type.rank) + v.shape
    if tuple(places) not in ((1,) * len(places), result[2:]):
        return None
    return n, channels, math.prod(places)


RULES = (Rule("made columns of windows", Is(Conv, (Any("x"), Any("w")), "conv", plain=False), _check, _rewrite),)
