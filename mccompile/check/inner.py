"""How far a layer's result may be off for what it rounds on its way to it, which nobody sees.

    q = u16(rne(c / 0.02)), y = u16(rne(q * 0.02 / 0.002))    a tie of q, 3.5, is 3 or 4, and y is 30 or 40

A layer that was fused of several rounds each of them. Floats may fall to another step there than the reference's did,
which a coarser scale makes several steps of the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mccompile.check.branches import Computed
from mccompile.check.heads import rounds
from mccompile.check.reals import real_results
from mccompile.check.rounding import before_rounding, of_floats, zeros_of
from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value

Array = np.ndarray[Any, np.dtype[Any]]

OF_FUNCTION = 2.0**-22
"""How far a function of floats below 1 may be off whatever it is near to: onnxruntime's Sigmoid is 0.5 + r, and has
no more digits near 0 than near 1."""


_APPROXIMATED = frozenset({"sigmoid", "tanh", "erf"})


class Inner:
    """What a run of an imported graph computes, with the reference's own rounded tensors, and what moves it."""

    def __init__(
        self, imported: Graph, theirs: Mapping[str, Array], inputs: Mapping[str, Array], tie: float,
        unsure: Mapping[str, float],
    ) -> None:  # fmt: skip
        """``unsure``: how far floats of the model's own types, such as f16, move what is rounded, by name."""
        real = real_results(imported, theirs, inputs)
        self._theirs, self._values, self._steps, self._tie = theirs, real.values, real.steps, tie
        self._reals, self._extents = real.numbers, imported.extents_of(inputs)
        self._zeros = zeros_of(imported, [step.node for step in real.steps])
        self._unsure = unsure

    def moves(self, name: str, origins: Sequence[str]) -> Array:
        """How far the real number before the rounded tensor of this name may be off, in steps of it, in a layer that
        was made of the nodes of these ``origins``: 0 where it follows of nothing else that the layer rounds."""
        off: dict[Value, Array] = {}
        real = np.zeros(())
        for step in self._made_of(name, set(origins)):
            node, result = step.node, step.node.results[0]
            real = self._behind(node, step.graph.known_at(node, self._values, self._extents), off)
            found = self._steps_of(result, real) if rounds(result) else real
            if found.any():
                off[result] = found
        return real

    def _made_of(self, name: str, origins: set[str]) -> list[Computed]:
        """The nodes by which the tensor of this name is made of what others round, in order; of those that round,
        beside its own, the ones of these ``origins`` are among them."""
        found: list[Computed] = []
        read: set[Value] = set()
        for step in reversed(self._steps):
            node, result = step.node, step.node.results[0]
            inside = result in read and not (rounds(result) and origins.isdisjoint(node.origins))
            if step.taken is None and (inside or (not found and result.name == name)):
                found.insert(0, step)
                read.update(node.inputs)
        return found

    def _behind(self, node: Node, known: Mapping[str, int], off: Mapping[Value, Array]) -> Array:
        """How far a node's first result is off, before it is rounded, where the values of ``off`` are by so much."""
        result, body = node.results[0], node.op.elementwise
        if body is None:
            return self._carried(node, known, off)
        found = np.zeros(self._values[result].shape)
        plain = self._before(node, self._values, known)
        for v in dict.fromkeys(v for v in node.inputs if v in off):
            sides = []
            for sign in (-1, 1):
                moved = _moved(self._values[v], sign * off[v])
                sides.append(np.abs(self._before(node, {**self._values, v: moved}, known) - plain))
            found += np.nan_to_num(np.maximum(*sides), nan=0.0)
        if any(isinstance(part, ex.Apply) and part.fn in _APPROXIMATED for part in ex.distinct(body)):
            found += OF_FUNCTION
        return found

    def _before(self, node: Node, values: Mapping[Value, Array], known: Mapping[str, int]) -> Array:
        """An element-wise node's result, in float64, before it is rounded."""
        got = node.evaluate(values, True, known)[0]
        rounded = rounds(node.results[0])
        return before_rounding(node, values, got, known) if rounded else np.asarray(got, np.float64)

    def _carried(self, node: Node, known: Mapping[str, int], off: Mapping[Value, Array]) -> Array:
        """Elements that a node moves are off by what they were off before; of other nodes nothing is told."""
        own = node.operands[:1] if node.op.selects else node.operands
        if not node.op.hands_on or not any(v in off for v in own):
            return np.zeros(())
        moved: dict[Value, Array] = {v: np.zeros(self._values[v].shape) for v in own if v is not None}
        moved |= {v: np.broadcast_to(off[v], a.shape) for v, a in moved.items() if v in off}
        return np.asarray(node.evaluate({**self._values, **moved}, True, known)[0], np.float64)

    def _steps_of(self, v: Value, off: Array) -> Array:
        """How many steps another engine's rounded tensor may be from the reference's, where the real number before it
        is ``off`` by so much: the whole numbers in reach."""
        real, theirs = self._reals.get(v.name), self._theirs.get(v.name)
        if real is None or theirs is None:
            return off
        reach = self._tie + of_floats(real, self._zeros.get(v.name), theirs.dtype) + self._unsure[v.name] + off
        steps = np.maximum(np.floor(real + reach) - theirs, theirs - np.ceil(real - reach))
        return np.asarray(np.nan_to_num(np.maximum(steps, 0.0), nan=0.0))


def _moved(array: Array, by: Array) -> Array:
    """A tensor that is off, of the type that it has."""
    if array.dtype.kind == "f":
        return np.asarray(array + by.astype(array.dtype))
    info = np.iinfo(array.dtype)
    return np.asarray(np.clip(array + np.rint(by).astype(np.int64), info.min, info.max), array.dtype)
