"""`mccompile targets`: what C can be generated for."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import click

from mccompile.cli import options as o

if TYPE_CHECKING:
    from mccompile.targets.target import Target


@o.command(short_help="List what C can be generated for.")
@o.option("--flags", "of", metavar="NAME", help="Print the flags alone that the C of this target needs.")
@o.PLUGIN
@o.JSON
def targets(of: str | None, as_json: bool) -> None:
    """List the targets: vector width, alignment, and the C flags the generated code is compiled with."""
    from mccompile.targets.target import resolve, runs_here
    from mccompile.targets.target import targets as known

    if of is not None:
        click.echo(" ".join(resolve(of).required_flags))
        return
    native = resolve("native").name
    rows = sorted(known().values(), key=lambda t: t.name)
    if as_json:
        here = [{"c_flags": t.c_flags, "native": t.name == native, "runs_here": runs_here(t.name)} for t in rows]
        can = [{"capabilities": sorted(c.value for c in t.capabilities)} for t in rows]
        data = [{**dataclasses.asdict(t), **c, **more} for t, c, more in zip(rows, can, here, strict=True)]
        click.echo(json.dumps(data, indent=1))
        return
    width = max(len(t.name) for t in rows)
    for t in rows:
        vector = f"{8 * t.vector_bytes}-bit vectors" if t.lanes > 1 else "tiles of floats" if t.lanes else "scalar"
        mark = "native: this machine" if t.name == native else "" if runs_here(t.name) else _elsewhere(t)
        click.echo(f"{t.name:{width}}  {t.summary}{f'  ({mark})' if mark else ''}")
        click.echo(f"{'':{width}}  {vector}, {t.align}-byte alignment, {' '.join(t.c_flags)}")


def _elsewhere(target: Target) -> str:
    if target.board:
        return f"not this machine's; check runs it on an emulated {target.board}"
    emulator = f"; check runs it in {target.emulator[0]}" if target.emulator else ""
    return f"not this machine's{emulator}"
