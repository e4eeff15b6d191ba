"""`mccompile diff`: what grew and what shrank between two reports?"""

from __future__ import annotations

import json
from pathlib import Path

import click

from mccompile.cli import options as o

GREW = 1


@click.command(short_help="Compare two reports: what grew, what shrank.")
@click.argument("before", type=click.Path(path_type=Path), metavar="BEFORE")
@click.argument("after", type=click.Path(path_type=Path), metavar="AFTER")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print markdown, for a comment on a change.")
@click.option("--limit", "limits", multiple=True, metavar="WHAT=N",
              help="Exit with 1 if a figure grows by more than N, or N%: arena=0, code=2% (repeatable).")
@o.JSON
def diff(before: Path, after: Path, as_markdown: bool, limits: tuple[str, ...], as_json: bool) -> int:
    """Compare the reports BEFORE and AFTER: report.json of two compilations, or what --report OUT.json of compile,
    bench or check wrote; a folder stands for the report.json in it.

    Memory, weights, code, stack, steps, kernels, cycles and times are compared where both have them.
    """
    from mccompile.ir.errors import UsageError
    from mccompile.report.diff import broken, differences, limit_of, markdown, text_lines, to_json
    from mccompile.report.schema import read_report

    if as_markdown and as_json:
        raise UsageError("--markdown and --json do not go together")
    most = [limit_of(text) for text in limits]
    old, new = (read_report(path / "report.json" if path.is_dir() else path) for path in (before, after))
    found = differences(old, new)
    said = broken(found, most)
    if as_json:
        click.echo(json.dumps({"models": to_json(found), "broken": said}, indent=1))
    elif as_markdown:
        click.echo(markdown(found) + "".join(f"\n**{line}**\n" for line in said), nl=False)
    else:
        click.echo("\n".join([*text_lines(found), *(f"FAIL {line}" for line in said)]))
    return GREW if said else 0
