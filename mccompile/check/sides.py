"""What a network may give where sums of floats are ties: they fall to either side, as they are added up in another
order or precision.

Worked example: 50, 75 and 125 by the weight 0.01 are 2.5 in steps of 1, which is a tie. In float32 the sum is 2.5 or
2.4999998, by the order, and so it is in float64: that the two agree says nothing of what the C gives. Where operands
are 2^-21 more in one evaluation and 2^-21 less in another, the one gives 3, the other 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from mccompile.check.branches import computed
from mccompile.ir.graph import Graph, Node, Value, typed

Array = np.ndarray[Any, np.dtype[Any]]

NUDGE = 2.0**-21
"""By what part of them operands are changed: 8 units in the last place of a float32, as sums of many are off."""

DRAWS = 2
"""How many changes, each of them both ways: one may leave a sum nearly as it was, and then it does so both ways."""

MORE_DRAWS = 12
"""As many where these do not do: each layer of many falls to sides of its own, and so does all that follows."""


def sides(
    graph: Graph, inputs: Mapping[str, Array], extents: Mapping[str, int], draws: int = DRAWS
) -> Iterator[dict[str, Array]]:
    """The outputs by name, of evaluations in float64: as it is, and with operands of sums a little changed."""
    yield graph.evaluate(inputs, wide=True, extents=extents)
    for draw in range(draws):
        for nudge in (NUDGE, -NUDGE):
            yield _nudged(graph, inputs, extents, draw, nudge)


def _nudged(
    graph: Graph, inputs: Mapping[str, Array], extents: Mapping[str, int], draw: int, nudge: float
) -> dict[str, Array]:
    rng = np.random.default_rng([draw, 5])
    values = {v: typed(inputs[v.name], v.dtype, wide=True) for v in graph.inputs}
    for step in computed(graph, values, lambda g, v: typed(g.array(v), v.dtype, wide=True)):
        node = step.node
        if step.taken is not None:
            values.update(zip(node.results, (values[v] for v in step.taken), strict=True))
            continue
        known = step.graph.known_at(node, values, extents)
        operands = {**values, **_changed(node, values, rng, nudge)} if _adds_up(node) else values
        values.update(zip(node.results, node.evaluate(operands, wide=True, extents=known), strict=True))
    return {v.name: values[v] for v in graph.outputs}


def _adds_up(node: Node) -> bool:
    """Whether a node may add numbers up. Those of a loop's body stay as they are."""
    return node.op.elementwise is None and not node.op.hands_on and not node.regions


def _changed(
    node: Node, values: Mapping[Value, Array], rng: np.random.Generator, nudge: float
) -> dict[Value, Array]:
    """The operands that are floats, each element more or less by a part of it."""
    floats = dict.fromkeys(v for v in node.operands if v is not None and v.dtype.is_float)
    return {v: values[v] * (1 + nudge * rng.choice([-1.0, 1.0], values[v].shape)) for v in floats}
