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
@o.MODEL
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, metavar="OUT", help="Folder to write.")
@o.build_options
@o.limit_options
@click.option("--name", default="", metavar="NAME",
              help="Prefix of all that is generated.  [default: the file's name]")
@click.option("--embed", is_flag=True, help="Also write the weights as a C array.")
@click.option("--golden", type=click.Path(path_type=Path), metavar="DIR",
              help="Write test_<model>.c into DIR: inputs and expected outputs, for tests without Python.")
@click.option("--inputs", type=click.Path(path_type=Path), metavar="X.npz", help="Inputs of the golden test.")
@click.option("--print-after", "print_after", multiple=True, metavar="PASS",
              help="Print the IR after a pass or stage, on stderr (repeatable).")
@click.option("--print-after-all", is_flag=True, help="Print the IR after every pass and stage, on stderr.")
@click.option("--dump-dir", type=click.Path(path_type=Path), metavar="DIR",
              help="Write the IR after every pass and stage into numbered files.")
@click.option("--remarks", is_flag=True, help="Say what each pass did, and did not and why.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
@click.option("-v", "--verbose", is_flag=True, help="Also print what passes did and which kernels were chosen.")
@o.JSON
def compile_(
    model: Path, out: Path, ram: int | None, flash: int | None, name: str, embed: bool, golden: Path | None,
    inputs: Path | None, print_after: tuple[str, ...], print_after_all: bool, dump_dir: Path | None, remarks: bool,
    quiet: bool, verbose: bool, as_json: bool, **build: Any,
) -> None:  # fmt: skip
    """Compile MODEL (.onnx, or IR text in .mcir to be resumed) into the folder OUT."""
    from mccompile import driver
    from mccompile.cli.watch import Watch
    from mccompile.ir.errors import UsageError
    from mccompile.report.limits import require_fit
    from mccompile.report.summary import pass_lines, summary

    if inputs is not None and golden is None:
        raise UsageError("--inputs is of use only with --golden")
    options = o.make_options(build, name=name, embed=embed)
    tests: dict[str, bytes] = {}

    def accept(c: Compilation) -> dict[str, bytes]:
        """Called before anything is written: what does not fit leaves no trace."""
        require_fit(c, ram, flash)
        if golden is not None:
            tests.update(_golden(model, c, inputs))
        return tests if golden is not None and _same(golden, out) else {}

    with Watch(options, print_after, print_after_all, dump_dir, quiet or as_json) as watch:
        artifacts = driver.compile(model, out, options, watch, accept)
    if golden is not None and not _same(golden, out):
        driver.write_folder(golden, tests)
    if as_json:
        click.echo(json.dumps(artifacts.report, indent=1))
    elif not quiet:
        click.echo(summary(artifacts.report, str(out)))
        if golden is not None and not _same(golden, out):
            click.echo(f"  golden test     {golden}: {' '.join(tests)}")
    if (remarks or verbose) and not as_json:
        click.echo("\n".join(pass_lines(artifacts.report, remarks)))
    if verbose and not as_json:
        click.echo("\n".join(_choice_lines(artifacts.report)))


def _same(a: Path, b: Path) -> bool:
    return a.resolve() == b.resolve()


def _golden(model: Path, c: Compilation, inputs: Path | None) -> dict[str, bytes]:
    """The files of the golden test; what is expected comes from the reference."""
    from mccompile.check.golden import golden_files
    from mccompile.check.reference import open_judge, random_inputs
    from mccompile.ir.errors import UsageError
    from mccompile.ir.files import SUFFIX, read_arrays

    if model.suffix == SUFFIX:
        raise UsageError("--golden needs the .onnx model: the expected outputs are computed from it")
    graph = c.graph
    given = random_inputs({v.name: v.type for v in graph.inputs}, 0) if inputs is None else read_arrays(inputs)
    names = [v.name for v in graph.outputs]
    judge = open_judge(model, names, (), c.options.dims, c.options.input_shapes)
    expected = judge.run(given).values
    return golden_files(c, given, {n: expected[n] for n in names})


def _choice_lines(report: dict[str, Any]) -> list[str]:
    lines = ["kernels chosen:"] if report["choices"] else []
    for name, choice in report["choices"].items():
        others = "; ".join(f"not {kernel}: {reason}" for kernel, reason in choice["others"])
        lines.append(f"  {name}: {choice['kernel']}" + (f" ({others})" if others else ""))
    return lines
