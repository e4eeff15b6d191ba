"""Makes convolutions and pools over three spatial axes such over two: planes become a batch, for which there are
kernels with vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.types import F32, Shape
from mccompile.ops.concat import Concat
from mccompile.ops.conv import Conv
from mccompile.ops.pad import Pad
from mccompile.ops.pool import Pool
from mccompile.ops.reshape import Reshape
from mccompile.ops.slice import Slice
from mccompile.ops.transpose import Transpose
from mccompile.passes.analysis.analyses import Analyses
from mccompile.passes.analysis.steps import Steps, has_to_be_exact, stepped
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.rewriter import Rewriter
from mccompile.targets.target import Target

ROUNDS = True

_SWAP = (0, 2, 1, 3, 4)
"""From [N, C, D, H, W] to [N, D, C, H, W] and back; stored channels-last nothing moves."""


def run(graph: Graph, remarks: Remarks, target: Target, whole: Graph, analyses: Analyses) -> int:
    """Compute a convolution over D, H and W as one over H and W of D planes in a batch, each with the planes that its
    window reads as further channels; where it has one tap in each plane, as one over D and lines of H * W; a pool as
    one over H and W and one over D.

    The planes are copied once for each tap along D. May change rounding: sums are taken in another order.
    """
    if not target.lanes or not target.spare_memory:
        remarks.miss("flatten volumes", f"target {target.name} has no vectors, or no memory for copies of planes")
        return 0
    r = Rewriter(graph)
    steps = analyses.of_whole(whole, stepped)
    changes = 0
    for node in r.nodes():
        op = node.op
        if isinstance(op, Conv | Pool) and len(node.result.shape) == 5:
            what = f"flattened {node.where}"
            reason = _obstacle(graph, node, op, steps)
            if reason:
                remarks.miss(what, reason)
                continue
            if isinstance(op, Conv):
                rewrite = _deep if _has_one_tap(node, op) else _convolution
                rewrite(r, node, op)
            else:
                _pool(r, node, op)
            remarks.hit(what)
            changes += 1
    r.finish()
    return changes


def _obstacle(graph: Graph, node: Node, op: Conv | Pool, steps: Steps) -> str:
    """Why a node stays as it is; empty if it need not."""
    if node.pre or any(v.dtype != F32 or v.type.layout is not None for v in (*node.inputs, *node.results)):
        return "it has a prologue, is not in f32, or is not row-major"
    if isinstance(op, Conv):
        w = node.operands[1]
        if not isinstance(graph.constants.get(w), np.ndarray) if w is not None else True:
            return "its weights are no constants"
        flat_shape = _flat_shape
        if _has_one_tap(node, op):
            flat_shape = _deep_shape
        elif op.groups != 1 and w is not None and w.shape[2] != 1:
            return "it has groups"
        if any(flat_shape(v, node.result.shape) is None for v in node.extras):
            return "an operand of its epilogue is broadcast along one of two axes that become one"
    elif any(_padded(v)[0] != 1 or _padded(v)[2:] != (1, 1, 1) for v in node.extras):
        return "its epilogue reads more than a number of each channel"
    elif op.mode == "average" and has_to_be_exact(node, steps):
        return "a mean of means is rounded twice, and a step depends on it"
    return ""


def _padded(v: Value) -> Shape:
    return (1,) * (5 - v.type.rank) + v.shape


def _flat_shape(v: Value, result: Shape) -> Shape | None:
    """What an operand of an epilogue is over planes; None if its batch and planes do not become one axis."""
    n, c, d, h, w = _padded(v)
    alike = (n, d) == (1, 1) or (n, d) == (result[0], result[2])
    return (n * d, c, h, w) if alike else None


# -- convolutions of one tap in each plane -------------------------------------------------------------------------
def _has_one_tap(node: Node, op: Conv) -> bool:
    """Whether windows reach along D alone, and there over several planes."""
    w = node.inputs[1]
    still = w.shape[3:] == op.strides[1:] == (1, 1) and not any((*op.pads[1:3], *op.pads[4:]))
    return still and w.shape[2] > 1


def _deep_shape(v: Value, result: Shape) -> Shape | None:
    """What an operand of an epilogue is over lines of H * W; None if these two do not become one axis."""
    n, c, d, h, w = _padded(v)
    return (n, c, d, h * w) if (h, w) in ((1, 1), result[3:]) else None


def _deep(r: Rewriter, node: Node, op: Conv) -> None:
    x, w = node.operands
    assert x is not None
    assert w is not None
    name, result = node.result.name, node.result.shape
    lines = r.insert(node, Reshape((*x.shape[:3], x.shape[3] * x.shape[4])), [x], f"{name}.lines")
    weights = r.graph.constant(f"{w.name}.lines", r.graph.array(w).reshape(*w.shape[:3], 1))
    pads = (op.pads[0], 0, op.pads[3], 0)
    deep = Node(Conv((op.strides[0], 1), pads, (op.dilations[0], 1), op.groups), [lines, weights], [],
                origins=node.origins)  # fmt: skip
    for v in node.extras:
        shape = _deep_shape(v, result)
        assert shape is not None
        deep.extras.append(r.insert(node, Reshape(shape), [v], f"{v.name}.lines"))
    deep.post = dict(node.post)
    (found,) = r.insert_node(node, deep, [f"{name}.flat"])
    node.op, node.post = Reshape(result), {}
    r.rewire(node, [found], [])


# -- convolutions ------------------------------------------------------------------------------------------------
def _convolution(r: Rewriter, node: Node, op: Conv) -> None:
    x, w = node.operands
    assert x is not None
    assert w is not None
    depth, result = w.shape[2], node.result
    n, channels, planes = result.shape[:3]
    stacked = _stacked(r, node, x, op, depth)
    flat = r.insert(node, Reshape((n * planes, *stacked.shape[2:])), [stacked], f"{result.name}.planes")
    weights = r.graph.array(w).swapaxes(1, 2).reshape(w.shape[0], depth * w.shape[1], *w.shape[3:])
    plane_op = Conv(op.strides[1:], (*op.pads[1:3], *op.pads[4:]), op.dilations[1:], op.groups)
    found = r.insert(node, plane_op, [flat, r.graph.constant(f"{w.name}.planes", weights)], f"{result.name}.flat")
    maker = r.producer(found)
    assert maker is not None
    maker.post = dict(node.post)
    r.rewire(maker, extras=[_flat(r, node, v) for v in node.extras])
    _restore(r, node, found, (n, planes, channels, *result.shape[3:]))


def _stacked(r: Rewriter, node: Node, x: Value, op: Conv, depth: int) -> Value:
    """The operand as [N, planes of the result, depth * C, H, W]."""
    name, planes = node.result.name, node.result.shape[2]
    swapped = r.insert(node, Transpose(_SWAP), [x], f"{name}.swapped")
    front, back = op.pads[0], op.pads[3]
    if front or back:
        pads = (0, front, 0, 0, 0, 0, back, 0, 0, 0)
        swapped = r.insert(node, Pad(pads), [swapped], f"{name}.padded")
    parts = []
    for t in range(depth):
        start, step = t * op.dilations[0], op.strides[0]
        shape = (swapped.shape[0], planes, *swapped.shape[2:])
        if shape == swapped.shape:
            parts.append(swapped)
            continue
        part = Slice((0, start, 0, 0, 0), (1, step, 1, 1, 1), shape)
        parts.append(r.insert(node, part, [swapped], f"{name}.tap{t}"))
    return r.insert(node, Concat(2), parts, f"{name}.stacked") if len(parts) > 1 else parts[0]


def _flat(r: Rewriter, node: Node, v: Value) -> Value:
    """An operand of the epilogue over planes."""
    shape = _flat_shape(v, node.result.shape)
    assert shape is not None
    known = r.graph.constants.get(v)
    if isinstance(known, np.ndarray):
        return r.graph.constant(f"{v.name}.flat", known.reshape(_padded(v)).transpose(_SWAP).reshape(shape))
    whole = r.insert(node, Reshape(_padded(v)), [v], f"{v.name}.whole") if v.type.rank < 5 else v
    swapped = r.insert(node, Transpose(_SWAP), [whole], f"{v.name}.swapped")
    return r.insert(node, Reshape(shape), [swapped], f"{v.name}.flat")


def _restore(r: Rewriter, node: Node, flat: Value, shape: Sequence[int]) -> None:
    """Let a node make its result of [N * D, C, H, W]; ``shape`` is [N, D, C, H, W]."""
    swapped = r.insert(node, Reshape(tuple(shape)), [flat], f"{node.result.name}.swapped")
    node.op, node.post = Transpose(_SWAP), {}
    r.rewire(node, [swapped], [])


# -- pools -------------------------------------------------------------------------------------------------------
def _pool(r: Rewriter, node: Node, op: Pool) -> None:
    """First within the planes, then across them: a maximum of maxima; a mean of means, as windows are boxes."""
    x = node.operands[0]
    assert x is not None
    n, channels, depth = x.shape[:3]
    planes, height, width = node.result.shape[2:]
    swapped = r.insert(node, Transpose(_SWAP), [x], f"{node.result.name}.planes")
    flat = r.insert(node, Reshape((n * depth, *swapped.shape[2:])), [swapped], f"{node.result.name}.batch")
    within = replace(op, kernel=op.kernel[1:], strides=op.strides[1:], pads=(*op.pads[1:3], *op.pads[4:]),
                     dilations=op.dilations[1:])  # fmt: skip
    last = pooled = r.insert(node, within, [flat], f"{node.result.name}.within")
    alone = op.kernel[0] == op.strides[0] == 1 and not op.pads[0] and not op.pads[3]
    if not alone:
        lines = r.insert(node, Reshape((n, depth, channels, height * width)), [pooled], f"{node.result.name}.lines")
        turned = r.insert(node, Transpose((0, 2, 1, 3)), [lines], f"{node.result.name}.turned")
        last = r.insert(node, op.down(0), [turned], f"{node.result.name}.across")
    maker = r.producer(last)
    assert maker is not None
    maker.post = dict(node.post)
    flat_extras = [r.insert(node, Reshape((1, _padded(v)[1], 1, 1)), [v], f"{v.name}.flat") for v in node.extras]
    r.rewire(maker, extras=flat_extras)
    if alone:
        _restore(r, node, last, (n, planes, channels, height, width))
        return
    node.op, node.post = Reshape(node.result.shape), {}
    r.rewire(node, [last], [])
