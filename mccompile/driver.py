"""The compiler as one readable list of stages, from a path to a folder of C."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.codegen.facts import ModelFacts
from mccompile.codegen.files import source_files
from mccompile.codegen.folder import write_folder
from mccompile.codegen.kernels import KernelPool
from mccompile.codegen.library import make_library
from mccompile.codegen.model import model_facts
from mccompile.codegen.names import given_name, model_name
from mccompile.codegen.pieces import Bytes, Files
from mccompile.importer.choices import together
from mccompile.importer.convert import convert
from mccompile.importer.dim_values import listed
from mccompile.importer.draws import Draws
from mccompile.importer.outline import outline
from mccompile.importer.prepare import Prepared, prepare
from mccompile.interface.interface import make_interface
from mccompile.ir import files as ir_files
from mccompile.ir.dims import UndecidedError
from mccompile.ir.dims_hints import hint_of
from mccompile.ir.errors import CompileError, UsageError
from mccompile.ir.graph import Graph
from mccompile.ir.limits import limited
from mccompile.kernels.model.arithmetic import float_arithmetic
from mccompile.onnxio import OnnxModel, read_model
from mccompile.ops.held import HELD_IN
from mccompile.passes.analysis.weight_forms import EVERY, by_node, named
from mccompile.passes.manager import exact_only, run_passes, with_plugins
from mccompile.passes.pipeline import PIPELINES
from mccompile.plan.regions import Work
from mccompile.report.report import make_report, write_report
from mccompile.report.summary import size_text
from mccompile.search.candidates import Observer, candidates, growth_factor, in_vain, unobserved
from mccompile.search.fit import Room, fit
from mccompile.search.options import Options, require_sense
from mccompile.search.resume import load_ir, resume, target_of, text_at_fault
from mccompile.search.state import Compilation
from mccompile.targets.target import Target, targets

__all__ = [
    "Artifacts",
    "Compilation",
    "Options",
    "compile",
    "compile_files",
    "compile_program",
    "finish",
    "import_graph",
    "load_ir",
    "open_model",
    "optimize",
]


Writer = Callable[[Path, Files], None]
"""What puts all files into a folder, or none."""

STREAM_ROWS = "stream-rows"
"""The pass that `Options.stream_rows` may forbid."""


@dataclass(frozen=True, repr=False)
class Artifacts:
    """What a compilation made: the folder, the C prefix, the report, and notes for the user."""

    out_dir: Path
    name: str
    report: dict[str, Any]
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        arena, weights = self.report["memory"]["arena_bytes"], self.report["weights_bytes"]
        sizes = f"{size_text(arena)} of RAM, {size_text(weights)} of weights"
        return f"<{self.name} for {self.report['target']['name']} in {self.out_dir}: {sizes}>"

    def with_notes(self, notes: Iterable[str]) -> Artifacts:
        """With other words for the notes."""
        return replace(self, notes=tuple(notes))


def open_model(path: str | Path, options: Options) -> Compilation:
    """A compilation from a model file, or from IR text to be resumed. Raises CompileError, UsageError."""
    path = Path(path)
    with _stage():
        return resume(path, options) if path.suffix == ir_files.SUFFIX else import_graph(path, options)


@contextmanager
def _stage() -> Iterator[None]:
    """What holds as long as a network is worked on: CompileError, with what to do, where something depends on extents
    that are known at run time only; and numbers beyond their type are infinite, as they are in C, without numpy's
    warning."""
    try:
        with np.errstate(over="ignore"):
            yield
    except UndecidedError as e:
        rule = f"the network cannot be compiled for all of these extents: {e}"
        raise CompileError(rule, hint=hint_of(e), code="open-extents") from e


def import_graph(path: str | Path, options: Options) -> Compilation:
    """Read a model and turn it into graph IR. Raises CompileError, UsageError."""
    with limited(options.limits):
        return _imported(path, options)


def _imported(path: str | Path, options: Options) -> Compilation:
    model = read_model(path)
    name = given_name(options.name) if options.name else model_name(default_name(Path(path)))
    several = listed(options.dims)
    if several is None:
        graph, prepared = _converted(model, options, options.dims, name)
        notes = list(prepared.notes)
    else:
        dim, numbers = several
        taken: set[str] = set()
        made = {n: _converted(model, options, {**options.dims, dim: n}, f"{name}.{dim}{n}", taken) for n in numbers}
        notes = list(dict.fromkeys(note for _, found in made.values() for note in found.notes))
        prepared = made[numbers[0]][1]
        graph = together(name, dim, prepared.words.get(dim, dim), {n: part for n, (part, _) in made.items()})
    packed = {v.name: v.dtype for v in prepared.inputs if v.dtype in HELD_IN}
    interface = make_interface(graph, options.input_formats, options.keeps_bytes, notes, options.state, packed)
    return Compilation(
        source=Path(path).name,
        sha256=model.sha256,
        options=options,
        target=target_of(options),
        graph=graph,
        notes=notes,
        onnx_nodes=len(model.graph.nodes),
        outline=outline(model.graph),
        interface=replace(
            interface, legends=prepared.legends, halves=_of_type(prepared, "bf16"), texts=_of_type(prepared, "string")
        ),
        draws=tuple(prepared.draws.made),
    )


def _converted(
    model: OnnxModel, options: Options, dims: Mapping[str, int | str], name: str, taken: set[str] | None = None
) -> tuple[Graph, Prepared]:
    """The graph of a model for given dims, and the model in the form that it was made of; ``taken``: names of extents
    that other graphs of the program find out when they run."""
    shapes = {k: list(v) for k, v in options.input_shapes.items()}
    prepared = prepare(model, dict(dims), shapes, options.constants)
    prepared = replace(prepared, draws=Draws(options.random == "input"))
    graph = convert(prepared, name, options.bounds, options.string_bytes, taken)
    return graph, prepared


def _of_type(prepared: Prepared, dtype: str) -> frozenset[str]:
    """The inputs and outputs that the model has of a type."""
    return frozenset(v.name for v in (*prepared.inputs, *prepared.model.graph.outputs) if v.dtype == dtype)


def default_name(path: Path) -> str:
    """The file's name; that of its folder where the file is just called model.onnx."""
    return path.resolve().parent.name if path.stem == "model" else path.stem


def optimize(c: Compilation, observe: Observer = unobserved) -> None:
    """Run the passes of the optimisation level, or those the options name."""
    require_sense(c.options)
    names = with_plugins(PIPELINES[c.options.opt_level]) if c.options.passes is None else c.options.passes
    if c.options.stream_rows == "never":
        names = [n for n in names if n != STREAM_ROWS]
    require_nodes(c, [*c.options.weights, *c.options.precision])
    require_products(c.target, c.options.precision)
    _note_threads(c)
    names = exact_only(names) if c.options.exact else names
    nodes = nodes_of(c)
    weights, precision = by_node(c.options.weights, nodes), by_node(c.options.precision, nodes)
    c.passes = run_passes(
        c.graph, names, observe, c.target, weights, precision, growth_factor(c.options), c.options.kernels
    )


def require_nodes(c: Compilation, patterns: Iterable[str]) -> None:
    """UsageError for a name in ``--weights`` or ``--precision`` that no node has."""
    require_named(nodes_of(c), patterns)


def nodes_of(c: Compilation) -> list[tuple[tuple[str, ...], str]]:
    """The names of each node, and that of its operator."""
    return [(n.origins, n.op.name) for n, _ in c.graph.everywhere()]


def require_named(nodes: Sequence[tuple[tuple[str, ...], str]], patterns: Iterable[str]) -> None:
    for pattern in patterns:
        if pattern != EVERY and not any(named(pattern, *node) for node in nodes):
            known = dict.fromkeys(name for origins, op in nodes for name in (*origins, op))
            near = difflib.get_close_matches(pattern, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else "'mccompile inspect' lists the nodes"
            raise UsageError(f"no node is named {pattern!r}", hint=hint)


def has_products(target: Target, form: str) -> bool:
    """Whether ``--precision`` may ask for a form."""
    return target.name == "generic" or float_arithmetic(target, form) is not None


def require_products(target: Target, precision: Mapping[str, str]) -> None:
    """UsageError for a ``--precision`` that a target has no instructions for. `generic` is what others are compared
    with: it rounds operands in C."""
    for form in sorted({*precision.values()} - {"f32"}):
        if not has_products(target, form):
            having = [name for name, other in sorted(targets().items()) if float_arithmetic(other, form) is not None]
            raise UsageError(
                f"{target.name} has no products of {form}",
                hint=f"--weights {form} stores weights so on every target; products have {', '.join(having)}, and "
                "generic computes the same numbers",
            )


def _note_threads(c: Compilation) -> None:
    """A note for a pool of POSIX threads where programs run without an operating system that surely has them."""
    if c.options.pthread_pool and not c.target.hosted:
        c.notes.append(
            "mcc_pool_pthread.c needs POSIX threads, which few systems for microcontrollers have (ESP-IDF, NuttX, "
            "Zephyr with its POSIX layer); elsewhere write a pool of your own, as mcc_pool.h shows"
        )


def compile_program(
    c: Compilation, observe: Observer = unobserved, pool: KernelPool | None = None
) -> ModelFacts:
    """Every stage that is not done yet, up to the facts of the files; memory only, nothing is written.

    ``pool`` takes the kernels where other models share them, or they are in files of their own.
    """
    place_program(c, observe)
    assert c.program is not None
    o = c.options
    with _stage(), text_at_fault(c.kernels_given, c.source):
        c.facts = model_facts(
            c.program, c.target, c.source, c.sha256, o.keep_inputs, pool, o.opt_level, o.stepwise, c.interface,
            o.threads,
        )  # fmt: skip
    return c.facts


def place_program(c: Compilation, observe: Observer = unobserved) -> None:
    """Every stage that is not done yet, up to the planned program."""
    require_sense(c.options)
    if c.program is None:
        with _stage(), text_at_fault(c.kernels_given, c.source), limited(c.options.limits):
            if c.lowered is None:
                observe("import", c.graph)
                optimize(c, observe)
            _fit(c, observe)
    assert c.program is not None
    observe("plan", c.program)


def _fit(c: Compilation, observe: Observer) -> None:
    """Choose kernels, run the passes on them, give everything an address; where memory is short, in other forms."""
    o = c.options
    room = Room(o.keep_inputs, o.memory, o.ram, o.plan_effort)
    c.in_vain = in_vain(c)
    found = fit(candidates(c, observe), room, _work(c.graph), c.in_vain)
    kept = found.candidate
    c.graph, c.lowered, c.improved, c.program = kept.graph, kept.lowered, kept.improved, found.program
    c.notes += [*kept.notes, *([found.note] if found.note else [])]


def _work(graph: Graph) -> Work:
    """Multiply-adds by ONNX node, each time it is computed."""
    work: dict[tuple[str, ...], int] = {}
    for n, _ in graph.everywhere():
        macs = n.op.macs(n.operand_types(), [r.type for r in n.results])
        work[n.origins] = work.get(n.origins, 0) + macs
    return work


def compile_files(
    path: str | Path, options: Options, observe: Observer = unobserved
) -> tuple[Compilation, dict[str, Bytes]]:
    """A compilation and the files it makes, report included."""
    c = open_model(path, options)
    return c, finish(c, observe)


def finish(c: Compilation, observe: Observer = unobserved) -> dict[str, Bytes]:
    """Every stage that is not done yet, and the files of it all, report included."""
    files = _generated(c, observe)
    files["report.json"] = write_report(make_report(c, files))
    return files


def _generated(c: Compilation, observe: Observer) -> dict[str, Bytes]:
    """Every stage that is not done yet, and the files of it all but the report."""
    pool = KernelPool(c.graph.name, external=True) if c.options.split_kernels else None
    facts = compile_program(c, observe, pool)
    if pool is not None:
        c.library = make_library(pool, [facts], c.target, split=True)
    return source_files(facts, c.options.embed, c.library, c.options.package, c.options.pthread_pool)


def compile(
    model: str | Path,
    out_dir: str | Path,
    options: Options,
    observe: Observer = unobserved,
    extra: Callable[[Compilation], dict[str, bytes]] = lambda c: {},
    write: Writer = write_folder,
) -> Artifacts:
    """Compile ``model`` into ``out_dir``. ``extra`` may add files (golden tests), ``write`` gets them all.

    Either every file is written or none: they are made in a temporary folder beside and moved at the end.
    """
    c = open_model(model, options)
    files = _generated(c, observe)
    files |= extra(c)
    report = make_report(c, files)
    write(Path(out_dir), files | {"report.json": write_report(report)})
    return Artifacts(Path(out_dir), c.graph.name, report, tuple(c.notes))
