"""Runs passes in order: verifies after those that changed something, times them, counts changes, keeps remarks."""

from __future__ import annotations

import difflib
import functools
import inspect
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import field
from typing import Protocol, TypeVar

from mccompile._dataclass import dataclass
from mccompile.ir.errors import InternalError, UsageError
from mccompile.ir.graph import Graph
from mccompile.passes.analysis.analyses import Analyses
from mccompile.passes.hiding import hiding
from mccompile.plugins import modules, registry
from mccompile.targets.target import Target, resolve


@dataclass(frozen=True)
class Miss:
    """What a pass did not do: ``not {what} {subject}: {reason}``."""

    what: str
    subject: str
    reason: str

    def __str__(self) -> str:
        return f"not {f'{self.what} {self.subject}'.strip()}: {self.reason}"


@dataclass
class Remarks:
    """What passes did, and did not do and why; one line each. ``misses`` has the latter in their parts, ``tally``
    how often a pass that does things of several kinds did each."""

    lines: list[str] = field(default_factory=list)
    misses: list[Miss] = field(default_factory=list)
    tally: Counter[str] = field(default_factory=Counter)

    def hit(self, what: str, kind: str = "") -> None:
        self.lines.append(what)
        if kind:
            self.tally[kind] += 1

    def miss(self, what: str, reason: str, subject: str = "") -> None:
        self.misses.append(Miss(what, subject, reason))
        self.lines.append(str(self.misses[-1]))


Pass = Callable[..., int]
"""Changes the IR in place and returns the number of changes. Its docstring's first line is its help text.

It is given the IR, the remarks, and by name what else its parameters ask for: the ``target``, the forms of
``weights`` and the ``precision`` that are wanted, by what factor weights may grow (``growth``), the ``kernels`` that
users want for operators, ``analyses`` that other passes have asked for, and the ``whole`` graph, where it works on
one inside of a node; on kernel IR the ``judge`` and the ``offers`` of steps (`mccompile.kernel_passes.rewrite`).
"""


class Verified(Protocol):
    """An IR that passes may work on."""

    def verify(self) -> None: ...


IR = TypeVar("IR", bound=Verified)


@dataclass(frozen=True)
class PassRecord:
    """One run of a pass: changes made and seconds taken."""

    name: str
    changes: int
    seconds: float
    remarks: tuple[str, ...]
    misses: tuple[Miss, ...] = ()
    tally: Mapping[str, int] = field(default_factory=dict)


def passes_in(floor: str) -> Mapping[str, Pass]:
    """Every pass of a floor by name: the function ``run`` of a module, named after the file with dashes."""
    found = {}
    for module in modules(floor):
        run: Pass | None = getattr(module, "run", None)
        if run is not None:
            found[module.__name__.rpartition(".")[2].replace("_", "-")] = run
    return dict(sorted(found.items()))


@registry
def passes() -> Mapping[str, Pass]:
    """Every pass on graphs."""
    return passes_in("passes")


def with_plugins(names: Sequence[str]) -> tuple[str, ...]:
    """A pipeline with the passes of plugins, each behind the first run of the pass that its module names: ``AFTER``.

    Where that pass does not run, at this level, its own does not either. UsageError where there is no such pass.
    """
    made = list(names)
    for name, run in passes().items():
        behind = getattr(sys.modules[run.__module__], "AFTER", "")
        if behind:
            require_passes([behind])
        if behind in made:
            made.insert(made.index(behind) + 1, name)
    return tuple(made)


@registry
def rounding() -> frozenset[str]:
    """The passes that may change how results are rounded: those whose module says ``ROUNDS = True``."""
    return frozenset(name for name, run in passes().items() if getattr(sys.modules[run.__module__], "ROUNDS", False))


def exact_only(names: Sequence[str]) -> tuple[str, ...]:
    """Those of ``names`` that keep every bit."""
    return tuple(n for n in names if n not in rounding())


def require_passes(names: Sequence[str], known: Mapping[str, Pass] | None = None) -> None:
    """UsageError for a name that no pass has (of ``known``, by default those on graphs)."""
    found = passes() if known is None else known
    for name in names:
        if name not in found:
            near = difflib.get_close_matches(name, found, 1)
            hint = f"did you mean '{near[0]}'?  " if near else ""
            raise UsageError(f"unknown pass {name!r}", hint=f"{hint}known passes: {', '.join(found)}")


def run_passes(
    graph: Graph,
    names: Sequence[str],
    after: Callable[[str, Graph], None] = lambda name, graph: None,
    target: Target | None = None,
    weights: Mapping[str, str] | None = None,
    precision: Mapping[str, str] | None = None,
    growth: float = 1.0,
    kernels: Mapping[str, str] | None = None,
) -> list[PassRecord]:
    """Run passes on a graph by name; see `run_listed`. ``target`` is for those that depend on one (default: generic),
    ``weights`` for that which stores weights as it says, ``precision`` for that which rounds what products read, but
    where others are faster whose weights, all together, grow by a factor of ``growth`` at the most. Passes that
    compute an operator by others leave those alone that have one of ``kernels``.
    """
    given = {
        "target": target or resolve("generic"), "weights": weights or {}, "precision": precision or {},
        "growth": growth, "kernels": kernels or {}, "analyses": Analyses(), "whole": graph,
    }  # fmt: skip
    return run_listed(passes(), graph, names, given, after)


def run_listed(
    known: Mapping[str, Pass], ir: IR, names: Sequence[str], given: Mapping[str, object],
    after: Callable[[str, IR], None] = lambda name, ir: None,
) -> list[PassRecord]:  # fmt: skip
    """Run passes by name; ``after`` sees the IR after each. ``given`` is what passes may ask for by parameters.

    The IR is verified after passes that changed it, and once more at the end; with MCC_VERIFY=1, as in tests, after
    each.

    Raises:
        UsageError: an unknown name.
        InternalError: a pass left broken IR; names it.
    """
    records = []
    require_passes(names, known)
    always = os.environ.get("MCC_VERIFY") == "1"
    unverified: list[str] = []
    hides = isinstance(ir, Graph) and any(node.varies for node, _ in ir.everywhere())  # no pass makes others vary
    for name in names:
        remarks = Remarks()
        start = time.perf_counter()
        asked = {p: given[p] for p in _asked(known[name])}
        if isinstance(kept := given.get("analyses"), Analyses):
            kept.begin()
        changes = 0
        for part in [*ir.all_regions(), ir] if isinstance(ir, Graph) else [ir]:
            with hiding(part, name) if hides and isinstance(part, Graph) else nullcontext():
                changes += known[name](part, remarks, **asked)
        seconds = time.perf_counter() - start
        unverified.append(name)
        if changes or always:
            _verify(ir, unverified)
        records.append(PassRecord(name, changes, seconds, tuple(remarks.lines), tuple(remarks.misses), remarks.tally))
        after(name, ir)
    if unverified:
        _verify(ir, unverified)
    return records


def _verify(ir: Verified, since: list[str]) -> None:
    """InternalError where the IR is broken, by one of the passes ``since`` it was verified last."""
    try:
        ir.verify()
    except InternalError as e:
        raise InternalError(f"pass {' or '.join(since)} broke the {_what(ir)}: {e}") from e
    since.clear()


@functools.cache
def _asked(run: Pass) -> tuple[str, ...]:
    """The names of a pass's parameters behind the IR and the remarks."""
    return tuple(inspect.signature(run).parameters)[2:]


def _what(ir: Verified) -> str:
    return "graph" if isinstance(ir, Graph) else "kernel IR"
