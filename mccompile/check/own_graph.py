"""Whether the C computes the graph that it was made of: asked where the reference cannot judge it, because ties fall
to other sides or weights are stored in fewer bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from mccompile.check.cases import Case, ran
from mccompile.check.compare import OF_SLICE, Comparison, limits
from mccompile.check.layers_of_c import outputs_follow
from mccompile.check.reference import Expected
from mccompile.check.sides import DRAWS, MORE_DRAWS
from mccompile.check.streams import OfGraph, grown_extents
from mccompile.check.ties import rounds_anywhere
from mccompile.driver import Compilation
from mccompile.run.memory import Array
from mccompile.run.network import Network
from mccompile.targets.target import runs_here

OF_GRAPH = 4.0
"""How many times the noise of the graph floats of the C may be off."""

MOST_BY_TIES = 4
"""Ties that no draw has found are fewer than a quarter of those that draws have found; where no layer can be asked
alone, fewer than a quarter of all elements."""

FEW = 0.005
"""The share of a layer's elements that may be ties which its result does not show."""


def unlike_graph(
    c: Compilation, network: Network, cases: Sequence[Case], traced: Callable[[], Network], by_layers: bool = False
) -> list[str]:
    """Where the C does not compute what the graph says that it was made of, with the weights as they are stored. An
    output that is the reference's is right: functions that a tie follows (tanh) are not the same here and in C. So is
    one that follows from the tensors of the C, if each layer of these does."""
    faults: list[str] = []
    for case in cases:
        if case.state:
            network.set_extents(grown_extents(c.graph, case.state))
        for name, array in case.state.items():
            network.state[name][...] = array
        got = ran(network, case)
        apart = _unlike(c, case, got, traced, by_layers)
        faults += [f"the C does not compute its graph: {a.name}: {a.text()}" for a in apart]
    return faults


def _unlike(
    c: Compilation, case: Case, got: Mapping[str, Array], traced: Callable[[], Network], by_layers: bool
) -> list[Comparison]:
    """The outputs of a run that are not what the graph makes of its inputs. ``by_layers``: ties are no excuse for as
    many as no draw moves."""
    given = case.everything
    known = not case.state and runs_here(c.target.name) and rounds_anywhere(c.graph)  # what each layer has made

    def follow(found: Sequence[Comparison], few: float = 0.0) -> bool:
        return outputs_follow(c.graph, traced(), given, got, [a.name for a in found], OF_GRAPH, few)

    apart, many = _apart(c, given, got, by_layers)
    apart = [a for a in apart if not _is_expected(case.expected, a.name, got[a.name])]
    if apart:
        return [] if known and follow(apart) else apart
    plainly = without_noise(case.expected)
    many = [a for a in many if not _is_expected(plainly, a.name, got[a.name])]
    many = [a for a in many if known or a.differing * MOST_BY_TIES > a.count]
    return [] if many and known and follow(many, FEW) else many


def _is_expected(expected: Expected, name: str, got: Array) -> bool:
    return name in expected.values and expected.compared(name, got).ok


def _apart(
    c: Compilation, given: Mapping[str, Array], got: Mapping[str, Array], by_layers: bool
) -> tuple[list[Comparison], list[Comparison]]:
    """The outputs that are not what the graph computes, on whatever side of ties sums of floats fall; and, if these
    are asked for, those of which more elements are not than ties explain."""
    own = OfGraph(c)
    plainly = Expected(own.meant(given), {}, own.halves)
    apart, many = _beyond(plainly, got), list[Comparison]()
    for draws in (DRAWS, MORE_DRAWS):
        if not apart and not many:
            return [], []
        expected = OfGraph(c, draws).run(given)
        apart, many = _beyond(expected, got), _many_beyond(expected, got) if by_layers else []
    return _beyond(_alike_unsure(expected), got), many


def without_noise(expected: Expected) -> Expected:
    """Without noise, but that of bits."""
    return replace(expected, noise={n: a for n, a in expected.noise.items() if n in expected.halves})


def _many_beyond(expected: Expected, got: Mapping[str, Array]) -> list[Comparison]:
    """The outputs of which many elements, beside those that draws have moved, are further off than any draw has moved
    them: ties move elements, each by itself."""
    found = []
    for name, want in expected.values.items():
        noise = expected.noise[name]
        plain = limits(want)
        each = replace(expected, noise={}, decided={**expected.decided, name: noise * (1 + OF_SLICE) + plain})
        one = each.compared(name, got[name], OF_GRAPH)
        if not one.ok and (one.problem or one.differing * MOST_BY_TIES > np.count_nonzero(noise > plain)):
            found.append(one)
    return found


def _beyond(expected: Expected, got: Mapping[str, Array]) -> list[Comparison]:
    """The outputs that differ by more than is allowed."""
    return [found for n in expected.values if not (found := expected.compared(n, got[n], OF_GRAPH)).ok]


def _alike_unsure(expected: Expected) -> Expected:
    """With each element of an output as unsure as all of them are in the mean: where many fall to other sides, those
    that no draw has moved are as few as draws are many."""
    noise = {}
    for name, a in expected.noise.items():
        factor = 1.0 if expected.values[name].dtype.kind == "f" else OF_GRAPH
        noise[name] = np.maximum(a, factor * np.sqrt(np.mean(np.square(a)))) if a.size else a
    return replace(expected, noise=noise)
