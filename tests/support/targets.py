"""Where a target's code runs in tests: on this machine, or in the target's emulator."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from mccompile.run import wasi
from mccompile.run.boards import board_of
from mccompile.run.emulate import cross_compiler
from mccompile.targets.target import Target, resolve, runs_here, targets
from tests._skips import NO_PROCESSOR, Tool, needs_tool

ONE_LANE, BYTE_VECTORS = "one-lane", "byte-vectors"
IMITATED = {ONE_LANE: "cortex-m4", BYTE_VECTORS: "cortex-m55"}
"""What microcontrollers that compute floats, and vectors of bytes, get as plain C that any machine runs: targets of
tests alone."""


def imitate() -> None:
    """Have the imitated targets among all, also after a plugin has made the list anew."""
    for name, core in IMITATED.items():
        if name not in targets():
            targets()[name] = replace(
                resolve(core), name=name, summary="tests", flags=(), requires=(), triple="", packages=(), hosted=True
            )


imitate()


def _by_width(names: Iterable[str]) -> list[str]:
    """Sorted, with those that this machine runs last: the last one is the widest of them."""
    return sorted(names, key=lambda name: (runs_here(name), name))


HALVES = sorted(name for name, t in targets().items() if t.can("BF16") or t.can("FHM"))
"""Targets that differ from others in products of floats of 16 bits alone."""
VNNI = _by_width(name for name, t in targets().items() if t.can("VNNI") and name not in HALVES)
DOTPROD = sorted(name for name, t in targets().items() if t.can("DOTPROD") and name not in HALVES)
BYTES = [*VNNI, *DOTPROD]
"""Targets that differ from others in products of bytes alone."""
FOREIGN = sorted(name for name, t in targets().items() if t.isa in ("rvv", "sve", "wasm"))
"""Vector targets that have next to no primitives of their own: their text is that of the others."""
_OWN = {name: t.lanes for name, t in targets().items() if name not in (*BYTES, *HALVES, *FOREIGN)}
WIDE = _by_width(name for name, lanes in _OWN.items() if lanes > 4)
"""Vector targets; the last is tested on every case: the others share most of their text, and many are emulated."""
NARROW = sorted(name for name, lanes in _OWN.items() if lanes == 4)
ALL_VECTORS = [*WIDE, *NARROW, *(pytest.param(name, marks=pytest.mark.slow) for name in FOREIGN)]
EMULATED = sorted(name for name, t in targets().items() if t.emulator and name not in (*BYTES, *HALVES, *FOREIGN))
"""Those with a cross compiler and an emulator of their operating system."""
BARE = sorted(name for name, t in targets().items() if not t.hosted)
"""Microcontrollers: they run on emulated boards."""


def quick(target: str) -> list[str]:
    """Flags behind those of a target, for tests of what the C means: one wide target is compiled as users do, the
    others, which have the same text, at -O1 in half the time. Compositions and slow tests compile all as users do.
    """
    return [] if target == WIDE[-1] else ["-O1"]


def needs_target(name: str) -> str:
    """Skips where code of the target runs neither by itself nor emulated."""
    target = resolve(name)
    if not runs_here(name):
        board = board_of(target)
        emulator = target.emulator if board is None else board.emulator
        if not emulator:
            pytest.skip(f"{NO_PROCESSOR} of {name}")
        needs_cross_compiler(target)
        if emulator[0] != "wasmtime":
            needs_tool(emulator[0])
        elif not wasi.FOUND:
            pytest.skip("needs wasmtime (pip install 'mccompile[wasm]')")
    return name


def needs_cross_compiler(target: Target) -> list[str]:
    """The command that compiles for a target where its programs do not run; skips where it is not complete."""
    command = cross_compiler(target)
    if target.clang:
        needs_tool(command[0], Tool(" ".join(target.packages), (*command[1:], *target.link, "-lm")))
    else:
        needs_tool(command[0])
    return list(command)
