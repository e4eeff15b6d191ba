"""`mccompile quantize`: a float network and data in, a network of 8-bit integers out."""

from __future__ import annotations

import json
from pathlib import Path

import click

from mccompile.cli import options as o

QUANTISATION = "Quantisation"

EXAMPLES = (
    "mccompile quantize net.onnx --data samples.npz -o net_int8.onnx",
    "mccompile quantize net.onnx --data samples.npz -o net_int8.onnx --method percentile --exclude /head/MatMul",
)


@o.command(short_help="Make a network of 8-bit integers of a float one.", examples=EXAMPLES)
@o.MODEL
@o.option("--data", section=QUANTISATION, type=click.Path(path_type=Path), required=True, metavar="X.npz",
              help="Typical inputs by name, along the first axis or stacked; a hundred are usual.")
@o.option("-o", "--out", type=click.Path(path_type=Path), required=True, metavar="OUT.onnx",
              help="File to write.")
@o.option("--method", section=QUANTISATION, type=click.Choice(["minmax", "entropy", "percentile"]),
          default="minmax", show_default=True, help="How the ranges of activations follow from the data.")
@o.option("--activations", section=QUANTISATION, type=click.Choice(["int8", "uint8"]), default="int8",
          show_default=True, help="Type of activations; weights are int8.")
@o.option("--per-tensor", is_flag=True, section=QUANTISATION,
          help="One scale for the weights of a layer, not one for each channel.")
@o.option("--exclude", section=QUANTISATION, multiple=True, metavar="NODE",
          help="Leave this node in floats (repeatable).")
@o.option("--worst", section=QUANTISATION, type=click.IntRange(min=0), default=5, show_default=True,
          help="So many of the layers that cost the most are named.")
@o.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
@o.JSON
def quantize(
    model: Path, data: Path, out: Path, method: str, activations: str, per_tensor: bool, exclude: tuple[str, ...],
    worst: int, quiet: bool, as_json: bool,
) -> None:  # fmt: skip
    """Quantise MODEL after training, by onnxruntime.quantization, and say what that costs on the data."""
    from mccompile.cli.watch import Progress
    from mccompile.ir.files import read_inputs
    from mccompile.quantize.quantize import Settings
    from mccompile.quantize.quantize import quantize as run

    settings = Settings(method, activations, not per_tensor, exclude)
    with Progress.of("quantize", quiet or as_json):
        result = run(model, read_inputs(data), out, settings)
    if as_json:
        click.echo(json.dumps(result.to_json(worst), indent=1))
    elif not quiet:
        click.echo("\n".join(result.lines(worst)))
