"""`mccompile ops`: the table of supported ONNX operators, made from the registry."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from mccompile.cli import options as o

if TYPE_CHECKING:
    from mccompile.report.support import Row


@click.command(short_help="List the supported ONNX operators.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown (docs/operators.md).")
@o.PLUGIN
@o.JSON
def ops(markdown: bool, as_json: bool) -> None:
    """List the operators of the newest ONNX opset: supported, expanded, folded only, or not."""
    from mccompile.report.support import support_table

    rows = support_table()
    if as_json:
        click.echo(json.dumps([row.to_json() for row in rows], indent=1))
    elif markdown:
        click.echo(_markdown(rows), nl=False)
    else:
        width = max(len(row.op) for row in rows)
        for row in rows:
            types = f" [{' '.join(row.dtypes)}]" if row.dtypes else ""
            click.echo(f"{row.op:{width}}  {row.status.value:9}  {row.how}{types}")
        click.echo("; ".join(_counts(rows)))


def _counts(rows: Sequence[Row]) -> list[str]:
    """How many operators of ai.onnx there are by status, and how many of other domains."""
    from mccompile.report.support import Status

    own = [r for r in rows if ":" not in r.op]
    counts = [f"{sum(r.status is s for r in own)} {s.value}" for s in Status]
    return [*counts, f"{len(rows) - len(own)} of other domains supported"]


def _markdown(rows: Sequence[Row]) -> str:
    from mccompile.onnxio import newest_opset
    from mccompile.report.support import LEGEND

    lines = [
        "# Operators",
        "",
        "Made by `mccompile ops --markdown` (`make docs`) from the registry; do not edit.",
        "",
        f"All operators of ONNX opset {newest_opset()}: {'; '.join(_counts(rows))}. "
        "Models of any opset are rewritten to the newest form at import.",
        "",
        *(f"- **{status.value}**: {text}" for status, text in LEGEND.items()),
        "",
        "Element types are those of the first input that the operator's tests draw.",
        "",
        "| Operator | Status | How it is compiled | Element types |",
        "|---|---|---|---|",
    ]
    for row in rows:
        lines.append(f"| {row.op} | {row.status.value} | {row.how} | {' '.join(row.dtypes)} |")
    return "\n".join([*lines, ""])
