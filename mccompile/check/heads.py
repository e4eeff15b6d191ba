"""What a quantised network computes of its last rounded tensors: of the reference's own it is the reference's output.

    conv -> q of 8 bits -> (q - 3) * 0.5 -> softmax -> y

A tie in the convolution says nothing of the softmax: of the reference's q, y is the reference's, as far as floats are
sure. So is what lies before, or beside, all that is rounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mccompile.check.branches import Computed
from mccompile.check.compare import compare
from mccompile.check.factors import Factors
from mccompile.ir.graph import Graph, Node, Value

Array = np.ndarray[Any, np.dtype[Any]]


def rounds(v: Value) -> bool:
    """Whether a value is a number rounded to 8 or 16 bits."""
    return v.dtype.kind in "iu" and v.dtype.nbytes <= 2


class Sure:
    """The values of a graph that are the reference's own, or are computed of such where nothing is rounded."""

    def __init__(self, graph: Graph, imported: Sequence[Node]) -> None:
        """``imported``: the nodes that those of ``graph`` were made of."""
        self.values = set(graph.inputs)
        self._rounding = {origin for n in imported if any(map(rounds, n.results)) for origin in n.origins}

    def follow(self, step: Computed) -> None:
        """Go on behind a node."""
        node = step.node
        if step.taken is not None:
            results = [v for v, own in zip(node.results, step.taken, strict=True) if own in self.values]
        elif node.regions or not self._rounding.isdisjoint(node.origins):
            results = []
        else:
            known = all(v in self.values or v in step.graph.constants for v in node.inputs)
            results = list(node.results) if known else []
        self.values.update(results)


def wrong_outputs(
    graph: Graph, sure: Sure, got: Mapping[Value, Array], theirs: Mapping[str, Array],
    wide: Mapping[str, Array], narrow: Mapping[str, Array],
) -> dict[str, str]:  # fmt: skip
    """By name, what is wrong with the outputs that are ``sure``, and with places and counts that are not: these the
    model's own nodes make of the same tensors.

    ``wide`` and ``narrow`` are what the model's own nodes make of the same tensors, in float64 and as they are: how
    far floats are from each other is noise, and a number that is decided by it is not judged.
    """
    factors = Factors.of(graph)
    found = {}
    for v in graph.outputs:
        want = theirs.get(v.name)
        known = v in sure.values
        if (v.dtype.is_float and not known) or rounds(v) or want is None or want.shape != wide[v.name].shape:
            continue
        mine, noise = got[v] if known else wide[v.name].astype(want.dtype), None
        if v.dtype.is_float:
            with np.errstate(invalid="ignore"):  # infinities
                noise = np.abs(wide[v.name].astype(np.float64) - narrow[v.name])
        else:
            mine = np.where(wide[v.name] == narrow[v.name], mine, want) if mine.shape == want.shape else mine
        one = compare(v.name, mine, want, noise, factors(v.name))
        if not one.ok:
            found[v.name] = f"{v.name}: {one.text()}, of the reference's own tensors"
    return found
