"""The real numbers that a quantised network rounds, of the reference's own tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.check.branches import Computed, computed
from mccompile.check.heads import rounds
from mccompile.check.rounding import before_rounding
from mccompile.ir.graph import Graph, Value
from mccompile.ops.text import encoded

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Reals:
    """A run of an imported graph.

    Attributes:
        numbers: what is rounded, before it is, by name.
        steps: the nodes computed.
        values: all tensors, those that are rounded as the reference has them.
        outputs: those of them that are outputs, by name.
    """

    numbers: dict[str, Array]
    steps: list[Computed]
    values: dict[Value, Array]
    outputs: dict[str, Array]


def real_results(
    imported: Graph, theirs: Mapping[str, Array], inputs: Mapping[str, Array], wide: bool = True
) -> Reals:
    """A run on the reference's own rounded tensors, in float64, or else as floats are of the model's own types."""
    typed = _wide if wide else narrow
    values = {v: typed(inputs[v.name], v) for v in imported.inputs}
    extents = imported.extents_of(inputs)
    before: dict[Value, Array] = {}
    numbers: dict[str, Array] = {}
    steps: list[Computed] = []
    for step in computed(imported, values, lambda graph, v: typed(graph.array(v), v)):
        node = step.node
        steps.append(step)
        known = step.graph.known_at(node, values, extents)
        if step.taken is None:
            results = node.evaluate(values, wide, known)
        else:
            results = [values[v] for v in step.taken]
        for k, (v, got) in enumerate(zip(node.results, results, strict=True)):
            values[v] = got
            if not rounds(v):
                continue
            if step.taken is None:
                before[v] = before_rounding(node, values, got, known)
            else:
                before[v] = before.get(step.taken[k], got.astype(np.float64))
            if v.name in theirs:
                numbers[v.name] = before[v]
                values[v] = theirs[v.name]
    return Reals(numbers, steps, values, {v.name: values[v] for v in imported.outputs})


def _wide(array: Array, v: Value) -> Array:
    """A tensor as results are that are computed in float64: a join has operands of one type."""
    return _stored(array, v).astype(v.dtype.evaluated(wide=True))


def narrow(array: Array, v: Value) -> Array:
    """A tensor of the type that it has; text as bytes."""
    return _stored(array, v).astype(v.dtype.numpy)


def _stored(array: Array, v: Value) -> Array:
    """An array as a tensor has it: text as bytes."""
    return encoded(array, v.shape[-1]) if array.dtype == object else np.asarray(array)
