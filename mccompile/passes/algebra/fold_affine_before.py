"""Folds scales and shifts into the weights of the convolutions and products that read them."""

from __future__ import annotations

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.dims import bound
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.scalar import Array
from mccompile.ops.pad import Pad
from mccompile.passes.algebra.fold_affine import (
    Affine,
    affine_map,
    constant_bias,
    loses_whole_numbers,
    rounded,
    unfit,
)
from mccompile.passes.analysis.absorption import FAR, ROUNDED, absorbs, shifted
from mccompile.passes.analysis.analyses import Analyses
from mccompile.passes.analysis.contraction import Contraction, contraction
from mccompile.passes.analysis.quotients import summed
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.rewriter import Rewriter

ROUNDS = True


def run(graph: Graph, remarks: Remarks, whole: Graph, analyses: Analyses) -> int:
    """Fold x * s + b before convolutions and matrix products into their weights and biases, through zero pads.

    May change rounding: weights are rounded once more, but whole ones where sums are rounded later. A shift does not
    pass zero padding, nor go into a transposed convolution, whose elements are sums of different numbers of taps; a
    scale does.
    """
    r = Rewriter(graph)
    scales: dict[Node, Array] = {}
    # From the end, so that of a scale and a shift in two maps the later one goes first.
    maps = [node for node in r.nodes() if node.op.elementwise is not None]
    asked = analyses.of_whole(whole, summed)
    changes = sum(_fold(r, node, asked, scales, remarks) for node in maps[::-1])
    r.finish()
    return changes


@dataclass(frozen=True)
class _Reader:
    """A node that reads what a map makes as ``value``: padded by zeros before, or by itself, or not at all."""

    node: Node
    value: Value
    padded: bool


def _is_product(node: Node) -> bool:
    return node.op.multilinear[:2] == (0, 1)


@np.errstate(over="ignore", invalid="ignore")  # what is not finite is refused
def _fold(r: Rewriter, node: Node, asked: set[Value], scales: dict[Node, Array], remarks: Remarks) -> int:
    """Fold one map, if nothing stands against it. ``asked``: what is summed before a step; ``scales``: what weights
    of products have been multiplied by already."""
    variable = [v for v in dict.fromkeys(node.operands) if v is not None and v not in r.graph.constants]
    if len(variable) != 1 or node.pre or node.post:
        return 0
    readers = _readers(r, node.result)
    if not readers or not all(_is_product(reader.node) for reader in readers):
        return 0
    affine = affine_map(r.graph, node, variable[0])
    if affine is None:
        return 0
    what = f"folded {node.where} into the weights of {', '.join(reader.node.where for reader in readers)}"
    reason = _obstacle(r, node, variable[0], affine, readers, scales)
    folded: list[tuple[Array | None, Array | None]] = []
    for reader in readers if not reason else ():
        weights, bias, rounded_away = _folded(r.graph, reader.node, affine)
        folded.append((weights, bias))
        reason = reason or (ROUNDED if rounded_away else unfit(node.result.dtype, weights, bias))
        if node.result in asked and loses_whole_numbers(r.graph, reader.node, weights):
            reason = reason or "sums of whole numbers would be rounded before a step"
    if reason:
        remarks.miss(what, reason)
        return 0
    for reader, (weights, bias) in zip(readers, folded, strict=True):
        _rewrite(r, reader.node, weights, bias)
        if affine.scale is not None:
            scales[reader.node] = scales.get(reader.node, 1.0) * np.abs(affine.scale)
        reader.node.origins = tuple(dict.fromkeys(reader.node.origins + node.origins))
    r.replace(node.result, variable[0])
    r.erase(node)
    remarks.hit(what)
    return 1


def _readers(r: Rewriter, value: Value) -> list[_Reader]:
    """Who reads a value, or what zeros are put around; a pad itself where others than products see its result."""
    found: list[_Reader] = []
    for user in r.users(value):
        behind = _behind_pad(r, user)
        if behind is None:
            found.append(_Reader(user, value, _is_padded(user)))
        else:
            found += [_Reader(reader.node, reader.value, True) for reader in behind]
    return found


def _behind_pad(r: Rewriter, user: Node) -> list[_Reader] | None:
    """The products that read what a node puts zeros around; None if it does not, or others see the zeros, too. What
    is a channel to a product is none before zeros are put beside channels."""
    op = user.op
    if not isinstance(op, Pad) or op.mode != "constant" or op.value != 0 or user.pre or user.post:
        return None
    if r.is_output(user.result):
        return None
    readers = _readers(r, user.result)
    for reader in readers:
        found = contraction(reader.node)
        if found is None or any(map(bound, op.pads[found.operand.axis :: user.result.type.rank])):
            return None
    return readers


def _is_padded(node: Node) -> bool:
    found = contraction(node)
    return found is not None and found.padded


def _obstacle(
    r: Rewriter, node: Node, source: Value, affine: Affine, readers: list[_Reader], scales: dict[Node, Array]
) -> str:
    """Why a map stays; empty if it need not. ``scales``: what each product multiplies its result by besides."""
    value = node.result
    if r.is_output(value):
        return "its result is an output"
    if source.type != value.type or value.dtype.kind != "f" or value.dtype.name == "f16":
        return f"{source.type} to {value.type} is more than a scale and a shift"
    producer = r.producer(source)
    if producer is not None and _is_product(producer) and r.is_private(source):
        return "it belongs to what comes before it"
    for reader in readers:
        reason = _reader_obstacle(r, value, reader, affine, readers)
        if reason:
            return reason
        found = contraction(reader.node)
        if affine.shift is None or not np.any(affine.shift != 0):
            continue
        weights, shift = reader.node.operands[1], affine.shift * scales.get(reader.node, 1.0)
        assert found is not None
        assert weights is not None
        if shifted(r.graph.array(weights), found, shift) > FAR:
            return "the shift is so large that what it leaves would be rounded"
        if found.scattered:
            return "the shift reaches each element of the result by other weights"
        if reader.padded:
            return "zero padding comes between the shift and a convolution"
    return ""


def _reader_obstacle(r: Rewriter, value: Value, reader: _Reader, affine: Affine, readers: list[_Reader]) -> str:
    node = reader.node
    weights = node.operands[1]
    if weights is None or weights not in r.graph.constants:
        return "the weights are no constant"
    if node.pre or node.operands[0] is not reader.value or node.inputs.count(reader.value) > 1:
        return "a reader needs the value itself"
    if any(_placed(node, part) is None for part in (affine.scale, affine.shift) if part is not None):
        return "it does not vary by input channel alone"
    known = [reader.node for reader in readers]
    others = [n for n in r.users(weights) if n not in known]
    if affine.scale is not None and others and weights.type.nbytes > value.type.nbytes:
        return "the weights are shared with another node, a copy of them is larger than what it saves"
    return ""


def _folded(graph: Graph, reader: Node, affine: Affine) -> tuple[Array | None, Array | None, bool]:
    """(weights, bias) of a reader after folding, float64; None where they stay as they are. And whether what the bias
    was is so large, or what is added to it, that the other one would be rounded."""
    w = reader.operands[1]
    assert w is not None
    weights, found = graph.array(w).astype(np.float64), contraction(reader)
    assert found is not None
    scaled = None if affine.scale is None else _times(weights, found, affine.scale)
    if affine.shift is None or found.scattered:  # whose shift is 0
        return scaled, None, False
    moved, side = _times(weights, found, affine.shift), found.result
    total = moved.sum(tuple(a for a in range(moved.ndim) if a != side.weights))
    total = total.reshape(-1, *(1,) * (side.rank - 1 - side.axis))
    bias = constant_bias(graph, reader)
    return scaled, total if bias is None else total + bias, absorbs(bias, total)


def _times(weights: Array, found: Contraction, part: Array) -> Array:
    factor = found.operand.factor(part)
    assert factor is not None
    return np.asarray(weights * factor)


def _placed(reader: Node, part: Array) -> Array | None:
    """Numbers per input channel in a shape that multiplies the weights, None if they vary along other axes."""
    found = contraction(reader)
    return None if found is None else found.operand.factor(part)


def _rewrite(r: Rewriter, reader: Node, weights: Array | None, bias: Array | None) -> None:
    old, dtype = reader.operands[1], reader.result.dtype
    assert old is not None
    operands, extras = list(reader.operands), list(reader.extras)
    if weights is not None:
        operands[1] = r.graph.constant(f"{old.name}.scaled", rounded(weights, old.dtype))
    if bias is not None:
        if constant_bias(r.graph, reader) is not None:  # it is part of the new one
            extras, reader.post = [], {}
        moved = ex.apply("add", ex.acc(dtype), ex.var(len(extras), dtype))
        body = reader.post.get(0, ex.acc(dtype))
        reader.post = {0: ex.substitute(body, lambda v: moved if v.index == ex.ACC else v)}
        extras.append(r.graph.constant(f"{old.name}.bias", rounded(bias, dtype)))
    r.rewire(reader, operands, extras)
