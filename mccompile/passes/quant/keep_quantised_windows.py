"""Lets weights of convolutions over floats stay the whole numbers that the network has: less flash.

Worked example: one scale for each of two output channels, which the epilogue has in its place::

    %v = map(%w, %s) {expr={(f32(x0) * x1)}} : f32[2,3,3,3]           %w of i8, %s : f32[2,1,1,1]
    %y = conv(%x, %v) {...} with(%b) post0{ (acc + x0) }
    %y = conv(%x, %w) {...} with(%b, %t) pre1{ f32(acc) } post0{ ((acc * x1) + x0) }      %t : f32[1,2,1,1]

Kernels of floats load bytes that are the numbers themselves (`mccompile/kernels/model/widening.py`): weights less
their zero point are bytes too, most of the time. Where they take nine bits, or two have room in a byte, weights are
constants of floats for vectors that are whole numbers, which lowering stores as bytes and widens in the arena
(`mccompile/lower/widened.py`). Microcontrollers that compute floats have no room for that: nine bits are stored as
bfloat16 there, which has all whole numbers up to 256.
"""

from __future__ import annotations

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.scalar import Array, uniform
from mccompile.ir.small_floats import bf16_bits
from mccompile.ir.types import F32, I8, U8, DType
from mccompile.kernels.model.widening import LEAST, WIDENED
from mccompile.passes.analysis.quantised import Quantised, followed
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.dequantised import constants_read_by
from mccompile.passes.rewrite.rewriter import Rewriter
from mccompile.targets.target import Target

ROUNDS = True
"""Scales are multiplied with sums instead of weights."""

BF16_WHOLE = 256
"""bfloat16 has all whole numbers up to this one."""


def run(graph: Graph, remarks: Remarks, target: Target) -> int:
    """Convolve floats by weights that stay integers, where all readers of dequantised constants are convolutions."""
    r = Rewriter(graph)
    changes = 0
    what = "kept the weights {} of windows as integers"
    for found, readers, said in constants_read_by(r, remarks, what, obstacle):
        for reader in readers:
            _rewrite(r, reader, found, target)
            remarks.hit(f"{said} in {reader.where}")
        changes += len(readers)
    r.finish()
    return changes


def obstacle(r: Rewriter, reader: Node, value: Value, found: Quantised) -> str:
    """Why a reader of dequantised weights cannot take the integers; empty if it can."""
    if reader.op.weight_axes is not None or len(reader.op.multilinear) != 2 or len(reader.operands) != 2:
        return f"{reader.where} is no convolution"
    if value in r.graph.outputs or reader.operands[1] is not value or value in (reader.operands[0], *reader.extras):
        return "the floats are needed elsewhere"
    if found.integers.dtype.name not in ("i8", "u8") or reader.pre or reader.results[0].dtype != F32:
        return "they are no bytes, or the convolution is not of floats"
    if _scale_of_result(reader, found) is None:
        return "a scale varies along an axis that is summed over"
    return ""


def _whole(found: Quantised, graph: Graph) -> Array:
    """The weights less their zero points."""
    return graph.array(found.integers).astype(np.int64) - found.zero.astype(np.int64)


def _of_a_byte(whole: Array) -> DType | None:
    """The type of bytes that has all of these numbers."""
    least, most = int(whole.min(initial=0)), int(whole.max(initial=0))
    limits = {t: np.iinfo(t.numpy.name) for t in (I8, U8)}
    return next((t for t, has in limits.items() if has.min <= least and most <= has.max), None)


def _in_arena(found: Quantised, whole: Array) -> bool:
    """Whether vectors cannot load the numbers as bytes, or half the bytes are worth a step that widens them."""
    spread = int(whole.max(initial=0)) - int(whole.min(initial=0))
    halves = spread < 16 and whole.size >= LEAST and whole.size % 2 == 0
    return halves or (bool(found.zero.any()) and _of_a_byte(whole) is None)


def _without_zero(graph: Graph, whole: Array, name: str, target: Target) -> tuple[Value, ex.Expr] | None:
    """Weights less their zero points in few bits, and the floats that they are then, where kernels load those."""
    byte = _of_a_byte(whole)
    if byte is not None:
        return graph.constant(name, whole.astype(byte.numpy)), ex.convert(ex.acc(byte), F32)
    if target.lanes != 1 or np.abs(whole).max() > BF16_WHOLE:
        return None
    return graph.constant(name, bf16_bits(whole.astype(np.float32))), WIDENED["bf16"][1]


def _scale_of_result(reader: Node, found: Quantised) -> Array | None:
    """The scales as factors of the result; None where they vary along what is summed over."""
    nests = reader.op.structure(reader.operand_types())
    return followed(nests[0], 1, found.scale, reader.result.shape) if len(nests) == 1 else None


def _rewrite(r: Rewriter, reader: Node, found: Quantised, target: Target) -> None:
    graph, extras, weights = r.graph, list(reader.extras), found.integers
    outside = _scale_of_result(reader, found)
    assert outside is not None
    whole, name = _whole(found, graph), f"{weights.name}.whole"
    if target.lanes > 1 and _in_arena(found, whole):
        weights = graph.constant(name, np.ascontiguousarray(whole.astype(np.float32)))
    else:
        body: ex.Expr = ex.convert(ex.acc(weights.dtype), F32)
        if found.zero.any():
            stored = _without_zero(graph, whole, name, target)
            if stored is not None:
                weights, body = stored
            else:
                body = ex.apply("sub", body, _operand(graph, extras, found.zero, f"{weights.name}.zero"))
        reader.pre[1] = body
    scaled = ex.apply("mul", ex.acc(F32), _operand(graph, extras, outside, f"{found.integers.name}.scale"))
    post = reader.post.get(0, ex.acc(F32))
    reader.post = {0: ex.substitute(post, lambda v: scaled if v.index == ex.ACC else v)}
    r.rewire(reader, [reader.operands[0], weights], extras)


def _operand(graph: Graph, extras: list[Value], array: Array, name: str) -> ex.Expr:
    """An array as an expression: a number if it is one, else one more extra operand."""
    if uniform(array):
        return ex.num(array.flat[0].item(), F32)
    extras.append(graph.constant(name, array.astype(np.float32)))
    return ex.var(len(extras) - 1, F32)
