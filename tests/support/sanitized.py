"""Programs with AddressSanitizer and UndefinedBehaviorSanitizer: what serves a network in an emulator, built for this
machine. Its memories lie on the heap, so that each access outside of one ends the program, which says where.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import mccompile.run.network as running
from mccompile.run.build import build_program
from mccompile.run.emulate import CrossTools, EmulatedNet, emulated_main
from mccompile.run.network import Network

SANITIZERS = ("-O1", "-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all")


MOST_SECONDS = 60
"""What a compiler may take: gcc 12 has no end of some kernels with both sanitizers at -O1, -O2 takes a second."""


def is_sanitized(flags: Sequence[str]) -> bool:
    return any(f.startswith("-fsanitize=address") for f in flags)


def native_tools(compiler: str = "gcc") -> CrossTools:
    """To build and run programs of this machine as an emulator's are."""
    os.environ["ASAN_OPTIONS"] = "detect_leaks=0"  # it is killed, or ends with all that it has
    limit = ("prlimit", f"--cpu={MOST_SECONDS}:{2 * MOST_SECONDS}") if shutil.which("prlimit") else ()
    return CrossTools((*limit, compiler), ())


@contextmanager
def programs_instead(compiler: str = "gcc") -> Iterator[None]:
    """Networks that are loaded meanwhile are programs of their own, built as the flags say."""
    with mock.patch.multiple(
        running, runs_here=lambda _: False, cross_tools=lambda _: native_tools(compiler), build_emulated=_program
    ):
        yield


def sanitized_network(
    out: Path, flags: Sequence[str] = SANITIZERS, compiler: str = "gcc", model: str = ""
) -> Network:
    """The network of a folder, or one of its ``model``s, in a program of its own."""
    with programs_instead(compiler):
        return Network(out, tuple(flags), model=model, emulate=True)


def _program(
    tools: CrossTools, net: EmulatedNet, align: int, sources: Sequence[Path], flags: Sequence[str], include: Path
) -> Path:
    """As `build_emulated`, without fences: the sanitizers know where a memory ends."""
    main = include / "emulated_main.c"
    main.write_text(emulated_main([net], align))
    return build_program(tools.compiler, [*sources, main], flags, include)
