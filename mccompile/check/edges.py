"""Numbers that few random draws have: what decides at ties, is cut off, has a sign, or lies far back in a table.

    f32  0.31, -1.27, 0.61, 0.84   ->  0.5, -12.7, 0.5, 0.84     halves, of which many are equal, and some far out
    u8   12, 90, 3                 ->  201, 90, 255              all that the type holds
    i64  0, 1, 1, of 99 words      ->  57, -3, 98                places of the table that they are read for
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from mccompile.ir.dims import varies
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ops.gather import Gather
from mccompile.run.memory import Array

MOST = 20
"""Whole numbers of 32 and 64 bits of which nothing but numbers are made are drawn up to this, of either sign."""


def with_edges(graph: Graph, inputs: Mapping[str, Array], seed: int) -> dict[str, Array]:
    """What is drawn for the inputs of a graph, with such numbers among it; text and booleans stay as they are."""
    users, counted = graph.users(), set(graph.counts.values())
    found = dict(inputs)
    for i, v in enumerate(graph.fed):
        rng, drawn = np.random.default_rng([seed, 4, i]), inputs[v.name]
        if v.dtype.kind in "iu":
            reach = _reach(v, users, counted)
            found[v.name] = rng.integers(reach.start, reach.stop, drawn.shape).astype(drawn.dtype)
        elif v.dtype.is_float:
            kind = rng.integers(0, 8, drawn.shape)
            edged = np.where(kind < 5, np.rint(drawn * 2) / 2, np.where(kind == 5, drawn * 10, drawn))
            found[v.name] = edged.astype(drawn.dtype)
    return found


def _reach(v: Value, users: Mapping[Value, Sequence[Node]], counted: Collection[Value]) -> range:
    """The whole numbers that an input may be. Wide ones are 0 or 1 if more is known of none of their readers: they
    may be indices, lengths or masks."""
    if v.dtype.nbytes <= 2:
        info = np.iinfo(v.dtype.numpy.name)
        return range(info.min, info.max + 1)
    signed = v.dtype.kind == "i"
    rows = _rows(v, users.get(v, ()))
    if rows:
        return range(-rows if signed else 0, rows)
    return range(-MOST if signed else 0, MOST + 1) if _only_numbers(v, users, counted) else range(2)


def _rows(v: Value, readers: Sequence[Node]) -> int:
    """How long the shortest table is that is read at these places; 0 where something else is made of them."""
    tables = [(n.operands[0], n.op.axis) for n in readers if isinstance(n.op, Gather) and v not in n.operands[:1]]
    extents = [table.shape[axis] for table, axis in tables if table is not None]
    return 0 if len(tables) < len(readers) or varies(extents) else min(extents, default=0)


def _only_numbers(v: Value, users: Mapping[Value, Sequence[Node]], counted: Collection[Value]) -> bool:
    """Whether all that is made of it is made element by element, until it is no whole number any more; no extents."""
    made = [v]
    for number in made:
        readers = users.get(number, ())
        if number in counted or any(node.regions or node.op.elementwise is None for node in readers):
            return False
        made += [r for node in readers for r in node.results if r.dtype.kind in "iu" and r not in made]
    return True
