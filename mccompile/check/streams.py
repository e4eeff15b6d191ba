"""Networks that keep state: the judge is fed by hand what it gave in the run before.

Worked example: a cache [1,n,4], n = 0..8, that grows by a row in each run, and beside it a mask [1,n+1]. The runs of
a stream find n = 0, 1, 2, so that their masks are [1,1], [1,2], [1,3]. With n = 0..1 there are two runs: behind
these n is 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import ClassVar

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.check.drawn import drawn_inputs, given_symbols
from mccompile.check.precision import is_narrow
from mccompile.check.reference import Array, Expected, Judge, finite_distance, judge_of, last_place
from mccompile.check.sides import DRAWS, sides
from mccompile.check.ties import imported_graph, is_quantised
from mccompile.ir.dims import symbols, value
from mccompile.ir.dims_terms import Symbol
from mccompile.ir.errors import UsageError
from mccompile.ir.graph import Graph, Value
from mccompile.ir.small_floats import bf16_values
from mccompile.search.state import Compilation

RUNS = 3
"""In a row, where a network keeps state: from zeros, from what that left, and once more; fewer where what grows has
no room for so many."""

GoldenRun = tuple[Mapping[str, Array], Expected]
"""The inputs of a run, and what to expect of it."""


@dataclass
class Stream:
    """A judge that keeps the state of a network from run to run. Without state, the judge itself.

    Attributes:
        judge: what computes a run.
        graph: of the network.
        held: what the inputs that are state are in the next run.
    """

    judge: Judge | OfGraph
    graph: Graph
    held: dict[str, Array] = field(init=False)

    def __post_init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.held = first_state(self.graph)

    def run(self, inputs: Mapping[str, Array]) -> Expected:
        """One run, which begins with what the one before has left. CompileError if the judge cannot do it."""
        found = self.judge.run({**inputs, **self.held})
        self.held = {given: found.values[kept] for kept, given in self.graph.state.items()}
        return found

    @property
    def grown(self) -> dict[str, int]:
        """The extents of state that grows, by name, as the next run finds them."""
        return grown_extents(self.graph, self.held)

    @property
    def is_full(self) -> bool:
        """Whether state has no room for one more run."""
        return not self._have_room(self.grown)

    def extents(self, drawn: Mapping[str, int], last: bool) -> dict[str, int]:
        """All extents of the next run, where ``drawn`` are those that the caller gives: the least of these, where
        one more run follows that would have no room behind so many."""
        found = {**drawn, **self.grown}
        more = {g.name: found[g.name] + value(g.by, found) for g in self.graph.growths().values()}
        if last or self._have_room(more):
            return found
        return {**found, **{s.name: s.low for s in given_symbols(self.graph)}, **self.grown}

    def require_fit(self, inputs: Mapping[str, Array], label: str) -> None:
        """UsageError where inputs have not the extents that the next run needs."""
        if misfit := self._misfit(inputs):
            raise UsageError(f"{label}: {misfit}")

    def fits(self, inputs: Mapping[str, Array]) -> bool:
        """Whether the next run may have these inputs, as far as state that grows says it."""
        return not self._misfit(inputs)

    def drawn_runs(self, c: Compilation, seed: int) -> list[GoldenRun]:
        """What a golden test runs, from the beginning, and what to expect: `RUNS` times the same inputs, or once
        where there is no state, but for those that grow with it. All extents of the caller are at their bounds."""
        self.reset()
        bounds = {s.name: s.high for s in given_symbols(self.graph)}
        found: list[GoldenRun] = []
        while len(found) < (RUNS if self.graph.state else 1) and not self.is_full:
            drawn = drawn_inputs(c, seed, {**bounds, **self.grown})
            first = found[0][0] if found else drawn
            inputs = {n: first[n] if first[n].shape == a.shape else a for n, a in drawn.items()}
            found.append((inputs, self.run(inputs)))
        return found

    def runs(self, inputs: Mapping[str, Array]) -> list[GoldenRun]:
        """As `drawn_runs`, on a user's inputs, as often as these fit. UsageError if no run can have them."""
        self.reset()
        self.require_fit(inputs, "given inputs")
        found: list[GoldenRun] = []
        while len(found) < (RUNS if self.graph.state else 1) and self.fits(inputs):
            found.append((dict(inputs), self.run(inputs)))
        return found

    def _misfit(self, inputs: Mapping[str, Array]) -> str:
        """Why the next run cannot have these inputs, where state that grows is why; else empty."""
        grown = self.grown
        full = [f"{s.name} is {grown[s.name]}, and may be {s}" for s in self._growing() if grown[s.name] > s.high]
        if full:
            return f"state has no room for one more run: {full[0]}"
        fed = [(v, inputs[v.name]) for v in self.graph.fed if v.name in inputs]
        known = {str(e): n for v, a in fed for e, n in zip(v.shape, a.shape, strict=False)} | grown
        for v, array in fed:
            for axis, (e, n) in enumerate(zip(v.shape, array.shape, strict=False)):
                names = {s.name for s in symbols(e)}
                if names & grown.keys() and names <= known.keys() and n != (wanted := value(e, known)):
                    told = ", ".join(f"{name}={known[name]}" for name in sorted(names))
                    return f"axis {axis} of input {v.name!r} is {n}, and {e} is {wanted} in this run ({told})"
        return ""

    def _kept(self) -> list[Value]:
        return [v for _, v in self.graph.state_values()]

    def _growing(self) -> list[Symbol]:
        growths = self.graph.growths()
        return [s for s in symbols(*(e for v in self._kept() for e in v.shape)) if s.name in growths]

    def _have_room(self, extents: Mapping[str, int]) -> bool:
        return all(extents[s.name] <= s.high for s in self._growing())


@dataclass(frozen=True)
class OfGraph:
    """What a compilation's own graph computes, with weights as they are stored; the noise is its distance from that
    in float64, and from what follows where ties fall to the other side (`sides`)."""

    compilation: Compilation
    draws: int = DRAWS
    engine: ClassVar[str] = "the graph"
    notes: ClassVar[tuple[str, ...]] = ()

    def surer(self) -> OfGraph:
        """It has no more noise to offer."""
        return self

    @property
    def halves(self) -> frozenset[str]:
        """The outputs that are the bits of bfloat16."""
        c = self.compilation
        return c.interface.halves.intersection(v.name for v in c.graph.outputs)

    def meant(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs alone."""
        graph = self.compilation.graph
        return graph.evaluate(inputs, extents=graph.extents_of(inputs))

    def run(self, inputs: Mapping[str, Array]) -> Expected:
        graph, meant = self.compilation.graph, self.meant(inputs)
        halves = self.halves
        numbers = {n: bf16_values(a) if n in halves else a for n, a in meant.items()}
        noise = {n: last_place(a) if n in halves else np.zeros(a.shape) for n, a in numbers.items()}
        for side in sides(graph, inputs, graph.extents_of(inputs), self.draws):
            for name, a in side.items():
                if a.shape == meant[name].shape:
                    a = bf16_values(a) if name in halves else a
                    noise[name] = np.maximum(noise[name], finite_distance(a, numbers[name]))
        return Expected(meant, noise, halves)


def first_state(graph: Graph) -> dict[str, Array]:
    """What the inputs that are state are in the first run: zeros, of the least extents where they grow."""
    given = [v for _, v in graph.state_values()]
    least = {s.name: s.low for s in symbols(*(e for v in given for e in v.shape))}
    return {v.name: np.zeros(v.type.at(least).shape, v.dtype.numpy) for v in given}


def stream_of(path: Path, c: Compilation, inner: Sequence[str] = ()) -> Stream:
    """The judge of a compilation, as `judge_of`, that keeps what the network keeps."""
    return Stream(judge_of(path, c, inner), c.graph)


def stream_of_c(path: Path, c: Compilation, imported: Graph | None = None) -> Stream:
    """As `stream_of`, what the C itself is to compute: where weights or products were asked for in fewer bits, the
    graph says that, and the judge only what it costs; and where numbers are rounded to 8 or 16 bits, the judge may
    fall to the other side of a tie, and so may all that follows."""
    own = is_narrow(c) or is_quantised(imported_graph(path, c) if imported is None else imported)
    return Stream(OfGraph(c), c.graph) if own else stream_of(path, c)


def fitting_extents(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, int]:
    """The largest extents of state that grows, by name, with which a run may have these inputs. UsageError where
    there are none."""
    given = [v for _, v in graph.state_values()]
    axes = [(e, n) for v in graph.fed for e, n in zip(v.shape, inputs[v.name].shape, strict=False)]
    known = {str(e): n for e, n in axes}
    found = {}
    for s in symbols(*(e for v in given for e in v.shape)):
        own = [(e, n) for e, n in axes if s in symbols(e) and {o.name for o in symbols(e)} <= {s.name, *known}]
        fits = [i for i in reversed(s.values) if all(value(e, known | {s.name: i}) == n for e, n in own)]
        if not fits:
            told = ", ".join(f"{e} is {n}" for e, n in own)
            raise UsageError(f"no extent {s.name} of state, {s}, is that of the inputs: {told}")
        found[s.name] = fits[0]
    return found


def grown_extents(graph: Graph, held: Mapping[str, Array]) -> dict[str, int]:
    """The extents of state that grows, by name, as arrays of it have them."""
    growths = graph.growths()
    pairs = [p for _, v in graph.state_values() for p in zip(v.shape, held[v.name].shape, strict=True)]
    return {str(e): n for e, n in pairs if str(e) in growths}
