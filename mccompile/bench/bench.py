"""Compiles a model, builds it as `check` does, and measures it in bursts beside what it is compared with."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mccompile import driver
from mccompile._dataclass import dataclass
from mccompile._version import version_text
from mccompile.bench.engines import ENGINES
from mccompile.bench.layers import PROFILE_HOOKS, Layer, Profiler, layer_lines, layers
from mccompile.bench.machine import Peak, Probes, compiler_name, cpu_name
from mccompile.bench.timing import BURST, Rounds, Spread, duration, interleave, pinned
from mccompile.check.data import inputs_of, with_dims
from mccompile.check.drawn import bounds_of, drawn_inputs
from mccompile.check.reference import feeds_of
from mccompile.check.streams import fitting_extents
from mccompile.codegen.folder import write_folder
from mccompile.driver import Options
from mccompile.ir.dims import symbols
from mccompile.ir.errors import UsageError
from mccompile.ir.files import SUFFIX
from mccompile.ir.graph import Graph
from mccompile.run.code import Code, code_or_note
from mccompile.run.memory import Array
from mccompile.run.network import Network

PROBE_BURST = 0.004
"""Seconds of each of the machine's own probes in a round."""


@dataclass(frozen=True)
class Other:
    """Another engine on the same model: its time, and how many times as long it takes as the generated C."""

    engine: str
    time: Spread
    ratio: float

    def to_json(self) -> dict[str, Any]:
        return {"engine": self.engine, "ms": self.time.to_json(), "ratio": round(self.ratio, 4)}


@dataclass(frozen=True, repr=False)
class BenchResult:
    """What `bench` measured; ``layers`` and ``code`` only if they were asked for; ``code_note`` says why the code is
    not known. ``smaller`` are the inputs that were less than they may be: there are no rates then, as work is counted
    at the largest extents."""

    report: Mapping[str, Any]
    peak: Peak
    rounds: int
    time: Spread
    others: tuple[Other, ...] = ()
    layers: tuple[Layer, ...] | None = None
    code: Code | None = None
    code_note: str = ""
    smaller: tuple[str, ...] = ()

    def __repr__(self) -> str:
        model, target = self.report["model"]["name"], self.report["target"]["name"]
        others = "".join(f", {o.engine} {o.ratio:.2f} times as long" for o in self.others)
        return f"<BenchResult of {model} for {target}: {duration(self.time.median)}{others}>"

    @property
    def flops(self) -> float:
        """Per second, of the multiply-adds that the compiler counts."""
        return 2 * (self.report["macs"] or 0) / self.time.median

    @property
    def bytes_macs(self) -> int:
        """Multiply-adds of kernels of whole numbers, where the core's own rate of these is known."""
        if self.smaller or not self.peak.pairs:
            return 0
        return sum(s["macs"] for s in self.report["steps"] if ".integer" in s["kernel"])

    @property
    def of_pairs(self) -> float:
        """All multiply-adds in the whole time, by what PMADDWD and PADDD could do in it."""
        return (self.report["macs"] or 0) / self.time.median / self.peak.pairs

    def lines(self) -> list[str]:
        """What to show a user."""
        r, t, peak = self.report, self.time, self.peak
        lines = [
            f"{r['model']['name']} ({r['model']['file']}) for {r['target']['name']} -{r['options']['opt_level']}",
            f"  machine     {cpu_name()}, {compiler_name()}",
            f"  one core    {peak.flops / 1e9:.1f} GFLOP/s at {peak.hertz / 1e9:.2f} GHz; "
            f"{peak.near / 1e9:.0f} GB/s near, {peak.far / 1e9:.0f} GB/s far",
            f"  time        {duration(t.median)}, quartiles {duration(t.low)} to {duration(t.high)}, "
            f"best {duration(t.best)}; medians of {self.rounds} rounds",
        ]
        if self.bytes_macs:
            rate = f"{self.of_pairs:.0%} of what PMADDWD and PADDD do ({peak.pairs / 1e9:.1f} a nanosecond)"
            lines.append(f"  bytes       {self.bytes_macs:,} of its MACs are of whole numbers; all: {rate}")
        if r["macs"] and self.smaller:
            rate = f"they are not all of them here, as {', '.join(self.smaller)} may be larger"
            lines.append(f"  arithmetic  {r['macs']:,} MACs at most: {rate}")
        elif r["macs"]:
            rate = f"{self.flops / 1e9:.1f} GFLOP/s, {self.flops / peak.flops:.0%} of the core's roof"
            lines.append(f"  arithmetic  {r['macs']:,} MACs: {rate}")
        for o in self.others:
            lines.append(f"  {o.engine}  {duration(o.time.median)}: {o.ratio:.2f} times as long")
        return lines if self.layers is None else [*lines, "", *layer_lines(self.layers, peak)]

    def to_json(self) -> dict[str, Any]:
        """Plain data for `json.dumps`."""
        total = sum(layer.seconds for layer in self.layers or ())
        more: dict[str, Any] = {"of_pairs": round(self.of_pairs, 4)} if self.bytes_macs else {}
        if self.layers is not None:
            more["layers"] = [x.to_json(self.peak, total) for x in self.layers]
        return {
            "mccompile": version_text(),
            "model": self.report["model"],
            "target": self.report["target"],
            "options": self.report["options"],
            "machine": {"cpu": cpu_name(), "compiler": compiler_name()} | self.peak.to_json(),
            "rounds": self.rounds,
            "ms": self.time.to_json(),
            "macs": self.report["macs"],
            "gflops": None if self.smaller else round(self.flops / 1e9, 3),
            "of_peak": None if self.smaller else round(self.flops / self.peak.flops, 4),
            "arena_bytes": self.report["memory"]["arena_bytes"],
            "blob_bytes": self.report["blob_bytes"],
            "against": [o.to_json() for o in self.others],
        } | more


def bench(
    model: Path,
    options: Options,
    *,
    inputs: Mapping[str, Array] | Array | None = None,
    per_layer: bool = False,
    rounds: int = 11,
    against: str = "",
    seconds: float = BURST,
    with_code: bool = False,
    tick: Callable[[str], None] = lambda stage: None,
) -> BenchResult:
    """Compile a model into a temporary folder, build it and measure it.

    Inputs are kept from run to run: `Options.keep_inputs` is set. State that grows has the largest extents before
    each run that it may have with them.

    Args:
        model: the .onnx file.
        options: how to compile; the target has to be one that this machine runs.
        inputs: arrays by ONNX name, or the array of the only input; random ones if absent. Extents that the options
            leave open are theirs.
        per_layer: also the time of each step, in a second build with hooks.
        rounds: in each, everything has its turn.
        against: another engine to measure beside, such as ``onnxruntime``.
        seconds: of a burst.
        with_code: also ask the compiler how large the code is.
        tick: is told what is going on.

    Raises:
        UsageError: wrong inputs, an unknown engine, or one that is not installed.
        CompileError: the model cannot be compiled, or the C cannot be built or run here.
    """
    if against and against not in ENGINES:
        raise UsageError(f"unknown engine {against!r}", hint=f"known engines: {', '.join(ENGINES)}")
    if against and model.suffix == SUFFIX:
        raise UsageError(f"{against} needs the .onnx model: IR text is read by mccompile alone")
    if not isinstance(rounds, int | np.integer):
        raise UsageError(f"rounds is {rounds!r}, but it has to be a whole number")
    if rounds < 1:
        raise UsageError(f"{rounds} rounds are too few")
    if inputs is not None and model.suffix != SUFFIX:
        options = with_dims(model, options, inputs)
    with tempfile.TemporaryDirectory(prefix="mccompile-bench-") as folder:
        tick("compile")
        compilation, files = driver.compile_files(model, replace(options, keep_inputs=True))
        out = Path(folder) / compilation.graph.name
        write_folder(out, files)
        tick("build")
        network = Network(out)
        profiled = Network(out, hooks=PROFILE_HOOKS) if per_layer else None
        probes = Probes(compilation.target)
        code, note = code_or_note(out, network.report) if with_code else (None, "")
    graph = compilation.graph
    if inputs is None:
        given = drawn_inputs(compilation, 0, bounds_of(graph))
    else:
        given = inputs_of(graph, inputs)
    extents = fitting_extents(graph, given)
    things: dict[str, Callable[[], object]] = {"mccompile": network.repeated(extents)}
    network.set_inputs(given)
    profiler = None
    if profiled is not None:
        profiler = Profiler(profiled, extents)
        profiled.set_inputs(given)
        things["profiled"] = profiler.run
    label = ""
    if against:
        tick(against)
        theirs = {name: np.zeros_like(a) for name, a in network.state.items()}
        asked = feeds_of(model, compilation, compilation.interface.model_inputs(given) | theirs)
        label, things[against] = ENGINES[against](model, asked, options.threads)
    with pinned() if options.threads == 1 else nullcontext():
        machine = interleave(probes.things(), rounds, PROBE_BURST)
        found = interleave(things, rounds, seconds, tick=lambda n: tick(f"round {n + 1} of {rounds}"))
    smaller = _smaller(graph, given, extents)
    result = _result(network.report, probes.peak(machine), rounds, found, profiler, against, label, smaller)
    return replace(result, code=code, code_note=note)


def _smaller(graph: Graph, given: Mapping[str, Array], extents: Mapping[str, int]) -> tuple[str, ...]:
    """The inputs with smaller extents than they may have, and the state that grows further than to ``extents``."""
    fed = [v.name for v in graph.fed if given[v.name].shape != v.type.at_bounds().shape]
    state = [v for _, v in graph.state_values()]
    return *fed, *(v.name for v in state if any(extents.get(s.name, s.high) < s.high for s in symbols(*v.shape)))


def _result(
    report: Mapping[str, Any], peak: Peak, rounds: int, found: Rounds, profiler: Profiler | None, against: str,
    label: str, smaller: tuple[str, ...],
) -> BenchResult:  # fmt: skip
    others = (Other(label, found.spread(against), found.ratio(against, "mccompile")),) if against else ()
    steps = None if profiler is None else layers(report["steps"], profiler.seconds(), not smaller)
    return BenchResult(report, peak, rounds, found.spread("mccompile"), others, steps, smaller=smaller)
