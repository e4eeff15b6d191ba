"""Lets recurrent weights stay the bytes that the network has: less flash, less memory to read at every step.

Worked example: zero point 3, and a scale for each of two units, which multiplies the weights as they are read::

    %v = map(%r, %s) {expr={((f32(x0) - 3) * x1)}} : f32[2,2]         %r of i8, %s : f32[2,1]
    %y = rnn(%x, %v) {...}
    %y = rnn(%x, %r.real) {...} with(%r.scale) pre1{ (f32(acc) * x0) }     %r.real : i8[2,2], 3 less than %r
"""

from __future__ import annotations

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.scalar import Array
from mccompile.ir.types import F32
from mccompile.kernels.model.widening import WIDENED
from mccompile.passes.analysis.quantised import Quantised
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.dequantised import constants_read_by
from mccompile.passes.rewrite.rewriter import Rewriter


def run(graph: Graph, remarks: Remarks) -> int:
    """Read recurrent weights as bytes, where all readers of dequantised constants are such cells."""
    r = Rewriter(graph)
    changes = 0
    for found, readers, said in constants_read_by(r, remarks, "kept the recurrent weights {} as bytes", _obstacle):
        for reader in readers:
            _rewrite(r, reader, found)
            remarks.hit(f"{said} in {reader.where}")
        changes += len(readers)
    r.finish()
    return changes


def _obstacle(r: Rewriter, reader: Node, value: Value, found: Quantised) -> str:
    at = reader.op.weights
    if at is None or reader.op.multilinear or reader.operands[at] is not value or value.type.rank != 2:
        return f"{reader.where} is no recurrent cell"
    others = [v for i, v in enumerate(reader.operands) if i != at]
    if value in r.graph.outputs or value in (*others, *reader.extras):
        return "the floats are needed elsewhere"
    if at in reader.pre or reader.extras or reader.results[0].dtype != F32:
        return "something is computed of them already, or the states are not of f32"
    if any(a.size > 1 and (a.ndim != 2 or a.shape[1] != 1) for a in (found.scale, found.zero)):
        return "a scale or zero point varies along an axis that is summed over"
    return "" if _bytes_of(r.graph, found) is not None else "they are no bytes, or not with their zero points"


def _bytes_of(graph: Graph, found: Quantised) -> Array | None:
    """The whole numbers that the weights stand for, where 8 bits hold them."""
    whole = graph.array(found.integers).astype(np.int64) - found.zero
    fits = [t for t in (np.int8, np.uint8) if np.iinfo(t).min <= whole.min() and whole.max() <= np.iinfo(t).max]
    return whole.astype(fits[0]) if found.integers.dtype.nbytes == 1 and whole.size and fits else None


def _rewrite(r: Rewriter, reader: Node, found: Quantised) -> None:
    graph, at, name = r.graph, reader.op.weights, found.integers.name
    whole = _bytes_of(graph, found)
    assert at is not None
    assert whole is not None
    integers = found.integers
    if found.zero.any() or whole.dtype != integers.dtype.numpy:
        integers = graph.constant(f"{name}.real", np.ascontiguousarray(whole))
    rows = np.broadcast_to(found.scale.astype(np.float32), (whole.shape[0], 1))
    scale = graph.constant(f"{name}.scale", np.ascontiguousarray(rows))
    reader.pre[at] = ex.apply("mul", WIDENED[integers.dtype.name][1], ex.var(0, F32))
    r.rewire(reader, [*reader.operands[:at], integers, *reader.operands[at + 1 :]], [scale])
