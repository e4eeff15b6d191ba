"""The compiler as one readable list of stages, from a path to a folder of C."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mccompile.codegen.files import source_files
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
from mccompile.lower.lower import Lowered, lower
from mccompile.onnxio import read_model
from mccompile.ops.registry import lookup
from mccompile.passes.manager import run_passes
from mccompile.passes.pipeline import PIPELINES
from mccompile.plan.check import check_program
from mccompile.plan.plan import plan
from mccompile.report.compilation import Compilation, Options
from mccompile.report.report import make_report, write_report
from mccompile.targets.target import Target, resolve

__all__ = [
    "Artifacts",
    "Compilation",
    "Options",
    "compile",
    "compile_files",
    "compile_program",
    "import_graph",
    "load_ir",
    "open_model",
    "optimize",
    "write_folder",
]


@dataclass(frozen=True)
class Artifacts:
    """What a compilation made: the folder, the C prefix, the report, and notes for the user."""

    out_dir: Path
    name: str
    report: dict[str, Any]
    notes: tuple[str, ...]


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
    if options.dims or options.input_shapes:
        raise UsageError(f"the extents in {path.name} are fixed", hint="--dim and --input-shape are for .onnx files")
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
    prepared = prepare(model, dict(options.dims), {k: list(v) for k, v in options.input_shapes.items()})
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
    c.passes = run_passes(c.graph, names, observe)


def compile_program(c: Compilation, observe: Observer = _nothing) -> ModelFacts:
    """Every stage that is not done yet, up to the facts of the files; memory only, nothing is written."""
    if c.lowered is None:
        observe("import", c.graph)
        optimize(c, observe)
        c.lowered = lower(c.graph, c.target, c.options.kernels, share=c.options.opt_level == "Os")
    observe("lower", c.lowered.module)
    if c.program is None:
        c.program = plan(c.lowered.module, c.options.keep_inputs)
    observe("plan", c.program)
    c.facts = model_facts(c.program, c.target, c.source, c.sha256, c.options.keep_inputs)
    return c.facts


def compile_files(
    path: str | Path, options: Options, observe: Observer = _nothing
) -> tuple[Compilation, dict[str, bytes]]:
    """A compilation and the files it makes, report included."""
    c = open_model(path, options)
    facts = compile_program(c, observe)
    files = source_files(facts, options.embed)
    files["report.json"] = write_report(make_report(c, files))
    return c, files


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
    c, files = compile_files(model, options, observe)
    files |= extra(c)
    write_folder(Path(out_dir), files)
    return Artifacts(Path(out_dir), c.graph.name, make_report(c, files), tuple(c.notes))


def write_folder(out: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a folder, all or none; other files that are there stay. UsageError if it is a file."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file, not a folder")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        stage = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
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
