"""`mccompile ops`: the table of supported ONNX operators, made from the registry."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from mccompile.cli import options as o

if TYPE_CHECKING:
    from mccompile.report.support import Row

EXAMPLES = ("mccompile ops", "mccompile ops Conv Resize com.microsoft:Gelu")


@o.command(short_help="List the supported ONNX operators, or some of them.", examples=EXAMPLES)
@click.argument("names", nargs=-1, metavar="[NAME...]")
@o.option("--markdown", is_flag=True, help="Print the table as Markdown (docs/operators.md).")
@o.PLUGIN
@o.JSON
def ops(names: tuple[str, ...], markdown: bool, as_json: bool) -> None:
    """List the operators of the newest ONNX opset: supported, expanded, folded only, or not; or those of some NAMES,
    which are to be like Conv or com.microsoft:Gelu.
    """
    from mccompile.report.support import support_table

    rows = [_row(name) for name in names] if names else support_table()
    if as_json:
        click.echo(json.dumps([row.to_json() for row in rows], indent=1))
    elif markdown:
        click.echo(_markdown(rows), nl=False)
    else:
        width = max(len(row.op) for row in rows)
        for row in rows:
            types = f" [{' '.join(row.dtypes)}]" if row.dtypes else ""
            click.echo(f"{row.op:{width}}  {row.status.value:9}  {row.how}{types}")
        click.echo("\n".join(_meanings(rows)) if names else "; ".join(_counts(rows)))


def _row(name: str) -> Row:
    """The row of an operator, whatever its case. UsageError for one that nobody knows."""
    import difflib

    from mccompile.importer.canonical import rewrites
    from mccompile.ir.errors import UsageError
    from mccompile.onnxio import op_names
    from mccompile.ops.registry import front_ends
    from mccompile.ops.text import TEXT
    from mccompile.report.support import Row, Status, support_of

    others = [f"{domain}:{op}" for domain, op in front_ends() if domain not in ("", TEXT)]
    known = {op.lower(): op for op in [*others, *rewrites(), *op_names()]}
    found = known.get(name.lower()) or next((op for op in others if op.lower().endswith(f":{name.lower()}")), None)
    if found is None:
        near = [known[key] for key in difflib.get_close_matches(name.lower(), known, 3)]
        hint = f"was {' or '.join(near)} meant?" if near else "`mccompile ops` lists all that are known"
        raise UsageError(f"there is no operator {name!r}", hint=hint)
    if found in rewrites() and found not in op_names():
        return Row(found, Status.SUPPORTED, "rewritten to its newest form")
    domain, _, op = found.rpartition(":")
    return support_of(domain, op)


def _meanings(rows: Sequence[Row]) -> list[str]:
    """What the statuses of some rows mean."""
    from mccompile.report.support import LEGEND

    return [f"{status.value}: {text}" for status, text in LEGEND.items() if any(r.status is status for r in rows)]


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
