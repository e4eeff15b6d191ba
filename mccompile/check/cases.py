"""What a check runs: on inputs that are drawn or given, with what the reference makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mccompile._dataclass import dataclass
from mccompile.check.compare import Tolerance
from mccompile.check.data import expected_of, samples_of
from mccompile.check.drawn import drawn_cases, drawn_extents, drawn_inputs
from mccompile.check.reference import Expected
from mccompile.check.streams import RUNS, Stream
from mccompile.driver import Compilation
from mccompile.ir.errors import CompileError
from mccompile.run.memory import Array
from mccompile.run.network import Network


@dataclass(frozen=True)
class Asked:
    """What a check was given: see `check`."""

    inputs: Any = None
    expect: Any = None
    labels: Any = None
    tolerance: Tolerance | None = None
    per_layer: bool = False
    golden: bool = False
    seed: int = 0
    with_code: bool = False
    max_error: float | None = None


@dataclass(frozen=True)
class Case:
    """A run: ``state`` is what it begins with, where the network keeps any; ``given`` by a user."""

    label: str
    inputs: Mapping[str, Array]
    expected: Expected
    state: Mapping[str, Array]
    given: bool = False

    @property
    def everything(self) -> dict[str, Array]:
        """What the model is fed."""
        return {**self.inputs, **self.state}


def cases_of(c: Compilation, judge: Stream | None, asked: Asked) -> list[Case]:
    """The runs of a check: those of a user's samples, or several on random inputs. Without a ``judge`` inputs and
    outputs are both the user's."""
    if asked.inputs is None:
        assert judge is not None
        return _drawn_cases(c, judge, asked.seed)
    samples = samples_of(c.graph, asked.inputs)
    if asked.expect is not None:
        wanted = expected_of(c.graph, asked.expect, len(samples))
        cases = zip(_labels(len(samples)), samples, wanted, strict=True)
        return [Case(label, one, Expected(dict(want), {}), {}, given=True) for label, one, want in cases]
    assert judge is not None
    if c.graph.state and len(samples) == 1:
        found: list[Case] = []
        while not found or (len(found) < RUNS and judge.fits(samples[0])):
            found.append(_judged(f"given inputs, run {len(found) + 1}", samples[0], judge, given=True))
        return found
    pairs = zip(_labels(len(samples)), samples, strict=True)
    return [_judged(label, one, judge, given=True) for label, one in pairs]


def _drawn_cases(c: Compilation, judge: Stream, seed: int) -> list[Case]:
    """On random inputs of seeds in a row. State that grows begins with small extents: the largest may leave no room
    for another run."""
    found: list[Case] = []
    number, first = (RUNS, bool(c.graph.growths())) if c.graph.state else (drawn_cases(c), False)
    while len(found) < number and not judge.is_full:
        own = seed + len(found)
        extents = judge.extents(drawn_extents(c, own + first), last=len(found) == number - 1)
        said = "".join(f", {name}={n}" for name, n in extents.items())
        found.append(_drawn(c, judge, own, extents, f"random inputs, seed {own}{said}", edges=len(found) == 1))
    return found


def _drawn(c: Compilation, judge: Stream, seed: int, extents: Mapping[str, int], label: str, edges: bool) -> Case:
    """A run on random inputs, with ``edges`` among them if the judge takes these: bytes may be places of a table."""
    if edges:
        try:
            return _judged(label, drawn_inputs(c, seed, extents, edges), judge)
        except CompileError as refused:
            c.notes.append(f"{label}: none that are rare ({refused.rule})")
    return _judged(label, drawn_inputs(c, seed, extents), judge)


def _labels(samples: int) -> list[str]:
    """What the runs on a user's samples are called."""
    return ["given inputs"] if samples == 1 else [f"sample {i}" for i in range(samples)]


def _judged(label: str, inputs: Mapping[str, Array], judge: Stream, given: bool = False) -> Case:
    """The next run of a stream."""
    judge.require_fit(inputs, label)
    begin = dict(judge.held)
    return Case(label, inputs, judge.run(inputs), begin, given)


def ran(network: Network, case: Case) -> dict[str, Array]:
    """What a run gives, and what it leaves as state, by the model's names of outputs."""
    outputs = network.run(case.inputs)
    return outputs | {p["output"]: network.state[p["name"]].copy() for p in network.report["state"]}
