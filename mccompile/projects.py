"""Several programs in one folder: of several models, or of one for several targets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

from mccompile._dataclass import dataclass
from mccompile.codegen.choice import make_choice, part_name
from mccompile.codegen.files import project_files
from mccompile.codegen.folder import write_folder
from mccompile.codegen.kernels import KernelPool, render_programs
from mccompile.codegen.library import make_library
from mccompile.codegen.names import given_name, model_name
from mccompile.codegen.packages import find_package
from mccompile.codegen.projects import Project, make_project
from mccompile.driver import Writer, compile_program, default_name, open_model, place_program
from mccompile.ir.c_words import COMMENT
from mccompile.ir.errors import UsageError
from mccompile.kernel_passes.share_code import share_modules
from mccompile.model_options import options_of
from mccompile.report.project import choice_report, project_report
from mccompile.report.report import write_report
from mccompile.search.candidates import Observer, unobserved
from mccompile.search.options import Options
from mccompile.search.state import Compilation
from mccompile.targets.processor import choosable


@dataclass(frozen=True)
class ProjectArtifacts:
    """What the compilation of several models made: the folder, the prefix of what they share, the report."""

    out_dir: Path
    name: str
    report: dict[str, Any]


def compile_project(
    models: Sequence[str | Path],
    out_dir: str | Path,
    options: Options,
    observe: Observer = unobserved,
    extra: Callable[[Path, Compilation], dict[str, bytes]] = lambda path, c: {},
    accept: Callable[[dict[str, Any]], None] = lambda report: None,
    write: Writer = write_folder,
) -> ProjectArtifacts:
    """Compile several models into one folder, with ``options.project`` as the prefix of the kernels they share.

    ``extra`` may add files for each model, ``accept`` sees the report and may raise, ``write`` gets all files. Either
    every file is written or none.

    Raises:
        UsageError: no name for the project, or two models or files of one name.
        CompileError: as `compile`, for the first model that cannot be compiled.
    """
    project, compilations = _link([Path(m) for m in models], options, observe)
    files = project_files(project, options.embed, options.package, options.pthread_pool)
    _require_names_apart([c.graph.name for c in compilations], files)
    for path, c in zip(models, compilations, strict=True):
        files |= extra(Path(path), c)
    report = project_report(project, compilations, files)
    accept(report)
    write(Path(out_dir), files | {"report.json": write_report(report)})
    return ProjectArtifacts(Path(out_dir), project.name, report)


def _require_names_apart(names: Sequence[str], files: Mapping[str, object]) -> None:
    """UsageError if the headers of two models have one name for two things.

    Of kws with an input t, and kws_input: kws_input_t() is where kws has its t, and kws_input_t a network.
    """
    texts = {Path(p).name: data.decode() for p, data in files.items() if p.endswith(".h") and isinstance(data, bytes)}
    said = {name: set(re.findall(r"\w+", COMMENT.sub("", texts[f"{name}.h"]))) for name in names}
    for name, longer in permutations(names, 2):
        if not longer.startswith(f"{name}_"):
            continue
        both = sorted(w for w in said[name] & said[longer] if w.lower().startswith(f"{longer}_"))
        if both:
            raise UsageError(
                f"the headers of {name} and {longer} would both have {both[0]}",
                hint=f"give the file of {longer} another name",
            )


def _link(paths: Sequence[Path], options: Options, observe: Observer) -> tuple[Project, list[Compilation]]:
    """All models up to the facts of their files, with their kernels in one pool."""
    if not options.project or options.name:
        raise UsageError(
            "several models need the name of their project and none of their own",
            hint="give --project NAME; each model is called as its file is",
        )
    name = given_name(options.project, "--project")
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
    render_programs([c.program for c in compilations if c.program is not None], compilations[0].target, pool)
    facts = [compile_program(c, pool=pool) for c in compilations]
    held = next((f.name for f in facts if f.states), "") if options.share_arena else ""
    if held:
        raise UsageError(f"the arena of {held} keeps state, which other models would overwrite",
                         hint="leave --share-arena out")
    library = make_library(pool, facts, compilations[0].target, options.split_kernels)
    return make_project(name, facts, library, options.share_arena), compilations


def compile_choice(
    model: str | Path,
    out_dir: str | Path,
    options: Options,
    observe: Observer = unobserved,
    extra: Callable[[Path, Compilation], dict[str, bytes]] = lambda path, c: {},
    accept: Callable[[dict[str, Any]], None] = lambda report: None,
    write: Writer = write_folder,
) -> ProjectArtifacts:
    """Compile a model for each of ``options.targets`` into one folder: a program takes one of them when it runs.

    ``extra``, ``accept`` and ``write`` as for `compile_project`; ``extra`` sees the last target's compilation as that
    of all.

    Raises:
        UsageError: targets that no machine has a choice of, or other options that do not go with several.
        CompileError: as `compile`.
    """
    targets = choosable(options.targets)
    _require_choice(options)
    align = max(t.align for t in targets)
    name = given_name(options.name) if options.name else model_name(default_name(Path(model)))
    compilations = []
    for target in targets:
        c = open_model(model, replace(options, target=target.name, targets=(), name=name))
        c.graph.name = part_name(name, target)  # longer than what users may give
        c.target = replace(c.target, align=align)
        compile_program(c, observe)
        compilations.append(c)
    chosen = make_choice(name, [c.facts for c in compilations if c.facts is not None], targets)
    for c, part in zip(compilations, chosen.parts, strict=True):
        c.facts = part.facts
    project = Project(name, (chosen,), None, ())
    files = project_files(project, options.embed, options.package, options.pthread_pool)
    files |= extra(Path(model), replace(compilations[-1], facts=chosen))
    report = choice_report(chosen, compilations, files)
    accept(report)
    write(Path(out_dir), files | {"report.json": write_report(report)})
    return ProjectArtifacts(Path(out_dir), name, report)


def _require_choice(options: Options) -> None:
    """UsageError for options that do not go with several targets."""
    for given, flag in (
        (options.target != "native", "--target"), (options.project, "--project"), (options.memory, "--memory"),
        (options.split_kernels, "--split-kernels"), (options.costs.origin, "--tuning"),
    ):  # fmt: skip
        if given:
            raise UsageError(f"--targets and {flag} do not go together")
    if find_package(options.package).platform:
        raise UsageError(f"a package for {options.package} is for one processor",
                         hint="--targets goes with --package cmake and cargo")
