"""Compiles a model, builds and runs its C, and says whether it computes what the reference computes."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mccompile import driver
from mccompile.check.cases import Asked, Case, cases_of, ran
from mccompile.check.cautions import unmoved, unsure
from mccompile.check.compare import Tolerance
from mccompile.check.data import accuracy_of, with_dims
from mccompile.check.golden import golden_files
from mccompile.check.judged import WRONG, fault_of
from mccompile.check.layers_of_c import wrong_layers
from mccompile.check.own_graph import FEW, unlike_graph, without_noise
from mccompile.check.precision import is_narrow, precision_of, unrounded, unused
from mccompile.check.result import Accuracy, CheckResult
from mccompile.check.streams import (
    GoldenRun,
    OfGraph,
    Stream,
    first_state,
    stream_of,
    stream_of_c,
)
from mccompile.check.ties import explained, rounds_anywhere
from mccompile.check.trace import TRACE_HOOKS, trace, writers
from mccompile.check.verdict import Verdict
from mccompile.codegen.folder import write_folder
from mccompile.driver import Compilation, Options
from mccompile.interface.tensors import Interface
from mccompile.ir.dims import symbols
from mccompile.ir.errors import CompileError, UsageError
from mccompile.ir.files import SUFFIX
from mccompile.ir.graph import Graph
from mccompile.onnxio import tensor_names
from mccompile.run.build import compiler_version
from mccompile.run.code import code_or_note
from mccompile.run.emulate import compiler_for
from mccompile.run.memory import Array, Fences, give_back
from mccompile.run.network import Network
from mccompile.run.program import run_program
from mccompile.run.stack import Stack, stack_of
from mccompile.targets.target import Target, runs_here, strict_warnings

POISON = 0xFF
"""What arenas are full of before a run: NaN as float, -1 as integer, far out of range as index."""

def check(
    model: Path,
    options: Options,
    *,
    inputs: Mapping[str, Array] | Array | None = None,
    expect: Mapping[str, Array] | Array | None = None,
    labels: Any = None,
    tolerance: Tolerance | None = None,
    per_layer: bool = False,
    golden: bool = False,
    seed: int = 0,
    with_code: bool = False,
    max_error: float | None = None,
) -> CheckResult:
    """Compile a model into a temporary folder, build it with strict warnings, run it and compare.

    The first run finds its arena full of 0xFF, the second, on other inputs, as the first has left it, and it has
    to give the same bytes as on an arena full of 0xFF again. Where the network keeps state there are `RUNS` runs in a
    row, beginning with zeros, and so are those of the reference: fewer where what grows has no room for so many.

    Args:
        model: the .onnx file.
        options: how to compile. What this machine does not run is built by a cross compiler and emulated.
        inputs: arrays by ONNX name, or the array of the only input: of one run, or of many samples (`samples.cut`
            says how they lie), which are runs in a row. Extents that the options leave open are theirs. Random ones
            (`random_inputs`) of ``seed`` and ``seed + 1`` if absent, these `with_edges` if the reference takes them.
        expect: outputs by ONNX name, all or some, or the array of the only one, that replace the reference; needs
            ``inputs``.
        labels: the right class of each sample: the accuracy of the first output is counted.
        tolerance: what is allowed instead of the rule of `compare`.
        per_layer: also compare each inner value that exists both in the ONNX model and in the generated code.
        golden: also build and run the test program that ``--golden`` writes.
        seed: of random inputs.
        with_code: also ask the compiler how large the code is.
        max_error: the error of an output that is allowed where weights are stored in fewer bits: the length of the
            difference by that of the output; by default what the forms explain (`precision`).

    Returns:
        The result, whether good or bad.

    Raises:
        UsageError: inputs or expected outputs that do not fit the model.
        CompileError: the model cannot be compiled, the C cannot be built, or the reference cannot run.
    """
    if model.suffix == SUFFIX:
        raise UsageError("check needs the .onnx model: it compares with what that computes")
    if inputs is None and (expect is not None or labels is not None):
        what = "labels" if expect is None else "expected outputs"
        raise UsageError(f"{what} need the inputs they belong to", hint="give --inputs as well")
    if max_error is not None and not 0 <= max_error < np.inf:
        raise UsageError(f"max_error is {max_error}, but it has to be a number of at least 0")
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise UsageError(f"seed is {seed}, but it has to be a whole number of at least 0")
    if inputs is not None:
        options = with_dims(model, options, inputs)
    with tempfile.TemporaryDirectory(prefix="mccompile-check-") as folder:
        compilation, out = _written(model, options, Path(folder), golden)
        asked = Asked(inputs, expect, labels, tolerance, per_layer, golden, seed, with_code, max_error)
        return _checked(model, compilation, out, asked)


def _written(model: Path, options: Options, folder: Path, golden: bool) -> tuple[Compilation, Path]:
    """Compile a model into a folder below ``folder``. Of what was made of its graph nothing is held that lies there
    now: packed weights may be most of memory."""
    c, files = driver.compile_files(model, options)
    out = folder / c.graph.name
    write_folder(out, files)
    c.lowered = c.improved = c.program = None
    if not golden:  # whose test program has the blob
        c.facts = None
    del files
    give_back()
    return c, out


def check_folder(
    model: Path, compilation: Compilation, out: Path, *, per_layer: bool = False, golden: bool = False, seed: int = 0
) -> CheckResult:
    """As `check` on random inputs, for files that lie in ``out`` already."""
    return _checked(model, compilation, out, Asked(per_layer=per_layer, golden=golden, seed=seed))


def _checked(model: Path, compilation: Compilation, out: Path, asked: Asked) -> CheckResult:
    expect, per_layer = asked.expect, asked.per_layer
    graph = compilation.graph
    if per_layer and not runs_here(compilation.target.name):
        raise UsageError(
            f"an emulator shows no inner values, and this machine does not run code for {compilation.target.name}",
            hint="leave --per-layer out, or check the target native",
        )
    fences = Fences()
    network, faults = _build(out, compilation.target, fences)
    judge = _judge(model, compilation, network, per_layer) if expect is None or per_layer else None
    cases = cases_of(compilation, judge, asked)
    verdict = Verdict(graph, asked.tolerance)
    results, unstable = _run_all(network, cases, compilation.options.keep_inputs)
    cases = cases if expect is None else _with_state(graph, cases, results)
    runs = [verdict.run(case.label, case.expected, got) for case, got in zip(cases, results, strict=True)]
    if judge is not None and expect is None and any(map(verdict.is_unsure, runs)):
        surer = judge.judge.surer()
        cases = [replace(case, expected=surer.run(case.everything)) for case in cases]
        runs = [verdict.run(case.label, case.expected, got) for case, got in zip(cases, results, strict=True)]
    if not fences.intact() or not network.intact():
        unstable.append("a kernel writes outside of the arena")
    if network.extents and not runs_here(compilation.target.name):  # a run at the largest extents is measured
        network.run(max((c.inputs for c in cases), key=lambda inputs: sum(a.nbytes for a in inputs.values())))
    measured = network.measured()
    unstable += measured.faults if measured else []
    if asked.golden:
        tested = _golden_runs(model, compilation, judge, cases, asked)
        unstable += _golden_faults(compilation, out, network.report, tested)
    layers = traced = None
    if per_layer:
        traced = Network(out, hooks=TRACE_HOOKS, allocate=fences.allocate)
        traced.fill_arenas(POISON)
        traced.reset()
        assert judge is not None
        expected = cases[0].expected if expect is None else judge.judge.run(cases[0].everything)
        layers = trace(traced, cases[0].inputs, expected, verdict.factors)
    ties = None
    narrow = is_narrow(compilation) and asked.tolerance is None
    alike = not any(o.problem for r in runs for o in r.comparisons)  # no tie gives another shape
    by_ties = judge is not None and asked.tolerance is None and not narrow and alike
    if by_ties and (per_layer or not all(r.ok for r in runs)):
        ties = explained(model, compilation, [case.everything for case in cases])
    precision = None
    if narrow:
        each = [(case.everything, case.expected.values, got) for case, got in zip(cases, results, strict=True)]
        plain = unrounded(model, compilation)
        precision = precision_of(compilation, plain, each, asked.max_error, expect is not None)
        if judge is not None and expect is None:
            unstable += _unlike_judge(model, plain, judge, cases)
    # A step of the reference's own is no reason why all may be some steps off.
    by_layers = by_ties and rounds_anywhere(graph)
    by_noise = by_layers and not all(
        verdict.run("", without_noise(case.expected), got).ok for case, got in zip(cases, results, strict=True)
    )
    if ties is not None or precision is not None or by_noise:  # these do not judge the C, but what its graph is worth
        unstable += unlike_graph(compilation, network, cases, lambda: Network(out, hooks=TRACE_HOOKS), by_layers)
    if ties is not None and traced is not None and not graph.state:  # nor is a layer of the reference's, behind a tie
        apart = wrong_layers(graph, traced, cases[0].inputs, FEW)
        unstable += [f"a layer of the C does not compute what its graph does: {line}" for line in apart]
    stack = _stack(out, network, compilation)
    code, note = code_or_note(out, network.report) if asked.with_code else (None, "")
    return CheckResult(
        model=f"{graph.name} ({compilation.source})",
        target=f"{compilation.target.name} -{compilation.options.opt_level}",
        judge="the given outputs" if expect is not None or judge is None else judge.judge.engine,
        runs=tuple(runs),
        faults=(*faults, *unstable),
        stack=stack,
        trace=layers,
        ties=ties,
        precision=precision,
        notes=(
            *unmoved(_computed(graph, cases), [case.expected for case in cases]),
            *([] if per_layer else unsure(runs)), *compilation.notes, *unused(compilation),
            *(judge.judge.notes if judge is not None else ()),
        ),
        measured=measured,
        report=network.report,
        code=code,
        code_note=note,
        expected=expect is not None,
        accuracy=_accuracy(compilation.interface, cases, results, asked.labels),
    )


def _computed(graph: Graph, cases: Sequence[Case]) -> list[str]:
    """The outputs that drawn inputs should move."""
    return [] if any(case.given for case in cases) else [v.name for v in graph.outputs if v not in graph.constants]


def _accuracy(
    interface: Interface, cases: Sequence[Case], results: Sequence[Mapping[str, Array]], labels: Any
) -> tuple[Accuracy, ...]:
    """How good the outputs are over a user's samples, where there are several of them."""
    if labels is None and (len(cases) == 1 or not cases[0].given):
        return ()
    return accuracy_of([case.expected.values for case in cases], results, interface, labels)


def _unlike_judge(model: Path, plain: Compilation, judge: Stream, cases: Sequence[Case]) -> list[str]:
    """Where the graph with nothing in fewer bits, by which error is measured, is not what the judge computes."""
    for case in cases:
        given = case.everything
        if fault := fault_of(model, plain, judge.judge, given, case.expected, OfGraph(plain).meant(given)):
            return [f"in f32, {WRONG} {judge.judge.engine} computes: {fault}"]
    return []


def _build(out: Path, target: Target, fences: Fences) -> tuple[Network, list[str]]:
    """The network, built with warnings as errors; if there are any, without, and a fault that shows them."""
    compiler = compiler_for(target)
    try:
        flags = tuple(strict_warnings(compiler_version(compiler).lower()))
        return Network(out, flags, allocate=fences.allocate, emulate=True), []
    except CompileError as e:
        if isinstance(e, UsageError):
            raise
        network = Network(out, allocate=fences.allocate, emulate=True)
        return network, [f"the C does not build without warnings: {e}"]


def _judge(model: Path, c: Compilation, network: Network, per_layer: bool) -> Stream:
    inner: list[str] = []
    if per_layer:
        computed = set(tensor_names(model))
        inner = [name for name in writers(network.report) if name in computed]
    return stream_of(model, c, inner)


def _stack(out: Path, network: Network, compilation: Compilation) -> Stack | None:
    """What a run takes of the stack; a note where that is not known."""
    try:
        return stack_of(out, network.report)
    except CompileError as e:
        compilation.notes.append(f"the stack of a run is not known: {e.rule}")
        return None


def _run_all(
    network: Network, cases: list[Case], keep_inputs: bool
) -> tuple[list[dict[str, Array]], list[str]]:
    """Each case on the arena as it is (0xFF at first), then once more on 0xFF: the same bytes have to come out. Where
    the network keeps state, all of them once more, in a row."""
    faults: list[str] = []
    network.fill_arenas(POISON)
    network.reset()
    results: list[dict[str, Array]] = []
    for case in cases if len(cases) > 1 else cases * 2:
        if len(cases) == 1:
            network.reset()
        results.append(ran(network, case))
        kept = [n for n in case.inputs if keep_inputs or network.is_lent(n)]
        if any(not _same(network.inputs[n], case.inputs[n]) for n in kept):
            faults.append("a run changes its inputs, which keep_inputs or io=caller forbid")
    network.fill_arenas(POISON)
    network.reset()
    for case in cases if network.state else cases[-1:]:
        again = ran(network, case)
    moved = [n for n, a in results[-1].items() if not _same(a, again[n])]
    if moved:
        faults.append(f"output {', '.join(moved)} depends on what the arena holds before the run")
    return results[: len(cases)], faults


def _with_state(graph: Graph, cases: Sequence[Case], results: Sequence[Mapping[str, Array]]) -> list[Case]:
    """Runs in a row with what each began with: no judge was asked for what the ones before have left."""
    state, found = first_state(graph), []
    for case, result in zip(cases, results, strict=True):
        found.append(replace(case, state=state))
        state = {given: result[name] for name, given in graph.state.items()}
    return found


def _golden_runs(
    model: Path, c: Compilation, judge: Stream | None, cases: Sequence[Case], asked: Asked
) -> list[GoldenRun]:
    """What the test program runs, and what it expects: random inputs where those that are given are smaller than the
    largest, with which it begins; what the user expects if that is all, and judged as test programs do."""
    inputs, grown = cases[0].inputs, c.graph.growths()
    fed = [v for v in c.graph.fed if not any(s.name in grown for s in symbols(*v.shape))]
    if asked.inputs is not None and any(v.type.at_bounds().shape != inputs[v.name].shape for v in fed):
        c.notes.append("the golden test has random inputs of the largest extents, which those given have not")
        return stream_of_c(model, c).drawn_runs(c, asked.seed)
    whole = {v.name for v in c.graph.outputs} - c.graph.state.keys() <= cases[0].expected.values.keys()
    if asked.expect is not None and whole and asked.tolerance is None and not is_narrow(c):
        return [(inputs, cases[0].expected)]
    stream = stream_of_c(model, c)
    return stream.drawn_runs(c, asked.seed) if asked.inputs is None else stream.runs(inputs)


def _golden_faults(c: Compilation, out: Path, report: Mapping[str, Any], runs: Sequence[GoldenRun]) -> list[str]:
    """What is wrong with the test program of runs in a row, on the target's machine."""
    (inputs, first), *later = runs
    for name, data in golden_files(c, inputs, first.values, first.of_channels, later).items():
        (out / name).write_bytes(data)
    parts = report.get("sources", [f"{c.graph.name}.c", "mcc.c"])
    sources = [out / name for name in (*parts, f"test_{c.graph.name}.c")]
    done = run_program(c.target, sources, c.target.c_flags, out)
    if done.returncode == 0 and done.stdout.endswith(f"PASS {c.graph.name}\n"):
        return []
    said = " ".join([*done.stdout.splitlines()[:2], *done.stderr.splitlines()[:2]])
    return [f"the test program ended with status {done.returncode}: {said}"]


def _same(a: Array, b: Array) -> bool:
    """True if two arrays are the same bytes, NaN included."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == np.ascontiguousarray(b).tobytes()


