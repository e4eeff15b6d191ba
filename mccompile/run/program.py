"""Programs with a `main` of their own on the machine of a target: this one, an emulated one, or an emulated board."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from mccompile.run.build import build_program, c_compiler
from mccompile.run.emulate import cross_tools
from mccompile.run.firmware import board_objects, link
from mccompile.targets.target import Target, runs_here


def run_program(
    target: Target, sources: Sequence[Path], flags: Sequence[str], include: Path
) -> subprocess.CompletedProcess[str]:
    """Build C files that have a ``main`` into a program and run it in the folder ``include``.

    On a board it has no arguments, no standard input, and the files that lie in that folder.

    Raises:
        CompileError: the tools are missing, the C does not build, or the program does not fit on the board.
    """
    if runs_here(target.name):
        command = [str(build_program(c_compiler(), sources, flags, include))]
    else:
        tools = cross_tools(target)
        if tools.board is None:
            image = build_program(tools.compiler, sources, [*flags, *tools.link], include)
        else:
            image = link(tools, tools.board, [*sources, *board_objects(tools, target)], flags, include)
        command = [*tools.emulator, str(image)]
    return subprocess.run(command, cwd=include, capture_output=True, text=True, stdin=subprocess.DEVNULL)
