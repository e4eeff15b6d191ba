"""Results against what was expected of a run: as they are, or with rows of equal scores in another order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import Any

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.check.compare import OF_SLICE, Comparison, Tolerance
from mccompile.check.factors import Factors
from mccompile.check.order import orders, reordered
from mccompile.check.reference import Expected
from mccompile.check.result import Run
from mccompile.ir.dims import Dim
from mccompile.ir.graph import Graph

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass
class Verdict:
    """By what results of a graph are judged: the rule with its factors, or a user's tolerance."""

    graph: Graph
    tolerance: Tolerance | None = None
    factors: Factors = field(init=False)

    def __post_init__(self) -> None:
        self.factors = Factors.of(self.graph)

    def run(self, label: str, expected: Expected, got: Mapping[str, Array]) -> Run:
        """A run against what was expected of it."""
        expected = self._with_axes(expected, got)
        found = Run(label, tuple(self._compared(expected, got)))
        known = {n: a for n, a in expected.values.items() if n in got}
        for order in () if found.ok or self.tolerance else orders(got, known, expected.noise):
            moved = int((order != np.arange(len(order))).sum())
            again = Run(label, tuple(self._compared(expected, reordered(got, order))), moved)
            if again.ok:
                return again
        return found

    def is_unsure(self, run: Run) -> bool:
        """Whether all that is wrong is so where noise allows most of what is allowed."""
        bad = [c for c in run.comparisons if not c.ok]
        return self.tolerance is None and bool(bad) and all(c.error < np.inf and c.unsure > OF_SLICE for c in bad)

    def _compared(self, expected: Expected, got: Mapping[str, Array]) -> Iterator[Comparison]:
        """The results that are expected."""
        for name in expected.values:
            if name in got:
                yield expected.compared(name, got[name], self.factors(name), self.tolerance)

    def _with_axes(self, expected: Expected, got: Mapping[str, Array]) -> Expected:
        """What is expected, with the axes of extent 1 that the reference squeezes out because they are 1 in this run.

        Squeeze without axes makes [] of [1] and [8] of [8]; of an extent 1..8 the code makes [1] and [8].
        """
        values, noise, decided = dict(expected.values), dict(expected.noise), dict(expected.decided)
        for v in self.graph.outputs:
            name, extents = v.name, v.shape
            if name not in values or name not in got or len(extents) != got[name].ndim:
                continue
            shape = got[name].shape
            left = tuple(n for n, e in zip(shape, extents, strict=True) if n != 1 or not isinstance(e, Dim))
            if len(left) < len(shape) and values[name].shape == left:
                values[name] = values[name].reshape(shape)
                for kept in (noise, decided):
                    if name in kept:
                        kept[name] = kept[name].reshape(shape)
        return replace(expected, values=values, noise=noise, decided=decided)
