"""Takes the time of candidates side by side on this machine, in the form in which they are generated."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

import numpy as np

from mccompile.bench.layers import PROFILE_HOOKS, Profiler
from mccompile.bench.machine import Probes
from mccompile.bench.timing import interleave, pinned
from mccompile.check.drawn import random_inputs
from mccompile.run.network import Network
from mccompile.targets.target import Target
from mccompile.tune.alone import BESIDE

ROUNDS = 7
SECONDS = 0.02
"""Of a burst."""


class Timer(Protocol):
    """What `mccompile.tune.tune` measures with."""

    def measure(self, folders: Mapping[str, Path]) -> dict[str, float]:
        """Cycles of the node in each folder that holds it compiled (`alone`), by the same names."""
        ...


class MachineTimer:
    """Builds and runs on this machine.

    With ``streamed`` the caches are emptied before each run, but for what the steps before the node write: in a
    network whose weights do not fit, those of a node have been driven out since it ran last.
    """

    def __init__(self, target: Target, streamed: bool) -> None:
        self._probes = Probes(target)
        self._streamed = streamed

    def measure(self, folders: Mapping[str, Path]) -> dict[str, float]:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            networks = dict(zip(folders, pool.map(_build, folders.values()), strict=True))
        profilers = {label: Profiler(n) for label, n in networks.items()}
        things = self._probes.things()
        runs = {label: _after(things["far"], p.run) if self._streamed else p.run for label, p in profilers.items()}
        with pinned():
            clock = interleave({"hertz": things["hertz"]}, ROUNDS, SECONDS / 10)
            interleave(runs, ROUNDS, SECONDS)
        return {label: _node_seconds(p) * self._probes.hertz(clock) for label, p in profilers.items()}


def _after(sweep: Callable[[], object], run: Callable[[], object]) -> Callable[[], object]:
    def both() -> None:
        sweep()
        run()

    return both


def _build(folder: Path) -> Network:
    network = Network(folder, hooks=PROFILE_HOOKS)
    network.set_inputs(random_inputs(network.input_types, 0))
    return network


def _node_seconds(profiler: Profiler) -> float:
    """What the steps took that are not `BESIDE` the node: fills of a halo that a candidate wants are its own."""
    steps = profiler.network.report["steps"]
    return float(np.sum([t for s, t in zip(steps, profiler.seconds(), strict=True) if BESIDE not in s["onnx"]]))
