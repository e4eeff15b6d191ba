"""The compiler as one readable list of stages, from a path to a folder of C."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mccompile.codegen.files import source_files
from mccompile.codegen.model import ModelFacts, model_facts, model_name
from mccompile.importer.convert import convert
from mccompile.importer.prepare import prepare
from mccompile.ir.errors import CompileError, UsageError
from mccompile.ir.graph_text import print_graph
from mccompile.ir.kernel_text import print_module, print_program
from mccompile.lower.lower import lower
from mccompile.onnxio import read_model
from mccompile.passes.manager import run_passes
from mccompile.passes.pipeline import PIPELINES
from mccompile.plan.plan import plan
from mccompile.report.compilation import Compilation, Options
from mccompile.report.report import make_report, write_report
from mccompile.targets.target import resolve

__all__ = ["Artifacts", "Compilation", "Options", "compile", "compile_files", "compile_program", "import_graph"]


@dataclass(frozen=True)
class Artifacts:
    """What a compilation made: the folder, the C prefix, the report, and notes for the user."""

    out_dir: Path
    name: str
    report: dict[str, Any]
    notes: tuple[str, ...]


Observer = Callable[[str, str], None]
"""Sees the text of the IR after each stage and pass: (stage name, text)."""


def _nothing(stage: str, text: str) -> None:
    pass


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
    c.passes = run_passes(c.graph, names, lambda name, graph: observe(name, print_graph(graph)))


def compile_program(c: Compilation, observe: Observer = _nothing) -> ModelFacts:
    """Every stage from an imported graph to the facts of the files; memory only, nothing is written."""
    observe("import", print_graph(c.graph))
    optimize(c, observe)
    c.lowered = lower(c.graph, c.target, c.options.kernels, share=c.options.opt_level == "Os")
    observe("lower", print_module(c.lowered.module))
    c.program = plan(c.lowered.module, c.options.keep_inputs)
    observe("plan", print_program(c.program))
    c.facts = model_facts(c.program, c.target, c.source, c.sha256, c.options.keep_inputs)
    return c.facts


def compile_files(
    path: str | Path, options: Options, observe: Observer = _nothing
) -> tuple[Compilation, dict[str, bytes]]:
    """A compilation and the files it makes, report included."""
    c = import_graph(path, options)
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
