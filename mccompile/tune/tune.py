"""Measures every candidate of every distinct node of a model, as far as nobody has done so before."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mccompile import driver, model_options
from mccompile.bench.machine import DEFAULT_L2, compiler_name, cpu_name
from mccompile.codegen.folder import write_folder
from mccompile.codegen.packages import DEFAULT
from mccompile.codegen.pieces import Bytes, Files
from mccompile.driver import Compilation, Options
from mccompile.ir.errors import UsageError
from mccompile.ir.graph import Graph, Node
from mccompile.kernels.registry import candidates
from mccompile.kernels.variant import Offer
from mccompile.lower.cost_table import UNMEASURED, signature
from mccompile.search.candidates import budget
from mccompile.targets.target import Target, resolve, runs_here
from mccompile.tune.alone import NAME, alone
from mccompile.tune.table import (
    Conditions,
    Measurement,
    TuningFile,
    load,
    load_cached,
    load_for,
    measured,
    save_cached,
)
from mccompile.tune.timer import MachineTimer, Timer

HOPELESS = 8
"""Candidates whose estimate is more than so many times that of the best are not measured."""

Tick = Callable[[str], None]


def apply(
    options: Options, models: Sequence[Path], measure: bool, file: Path | None, tick: Tick = lambda text: None
) -> Options:
    """Options that follow measurements: those of a ``file``; with ``measure`` new ones, which the file, or else the
    user's cache, keeps. The options as they are if there is neither.

    Raises:
        UsageError: a file that is damaged or of another target, or `tune_model`'s.
        CompileError: `tune_model`'s, or what is new cannot be written.
    """
    if not measure:
        if file is None:
            return options
        return replace(options, costs=load_for(file, resolve(options.target).name).costs())
    nodes: dict[str, Mapping[str, Measurement]] = {}
    for model, own in zip(models, model_options.options_of(models, options), strict=True):
        tuned = tune_model(model, own, file if file is not None and file.exists() else None, tick)
        nodes |= tuned.nodes
        if file is None:
            save_cached(tuned)
    merged = replace(tuned, nodes=nodes)
    if file is not None:
        merged.save(file)
    return replace(options, costs=merged.costs())


def tune_model(model: Path, options: Options, file: Path | None = None, tick: Tick = lambda text: None) -> TuningFile:
    """Measure what a compilation of ``model`` would choose from.

    Args:
        model: the .onnx file, or graph IR.
        options: how it is to be compiled; for a target that this machine runs.
        file: measurements to begin with, if they were made under the same conditions; by default the user's cache.
        tick: is told what is going on.

    Raises:
        UsageError: another machine's target, or no graph to choose kernels for.
        CompileError: the model cannot be compiled, or there is no C compiler.
    """
    c = driver.open_model(model, options)
    if not runs_here(c.target.name):
        raise UsageError(
            f"--tune measures on this machine, which does not run code for target {c.target.name}",
            hint="tune on a machine that does, and give the file it makes with --tuning",
        )
    if c.lowered is not None:
        raise UsageError(f"the kernels of {model.name} are chosen already", hint="--tune needs the model")
    tick("optimise")
    driver.optimize(c)
    now = conditions(c)
    store = load_cached(now) if file is None else load(file)
    if store.conditions != now:
        store = TuningFile(now)
    return tune(c, store, MachineTimer(c.target, now.weights == "streamed"), tick)


def conditions(c: Compilation) -> Conditions:
    """What measurements for a compilation hold for."""
    weights = sum(v.type.nbytes for v in c.graph.constants)
    kept = "cached" if weights <= (c.target.machine.l2 or DEFAULT_L2) else "streamed"
    return Conditions(cpu_name(), compiler_name(), c.target.name, c.target.c_flags, c.options.opt_level, kept)


def tune(c: Compilation, store: TuningFile, timer: Timer, tick: Tick = lambda text: None) -> TuningFile:
    """Measure, with ``timer``, the candidates of each distinct node of an optimised graph that has several, unless
    ``store`` has measurements of this very code."""
    nodes = list(_rivals(c.graph, c.target, budget(c.options, c.graph).room))
    for i, (name, node, rivals) in enumerate(nodes):
        tick(f"measure node {i + 1} of {len(nodes)}: {len(rivals)} kernels for {node.op.name}")
        built = {v.label: _compiled(node, c, v.label) for v in rivals}
        codes = {label: _digest(files) for label, files in built.items()}
        if all(store.find(name, label, code) for label, code in codes.items()):
            continue
        with tempfile.TemporaryDirectory(prefix="mccompile-tune-") as folder:
            places = {label: Path(folder) / str(n) for n, label in enumerate(built)}
            for label, files in built.items():
                write_folder(places[label], files)
            cycles = timer.measure(places)
        store = store.plus(name, {label: measured(c, codes[label]) for label, c in cycles.items()})
    return store


def _rivals(graph: Graph, target: Target, growth: int) -> Iterator[tuple[str, Node, list[Offer]]]:
    """Each distinct node with several candidates that are worth measuring, and its signature. None may add more than
    ``growth`` bytes to the weights. Where extents are those of the run, they are measured at the largest."""
    seen: set[str] = set()
    for node in graph.nodes:
        name = signature(node, graph.constants)
        if node.op.name == "reshape" or name in seen:
            continue
        seen.add(name)
        able = [v for v in candidates(node.op.name) if not node.varies or v.runs(node)]
        planned = node.at_bounds()
        offers = [o for v in able for o in v.offers(planned, target, graph.constants)]
        offers = [o for o in offers if o.growth_bytes <= growth]
        limit = HOPELESS * min((o.cycles for o in offers), default=0.0)
        rivals = [o for o in offers if o.cycles <= limit]
        if len(rivals) > 1:
            yield name, node, rivals


def _compiled(node: Node, c: Compilation, label: str) -> dict[str, Bytes]:
    """The files of a node by itself, in the form that a compilation would give it, with one of its candidates: its
    weights are narrow already, and no other node that options may name is there."""
    single = alone(node, c.graph)
    force = {node.op.name: label}
    own = replace(c.options, keep_inputs=True, name="", embed=False, package=DEFAULT, passes=(), weights={},
                  precision={}, kernels=force, memory=(), ram=None, split_kernels=False, pthread_pool=False,
                  project="", share_arena=False, costs=UNMEASURED)  # fmt: skip
    return driver.finish(Compilation(single.name, "0" * 64, own, c.target, single, []))


def _digest(files: Files) -> str:
    """Of the C that is measured."""
    return hashlib.sha256(bytes(files[f"{NAME}.c"])).hexdigest()[:16]
