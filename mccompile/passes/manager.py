"""Runs passes in order: verifies after each, times it, counts its changes, and keeps its remarks."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mccompile.ir.errors import InternalError, UsageError
from mccompile.ir.graph import Graph
from mccompile.targets.target import Target, resolve


@dataclass
class Remarks:
    """What passes did, and did not do and why; one line each."""

    lines: list[str] = field(default_factory=list)

    def hit(self, what: str) -> None:
        self.lines.append(what)

    def miss(self, what: str, reason: str) -> None:
        self.lines.append(f"not {what}: {reason}")


Pass = Callable[..., int]
"""Changes a graph in place and returns the number of changes. Its docstring's first line is its help text.

It is given the graph and the remarks; if its module says ``NEEDS_TARGET = True``, the target too.
"""


@dataclass(frozen=True)
class PassRecord:
    """One run of a pass: changes made and seconds taken."""

    name: str
    changes: int
    seconds: float
    remarks: tuple[str, ...]


@functools.cache
def passes() -> dict[str, Pass]:
    """Every pass by name: the function ``run`` of a module, named after the file with dashes."""
    import mccompile.passes as package

    found: dict[str, Pass] = {}
    for module in (m.name for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")):
        run = getattr(importlib.import_module(module), "run", None)
        if run is not None:
            found[module.rpartition(".")[2].replace("_", "-")] = run
    return dict(sorted(found.items()))


@functools.cache
def _targeted() -> frozenset[str]:
    modules = {name: importlib.import_module(run.__module__) for name, run in passes().items()}
    return frozenset(name for name, module in modules.items() if getattr(module, "NEEDS_TARGET", False))


@functools.cache
def rounding() -> frozenset[str]:
    """The passes that may change how results are rounded: those whose module says ``ROUNDS = True``."""
    modules = {name: importlib.import_module(run.__module__) for name, run in passes().items()}
    return frozenset(name for name, module in modules.items() if getattr(module, "ROUNDS", False))


def exact_only(names: Sequence[str]) -> tuple[str, ...]:
    """Those of ``names`` that keep every bit."""
    return tuple(n for n in names if n not in rounding())


def require_passes(names: Sequence[str]) -> None:
    """UsageError for a name that no pass has."""
    for name in names:
        if name not in passes():
            raise UsageError(f"unknown pass {name!r}", hint=f"known passes: {', '.join(passes())}")


def run_passes(
    graph: Graph,
    names: Sequence[str],
    after: Callable[[str, Graph], None] = lambda name, graph: None,
    target: Target | None = None,
) -> list[PassRecord]:
    """Run passes by name; ``after`` sees the graph after each. UsageError for an unknown name.

    ``target`` is for the passes that depend on one (default: generic).

    Raises InternalError naming the pass that left a broken graph.
    """
    records = []
    machine = target or resolve("generic")
    require_passes(names)
    for name in names:
        remarks = Remarks()
        start = time.perf_counter()
        changes = passes()[name](graph, remarks, *([machine] if name in _targeted() else []))
        seconds = time.perf_counter() - start
        try:
            graph.verify()
        except InternalError as e:
            raise InternalError(f"pass {name} broke the graph: {e}") from e
        records.append(PassRecord(name, changes, seconds, tuple(remarks.lines)))
        after(name, graph)
    return records
