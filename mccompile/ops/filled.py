"""Tensors of one number in each place, whose extents the run may say.

    f32[3,2] of 1.0                            is      a constant
    f32[n,2] of 1.0, where n is 1 .. 7         is      Expand of f32[1,1], which is 1.0, to [n,2]
    f32[n,0], of no place in any run           is      Empty, of which the extents are known

An array of numpy has one extent: that of the longest run, were it asked for n.
"""

from __future__ import annotations

import math

import numpy as np

from mccompile.ir.dims import varies
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.scalar import Array
from mccompile.ir.types import DType
from mccompile.ops.empty import Empty
from mccompile.ops.expand import Expand
from mccompile.ops.frontend import Import
from mccompile.ops.map import Map
from mccompile.ops.movement import Movement

FEW_STEPS = 8
"""So many nodes are looked at between a constant and what repeats it."""


def filled(n: Import, number: float, dtype: DType, shape: tuple[int, ...], suffix: str) -> Value:
    """A tensor of ``shape`` with ``number`` in each place; a constant if no run says what its extents are."""
    if not varies(shape):
        return n.constant(suffix, np.full(shape, number, dtype.numpy))
    if math.prod(shape) == 0:
        return n.inner(Empty(dtype.name, shape), [], suffix)
    one = n.constant(f"{suffix}.one", np.full((1,) * len(shape), number, dtype.numpy))
    return n.inner(Expand(shape), [one], suffix)


def repeated(graph: Graph, x: Value) -> Array | None:
    """The number, as an array of no axes, that is in each place of ``x``; None where that is not found."""
    return _repeated(graph, x, graph.producers(), FEW_STEPS)


def _repeated(graph: Graph, x: Value, producers: dict[Value, Node], left: int) -> Array | None:
    if x in graph.constants:
        array = graph.array(x)
        first = array.reshape(-1)[:1].reshape(()) if array.size else None
        return None if first is None or array.tobytes() != first.tobytes() * array.size else first  # 0.0 is not -0.0
    node = producers.get(x)
    if node is None or not left or node.pre or node.post:
        return None
    reads_all = isinstance(node.op, Map) or (isinstance(node.op, Movement) and node.op.background is None)
    if not reads_all and not (node.op.selects and x is node.results[0]):
        return None
    found: list[Array] = []
    for value in node.inputs if reads_all else node.inputs[:1]:
        known = _repeated(graph, value, producers, left - 1)
        if known is None:
            return None
        found.append(known)
    if isinstance(node.op, Map):
        return node.op.evaluate(*found)[0].astype(x.dtype.numpy)
    return found[0] if len({(a.dtype, a.tobytes()) for a in found}) == 1 else None
