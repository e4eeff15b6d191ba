"""`mccompile compile` (the default command): a model in, a folder of C out."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mccompile._dataclass import dataclass
from mccompile.cli import options as o
from mccompile.ir.errors import UsageError
from mccompile.search.options import DEBUGGING, SPEED

if TYPE_CHECKING:
    from mccompile.check.golden import GoldenFolder
    from mccompile.codegen.pieces import Files
    from mccompile.driver import Compilation
    from mccompile.run.kept import Kept

EXAMPLES = (
    "mccompile net.onnx -o out/                               # for this machine",
    "mccompile net.onnx -o out/ --target cortex-m4 --embed    # for a microcontroller, weights as a C array",
    "mccompile net.onnx -o out/ --ram 96K --flash 512K        # tries harder, then says what does not fit",
    "mccompile net.onnx -o out/ --dim batch=8 --dim seq=1..128",
    "mccompile net.onnx -o out/ --state h_out=h_in            # a stream: outputs that are inputs of the next run",
)


@o.command("compile", short_help="Compile a model (the word may be left out).", examples=EXAMPLES)
@o.MODELS
@o.option("-o", "--out", type=click.Path(path_type=Path), required=True, metavar="OUT", help="Folder to write.")
@o.build_options
@o.tune_options
@o.limit_options
@o.output_options
@o.option("--depfile", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
          help="Write a rule of make: of which files OUT/report.json is made.")
@o.option("--print-after", "print_after", multiple=True, metavar="PASS", section=DEBUGGING,
          help="Print the IR after a pass or stage, on stderr (repeatable).")
@o.option("--print-after-all", is_flag=True, section=DEBUGGING,
          help="Print the IR after every pass and stage, on stderr.")
@o.option("--dump-dir", type=click.Path(path_type=Path), metavar="DIR", section=DEBUGGING,
          help="Write the IR after every pass and stage into numbered files.")
@o.option("--remarks", is_flag=True, section=DEBUGGING, help="Say what each pass did, and did not and why.")
@o.option("--no-cache", is_flag=True, section=SPEED,
          help="Compile even if the same was compiled before, and keep nothing of it.")
@o.REPORT
@o.option("-v", "--verbose", is_flag=True, section=DEBUGGING,
          help="Also print what passes did and which kernels were chosen.")
@o.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
@o.PLUGIN
@o.JSON
def compile_(
    models: tuple[Path, ...], out: Path, depfile: Path | None, print_after: tuple[str, ...], print_after_all: bool,
    dump_dir: Path | None, reports: tuple[Path, ...], remarks: bool, quiet: bool, verbose: bool, as_json: bool,
    no_cache: bool, **given: Any,
) -> None:  # fmt: skip
    """Compile MODEL (.onnx, or IR text in .mcir to be resumed) into the folder OUT; several as one --project."""
    from mccompile.codegen.folder import require_writable

    golden = given["golden"]
    _require_sense(models, given, reports)
    for folder in (out, golden):
        if folder is not None:
            require_writable(folder)
    tests = _golden_folder(golden, out)
    silent = quiet or as_json
    shown = Shown(print_after, print_after_all, dump_dir, silent)
    kept, files = (None, None) if no_cache or shown.any else _kept(models, given, silent)
    report = _compiled(models, out, given, shown, tests, kept) if files is None else _copied(files, out, silent)
    if tests is not None:
        tests.write()
    if depfile is not None:
        others = [given[name] for name in ("inputs", "tuning", "data") if given[name] is not None]
        _write_rule(depfile, out, models, [*others, *o.read_for_options()])
    if reports:
        _write_reports(reports, report, out, {"ram": given["ram"], "flash": given["flash"]})
    if as_json:
        click.echo(json.dumps(report, indent=1))
        return
    if not quiet:
        click.echo(_summary(report, out))
        if tests is not None and not tests.beside:
            click.echo(f"  golden test     {golden}: {' '.join(tests.tests)}")
        if reports:
            click.echo(f"  report          {' '.join(map(str, reports))}")
    for one in report["models"].values() if "models" in report else [report]:
        _print_more(one, remarks, verbose)


@dataclass(frozen=True)
class Shown:
    """What is asked to be seen while a model is compiled."""

    after: tuple[str, ...]
    all: bool
    folder: Path | None
    silent: bool

    @property
    def any(self) -> bool:
        return bool(self.after or self.all or self.folder)


def _kept(
    models: Sequence[Path], given: Mapping[str, Any], silent: bool
) -> tuple[Kept | None, dict[str, bytes] | None]:
    """What a compilation of the same is kept as, and the files of an earlier one. None where more is asked for than
    the files of a folder, or they depend on more than is written anywhere, as on the time that something takes."""
    from mccompile.run.kept import kept

    if any(given[name] for name in ("tune", "tuning", "golden")) or any(path.suffix != ".onnx" for path in models):
        return None, None
    with _done_without(silent):
        found = kept(models, given["target"], given)
        return found, None if found is None else found.files()
    return None, None


@contextmanager
def _done_without(silent: bool) -> Iterator[None]:
    """A cache that cannot be used is a note, and no more."""
    from mccompile.run.cache import CacheError

    try:
        yield
    except CacheError as e:
        if not silent:
            click.echo(f"note: {e.rule}: nothing is kept for the next time", err=True)


def _write(out: Path, files: Files, silent: bool) -> None:
    """Files into the folder, with a word about those of another compilation that stay there."""
    from mccompile.codegen.folder import of_before, write_folder

    left = of_before(out, files)
    write_folder(out, files)
    if left and not silent:
        click.echo(f"note: of an earlier compilation, {out} still has {', '.join(left)}", err=True)


def _copied(files: Files, out: Path, silent: bool) -> dict[str, Any]:
    """The report of what was compiled before, whose files are in the folder then."""
    from mccompile.codegen.folder import LAST

    _write(out, files, silent)
    report: dict[str, Any] = json.loads(bytes(files[LAST]))
    return report


def _compiled(
    models: Sequence[Path], out: Path, given: Mapping[str, Any], shown: Shown, tests: GoldenFolder | None,
    kept: Kept | None,
) -> dict[str, Any]:  # fmt: skip
    """The report of what is compiled now."""
    from mccompile import driver, projects
    from mccompile.cli.watch import Progress, Watch
    from mccompile.report.limits import require_fit, require_project_fit

    several, one_of = _several(models, given), bool(given["targets"])
    with Progress.of("tune", shown.silent) as at:
        options = o.make_options(given, models, at)
    ram, flash = options.ram, given["flash"]

    def extra(model: Path, c: Compilation) -> dict[str, bytes]:
        """Called before anything is written: what does not fit leaves no trace."""
        if not several and not one_of:
            require_fit(c, ram, flash)
        return {} if tests is None else tests.extra(model, c, o.inputs_of(given["inputs"], c.graph))

    def fits(report: dict[str, Any]) -> None:
        require_project_fit(report, ram, flash)

    def write(folder: Path, files: Files) -> None:
        _write(folder, files, shown.silent)
        if kept is not None:
            with _done_without(shown.silent):
                kept.keep(files)

    with Watch(options, shown.after, shown.all, shown.folder, shown.silent) as watch:
        if one_of:
            return projects.compile_choice(models[0], out, options, watch, extra, fits, write).report
        if several:
            return projects.compile_project(models, out, options, watch, extra, fits, write).report
        return driver.compile(models[0], out, options, watch, lambda c: extra(models[0], c), write).report


def _several(models: Sequence[Path], given: Mapping[str, Any]) -> bool:
    """Whether it is a project."""
    return len(models) > 1 or bool(given["project"])


def _summary(report: dict[str, Any], out: Path) -> str:
    if "models" in report:
        from mccompile.report.project import project_summary

        return project_summary(report, str(out))
    from mccompile.report.summary import summary

    return summary(report, str(out))


def _write_reports(paths: tuple[Path, ...], report: dict[str, Any], out: Path, limits: dict[str, int | None]) -> None:
    """The report, or that of each model of a project, with what the C compiler of the target says of the code."""
    from mccompile.report.figures import with_figures, write_reports
    from mccompile.run.code import code_or_note

    def full(one: dict[str, Any]) -> dict[str, Any]:
        code, note = code_or_note(out, {**one, "files": report["files"]})
        return with_figures(one, limits=limits, code=code.to_json() if code else None, code_note=note)

    if "models" in report:
        write_reports(paths, {**report, "models": {name: full(one) for name, one in report["models"].items()}})
    else:
        write_reports(paths, full(report))


def _require_sense(models: Sequence[Path], given: Mapping[str, Any], reports: tuple[Path, ...]) -> None:
    """UsageError for options that do not go together, and for reports of no kind that there is."""
    several = _several(models, given)
    if given["targets"] and several:
        raise UsageError("--targets is for one model")
    if given["inputs"] is not None and given["golden"] is None:
        raise UsageError("--inputs is of use only with --golden")
    if given["inputs"] is not None and (several or given["targets"]):
        raise UsageError("--inputs is for the golden test of one model")
    if given["share_arena"] and not (several or given["targets"]):
        raise UsageError("--share-arena is for several models")
    if reports:
        from mccompile.report.figures import require_suffixes

        require_suffixes(reports)


def _write_rule(depfile: Path, out: Path, models: Sequence[Path], others: Sequence[Path]) -> None:
    """A rule of make, by which ``out`` is as new as what was read: external data of models, arrays of IR text,
    plugins and functions of C included."""
    from mccompile.ir.files import SUFFIX, arrays_path
    from mccompile.ir.whole import written_whole
    from mccompile.onnxio import model_files
    from mccompile.plugins import made_with

    texts = [path for path in models if path.suffix == SUFFIX]
    files = [f for path in models for f in ([path] if path in texts else model_files(path))]
    files += [path for path in map(arrays_path, texts) if path.exists()]
    files += [*others, *(path for made in made_with() for path in made.paths)]
    result, *read = map(_word_of_make, dict.fromkeys([out / "report.json", *files]))
    try:
        with written_whole(depfile) as staged:
            staged.write_bytes(os.fsencode(f"{result}: {' '.join(read)}\n"))
    except OSError as e:
        raise UsageError(f"{depfile} cannot be written: {e.strerror}") from e


def _word_of_make(path: Path) -> str:
    """A path in a rule: a backslash before spaces and #, each one in front of these doubled, and a dollar twice."""
    return re.sub(r"(\\*)([ \t#])", r"\1\1\\\2", str(path)).replace("$", "$$")


def _golden_folder(golden: Path | None, out: Path) -> Any:
    """Where golden tests go, if there are to be any: imported only then."""
    if golden is None:
        return None
    from mccompile.check.golden import GoldenFolder

    return GoldenFolder(golden, out)


def _print_more(report: dict[str, Any], remarks: bool, verbose: bool) -> None:
    from mccompile.report.summary import pass_lines

    if remarks or verbose:
        click.echo("\n".join(pass_lines(report, remarks)))
    if verbose:
        click.echo("\n".join(_choice_lines(report)))


def _choice_lines(report: dict[str, Any]) -> list[str]:
    from mccompile.report.summary import rate_text

    lines = ["kernels chosen, by cycles measured (tuned) or estimated (model):"] if report["choices"] else []
    for name, choice in report["choices"].items():
        rate = f", {rate_text(choice)}" if choice["macs"] else ""
        others = "".join(f"; {_cycles(other)}" for other in choice["others"])
        lines.append(f"  {name}: {_cycles(choice)}{rate}{others}")
        lines += [f"    not {kernel}: {reason}" for kernel, reason in choice["rejected"]]
    return lines


def _cycles(candidate: dict[str, Any]) -> str:
    estimate = f", model {candidate['estimate']:,}" if "estimate" in candidate else ""
    return f"{candidate['kernel']} {candidate['cycles']:,} ({candidate['from']}{estimate})"
