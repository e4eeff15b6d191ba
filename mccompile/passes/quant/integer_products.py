"""Turns products of dequantised operands into sums of integers, which are scaled once, at the end.

Worked example: (q - 3) * 0.5 times (w - 0) * 0.25, summed over K places, is 0.125 times the sum of (q - 3) * w. The
zero points stay prologues, so that padding is zero as before; the scales are a factor of the epilogue::

    %x = map(%q) {expr={(f32((i32(x0) - i32(3))) * 0.5)}}
    %y = conv(%x, %f) {...} : f32                            %f likewise, of %w
    %y = conv(%q, %w) {...} pre0{ (i32(acc) - i32(3)) } pre1{ i32(acc) } post0{ (f32(acc) * 0.125) } : f32

Where a target with vectors has no kernels for such integers, floats are multiplied, but still whole ones: sums below
2^24 are the same to the last bit::

    %x = map(%q) {expr={f32((i32(x0) - i32(3)))}}
    %f = map(%w) {expr={f32(i32(x0))}}
    %y = conv(%x, %f) {...} post0{ (acc * 0.125) } : f32
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.dims import bound
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.scalar import Array, uniform
from mccompile.ir.types import F32, I32, I64, DType
from mccompile.kernels.conv.covered import not_covered
from mccompile.ops.map import Map
from mccompile.passes.analysis.quantised import Quantised, followed, quantised
from mccompile.passes.analysis.sums import by_channel, terms
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.rewriter import Rewriter
from mccompile.targets.target import Target

ROUNDS = True
"""A sum of integers is exact; the sum of floats that it replaces is not."""


def run(graph: Graph, remarks: Remarks, target: Target) -> int:
    """Multiply and add the integers of dequantised operands; scale sums in the epilogue. Changes rounding only."""
    r = Rewriter(graph)
    changes = 0
    for node in r.nodes():
        if len(node.op.multilinear) != 2 or node.pre or any(v is None for v in node.operands):
            continue
        what = f"made {node.where} a product of integers"
        reals = [quantised(graph, r.producer(v)) for v in node.operands]
        if not any(reals):
            continue
        found = _obstacle(graph, node, reals, target)
        if isinstance(found, str):
            remarks.miss(what, found)
            continue
        pair, scales, sums = found
        x, w = (q.integers for q in pair)
        reason = not_covered(node, (x.type, w.type), sums, w in graph.constants, target)
        _rewrite(r, node, pair, scales, F32 if reason else sums)
        if reason:
            remarks.miss(what, reason)
        else:
            remarks.hit(what)
        changes += 1
    r.finish()
    return changes


def _obstacle(
    graph: Graph, node: Node, reals: Sequence[Quantised | None], target: Target
) -> tuple[list[Quantised], list[Array], DType] | str:
    """The operands, their scales for the sum, and the type that it fits; or why there is no sum of integers."""
    pair = [q for q in reals if q is not None]
    if len(pair) < 2:
        return f"operand {list(reals).index(None)} is not quantised"
    if any(q.integers.dtype.nbytes > 2 for q in pair):
        return "integers of more than 16 bits would overflow"
    if node.result.dtype != F32:
        return f"its result is {node.result.dtype}"
    nests = node.op.structure(node.operand_types())
    if len(nests) != 1:
        return "what it reads is not known"
    found = [followed(nests[0], i, q.scale, node.result.shape) for i, q in enumerate(pair)]
    scales = [s.astype(np.float32) for s in found if s is not None]
    if len(scales) < len(found):
        return "a scale varies along an axis that is summed over"
    if target.requant != "tflite":  # there, the product of scales is not rounded
        with np.errstate(over="ignore"):
            together = scales[0] * scales[1]
        least = np.finfo(np.float32).tiny
        if not np.isfinite(together).all() or np.abs(together).max(initial=0) < least:
            return "the product of its scales has no normal number of f32"
        if (np.abs(together) >= least).all():  # else some channels would lose bits
            scales = [together]
    limit = _largest_sum(graph, node, pair)
    if float(bound(limit)) * np.abs(scales[0].astype(np.float64)).max(initial=0) > np.finfo(np.float32).max:
        return "its sum, scaled, has no number of f32"  # by the first of two scales, though not by both
    return pair, scales, I32 if bound(limit) < 2**31 else I64


def _largest_sum(graph: Graph, node: Node, pair: Sequence[Quantised]) -> int:
    """A bound of every partial sum, in any order: by the weights where they are known, else by what types hold."""
    sizes = [_sizes(graph, q) for q in pair]
    weights = graph.constants.get(pair[1].integers)
    (nest,) = node.op.structure(node.operand_types())
    rows = None
    if isinstance(weights, np.ndarray):
        rows = by_channel(nest, np.abs(weights.astype(np.int64) - pair[1].zero))
    return terms(node) * sizes[0] * sizes[1] if rows is None else int(rows[0].sum(1).max(initial=0)) * sizes[0]


def _sizes(graph: Graph, q: Quantised) -> int:
    """The largest |integer - zero|."""
    array = graph.constants.get(q.integers)
    if isinstance(array, np.ndarray):
        return int(np.abs(array.astype(np.int64) - q.zero).max(initial=0))
    info = np.iinfo(q.integers.dtype.numpy.name)
    return int(max(np.abs(info.max - q.zero).max(), np.abs(info.min - q.zero).max()))


def _rewrite(r: Rewriter, node: Node, pair: Sequence[Quantised], scales: Sequence[Array], sums: DType) -> None:
    """Give a node integers as operands; its sum is multiplied by each of ``scales`` at the end."""
    graph = r.graph
    extras: list[Value] = []
    post = ex.substitute(node.post.get(0, ex.acc(F32)), lambda v: v if v.index == ex.ACC else _kept(node, extras, v))
    scaled: ex.Expr = ex.convert(ex.acc(sums), F32) if sums != F32 else ex.acc(F32)
    for scale in scales:
        factor = _operand(graph, extras, scale, F32, f"{node.result.name}.scale")
        scaled = ex.apply("mul", scaled, factor)
    node.post = {0: ex.substitute(post, lambda v: scaled if v.index == ex.ACC else v)}
    if sums == F32:
        r.rewire(node, [_whole_floats(r, node, q) for q in pair], extras)
        return
    for i, q in enumerate(pair):
        body = ex.convert(ex.acc(q.integers.dtype), sums)
        if q.zero.any():
            zero = _operand(graph, extras, q.zero, sums, f"{q.integers.name}.zero")
            body = ex.apply("sub", body, zero)
        node.pre[i] = body
    r.rewire(node, [q.integers for q in pair], extras)


def _whole_floats(r: Rewriter, node: Node, q: Quantised) -> Value:
    """Integers less their zero points as floats; exact, for they have 17 bits at most."""
    operands: list[Value] = [q.integers]
    body = ex.convert(ex.var(0, q.integers.dtype), I32)
    if q.zero.any():
        body = ex.apply("sub", body, _operand(r.graph, operands, q.zero, I32, f"{q.integers.name}.zero"))
    return r.insert(node, Map(ex.convert(body, F32)), operands, f"{q.integers.name}.whole")


def _kept(node: Node, extras: list[Value], v: ex.Var) -> ex.Expr:
    value = node.extras[v.index]
    if value not in extras:
        extras.append(value)
    return ex.var(extras.index(value), v.dtype)


def _operand(graph: Graph, extras: list[Value], array: Array, dtype: DType, name: str) -> ex.Expr:
    """An array as an expression: a number if it is one, else one more extra operand."""
    if uniform(array):
        return ex.num(array.flat[0], dtype)
    extras.append(graph.constant(name, array.astype(dtype.numpy)))
    return ex.var(len(extras) - 1, dtype)
