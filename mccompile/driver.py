"""The compiler as one readable list of stages, from a path to a folder of C."""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mccompile.codegen.files import Project, make_project, project_files, source_files
from mccompile.codegen.kernels import KernelPool
from mccompile.codegen.library import make_library
from mccompile.codegen.model import ModelFacts, model_facts
from mccompile.codegen.names import model_name
from mccompile.importer.convert import convert
from mccompile.importer.prepare import prepare
from mccompile.ir import files as ir_files
from mccompile.ir.errors import CompileError, InternalError, UsageError
from mccompile.ir.files import IR
from mccompile.ir.graph import Graph
from mccompile.ir.program import Program
from mccompile.kernels.registry import params_of
from mccompile.lower.growth import weight_bytes
from mccompile.lower.lower import Lowered, lower
from mccompile.lower.share import share_modules
from mccompile.onnxio import read_model
from mccompile.ops.registry import lookup
from mccompile.passes.manager import exact_only, run_passes
from mccompile.passes.pipeline import PIPELINES
from mccompile.passes.rows.regions import smallest
from mccompile.passes.rows.strips import streamed
from mccompile.plan.check import check_program
from mccompile.plan.fit import Room, plan_to_fit
from mccompile.plan.forward import forward
from mccompile.report.compilation import Compilation, Options
from mccompile.report.project import project_report
from mccompile.report.report import make_report, write_report
from mccompile.targets.target import Target, resolve

__all__ = [
    "Artifacts",
    "Compilation",
    "Options",
    "ProjectArtifacts",
    "compile",
    "compile_files",
    "compile_program",
    "compile_project",
    "finish",
    "growth_bytes",
    "import_graph",
    "load_ir",
    "open_model",
    "optimize",
    "options_of",
    "require_writable",
    "write_folder",
]


STREAM_ROWS = "stream-rows"
STREAMING = ("auto", "never", "always")
"""What `Options.stream_rows` may be."""
MOST_REGIONS = 4
"""Regions that are put in strips of rows to save memory."""
REGIONS_TRIED = 3
"""Regions that are tried for each."""
SMALLER = 0.97
"""What part of the peak may be left, or it is not worth the code."""


@dataclass(frozen=True)
class Artifacts:
    """What a compilation made: the folder, the C prefix, the report, and notes for the user."""

    out_dir: Path
    name: str
    report: dict[str, Any]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class ProjectArtifacts:
    """What the compilation of several models made: the folder, the prefix of what they share, the report."""

    out_dir: Path
    name: str
    report: dict[str, Any]


Observer = Callable[[str, IR], None]
"""Sees the IR after each stage and pass: (stage name, IR). The IR changes afterwards: print it or forget it."""


def _nothing(stage: str, ir: IR) -> None:
    pass


def load_ir(path: str | Path) -> IR:
    """Read an .mcir file of any stage. Raises UsageError, CompileError with the line."""
    return ir_files.load(Path(path), lookup, params_of)


def open_model(path: str | Path, options: Options) -> Compilation:
    """A compilation from a model file, or from IR text to be resumed. Raises CompileError, UsageError."""
    path = Path(path)
    return _resume(path, options) if path.suffix == ir_files.SUFFIX else import_graph(path, options)


def _resume(path: Path, options: Options) -> Compilation:
    if options.dims or options.input_shapes or options.constants:
        hint = "--dim, --input-shape and --constant are for .onnx files"
        raise UsageError(f"the inputs of {path.name} are fixed", hint=hint)
    ir = load_ir(path)
    graph = ir if isinstance(ir, Graph) else Graph(ir.name)
    graph.name = model_name(options.name or graph.name)
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    c = Compilation(path.name, sha256, options, _target_of(ir, options), graph, [])
    if isinstance(ir, Graph):
        return c
    module = ir.module if isinstance(ir, Program) else ir
    module.name = graph.name
    missing = [b.name for b in module.buffers if b.space == "blob" and b.data is None]
    if missing:
        raise CompileError(
            f"the elements of {', '.join(missing[:4])} are needed",
            where=str(path),
            hint=f"they are read from {ir_files.arrays_path(path).name} beside it",
        )
    c.lowered = Lowered(module)
    if isinstance(ir, Program):
        try:
            check_program(ir, options.keep_inputs)
        except InternalError as e:
            raise CompileError(f"the program is not sound: {e}", where=str(path)) from e
        c.program = ir
    return c


def _target_of(ir: IR, options: Options) -> Target:
    """The target of the options, or of the text where its kernels are chosen already."""
    if isinstance(ir, Graph):
        return resolve(options.target)
    module = ir.module if isinstance(ir, Program) else ir
    if options.target not in ("native", module.target):
        raise UsageError(f"the kernels in this text are for target {module.target}, not {options.target}")
    return resolve(module.target)


def import_graph(path: str | Path, options: Options) -> Compilation:
    """Read a model and turn it into graph IR. Raises CompileError, UsageError."""
    model = read_model(path)
    shapes = {k: list(v) for k, v in options.input_shapes.items()}
    prepared = prepare(model, dict(options.dims), shapes, options.constants)
    name = model_name(options.name or _default_name(Path(path)))
    return Compilation(
        source=Path(path).name,
        sha256=model.sha256,
        options=options,
        target=resolve(options.target),
        graph=convert(prepared, name),
        notes=list(prepared.notes),
        onnx_nodes=len(model.graph.nodes),
    )


def _default_name(path: Path) -> str:
    """The file's name; that of its folder where the file is just called model.onnx."""
    return path.resolve().parent.name if path.stem == "model" else path.stem


def optimize(c: Compilation, observe: Observer = _nothing) -> None:
    """Run the passes of the optimisation level, or those the options name."""
    if c.options.opt_level not in PIPELINES:
        raise UsageError(f"unknown level {c.options.opt_level!r}", hint=f"known levels: {', '.join(PIPELINES)}")
    names = PIPELINES[c.options.opt_level] if c.options.passes is None else c.options.passes
    if c.options.stream_rows == "never":
        names = [n for n in names if n != STREAM_ROWS]
    c.passes = run_passes(c.graph, exact_only(names) if c.options.exact else names, observe, c.target)


def compile_program(
    c: Compilation, observe: Observer = _nothing, pool: KernelPool | None = None
) -> ModelFacts:
    """Every stage that is not done yet, up to the facts of the files; memory only, nothing is written.

    ``pool`` takes the kernels where other models share them, or they are in files of their own.
    """
    place_program(c, observe)
    assert c.program is not None
    c.facts = model_facts(c.program, c.target, c.source, c.sha256, c.options.keep_inputs, pool)
    return c.facts


def place_program(c: Compilation, observe: Observer = _nothing) -> None:
    """Every stage that is not done yet, up to the planned program."""
    _require_memory(c.options)
    if c.options.stream_rows not in STREAMING:
        raise UsageError(f"rows are streamed {', '.join(STREAMING)}, not {c.options.stream_rows!r}")
    if c.lowered is None:
        observe("import", c.graph)
        optimize(c, observe)
        c.lowered = _lower(c)
    observe("lower", c.lowered.module)
    program = c.program or _place(c)
    observe("plan", program)


def _require_memory(options: Options) -> None:
    names = [name for name, _ in options.memory]
    for name, size in options.memory:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            raise UsageError(f"{name!r} is no name for a memory", hint="lower case letters and digits, such as dtcm")
        if names.count(name) > 1:
            raise UsageError(f"the memory {name} is given twice")
        if size < 1:
            raise UsageError(f"the memory {name} has {size} bytes")


def _lower(c: Compilation, arena_first: bool = False) -> Lowered:
    lowered = lower(
        c.graph, c.target, c.options.kernels, arena_first, c.options.costs, growth_bytes=growth_bytes(c)
    )  # fmt: skip
    if c.options.opt_level != "O0":
        lowered.forwarding = forward(lowered.module, c.target, c.options.keep_inputs)
    if c.options.opt_level == "Os":
        share_modules([lowered.module])
    return lowered


def growth_bytes(c: Compilation) -> int:
    """What kernels may add to the weights to be faster, in ways that round otherwise."""
    o = c.options
    if o.exact or o.opt_level not in ("O2", "O3"):
        return 0
    return int(min(max(o.max_blob_growth - 1, 0) * weight_bytes(c.graph), 2.0**62))


def _place(c: Compilation) -> Program:
    """Give everything an address; where memory is short, in kernels that need less of it."""
    assert c.lowered is not None
    work: dict[tuple[str, ...], int] = {}
    for n in c.graph.nodes:
        macs = n.op.macs(n.operand_types(), [r.type for r in n.results])
        work[n.origins] = work.get(n.origins, 0) + macs
    leaner = (lambda: _lower(c, arena_first=True)) if c.graph.nodes else None
    room = Room(c.options.keep_inputs, c.options.memory, c.options.ram, c.options.plan_effort)
    forms = {id(c.lowered): _Form(c.graph, c.lowered)}

    def in_strips() -> Iterator[Lowered]:
        for form in _in_strips(c):
            forms[id(form.lowered)] = form
            yield form.lowered

    if c.options.stream_rows == "always":
        for c.lowered in in_strips():
            pass
    fitted = plan_to_fit(c.lowered, leaner, room, work, in_strips if c.options.stream_rows == "auto" else None)
    c.lowered, c.program = fitted.lowered, fitted.program
    if id(c.lowered) in forms:
        c.graph = forms[id(c.lowered)].graph
        c.notes += forms[id(c.lowered)].notes
    if fitted.note:
        c.notes.append(fitted.note)
    return c.program


@dataclass(frozen=True)
class _Form:
    """A graph with its kernels, and what of it is in strips of rows."""

    graph: Graph
    lowered: Lowered
    notes: tuple[str, ...] = ()

    @property
    def peak(self) -> int:
        return self.lowered.forwarding.peak[1] if self.lowered.forwarding else 0


def _in_strips(c: Compilation) -> Iterator[_Form]:
    """Forms of the program that need less and less memory: region after region in strips of rows."""
    assert c.lowered is not None
    form = _Form(c.graph, c.lowered)
    for _ in range(MOST_REGIONS if c.options.opt_level not in ("O0", "O1") else 0):
        least = min((f for f in _one_more(c, form)), key=lambda f: f.peak, default=form)
        if least.peak >= SMALLER * form.peak:
            return
        least.graph.verify()
        form = least
        yield form


def _one_more(c: Compilation, form: _Form) -> Iterator[_Form]:
    """Forms with one more region in strips."""
    for region, height in smallest(form.graph, REGIONS_TRIED, overlaps=not c.target.lanes):
        graph = streamed(form.graph, region.nodes, height)
        if not isinstance(graph, str):
            note = f"{region.what} in strips of {height} of {region.rows} rows"
            yield _Form(graph, _lower(replace(c, graph=graph)), (*form.notes, note))


def compile_files(
    path: str | Path, options: Options, observe: Observer = _nothing
) -> tuple[Compilation, dict[str, bytes]]:
    """A compilation and the files it makes, report included."""
    c = open_model(path, options)
    return c, finish(c, observe)


def finish(c: Compilation, observe: Observer = _nothing) -> dict[str, bytes]:
    """Every stage that is not done yet, and the files of it all, report included."""
    files = _generated(c, observe)
    files["report.json"] = write_report(make_report(c, files))
    return files


def _generated(c: Compilation, observe: Observer) -> dict[str, bytes]:
    """Every stage that is not done yet, and the files of it all but the report."""
    pool = KernelPool(c.graph.name, external=True) if c.options.split_kernels else None
    facts = compile_program(c, observe, pool)
    if pool is not None:
        c.library = make_library(pool, [facts], c.target, split=True)
    return source_files(facts, c.options.embed, c.library)


def compile(
    model: str | Path,
    out_dir: str | Path,
    options: Options,
    observe: Observer = _nothing,
    extra: Callable[[Compilation], dict[str, bytes]] = lambda c: {},
) -> Artifacts:
    """Compile ``model`` into ``out_dir``. ``extra`` may add files (golden tests).

    Either every file is written or none: they are made in a temporary folder beside and moved at the end.
    """
    c = open_model(model, options)
    files = _generated(c, observe)
    files |= extra(c)
    report = make_report(c, files)
    files["report.json"] = write_report(report)
    write_folder(Path(out_dir), files)
    return Artifacts(Path(out_dir), c.graph.name, report, tuple(c.notes))


def compile_project(
    models: Sequence[str | Path],
    out_dir: str | Path,
    options: Options,
    observe: Observer = _nothing,
    extra: Callable[[Path, Compilation], dict[str, bytes]] = lambda path, c: {},
    accept: Callable[[dict[str, Any]], None] = lambda report: None,
) -> ProjectArtifacts:
    """Compile several models into one folder, with ``options.project`` as the prefix of the kernels they share.

    ``extra`` may add files for each model, ``accept`` sees the report and may raise. Either every file is written or
    none.

    Raises:
        UsageError: no name for the project, or two models or files of one name.
        CompileError: as `compile`, for the first model that cannot be compiled.
    """
    project, compilations = _link([Path(m) for m in models], options, observe)
    files = project_files(project, options.embed)
    for path, c in zip(models, compilations, strict=True):
        files |= extra(Path(path), c)
    report = project_report(project, compilations, files)
    files["report.json"] = write_report(report)
    accept(report)
    write_folder(Path(out_dir), files)
    return ProjectArtifacts(Path(out_dir), project.name, report)


def _link(paths: Sequence[Path], options: Options, observe: Observer) -> tuple[Project, list[Compilation]]:
    """All models up to the facts of their files, with their kernels in one pool."""
    if not options.project or options.name:
        raise UsageError(
            "several models need the name of their project and none of their own",
            hint="give --project NAME; each model is called as its file is",
        )
    name = model_name(options.project)
    compilations = [open_model(p, o) for p, o in zip(paths, options_of(paths, options), strict=True)]
    names = [c.graph.name for c in compilations]
    twice = sorted({n for n in [*names, name] if [*names, name].count(n) > 1})
    if twice:
        raise UsageError(
            f"two models, or a model and the project, would be called {', '.join(twice)}",
            hint="the names are those of the files",
        )
    for c in compilations:
        place_program(c, observe)
    if options.opt_level == "Os":
        share_modules([c.program.module for c in compilations if c.program is not None])
    pool = KernelPool(name, external=True)
    facts = [compile_program(c, pool=pool) for c in compilations]
    library = make_library(pool, facts, compilations[0].target, options.split_kernels)
    return make_project(name, facts, library, options.share_arena), compilations


def options_of(paths: Sequence[Path], options: Options) -> Iterator[Options]:
    """The options of each model: those dims and shapes that it has. UsageError for one that none has."""
    known = [_open_names(p) for p in paths]
    for what, given in (("dim", options.dims), ("input", options.input_shapes), ("input", options.constants)):
        strange = [n for n in given if not any(n in names for names in known)]
        if strange:
            raise UsageError(f"no model has {'an' if what == 'input' else 'a'} {what} {strange[0]!r}")
    for names in known:
        yield replace(
            options,
            dims={n: v for n, v in options.dims.items() if n in names},
            input_shapes={n: v for n, v in options.input_shapes.items() if n in names},
            constants={n: v for n, v in options.constants.items() if n in names},
        )


def _open_names(path: Path) -> frozenset[str]:
    """The names of a model's inputs and of their symbolic dims."""
    if path.suffix == ir_files.SUFFIX:
        return frozenset()
    inputs = read_model(path).graph.inputs
    return frozenset(n for v in inputs for n in (v.name, *(e for e in v.shape or () if isinstance(e, str))))


def require_writable(out: Path) -> None:
    """What `write_folder` would raise for a folder that cannot be written to, or made."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file, not a folder")
    there = next(p for p in (out.absolute(), *out.absolute().parents) if p.exists())
    try:
        Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=there)).rmdir()
    except OSError as e:
        raise CompileError(f"cannot write to {out}: {e.strerror}") from e


def write_folder(out: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a folder, all or none; other files that are there stay. UsageError if it is a file."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file, not a folder")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        # Inside of a folder that is there: the one around it may belong to somebody else.
        stage = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out if out.exists() else out.parent))
    except OSError as e:
        raise CompileError(f"cannot write to {out}: {e.strerror}") from e
    try:
        for name, data in files.items():
            (stage / name).write_bytes(data)
        if out.exists():
            for name in files:
                (stage / name).replace(out / name)
        else:
            stage.chmod(0o755)
            stage.rename(out)
    except OSError as e:
        raise CompileError(f"cannot write to {out}: {e.strerror}") from e
    finally:
        shutil.rmtree(stage, ignore_errors=True)
