"""Compiles a model, builds and runs its C, and says whether it computes what the reference computes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from mccompile import driver
from mccompile.check.compare import Comparison, compare, tolerance_factor
from mccompile.check.golden import golden_files
from mccompile.check.reference import Expected, drawn_cases, drawn_extents, drawn_inputs, judge_of
from mccompile.check.streams import RUNS, Stream, stream_of
from mccompile.check.ties import TIE, Ties, is_quantised, judge_layers, rounded_names
from mccompile.check.trace import TRACE_HOOKS, Trace, last_writes, trace
from mccompile.codegen.folder import write_folder
from mccompile.driver import Compilation, Options
from mccompile.ir.dims import Dim
from mccompile.ir.errors import CompileError, UsageError
from mccompile.ir.graph import Graph
from mccompile.ir.small_floats import bf16_values
from mccompile.onnxio import tensor_names
from mccompile.run.build import compiler_version
from mccompile.run.code import Code, code_or_note
from mccompile.run.emulate import compiler_for
from mccompile.run.measure import Measured
from mccompile.run.memory import Fences
from mccompile.run.network import Array, Network
from mccompile.run.program import run_program
from mccompile.run.stack import Stack, stack_of
from mccompile.targets.target import Target, runs_here, strict_warnings

POISON = 0xFF
"""What arenas are full of before a run: NaN as float, -1 as integer, far out of range as index."""

_TIES = {"exact": TIE, "tflite": 0.75}
"""How far results may be from the real ones. TensorFlow Lite rounds twice: to 2^-e steps at first, e at least 1."""

MAX_SHOWN = 6
"""Outputs of one run that are listed; the rest is counted."""


@dataclass(frozen=True)
class Run:
    """One run: what its inputs were, and each output against what was expected."""

    label: str
    comparisons: tuple[Comparison, ...]

    @property
    def ok(self) -> bool:
        return all(c.ok for c in self.comparisons)

    def lines(self, explained: bool = False) -> list[str]:
        """The comparisons; ``explained`` where they differ as they may."""
        verdict, word = ("differs", "diff") if explained else ("FAILED", "FAIL")
        bad = [c for c in self.comparisons if not c.ok]
        good = [c for c in self.comparisons if c.ok]
        shown = [*bad, *good][:MAX_SHOWN]
        lines = [f"{self.label}: {'ok' if self.ok else verdict}"]
        lines += [f"  {'ok  ' if c.ok else word} {c.name} {c.type}: {c.text()}" for c in shown]
        left = len(self.comparisons) - len(shown)
        return lines + ([f"  and {left} more, {max(len(bad) - len(shown), 0)} of them wrong"] if left else [])


@dataclass(frozen=True)
class CheckResult:
    """What `check` found.

    Attributes:
        model, target, judge: what was checked, for what, against what.
        runs: the runs with their comparisons.
        faults: what else is wrong: warnings of the C compiler, results that depend on what memory held before.
        stack: what a run takes of it, where the compiler tells.
        trace: the layers, if they were asked for.
        ties: of a quantised network whose outputs are not those of the reference: whether that is right.
        notes: what was decided for the user.
        measured: what the last run took, where it was on an emulated board.
        report: of the compilation.
        code: how large the code is, if it was asked for; ``code_note`` says why that is not known.
    """

    model: str
    target: str
    judge: str
    runs: tuple[Run, ...]
    faults: tuple[str, ...] = ()
    stack: Stack | None = None
    trace: Trace | None = None
    ties: Ties | None = None
    notes: tuple[str, ...] = ()
    measured: Measured | None = None
    report: Mapping[str, Any] = field(default_factory=dict)
    code: Code | None = None
    code_note: str = ""

    @property
    def ok(self) -> bool:
        if self.ties is not None:  # behind one tie, all layers may differ from the reference's
            return self.ties.ok and not self.faults
        return all(r.ok for r in self.runs) and not self.faults and (self.trace is None or self.trace.ok)

    def lines(self, profile: bool = False) -> list[str]:
        """What to show a user, at most about 25 lines, and one for each step with ``profile``."""
        lines = [f"{self.model} for {self.target}, against {self.judge}"]
        lines += [f"note: {note}" for note in self.notes[:3]]
        for run in self.runs:
            lines += run.lines(explained=self.ties is not None and self.ties.ok)
        if self.ties is not None:
            lines.append(f"quantised: {self.ties.text()}")
        lines += [self.stack.line()] if self.stack else []
        lines += [line for fault in self.faults for line in f"FAIL {fault}".splitlines()[:4]]
        if self.trace is not None:
            lines += _trace_lines(self.trace)
        if self.measured is not None:
            lines += [*self.measured.lines(), *(self.measured.table() if profile else [])]
        return [*lines, "ok" if self.ok else "FAILED"]

    def to_json(self) -> dict[str, Any]:
        """Plain data for `json.dumps`."""
        return {
            "model": self.model,
            "target": self.target,
            "judge": self.judge,
            "ok": self.ok,
            "runs": [
                {"label": r.label, "ok": r.ok, "outputs": [c.to_json() for c in r.comparisons]}
                for r in self.runs
            ],
            "faults": list(self.faults),
            "stack": self.stack.to_json() if self.stack else None,
            "trace": self.trace.to_json() if self.trace else None,
            "ties": self.ties.to_json() if self.ties else None,
            "notes": list(self.notes),
            "measured": self.measured.to_json() if self.measured else None,
        }


def _trace_lines(found: Trace) -> list[str]:
    wrong = [layer for layer in found.layers if not layer.comparison.ok]
    head = f"layers: {len(found.layers)} compared, {len(wrong)} diverge"
    lines = [head + (f", {len(found.skipped)} without a counterpart" if found.skipped else "")]
    if found.first is not None:
        lines += [f"  first: {found.first.text()}", f"    {found.first.comparison.text()}"]
    if found.worst is not None:
        lines += [f"  worst: {found.worst.text()}", f"    {found.worst.comparison.text()}"]
    return lines


@dataclass(frozen=True)
class _Case:
    """A run: ``state`` is what it begins with, where the network keeps any."""

    label: str
    inputs: Mapping[str, Array]
    expected: Expected
    state: Mapping[str, Array]

    @property
    def everything(self) -> dict[str, Array]:
        """What the model is fed."""
        return {**self.inputs, **self.state}


def check(
    model: Path,
    options: Options,
    *,
    inputs: Mapping[str, Array] | None = None,
    expect: Mapping[str, Array] | None = None,
    per_layer: bool = False,
    golden: bool = False,
    seed: int = 0,
    with_code: bool = False,
) -> CheckResult:
    """Compile a model into a temporary folder, build it with strict warnings, run it and compare.

    The first run finds its arena full of 0xFF, the second, on other inputs, as the first has left it, and it has
    to give the same bytes as on an arena full of 0xFF again. Where the network keeps state there are `RUNS` runs in a
    row, beginning with zeros, and so are those of the reference.

    Args:
        model: the .onnx file.
        options: how to compile. What this machine does not run is built by a cross compiler and emulated.
        inputs: arrays by ONNX name; random ones (`random_inputs`) of ``seed`` and ``seed + 1`` if absent.
        expect: outputs by ONNX name, all or some, that replace the reference; needs ``inputs``.
        per_layer: also compare each inner value that exists both in the ONNX model and in the generated code.
        golden: also build and run the test program that ``--golden`` writes.
        seed: of random inputs.
        with_code: also ask the compiler how large the code is.

    Returns:
        The result, whether good or bad.

    Raises:
        UsageError: inputs or expected outputs that do not fit the model.
        CompileError: the model cannot be compiled, the C cannot be built, or the reference cannot run.
    """
    if expect is not None and inputs is None:
        raise UsageError("expected outputs need the inputs they belong to", hint="give --inputs as well")
    with tempfile.TemporaryDirectory(prefix="mccompile-check-") as folder:
        compilation, files = driver.compile_files(model, options)
        out = Path(folder) / compilation.graph.name
        write_folder(out, files)
        return check_folder(
            model, compilation, out, inputs=inputs, expect=expect, per_layer=per_layer, golden=golden, seed=seed,
            with_code=with_code,
        )  # fmt: skip


def check_folder(
    model: Path,
    compilation: Compilation,
    out: Path,
    *,
    inputs: Mapping[str, Array] | None = None,
    expect: Mapping[str, Array] | None = None,
    per_layer: bool = False,
    golden: bool = False,
    seed: int = 0,
    with_code: bool = False,
) -> CheckResult:
    """As `check`, for files that lie in ``out`` already."""
    graph = compilation.graph
    if per_layer and not runs_here(compilation.target.name):
        raise UsageError(
            f"an emulator shows no inner values, and this machine does not run code for {compilation.target.name}",
            hint="leave --per-layer out, or check the target native",
        )
    fences = Fences()
    network, faults = _build(out, compilation.target, fences)
    judge = _judge(model, compilation, network, per_layer) if expect is None or per_layer else None
    cases = _cases(compilation, judge, inputs, expect, seed)
    factor = tolerance_factor(graph)
    runs, unstable = _run_all(network, cases, factor, compilation.options.keep_inputs)
    if not fences.intact() or not network.intact():
        unstable.append("a kernel writes outside of the arena")
    if network.extents and not runs_here(compilation.target.name):  # a run at the largest extents is measured
        network.run(max((c.inputs for c in cases), key=lambda inputs: sum(a.nbytes for a in inputs.values())))
    measured = network.measured()
    unstable += measured.faults if measured else []
    if golden:
        expected_runs = [cases[0].expected] if judge is None else judge.runs(cases[0].inputs)
        unstable += _golden_faults(compilation, out, network.report, cases[0], expected_runs)
    layers = None
    if per_layer:
        traced = Network(out, hooks=TRACE_HOOKS, allocate=fences.allocate)
        traced.fill_arenas(POISON)
        traced.reset()
        assert judge is not None
        expected = cases[0].expected if expect is None else judge.judge.run(cases[0].everything)
        layers = trace(traced, cases[0].inputs, expected, factor)
    ties = None
    if judge is not None and (per_layer or not all(r.ok for r in runs)):
        ties, differing = _explained(model, compilation, network, cases)
        unstable += differing
    stack = _stack(out, network, compilation)
    code, note = code_or_note(out, network.report) if with_code else (None, "")
    return CheckResult(
        model=f"{graph.name} ({compilation.source})",
        target=f"{compilation.target.name} -{compilation.options.opt_level}",
        judge="the given outputs" if expect is not None or judge is None else judge.judge.engine,
        runs=tuple(runs),
        faults=(*faults, *unstable),
        stack=stack,
        trace=layers,
        ties=ties,
        notes=(*compilation.notes, *(judge.judge.notes if judge is not None else ())),
        measured=measured,
        report=network.report,
        code=code,
        code_note=note,
    )


def _explained(
    model: Path, c: Compilation, network: Network, cases: list[_Case]
) -> tuple[Ties | None, list[str]]:
    """The layers of a quantised network on operands of the reference, and where the C is not what its graph says."""
    imported = driver.import_graph(model, replace(c.options, io=c.options.place, input_formats={})).graph
    if not is_quantised(imported):
        return None, []
    known = set(tensor_names(model))
    names = [name for name in rounded_names(imported) if name in known]
    judge = judge_of(model, c, names)
    faults: list[str] = []
    found: list[Ties] = []
    for case in cases:
        given = case.everything
        found.append(judge_layers(imported, c.graph, judge, given, c.interface, _TIES[c.options.requant]))
        for name, array in case.state.items():
            network.state[name][...] = array
        meant, got = c.graph.evaluate(given), _ran(network, case)
        apart = [compare(n, got[n], a, None, 4.0) for n, a in meant.items()]
        faults += [f"the C does not compute its graph: {a.name}: {a.text()}" for a in apart if not a.ok]
    whole = Ties(
        sum(t.layers for t in found), sum(t.elements for t in found), sum(t.differing for t in found),
        tuple(w for t in found for w in t.wrong),
    )  # fmt: skip
    return whole, faults


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
        inner = [name for name in last_writes(network.report) if name in computed]
    return stream_of(model, c, inner)


def _stack(out: Path, network: Network, compilation: Compilation) -> Stack | None:
    """What a run takes of the stack; a note where that is not known."""
    try:
        return stack_of(out, network.report)
    except CompileError as e:
        compilation.notes.append(f"the stack of a run is not known: {e.rule}")
        return None


def _cases(
    c: Compilation,
    judge: Stream | None,
    inputs: Mapping[str, Array] | None,
    expect: Mapping[str, Array] | None,
    seed: int,
) -> list[_Case]:
    if inputs is None:
        assert judge is not None
        seeds = range(seed, seed + (RUNS if c.graph.state else drawn_cases(c)))
        return [_judged(_drawn_label(c, s), drawn_inputs(c, s), judge) for s in seeds]
    graph = c.graph
    _require_inputs(graph, inputs)
    if expect is None:
        assert judge is not None
        if not graph.state:
            return [_judged("given inputs", inputs, judge)]
        return [_judged(f"given inputs, run {i + 1}", inputs, judge) for i in range(RUNS)]
    names = [v.name for v in graph.outputs]
    unknown = sorted(set(expect) - set(names))
    if unknown or not expect:
        raise UsageError(
            f"expected outputs {unknown} are no outputs of the model" if unknown else "no outputs are expected",
            hint=f"its outputs are {', '.join(names)}",
        )
    return [_Case("given inputs", inputs, Expected({n: np.asarray(expect[n]) for n in expect}, {}), {})]


def _judged(label: str, inputs: Mapping[str, Array], judge: Stream) -> _Case:
    """The next run of a stream."""
    begin = dict(judge.held)
    return _Case(label, inputs, judge.run(inputs), begin)


def _drawn_label(c: Compilation, seed: int) -> str:
    extents = ", ".join(f"{name}={n}" for name, n in drawn_extents(c, seed).items())
    return f"random inputs, seed {seed}" + (f", {extents}" if extents else "")


def _require_inputs(graph: Graph, inputs: Mapping[str, Array]) -> None:
    """UsageError unless there is exactly one array of the right shape and type for each input of the model."""
    types = {v.name: v.type for v in graph.fed}
    missing, unknown = [n for n in types if n not in inputs], [n for n in inputs if n not in types]
    if missing or unknown:
        raise UsageError(
            "; ".join(
                [f"no array is given for input {n!r}" for n in missing]
                + [f"the model has no input {n!r}" for n in unknown]
            ),
            hint=f"its inputs are {', '.join(f'{n} {t}' for n, t in types.items())}",
        )
    for name, t in types.items():
        given = np.asarray(inputs[name])
        known = [(e, g) for e, g in zip(t.shape, given.shape, strict=False) if not isinstance(e, Dim)]
        if given.ndim != t.rank or any(e != g for e, g in known) or given.dtype != t.dtype.numpy:
            raise UsageError(f"input {name!r} is {given.dtype}{list(given.shape)}, but the model takes {t}")


def _run_all(
    network: Network, cases: list[_Case], factor: float, keep_inputs: bool
) -> tuple[list[Run], list[str]]:
    """Each case on the arena as it is (0xFF at first), then once more on 0xFF: the same bytes have to come out. Where
    the network keeps state, all of them once more, in a row."""
    runs: list[Run] = []
    faults: list[str] = []
    network.fill_arenas(POISON)
    network.reset()
    results: list[dict[str, Array]] = []
    for case in cases if len(cases) > 1 else cases * 2:
        if len(cases) == 1:
            network.reset()
        results.append(_ran(network, case))
        kept = [n for n in case.inputs if keep_inputs or network.is_lent(n)]
        if any(not _same(network.inputs[n], case.inputs[n]) for n in kept):
            faults.append("a run changes its inputs, which keep_inputs or io=caller forbid")
    for case, got in zip(cases, results, strict=False):
        expected = _with_axes(case.expected, got, network.report["outputs"])
        runs.append(Run(case.label, tuple(_compared(expected, got, factor))))
    network.fill_arenas(POISON)
    network.reset()
    for case in cases if network.state else cases[-1:]:
        again = _ran(network, case)
    moved = [n for n, a in results[-1].items() if not _same(a, again[n])]
    if moved:
        faults.append(f"output {', '.join(moved)} depends on what the arena holds before the run")
    return runs, faults


def _compared(expected: Expected, got: Mapping[str, Array], factor: float) -> Iterator[Comparison]:
    """The results that are expected; bits of bfloat16 as the numbers that they stand for."""
    for name, want in expected.values.items():
        if name not in got:
            continue
        found = got[name]
        if name in expected.halves and found.dtype == want.dtype:
            found, want = bf16_values(found), bf16_values(want)
        yield compare(name, found, want, expected.noise.get(name), factor)


def _with_axes(expected: Expected, got: Mapping[str, Array], ports: Iterable[Mapping[str, Any]]) -> Expected:
    """What is expected, with the axes of extent 1 that the reference squeezes out because they are 1 in this run.

    Squeeze without axes makes [] of [1] and [8] of [8]; of an extent 1..8 the code makes [1] and [8].
    """
    values, noise = dict(expected.values), dict(expected.noise)
    for port in ports:
        name, extents = port["name"], port.get("extents", ())
        if name not in values or name not in got or len(extents) != got[name].ndim:
            continue
        shape = got[name].shape
        left = tuple(e for e, given in zip(shape, extents, strict=True) if e != 1 or not isinstance(given, str))
        if len(left) < len(shape) and values[name].shape == left:
            values[name] = values[name].reshape(shape)
            if name in noise:
                noise[name] = noise[name].reshape(shape)
    return replace(expected, values=values, noise=noise)


def _ran(network: Network, case: _Case) -> dict[str, Array]:
    """What a run gives, and what it leaves as state, by the model's names of outputs."""
    outputs = network.run(case.inputs)
    return outputs | {p["output"]: network.state[p["name"]].copy() for p in network.report["state"]}


def _golden_faults(
    c: Compilation, out: Path, report: Mapping[str, Any], case: _Case, expected: Sequence[Expected]
) -> list[str]:
    """What is wrong with the test program of a case, on the target's machine; ``expected`` of runs in a row."""
    later = [e.values for e in expected[1:]]
    for name, data in golden_files(c, case.inputs, expected[0].values, case.expected.noise, later).items():
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


