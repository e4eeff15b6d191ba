"""`mccompile targets`: what C can be generated for."""

from __future__ import annotations

import dataclasses
import json

import click

from mccompile.cli import options as o


@click.command(short_help="List what C can be generated for.")
@o.JSON
def targets(as_json: bool) -> None:
    """List the targets: vector width, alignment, and the C flags the generated code is compiled with."""
    from mccompile.targets.target import resolve
    from mccompile.targets.target import targets as known

    native = resolve("native").name
    rows = sorted(known().values(), key=lambda t: t.name)
    if as_json:
        data = [{**dataclasses.asdict(t), "c_flags": t.c_flags, "native": t.name == native} for t in rows]
        click.echo(json.dumps(data, indent=1))
        return
    width = max(len(t.name) for t in rows)
    for t in rows:
        vector = f"{8 * t.vector_bytes}-bit vectors" if t.vector_bytes else "scalar"
        mark = "  (native: this machine)" if t.name == native else ""
        click.echo(f"{t.name:{width}}  {t.summary}{mark}")
        click.echo(f"{'':{width}}  {vector}, {t.align}-byte alignment, {' '.join(t.c_flags)}")
