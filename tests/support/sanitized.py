"""Programs with AddressSanitizer and UndefinedBehaviorSanitizer: what serves a network in an emulator, built for this
machine. Its memories lie on the heap, so that each access outside of one ends the program, which says where.

With MemorySanitizer (clang) a program ends where what it does depends on bytes that nobody wrote: those of an arena
that come as `UNWRITTEN`, eight in a row. What it computes of them is `UNWRITTEN` in its results.
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

MEMORY_SANITIZER = ("-O1", "-fsanitize=memory", "-fsanitize-memory-param-retval", "-fno-sanitize-recover=all")
"""Of clang. What a function is given has to be written, for nobody knows what libm does with it."""

UNWRITTEN = 0x5A
"""What is in bytes of an arena that a network has to write before it reads them."""

_SHADOW = f"""\
#include <sanitizer/msan_interface.h>
#include <stdint.h>
#include <stdio.h>

static size_t read_shadowed(void *to, size_t size, size_t count, FILE *file)
{{
    const size_t got = fread(to, size, count, file);

    for (size_t i = 0; i + 8u <= size * got; i += 8u) {{
        if (*(const uint64_t *)((unsigned char *)to + i) == UINT64_C(0x{8 * f"{UNWRITTEN:02X}"})) {{
            __msan_poison((unsigned char *)to + i, 8u);
        }}
    }}
    return got;
}}

/* What depends on unwritten bytes is sent as such. */
static size_t write_shadowed(const void *from, size_t size, size_t count, FILE *file)
{{
    unsigned char *const bytes = (unsigned char *)from;

    for (size_t i = 0; i < size * count; i++) {{
        if (__msan_test_shadow(bytes + i, 1u) >= 0) {{
            bytes[i] = 0x{UNWRITTEN:02X}u;
        }}
    }}
    return fwrite(from, size, count, file);
}}

#define fread read_shadowed
#define fwrite write_shadowed
"""


MOST_SECONDS = 60
"""What a compiler may take: gcc 12 has no end of some kernels with both sanitizers at -O1, -O2 takes a second."""


def is_sanitized(flags: Sequence[str]) -> bool:
    return any(f.startswith(("-fsanitize=address", "-fsanitize=memory")) for f in flags)


def main_for(flags: Sequence[str], main: str) -> str:
    """The main program of `emulated_main`, which tells MemorySanitizer what is unwritten, if the flags have it."""
    return _SHADOW + main if "-fsanitize=memory" in flags else main


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
        network = Network(out, tuple(flags), model=model, emulate=True)
    network.fill_arenas(UNWRITTEN)
    network.reset()
    return network


def _program(
    tools: CrossTools, net: EmulatedNet, align: int, sources: Sequence[Path], flags: Sequence[str], include: Path
) -> Path:
    """As `build_emulated`, without fences: the sanitizers know where a memory ends."""
    main = include / "emulated_main.c"
    main.write_text(main_for(flags, emulated_main([net], align)))
    return build_program(tools.compiler, [*sources, main], flags, include)
