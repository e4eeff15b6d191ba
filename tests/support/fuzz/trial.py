"""What was compiled of something damaged, built and run once under the sanitizers: it stays within its memory."""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np

from mccompile.codegen.folder import write_folder
from mccompile.driver import Compilation, Options, compile_files
from mccompile.ir.errors import CompileError
from mccompile.targets.target import runs_here
from tests.support.fuzz.guarded import Outcome
from tests.support.sanitized import SANITIZERS, sanitized_network

PYTHON = re.compile(
    "index out of range|NoneType|object is not|Traceback|unpack|KeyError|invalid literal|not subscriptable"
    "|broadcast together|has no attribute '_|unhashable|unsupported operand|maximum recursion"
)
"""What a message of Python's says; ours do not."""

RUN = 0.1
"""Of what is taken, so much is built and run."""

MOST_BYTES = 1 << 18
"""Of the arenas of what is run: loops over more take long with sanitizers."""


FLAGS = tuple("-O0" if f.startswith("-O") else f for f in SANITIZERS)
"""It is run once, and gcc 12 has no end of some kernels with both sanitizers at -O1."""


def judged(
    path: Path, options: Options, what: str, folder: Path, r: random.Random, runs: bool = True
) -> Outcome:
    """How the compilation of a damaged file ends, and the run of its program, if it ``runs`` and is tried."""
    try:
        c, files = compile_files(path, options)
    except CompileError as e:
        return ("message" if PYTHON.search(str(e)) else "refused"), f"{what}\n{e}"
    if not runs or not is_tried(c, r):
        return "ok", ""
    write_folder(folder / "out", files)
    said = fault(folder / "out", r)
    return ("wrong" if said else "ok"), f"{what}\n{said}" if said else ""


def is_tried(c: Compilation, r: random.Random) -> bool:
    """Whether a program is one of those that are run: by chance, small, and for this machine."""
    assert c.program is not None
    return r.random() < RUN and c.program.arena_bytes <= MOST_BYTES and runs_here(c.options.target)


def fault(out: Path, r: random.Random) -> str:
    """What a sanitizer says of a run, or the compiler of the C."""
    rng = np.random.default_rng(r.randint(0, 10**6))
    try:
        network = sanitized_network(out, FLAGS)
        for view in network.inputs.values():
            view[...] = rng.integers(-3, 4, view.shape).astype(view.dtype)
        network.invoke()
    except CompileError as e:
        return str(e) if "runtime error" in str(e) or "Sanitizer" in str(e) or "C compiler" in str(e) else ""
    return ""
