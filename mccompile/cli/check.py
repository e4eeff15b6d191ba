"""`mccompile check`: does the generated C compute what the reference computes?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from mccompile.cli import options as o

CHECK_FAILED = 3


@click.command(short_help="Build the generated C, run it, compare with the reference.")
@o.MODEL
@o.build_options
@o.tune_options
@click.option("--inputs", type=click.Path(path_type=Path), metavar="X.npz",
              help="Inputs by name.  [default: seeded random numbers]")
@click.option("--expect", type=click.Path(path_type=Path), metavar="Y.npz",
              help="Expected outputs by name.  [default: onnxruntime's, or onnx.reference's]")
@click.option("--per-layer", is_flag=True, help="Also compare inner values: the first and the worst that differ.")
@click.option("--golden", is_flag=True, help="Also run the test program that --golden DIR writes when compiling.")
@click.option("--profile", is_flag=True,
              help="Also print the instructions of each step, where the target runs on an emulated board.")
@click.option("--seed", default=0, show_default=True, help="Seed of random inputs.")
@o.REPORT
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
@o.PLUGIN
@o.JSON
def check(
    model: Path, inputs: Path | None, expect: Path | None, per_layer: bool, golden: bool, profile: bool, seed: int,
    reports: tuple[Path, ...], quiet: bool, as_json: bool, tune: bool, tuning: Path | None, **build: Any,
) -> int:  # fmt: skip
    """Compile MODEL, build the C, run it and compare with the reference.

    The C is built by the system's compiler; for another kind of machine by a cross compiler, and run in an emulator:
    what is for a microcontroller on an emulated board, where instructions are counted, too. --report shows the error
    of each step, or its instructions.
    """
    from mccompile.check.check import check as run
    from mccompile.cli.watch import Progress
    from mccompile.ir.errors import UsageError
    from mccompile.ir.files import SUFFIX, read_arrays
    from mccompile.report.figures import require_suffixes, with_figures, write_reports
    from mccompile.targets.target import resolve, runs_here

    require_suffixes(reports)
    if model.suffix == SUFFIX:
        raise UsageError("check needs the .onnx model: it compares with what that computes")
    with Progress.of("tune", quiet or as_json) as at:
        options = o.tuned(o.make_options(build), [model], tune, tuning, at)
    if profile and not resolve(options.target).board:
        raise UsageError(
            f"--profile counts instructions on an emulated board, and {options.target} has none",
            hint="`mccompile bench --per-layer` measures the time of each step on this machine",
        )
    result = run(
        model,
        options,
        inputs=None if inputs is None else read_arrays(inputs),
        expect=None if expect is None else read_arrays(expect),
        per_layer=per_layer or (bool(reports) and runs_here(resolve(options.target).name)),
        golden=golden,
        seed=seed,
        with_code=bool(reports),
    )
    if reports:
        code = result.code.to_json() if result.code else None
        full = with_figures(result.report, code=code, code_note=result.code_note, check=result.to_json())
        write_reports(reports, full)
    if as_json:
        click.echo(json.dumps(result.to_json(), indent=1))
    elif not quiet or not result.ok:
        click.echo("\n".join(result.lines(profile)))
    return 0 if result.ok else CHECK_FAILED
