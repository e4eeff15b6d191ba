"""`mccompile bench`: how fast is the generated C on this machine?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from mccompile.cli import options as o

MEASUREMENT = "Measurement"

EXAMPLES = (
    "mccompile bench net.onnx --per-layer",
    "mccompile bench net.onnx --check --report net.html          # one page: memory, kernels, times, errors",
    "mccompile bench net.onnx --against onnxruntime",
    "mccompile bench net.onnx --dim batch=8 --target x86-64-v3 --tune",
)


@o.command(short_help="Build the generated C and measure it on this machine.", examples=EXAMPLES)
@o.MODEL
@o.option("--inputs", type=click.Path(path_type=Path), metavar="X.npz", section=MEASUREMENT,
          help="Inputs by name, or the .npy of the only one.  [default: seeded random numbers]")
@o.option("--per-layer", is_flag=True, section=MEASUREMENT,
          help="Also time each step, with its rates and what bounds it.")
@o.option("--rounds", type=click.IntRange(min=1), default=11, show_default=True, section=MEASUREMENT,
          help="Rounds in which everything that is measured has its turn.")
@o.option("--against", default="", metavar="ENGINE", section=MEASUREMENT,
          help="Measure another engine beside it: onnxruntime, if it is installed.")
@o.option("--check", "checked", is_flag=True, section=MEASUREMENT,
          help="Also compare with the reference, layer by layer, as `check` does; exit code 3 if it differs.")
@o.build_options
@o.tune_options
@o.REPORT
@o.option("-q", "--quiet", is_flag=True, help="Print no progress.")
@o.PLUGIN
@o.JSON
def bench(
    model: Path, inputs: Path | None, per_layer: bool, rounds: int, against: str, checked: bool,
    reports: tuple[Path, ...], quiet: bool, as_json: bool, **given: Any,
) -> int:  # fmt: skip
    """Compile MODEL, build the C with the system's compiler and measure it: median over interleaved bursts.

    With --per-layer each step is `compute`- or `bandwidth`-bound, whichever of its multiply-adds at the core's peak
    and its bytes at the core's bandwidth would take longer, or `overhead` where that is less than a third of its
    time. --report shows the times of steps, too, and the roofs that they are under.
    """
    from mccompile.bench.bench import bench as run
    from mccompile.check.check import check
    from mccompile.cli.watch import Progress
    from mccompile.ir.files import read_inputs
    from mccompile.report.figures import require_suffixes, write_results

    require_suffixes(reports)
    arrays = None if inputs is None else read_inputs(inputs)
    with Progress.of("compile", quiet or as_json) as at:
        options = o.make_options(given, [model], at)
        result = run(
            model, options, inputs=arrays, per_layer=per_layer or bool(reports), rounds=rounds, against=against,
            with_code=bool(reports), tick=at,
        )  # fmt: skip
    if not checked:
        write_results(reports, bench=result)
        click.echo(json.dumps(result.to_json(), indent=1) if as_json else "\n".join(result.lines()))
        return 0
    right = check(model, options, inputs=arrays, per_layer=True, max_error=given["max_error"])
    write_results(reports, bench=result, check=right)
    both = {**result.to_json(), "check": right.to_json()}
    click.echo(json.dumps(both, indent=1) if as_json else "\n".join([*result.lines(), *right.lines()]))
    return 0 if right.ok else o.CHECK_FAILED
