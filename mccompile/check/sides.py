"""What a network may give where sums of floats are ties: they fall to either side, as they are added up in another
order or precision.

Worked example: 50, 75 and 125 by the weight 0.01 are 2.5 in steps of 1, which is a tie. In float32 the sum is 2.5 or
2.4999998, by the order, and so it is in float64: that the two agree says nothing of what the C gives. Where operands
are 2^-21 more in one evaluation and 2^-21 less in another, the one gives 3, the other 2.

So are functions of the C library, whose last places are not those of numpy: the largest tanh of a tensor is what the
scale of all is made of, so that its last place may decide ties.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from typing import Any

import numpy as np

from mccompile.check.branches import Computed, computed
from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value, typed
from mccompile.passes.rewrite.bodies import calls_library

Array = np.ndarray[Any, np.dtype[Any]]

NUDGE = 2.0**-21
"""By what part of them operands are changed, and what functions give: 8 units in the last place of a float32, as sums
of many are off."""

DRAWS = 2
"""How many changes, each of them both ways: one may leave a sum nearly as it was, and then it does so both ways."""

MORE_DRAWS = 12
"""As many where these do not do: each layer of many falls to sides of its own, and so does all that follows."""


def sides(
    graph: Graph, inputs: Mapping[str, Array], extents: Mapping[str, int], draws: int = DRAWS
) -> Iterator[dict[str, Array]]:
    """The outputs by name, of evaluations in float64: as it is, and with operands of sums a little changed."""
    plain = {v: typed(inputs[v.name], v.dtype, wide=True) for v in graph.inputs}
    for step in computed(graph, plain, _wide):
        _hand_on(step, plain)
        if step.taken is None:
            known = step.graph.known_at(step.node, plain, extents)
            plain.update(zip(step.node.results, step.node.evaluate(plain, wide=True, extents=known), strict=True))
    yield {v.name: plain[v] for v in graph.outputs}
    for draw in range(draws):
        for nudge in (NUDGE, -NUDGE):
            yield _nudged(graph, plain, extents, draw, nudge)


def _nudged(
    graph: Graph, plain: Mapping[Value, Array], extents: Mapping[str, int], draw: int, nudge: float
) -> dict[str, Array]:
    """The outputs where operands of sums are changed, and what functions of the C library are given and give. What is
    as in the ``plain`` evaluation is taken from there."""
    rng = np.random.default_rng([draw, 5])
    values = {v: plain[v] for v in graph.inputs}
    for step in computed(graph, values, lambda g, v: plain[v] if v in plain else _wide(g, v)):
        node = step.node
        _hand_on(step, values)
        if step.taken is not None:
            continue
        of_library = calls_library(node)
        summed = node.operands if _adds_up(node) else node.inputs if of_library else ()
        changed = _changed(summed, values, rng, nudge)
        read = (*node.inputs, *(v for v in step.graph.counts.values() if v in values))
        either = _either(node, nudge) if draw >= DRAWS else []
        if not changed and not of_library and not either and all(values[v] is plain.get(v) for v in read):
            values.update({v: plain[v] for v in node.results})
            continue
        known = step.graph.known_at(node, values, extents)
        results, *others = (n.evaluate({**values, **changed}, wide=True, extents=known) for n in either or [node])
        for other in others:
            results = [np.where(rng.integers(2, size=a.shape), a, b) for a, b in zip(results, other, strict=True)]
        given = dict(zip(node.results, results, strict=True))
        if of_library:
            given |= _changed(node.results, given, rng, nudge)
        for v, a in given.items():
            values[v] = plain[v] if v in plain and np.array_equal(a, plain[v]) else a
    return {v.name: values[v] for v in graph.outputs}


def _either(node: Node, nudge: float) -> list[Node]:
    """A node that rounds a product and a sum, ``rne(x * 0.0235 - 3.0)``, with the constants of such products a little
    larger, and a little smaller: what is a tie there falls to another side where C compilers join both. [] of others.
    """
    made = []
    for by in (1 + nudge, 1 - nudge):
        other, body = copy(node), node.op.elementwise
        other.post = {i: _with_factors(e, by) for i, e in node.post.items()}
        if body is not None:
            other.op = node.op.with_elementwise(_with_factors(body, by))
        made.append(other)
    return made if made[0].expressions != node.expressions else []


def _with_factors(body: ex.Expr, by: float) -> ex.Expr:
    """A body that rounds, with constants times ``by`` where a product is a term of a sum: those that are no powers of
    two, by which products are exact."""

    def joined(e: ex.Expr, of: Callable[[ex.Expr], ex.Expr]) -> ex.Expr:
        e = ex.with_operands(e, of)
        return ex.with_operands(e, product) if isinstance(e, ex.Apply) and e.fn in ("add", "sub") else e

    def product(e: ex.Expr) -> ex.Expr:
        return ex.with_operands(e, factor) if isinstance(e, ex.Apply) and e.fn == "mul" else e

    def factor(e: ex.Expr) -> ex.Expr:
        known = isinstance(e, ex.Num) and e.dtype.is_float and abs(np.frexp(e.value)[0]) != 0.5
        return ex.num(float(e.value) * by, e.dtype) if isinstance(e, ex.Num) and known else e

    return ex.OfParts(joined)(body) if "rne" in ex.functions(body) else body


def _wide(graph: Graph, v: Value) -> Array:
    """A constant as evaluations in float64 have it."""
    return typed(graph.array(v), v.dtype, wide=True)


def _hand_on(step: Computed, values: dict[Value, Array]) -> None:
    """What a branch gave is what its node gives."""
    if step.taken is not None:
        values.update(zip(step.node.results, (values[v] for v in step.taken), strict=True))


def _adds_up(node: Node) -> bool:
    """Whether a node may add numbers up. Those of a loop's body stay as they are."""
    return node.op.elementwise is None and not node.op.hands_on and not node.regions


def _changed(
    changing: Iterable[Value | None], values: Mapping[Value, Array], rng: np.random.Generator, nudge: float
) -> dict[Value, Array]:
    """Those that are floats, each element more or less by a part of it."""
    floats = dict.fromkeys(v for v in changing if v is not None and v.dtype.is_float)
    with np.errstate(over="ignore"):
        return {v: values[v] * (1 + nudge * rng.choice([-1.0, 1.0], values[v].shape)) for v in floats}
