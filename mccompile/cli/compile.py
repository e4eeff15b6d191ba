"""`mccompile compile` (the default command): a model in, a folder of C out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mccompile.cli import options as o

if TYPE_CHECKING:
    from mccompile.driver import Compilation


@click.command("compile", short_help="Compile a model (the word may be left out).")
@click.argument("models", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="MODEL...")
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, metavar="OUT", help="Folder to write.")
@o.build_options
@o.tune_options
@o.limit_options
@o.output_options
@click.option("--golden", type=click.Path(path_type=Path), metavar="DIR",
              help="Write test_<model>.c into DIR: inputs and expected outputs, for tests without Python.")
@click.option("--inputs", type=click.Path(path_type=Path), metavar="X.npz", help="Inputs of the golden test.")
@click.option("--depfile", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Write a rule of make: of which files OUT/report.json is made.")
@click.option("--print-after", "print_after", multiple=True, metavar="PASS",
              help="Print the IR after a pass or stage, on stderr (repeatable).")
@click.option("--print-after-all", is_flag=True, help="Print the IR after every pass and stage, on stderr.")
@click.option("--dump-dir", type=click.Path(path_type=Path), metavar="DIR",
              help="Write the IR after every pass and stage into numbered files.")
@click.option("--remarks", is_flag=True, help="Say what each pass did, and did not and why.")
@o.REPORT
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
@click.option("-v", "--verbose", is_flag=True, help="Also print what passes did and which kernels were chosen.")
@o.PLUGIN
@o.JSON
def compile_(
    models: tuple[Path, ...], out: Path, tune: bool, tuning: Path | None, ram: int | None, flash: int | None,
    name: str, project: str, share_arena: bool, split_kernels: bool, embed: bool, package: str, golden: Path | None,
    inputs: Path | None, depfile: Path | None,
    print_after: tuple[str, ...], print_after_all: bool, dump_dir: Path | None, remarks: bool,
    reports: tuple[Path, ...], quiet: bool, verbose: bool, as_json: bool, **build: Any,
) -> None:  # fmt: skip
    """Compile MODEL (.onnx, or IR text in .mcir to be resumed) into the folder OUT; several as one --project."""
    from mccompile import driver
    from mccompile.cli.watch import Progress, Watch
    from mccompile.codegen.folder import require_writable, write_folder
    from mccompile.report.figures import require_suffixes
    from mccompile.report.limits import require_fit, require_project_fit
    from mccompile.report.project import project_summary
    from mccompile.report.summary import summary

    several = len(models) > 1 or bool(project)
    _require_sense(several, share_arena, inputs, golden)
    require_suffixes(reports)
    for folder in (out, golden):
        if folder is not None:
            require_writable(folder)
    options = o.make_options(
        build, name=name, embed=embed, package=package, ram=ram, split_kernels=split_kernels, project=project,
        share_arena=share_arena,
    )
    with Progress.of("tune", quiet or as_json) as at:
        options = o.tuned(options, models, tune, tuning, at)
    tests: dict[str, bytes] = {}

    def extra(model: Path, c: Compilation) -> dict[str, bytes]:
        """Called before anything is written: what does not fit leaves no trace."""
        if not several:
            require_fit(c, ram, flash)
        if golden is not None:
            tests.update(_golden(model, c, inputs))
        return tests if golden is not None and _same(golden, out) else {}

    def fits(report: dict[str, Any]) -> None:
        require_project_fit(report, ram, flash)

    with Watch(options, print_after, print_after_all, dump_dir, quiet or as_json) as watch:
        if several:
            report = driver.compile_project(models, out, options, watch, extra, fits).report
        else:
            report = driver.compile(models[0], out, options, watch, lambda c: extra(models[0], c)).report
    if golden is not None and not _same(golden, out):
        write_folder(golden, tests)
    if depfile is not None:
        _write_rule(depfile, out, [*models, *([inputs] if inputs else []), *([tuning] if tuning else [])])
    if reports:
        _write_reports(reports, report, out, {"ram": ram, "flash": flash})
    if as_json:
        click.echo(json.dumps(report, indent=1))
        return
    if not quiet:
        click.echo(project_summary(report, str(out)) if several else summary(report, str(out)))
        if golden is not None and not _same(golden, out):
            click.echo(f"  golden test     {golden}: {' '.join(tests)}")
        if reports:
            click.echo(f"  report          {' '.join(map(str, reports))}")
    for one in report["models"].values() if several else [report]:
        _print_more(one, remarks, verbose)


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


def _require_sense(several: bool, share_arena: bool, inputs: Path | None, golden: Path | None) -> None:
    """UsageError for options that do not go together."""
    from mccompile.ir.errors import UsageError

    if inputs is not None and golden is None:
        raise UsageError("--inputs is of use only with --golden")
    if inputs is not None and several:
        raise UsageError("--inputs is for the golden test of one model")
    if share_arena and not several:
        raise UsageError("--share-arena is for several models")


def _write_rule(depfile: Path, out: Path, read: list[Path]) -> None:
    """A rule of make, by which ``out`` is as new as what was read, external data of models included."""
    from mccompile.ir.errors import UsageError
    from mccompile.ir.files import SUFFIX
    from mccompile.onnxio import model_files

    files = [f for path in read for f in (model_files(path) if path.suffix not in (SUFFIX, ".npz", "") else [path])]
    text = " ".join(str(path).replace(" ", "\\ ").replace("$", "$$") for path in files)
    try:
        depfile.write_text(f"{str(out / 'report.json').replace(' ', chr(92) + ' ')}: {text}\n", encoding="utf-8")
    except OSError as e:
        raise UsageError(f"{depfile} cannot be written: {e.strerror}") from e


def _print_more(report: dict[str, Any], remarks: bool, verbose: bool) -> None:
    from mccompile.report.summary import pass_lines

    if remarks or verbose:
        click.echo("\n".join(pass_lines(report, remarks)))
    if verbose:
        click.echo("\n".join(_choice_lines(report)))


def _same(a: Path, b: Path) -> bool:
    return a.resolve() == b.resolve()


def _golden(model: Path, c: Compilation, inputs: Path | None) -> dict[str, bytes]:
    """The files of the golden test; what is expected comes from the reference."""
    from mccompile.check.golden import golden_files
    from mccompile.check.reference import drawn_inputs
    from mccompile.check.streams import stream_of
    from mccompile.ir.errors import UsageError
    from mccompile.ir.files import SUFFIX, read_arrays

    if model.suffix == SUFFIX:
        raise UsageError("--golden needs the .onnx model: the expected outputs are computed from it")
    given = drawn_inputs(c, 0) if inputs is None else read_arrays(inputs)
    first, *later = [e.values for e in stream_of(model, c).runs(given)]
    return golden_files(c, given, first, later=later)


def _choice_lines(report: dict[str, Any]) -> list[str]:
    lines = ["kernels chosen, by cycles measured (tuned) or estimated (model):"] if report["choices"] else []
    for name, choice in report["choices"].items():
        rate = f", {choice['of_peak']:.0%} of the peak" if choice["macs"] else ""
        others = "".join(f"; {_cycles(other)}" for other in choice["others"])
        lines.append(f"  {name}: {_cycles(choice)}{rate}{others}")
        lines += [f"    not {kernel}: {reason}" for kernel, reason in choice["rejected"]]
    return lines


def _cycles(candidate: dict[str, Any]) -> str:
    estimate = f", model {candidate['estimate']:,}" if "estimate" in candidate else ""
    return f"{candidate['kernel']} {candidate['cycles']:,} ({candidate['from']}{estimate})"
