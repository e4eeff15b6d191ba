"""Networks that keep state: the judge is fed by hand what it gave in the run before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import ClassVar

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.check.precision import is_narrow
from mccompile.check.reference import Array, Expected, Judge, judge_of
from mccompile.ir.dims import symbols
from mccompile.search.state import Compilation

RUNS = 3
"""In a row, where a network keeps state: from zeros, from what that left, and once more."""


@dataclass
class Stream:
    """A judge that keeps the state of a network from run to run. Without state, the judge itself.

    Attributes:
        state: the inputs that outputs are in the next run, by output.
        begin: what these are in the first run.
        held: what they are in the next one.
    """

    judge: Judge | OfGraph
    state: Mapping[str, str]
    begin: Mapping[str, Array]
    held: dict[str, Array] = field(init=False)

    def __post_init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.held = dict(self.begin)

    def run(self, inputs: Mapping[str, Array]) -> Expected:
        """One run, which begins with what the one before has left. CompileError if the judge cannot do it."""
        found = self.judge.run({**inputs, **self.held})
        self.held = {given: found.values[kept] for kept, given in self.state.items()}
        return found

    def runs(self, inputs: Mapping[str, Array]) -> list[Expected]:
        """What to expect of `RUNS` runs on the same inputs, from the beginning; of one where there is no state."""
        self.reset()
        return [self.run(inputs) for _ in range(RUNS if self.state else 1)]


@dataclass(frozen=True)
class OfGraph:
    """What a compilation's own graph computes, with weights as they are stored; the noise is its distance from that
    in float64."""

    compilation: Compilation
    engine: ClassVar[str] = "the graph"
    notes: ClassVar[tuple[str, ...]] = ()

    def surer(self) -> OfGraph:
        """It has no more noise to offer."""
        return self

    def run(self, inputs: Mapping[str, Array]) -> Expected:
        graph = self.compilation.graph
        extents = graph.extents_of(inputs)
        meant = graph.evaluate(inputs, extents=extents)
        wide = graph.evaluate(inputs, wide=True, extents=extents)
        return Expected(meant, {n: np.abs(wide[n].astype(np.float64) - a) for n, a in meant.items()})


def stream_of(path: Path, c: Compilation, inner: Sequence[str] = ()) -> Stream:
    """The judge of a compilation, as `judge_of`, that keeps what the network keeps."""
    return _kept(judge_of(path, c, inner), c)


def stream_of_c(path: Path, c: Compilation) -> Stream:
    """As `stream_of`, what the C itself is to compute: where weights or products were asked for in fewer bits, the
    graph says that, and the judge only what it costs."""
    return _kept(OfGraph(c), c) if is_narrow(c) else stream_of(path, c)


def _kept(judge: Judge | OfGraph, c: Compilation) -> Stream:
    given = [v for _, v in c.graph.state_values()]
    least = {s.name: s.low for v in given for s in symbols(*v.shape)}
    begin = {v.name: np.zeros(v.type.at(least).shape, v.dtype.numpy) for v in given}
    return Stream(judge, c.graph.state, begin)
