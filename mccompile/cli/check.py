"""`mccompile check`: does the generated C compute what the reference computes?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mccompile.cli import options as o
from mccompile.search.options import DEBUGGING

if TYPE_CHECKING:
    from mccompile.check.junit import Outcome

DATA = "Data"

EXAMPLES = (
    "mccompile check net.onnx",
    "mccompile check net.onnx --target cortex-m4 --profile       # on an emulated board",
    "mccompile check net.onnx --inputs images.npy --labels classes.npy     # a data set: SNR, accuracy",
    "mccompile check net.onnx --inputs x.npz --expect y.npz --rtol 1e-3",
    "mccompile check models/*.onnx --junit check.xml             # for CI",
)


@o.command(short_help="Build the generated C, run it, compare with the reference.", examples=EXAMPLES)
@o.MODELS
@o.option("--inputs", type=click.Path(path_type=Path), metavar="X.npz", section=DATA,
          help="Inputs by name, or the .npy of the only one; many samples along the first axis, or stacked. Open "
          "dims are as large as theirs.  [default: seeded random numbers]")
@o.option("--expect", type=click.Path(path_type=Path), metavar="Y.npz", section=DATA,
          help="Expected outputs by name, or the .npy of the only one."
          "  [default: onnxruntime's, or onnx.reference's]")
@o.option("--labels", type=click.Path(path_type=Path), metavar="L.npy", section=DATA,
          help="The right class of each sample: say how many the C gets right, and how many the reference.")
@o.option("--rtol", type=float, metavar="R", section=DATA,
          help="Allow errors of atol + R * |reference|, instead of the rule for floats of f32.")
@o.option("--atol", type=float, metavar="A", section=DATA, help="Allow errors of A + rtol * |reference|.")
@o.option("--seed", default=0, show_default=True, section=DATA, help="Seed of random inputs.")
@o.build_options
@o.tune_options
@o.option("--per-layer", is_flag=True, section=DEBUGGING,
          help="Also compare inner values: the first and the worst that differ.")
@o.option("--golden", is_flag=True, section=DEBUGGING,
          help="Also run the test program that --golden DIR writes when compiling.")
@o.option("--profile", is_flag=True, section=DEBUGGING,
          help="Also print the instructions of each step, where the target runs on an emulated board.")
@o.REPORT
@o.option("--junit", type=click.Path(path_type=Path), metavar="FILE.xml",
          help="Also write what was found as JUnit's XML, which CI servers show.")
@o.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
@o.PLUGIN
@o.JSON
def check(
    models: tuple[Path, ...], inputs: Path | None, expect: Path | None, labels: Path | None, rtol: float | None,
    atol: float | None, seed: int, per_layer: bool, golden: bool, profile: bool,
    junit: Path | None, reports: tuple[Path, ...], quiet: bool, as_json: bool, **given: Any,
) -> int:  # fmt: skip
    """Compile MODEL, build the C, run it and compare with the reference; one MODEL after the other.

    The C is built by the system's compiler; for another kind of machine by a cross compiler, and run in an emulator:
    what is for a microcontroller on an emulated board, where instructions are counted, too. --report shows the error
    of each step, or its instructions.
    """
    from mccompile.check.check import check as run
    from mccompile.check.compare import tolerance_of
    from mccompile.check.junit import Outcome
    from mccompile.cli.watch import Progress
    from mccompile.ir.errors import CompileError, UsageError
    from mccompile.ir.files import read_inputs
    from mccompile.model_options import options_or_errors
    from mccompile.report.figures import require_suffixes, write_results
    from mccompile.targets.target import resolve, runs_here

    require_suffixes(reports)
    if len(models) > 1 and reports:
        raise UsageError("--report is of one model", hint="check the others without it")
    if len(models) > 1 and (inputs or expect or labels):
        raise UsageError("--inputs, --expect and --labels are of one model", hint="check the others without them")
    with Progress.of("tune", quiet or as_json) as at:
        options = o.make_options(given, models, at)
    _require_board(options.target, profile)
    data = {name: None if path is None else read_inputs(path)
            for name, path in (("inputs", inputs), ("expect", expect), ("labels", labels))}  # fmt: skip
    tolerance = tolerance_of(rtol, atol)
    found: list[Outcome] = []
    own_options = [options] if len(models) == 1 else options_or_errors(models, options)
    try:
        for model, own in zip(models, own_options, strict=True):
            try:
                if isinstance(own, CompileError):
                    raise own
                each_layer = per_layer or (bool(reports) and runs_here(resolve(own.target).name))
                result = run(
                    model, own, inputs=data["inputs"], expect=data["expect"], labels=data["labels"],
                    tolerance=tolerance, per_layer=each_layer, golden=golden, seed=seed, with_code=bool(reports),
                    max_error=given["max_error"],
                )  # fmt: skip
            except CompileError as e:
                if len(models) == 1 and junit is None:
                    raise
                found.append(Outcome(str(model), None, e))
            else:
                found.append(Outcome(str(model), result))
                write_results(reports, check=result)
            if not as_json:
                _say(found[-1], quiet, profile)
    finally:  # what was found is told also where something ends the command
        if junit is not None and found:
            _write(junit, found)
    if as_json:
        click.echo(json.dumps(_data(found), indent=1))
    return max(_exit_code(one) for one in found)


def _require_board(target: str, profile: bool) -> None:
    from mccompile.ir.errors import UsageError
    from mccompile.targets.target import resolve

    if profile and not resolve(target).board:
        raise UsageError(
            f"--profile counts instructions on an emulated board, and {target} has none",
            hint="`mccompile bench --per-layer` measures the time of each step on this machine",
        )


def _say(one: Outcome, quiet: bool, profile: bool) -> None:
    if one.error is not None:
        said = str(one.error).removeprefix(f"{Path(one.model).name}: ")
        click.echo(f"error: {one.model}: {said}", err=True)
    elif one.result is not None and (not quiet or not one.result.ok):
        click.echo("\n".join(one.result.lines(profile)))


def _exit_code(one: Outcome) -> int:
    """What cannot be compiled is worse than nothing, what is wrong is worse still."""
    if one.result is None:
        assert one.error is not None
        return one.error.exit_code
    return 0 if one.result.ok else o.CHECK_FAILED


def _data(found: list[Outcome]) -> Any:
    """One object for one model, a list for several."""
    if len(found) == 1:
        return found[0].to_json()
    return {"ok": all(one.ok for one in found), "models": [one.to_json() for one in found]}


def _write(path: Path, found: list[Outcome]) -> None:
    from mccompile.check.junit import junit_text
    from mccompile.ir.errors import CompileError
    from mccompile.ir.whole import written_whole

    try:
        with written_whole(path) as staged:
            staged.write_text(junit_text(found), encoding="utf-8")
    except OSError as e:
        raise CompileError(f"cannot write {path}: {e.strerror}") from e
