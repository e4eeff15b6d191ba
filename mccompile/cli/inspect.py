"""`mccompile inspect`: what is in a model, what of it is supported, what it would need."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from mccompile.cli import options as o

EXAMPLES = (
    "mccompile inspect net.onnx",
    "mccompile inspect net.onnx --target cortex-m4 --ram 96K --flash 512K --stack",
    "mccompile inspect net.onnx --json     # exit code 1, and `unsupported`, where it cannot be compiled",
)


@o.command(short_help="Say what is in a model, what is supported, what it needs.", examples=EXAMPLES)
@o.MODEL
@o.build_options
@o.limit_options
@o.option("--stack", is_flag=True, help="Also say what a run takes of the stack: needs the target's C compiler.")
@o.PLUGIN
@o.JSON
def inspect(model: Path, flash: int | None, stack: bool, as_json: bool, **given: Any) -> int:
    """Say what is in MODEL: inputs, operators, parameters, MACs, memory; whether it is supported and fits.

    The exit code is 1 if the model cannot be compiled, or does not fit in --ram and --flash.
    """
    from mccompile.inspection.inspect import inspect as run

    found = run(model, o.make_options(given, [model]), flash=flash, stack=stack)
    click.echo(json.dumps(found.to_json(), indent=1) if as_json else "\n".join(found.lines()))
    return 0 if found.ok else 1
